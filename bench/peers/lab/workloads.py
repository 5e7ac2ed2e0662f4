# SPDX-License-Identifier: Apache-2.0
"""The workloads, and how one of them is measured."""
import os
import tempfile
import time
from dataclasses import dataclass, field

from . import figures, libraries
from .crew import Crew, Failed
from .server import Watch, sent_by_clients

TAIL_S = 0.5  # after the window: finds out which commands come from clients
END_S = 40  # for the processes to end after the window
LOCKS = 10000
STOLEN_MOST = 0.02  # of its cores, by its host; a window with more is discarded
AGAIN_MOST = 6  # discarded windows per library and workload; after that every window counts


@dataclass
class Workload:
    key: str
    title: str
    processes: int
    workers: int = 1
    one_name: bool = True
    hold_ms: int = 0
    pause_ms: int = 0
    longer: float = 1  # length of its windows, relative to others
    once: bool = field(default=False)  # one round only, because it is long
    # Some peers run tasks that share threads, so Holdfast is measured with threads and with tasks.
    tasks: bool = field(default=False)


WORKLOADS = [
    Workload("pair", "One worker without contention: acquire and release", 1),
    Workload("names64", "64 workers of one process on 64 names", 1, 64, one_name=False, tasks=True),
    Workload("handover", "Hand-over to a single waiter", 2, 32, one_name=False, hold_ms=320,
             pause_ms=310, longer=2.5, once=True),
    Workload("one2", "2 processes on one name, no hold time", 2),
    Workload("one8", "8 processes on one name, no hold time", 8),
    Workload("one32", "32 processes on one name, no hold time", 32),
    Workload("workers16", "16 workers of one process on one name", 1, 16),
]


def memory_available():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("MemAvailable")).split()[1]) * 1024


def too_heavy(library, workload):
    """The reason not to measure this here, or None."""
    if library.folder == "java" and memory_available() < workload.processes * 160 << 20:
        return f"{workload.processes} Java virtual machines need more memory than is free here"
    return None


def stolen_s():
    """CPU seconds that the host has taken away from this virtual machine."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def window(server, crew, seconds):
    """Let the crew run: (begin, end, calls before, calls after, CPU times, stolen share)."""
    before, cpu, own, stolen = server.calls(), server.cpu(), crew.cpu(), stolen_s()
    begin = time.monotonic_ns()
    time.sleep(seconds)
    end = time.monotonic_ns()
    stolen = (stolen_s() - stolen) / seconds / os.cpu_count()
    return begin, end, before, server.calls(), server.cpu() - cpu, crew.cpu() - own, stolen


def measure(library, workload, server, seconds, into, url=None, **words):
    """One round. For every library, it is repeated if the host took too much CPU time."""
    while measure_once(library, workload, server, seconds, into, url, **words) > STOLEN_MOST:
        into.again += 1


def measure_once(library, workload, server, seconds, into, url, **words):
    """Run a crew, warm it up, measure. Returns the stolen share if it must be repeated, else 0."""
    seconds, warm = seconds * workload.longer, library.warm_s
    with tempfile.TemporaryDirectory() as scratch:
        crew = Crew(library, server, scratch, workload.processes, url, workers=workload.workers,
                    names="one" if workload.one_name else "each", hold_ms=workload.hold_ms,
                    pause_ms=workload.pause_ms, seconds=warm + seconds + TAIL_S, **words)
        try:
            crew.expect("ready")
            crew.go()
            time.sleep(warm)
            begin, end, before, after, cpu, own, stolen = window(server, crew, seconds)
            watch = Watch(server.port)
            time.sleep(TAIL_S / 2)
            watch.stop()
            crew.join(END_S)
            records = figures.read(crew.outs)
        finally:
            crew.end()
            server.flush()
    if stolen > STOLEN_MOST and into.again < AGAIN_MOST:
        into.overlaps += figures.overlaps(records, workload.processes, begin, end,
                                          workload.one_name)
        return stolen
    into.add(records, workload.processes, begin, end, workload.one_name)
    into.commands += sent_by_clients(before, after, watch)
    into.server_s += cpu
    into.client_s += own
    return 0


def hold_many(library, server, locks=LOCKS):
    """The cost of holding many locks that are renewed, in one process."""
    with tempfile.TemporaryDirectory() as scratch:
        crew = Crew(library, server, scratch, 1, mode="hold", locks=locks)
        try:
            crew.expect("ready")
            before = crew.resident()
            crew.go()
            crew.expect("held", 240)
            time.sleep(library.period / 2)  # a burst of renewals then falls into the window
            seconds = library.period if library.period > 10 or library.renewal == "loop" else 20
            cpu, watch, begin = crew.cpu(), Watch(server.port), time.monotonic()
            time.sleep(seconds)
            took, used = time.monotonic() - begin, crew.cpu() - cpu
            memory = crew.resident() - before
            watch.stop()
            crew.check()
            kept = int(server.command("DBSIZE")) >= locks
        finally:
            crew.end()
            server.flush()
    if not kept:
        raise Failed("some locks were lost")
    sent = sum(watch.by_clients.values())
    if not sent:
        raise Failed("no lock was renewed in time")
    return {"commands_s": sent / took, "cpu": used / took, "bytes": memory / locks}
