# SPDX-License-Identifier: Apache-2.0
"""The libraries, their drivers, and how those are built."""
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "peers")
PATIENCE = 900  # seconds for an installation


class Absent(Exception):
    """A library cannot be measured here. The text says why."""


@dataclass
class Library:
    name: str
    folder: str  # of its driver; "" for ours
    peer: str  # the library to use, if the driver has several
    version: str
    waits: str  # how a waiter learns that the lock is free
    renewal: str  # what renews, or ""
    period: float  # seconds between two renewals of a lock with a 30 s lease

    @property
    def warm_s(self):
        """Warm-up before a window: a Java virtual machine compiles first."""
        return 3.0 if self.folder == "java" else 0.7

    @property
    def ours(self):
        return not self.folder


OURS = Library("Holdfast", "", "", "", "is notified alone", "background thread", 10)
# The same with async calls instead of threads.
OURS_ASYNC = Library("Holdfast, async", "", "async", "", OURS.waits, OURS.renewal, OURS.period)

PEERS = [
    Library("redis-py", "python", "", "8.1.0", "polls every 100 ms", "loop", 10),
    Library("node-redlock", "node", "redlock", "5.0.0-beta.2", "polls every 100 to 300 ms",
            "`using`", 29.5),
    Library("redis-semaphore", "node", "semaphore", "5.8.0", "polls every 10 ms", "built in", 24),
    Library("Redisson", "java", "", "4.7.0", "all are notified, all retry", "watchdog", 10),
    Library("redsync", "go", "redsync", "4.18.1", "polls every 50 to 250 ms", "loop", 10),
    Library("bsm/redislock", "go", "bsm", "0.9.4", "polls every 100 ms", "loop", 10),
    Library("rueidislock", "go", "rueidis", "1.0.79", "all are notified, all retry", "built in",
            15),
    Library("rslock", "rust", "", "0.10.0", "polls every 0 to 200 ms", "loop", 10),
]


def _run(words, folder, **env):
    with open(os.path.join(folder, "install.log"), "w+", encoding="utf-8") as log:
        try:
            done = subprocess.run(words, cwd=folder, stdout=log, stderr=log, timeout=PATIENCE,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **env})
        except subprocess.TimeoutExpired:
            raise Absent(f"`{words[0]}` took longer than {PATIENCE} s") from None
        if done.returncode:
            log.seek(0)
            lines = [line for line in log.read().splitlines() if "rror" in line]
            why = lines[0].strip()[:160] if lines else "no reason given"
            raise Absent(f"`{words[0]}` failed: {why}")


def _python(folder):
    _run([sys.executable, "-m", "pip", "install", "-q", "--no-input", "--upgrade",
          "--disable-pip-version-check", "--target", "site", "-r", "requirements.txt"], folder)


def _node(folder):
    _run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], folder)


def _java(folder):
    _run(["mvn", "-q", "-B", "package", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
         folder)


def _go(folder):
    _run(["go", "build", "-o", "peer", "."], folder, GOFLAGS="-mod=mod -buildvcs=false")


def _rust(folder):
    _run(["cargo", "build", "--release", "--quiet"], folder)


NEEDS = {"node": ["node", "npm"], "java": ["java", "mvn"], "go": ["go"], "rust": ["cargo"]}
INSTALL = {"python": _python, "node": _node, "java": _java, "go": _go, "rust": _rust}


def _digest(folder):
    """Digest of the sources: unchanged sources are not built again."""
    digest = hashlib.sha256()
    for where, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            with open(os.path.join(where, name), "rb") as file:
                digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()


def install(folder):
    """Build a driver in a copy of its folder under build/, because tools write files there."""
    for tool in NEEDS.get(folder, []):
        if not shutil.which(tool):
            raise Absent(f"`{tool}` is not installed")
    source, target = os.path.join(HERE, folder), os.path.join(BUILD, folder)
    stamp, digest = os.path.join(target, ".built"), _digest(source)
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as file:
            if file.read() == digest:
                return
    shutil.copytree(source, target, dirs_exist_ok=True)
    INSTALL[folder](target)
    with open(stamp, "w", encoding="ascii") as file:
        file.write(digest)


def command(library, port, url=None, megabytes=96):
    """The command that starts a driver, without its task, and the folder to start it in."""
    folder = os.path.join(BUILD, library.folder)
    if library.ours:
        program = os.path.join(ROOT, "build", "release", "bench", "ours")
        url = url or f"redis://127.0.0.1:{port}"
        return [program, f"url={url}", f"calls={library.peer}"], None
    start = {
        "python": [sys.executable, "peer.py"],
        "node": ["node", "peer.mjs"],
        "java": ["java", f"-Xmx{megabytes}m", "-Xss512k", "-XX:+UseSerialGC", "-cp",
                 "target/classes:lib/*", "Peer"],
        "go": ["./peer"],
        "rust": ["target/release/peer"],
    }[library.folder]
    return [*start, f"port={port}", f"peer={library.peer}"], folder


def environment(library):
    """The environment in which a driver finds its library."""
    if library.folder == "python":
        return {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python", "site")}
    return dict(os.environ)
