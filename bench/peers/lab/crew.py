# SPDX-License-Identifier: Apache-2.0
"""Processes of one driver that begin together and are observed from outside."""
import os
import select
import subprocess
import time

from . import libraries

READY_S = 240  # 32 Java virtual machines start slowly


class Failed(Exception):
    """A driver did not do its task. The text says why."""


class Crew:
    def __init__(self, library, server, scratch, count, url=None, **words):
        words = {"mode": "run", "names": "one", "name": "bench", "workers": 1, "hold_ms": 0,
                 "pause_ms": 0, "seconds": 1, "locks": 0, **words}
        start, folder = self._start(library, server, count, words, url)
        self.outs = [os.path.join(scratch, f"records.{i}") for i in range(count)]
        self._log = open(os.path.join(scratch, "errors"), "w+", encoding="utf-8")
        self._processes = [
            subprocess.Popen([*start, *(f"{k}={v}" for k, v in words.items()), f"out={out}"],
                             cwd=folder, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=self._log, env=libraries.environment(library))
            for out in self.outs]

    @staticmethod
    def _start(library, server, count, words, url):
        megabytes = 96 if count > 1 else 1024 if words["mode"] == "hold" else 256
        return libraries.command(library, server.port, url, megabytes)

    @property
    def pids(self):
        return [p.pid for p in self._processes]

    def expect(self, word, seconds=READY_S):
        """Wait until each process has printed the word."""
        until = time.monotonic() + seconds
        for process in self._processes:
            while True:
                left = until - time.monotonic()
                if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                    raise Failed(f"no “{word}” within {seconds:.0f} s")
                line = process.stdout.readline().decode(errors="replace").strip()
                if line == word:
                    break
                if not line:
                    raise Failed(self._why())

    def _why(self):
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().splitlines() if line.strip()]
        return lines[-1][:200] if lines else "ended without a message"

    def go(self):
        for process in self._processes:
            try:
                process.stdin.write(b"go\n")
            except BrokenPipeError:
                raise Failed(self._why()) from None

    def join(self, seconds):
        until = time.monotonic() + seconds
        for process in self._processes:
            try:
                if process.wait(max(0.1, until - time.monotonic())):
                    raise Failed(self._why())
            except subprocess.TimeoutExpired:
                raise Failed(f"did not end within {seconds:.0f} s") from None

    def check(self):
        """Raise Failed if a process has ended."""
        if any(process.poll() is not None for process in self._processes):
            raise Failed(self._why())

    def cpu(self):
        """CPU seconds of all processes."""
        ticks = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident(self):
        """Resident bytes of all processes."""
        pages = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
                pages += int(statm.read().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    def end(self):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self._log.close()
