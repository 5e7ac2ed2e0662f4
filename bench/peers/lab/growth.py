# SPDX-License-Identifier: Apache-2.0
"""Time and memory by the number of locks and waiters: Holdfast alone, on Redis and on files."""
import json
import os
import resource
import subprocess
import tempfile

from . import figures, libraries, workloads
from .crew import Failed
from .svg import duration

LOCKS = (1, 100, 10000, 100000)
WAITS = (1, 10, 100, 1000)
SPARE = 200  # descriptors that a process needs in addition to those of its locks


def program(kind, url, n, seconds):
    words = [os.path.join(libraries.ROOT, "build", "release", "bench", "growth"), kind, url, str(n),
             str(seconds)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise Failed("took longer than two minutes") from None
    if done.returncode:
        raise Failed(done.stderr.strip()[:200])
    return json.loads(done.stdout)


def clients_in_queue(server, url, n, seconds):
    """n + 1 clients with their own connections, on one name: one holds it, n wait."""
    processes = min(8, n + 1)
    workload = workloads.Workload("queue", "", processes, -(-(n + 1) // processes))
    into = figures.Figures()
    workloads.measure(libraries.OURS, workload, server, seconds, into, url, clients="each")
    return into.summary()


class Growth:
    def __init__(self, server, seconds, say):
        self.server, self.seconds, self.say = server, seconds, say
        self.found = {"locks_time": {}, "locks_memory": {}, "waits_time": {}, "rows": []}

    def add(self, key, label, n, value):
        if value and value > 0:
            self.found[key].setdefault(label, []).append((n, value))

    def row(self, store, what, n, time, memory, note=""):
        self.say(f"growth: {store} {what} {n}: {note or (duration(time) if time else '–')}")
        self.found["rows"].append([store, what, n, time, memory, note])

    def seen(self, kind, what, store, url, n):
        """The output of the program; None if it failed, with the reason in a row."""
        try:
            return program(kind, url(), n, self.seconds)
        except Failed as failed:
            self.row(store, what, n, None, None, str(failed))
            return None
        finally:
            self.server.flush()

    def locks(self, store, url):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE
        for n in LOCKS:
            if store == "file:" and n > most:
                self.row(store, "locks held", n, None, None,
                         f"needs a descriptor for each; a process may have {most + SPARE:,} here")
                continue
            seen = self.seen("locks", "locks held", store, url, n)
            if not seen:
                continue
            self.row(store, "locks held", n, seen["p50"], seen["bytes"] if n > 1 else None)
            self.add("locks_time", store, n, seen["p50"])
            if n > 1:
                self.add("locks_memory", f"{store} held", n, seen["bytes"])

    def waits(self, store, url):
        for n in WAITS:
            seen = self.seen("waits", "waits of one client", store, url, n)
            if not seen:
                continue
            self.row(store, "waits of one client", n, seen["p50"], seen["bytes"] if n > 1 else None)
            self.add("waits_time", f"{store} one client", n, seen["p50"])
            if n > 10:
                self.add("locks_memory", f"{store} waited for", n, seen["bytes"])

    def clients(self, store, url):
        for n in WAITS:
            try:
                seen = clients_in_queue(self.server, url(), n, self.seconds)
            except Failed as failed:
                self.row(store, "clients in the queue", n, None, None, str(failed))
                continue
            self.row(store, "clients in the queue", n, seen["hand_p50"], None)
            self.add("waits_time", f"{store} own clients", n, seen["hand_p50"])

    def measure(self):
        with tempfile.TemporaryDirectory() as scratch:
            count = iter(range(10 ** 6))

            def folder():
                path = os.path.join(scratch, str(next(count)))
                os.mkdir(path, 0o700)
                return f"file://{path}"

            for store, url in (("redis:", lambda: f"redis://127.0.0.1:{self.server.port}"),
                               ("file:", folder)):
                self.locks(store, url)
                self.waits(store, url)
                self.clients(store, url)
        return self.found


def report(found, about):
    lines = [f"Measured {about['date']} on {about['cores']} cores ({about['cpu']}), "
             f"load {about['load']} before the run, Redis {about['server']} on the loopback; "
             f"Holdfast {about['holdfast']}.", "",
             "| store | what | how many | time | memory each |", "|---|---|---|---|---|"]
    for store, what, n, time, memory, note in found["rows"]:
        shown = note or (duration(time) if time else "–")
        size = f"{memory:,} B" if memory else "–"
        lines.append(f"| `{store}` | {what} | {n:,} | {shown} | {size} |")
    return "\n".join(lines)
