"""What is measured, and how one measurement goes."""
import os
import tempfile
import time
from dataclasses import dataclass, field

from . import figures, libraries
from .crew import Crew, Failed
from .server import Watch, sent_by_clients

TAIL_S = 0.5  # after the window: which commands are whose
END_S = 40  # the longest that its processes may take to end after it
LOCKS = 10000
STOLEN_MOST = 0.02  # of the machine, by its host, in a window that counts
AGAIN_MOST = 6  # windows of a library in a workload that do not count: then it is taken as it comes


@dataclass
class Workload:
    key: str
    title: str
    processes: int
    workers: int = 1
    one_name: bool = True
    hold_ms: int = 0
    pause_ms: int = 0
    longer: float = 1  # its windows, in proportion to those of others
    once: bool = field(default=False)  # one round, since each is long
    tasks: bool = field(default=False)  # peers have tasks that share threads: ours is measured with both


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
    """Why this is not tried here; None: it is."""
    if library.folder == "java" and memory_available() < workload.processes * 160 << 20:
        return f"{workload.processes} Java virtual machines do not fit into the memory of this machine"
    return None


def stolen_s():
    """Seconds of its cores that this machine was without, since its host was busy with others."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def window(server, crew, seconds):
    """Let the crew run for a while: (begin, end, what it cost, which part of the machine was stolen)."""
    before, cpu, own, stolen = server.calls(), server.cpu(), crew.cpu(), stolen_s()
    begin = time.monotonic_ns()
    time.sleep(seconds)
    end = time.monotonic_ns()
    stolen = (stolen_s() - stolen) / seconds / os.cpu_count()
    return begin, end, before, server.calls(), server.cpu() - cpu, crew.cpu() - own, stolen


def measure(library, workload, server, seconds, into, url=None, **words):
    """One round, or another where the machine was not ours alone: so for all libraries."""
    while measure_once(library, workload, server, seconds, into, url, **words) > STOLEN_MOST:
        into.again += 1


def measure_once(library, workload, server, seconds, into, url, **words):
    """A crew of its own, warmed up, watched for `seconds`. What was stolen, if it is to be done again."""
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
        into.overlaps += figures.overlaps(records, workload.processes, begin, end, workload.one_name)
        return stolen
    into.add(records, workload.processes, begin, end, workload.one_name)
    into.commands += sent_by_clients(before, after, watch)
    into.server_s += cpu
    into.client_s += own
    return 0


def hold_many(library, server, locks=LOCKS):
    """What it costs to hold many locks that are renewed: a process for itself."""
    with tempfile.TemporaryDirectory() as scratch:
        crew = Crew(library, server, scratch, 1, mode="hold", locks=locks)
        try:
            crew.expect("ready")
            before = crew.resident()
            crew.go()
            crew.expect("held", 240)
            time.sleep(library.period / 2)  # those who renew all at once do so amid the window
            seconds = library.period if library.period > 10 or library.renewal == "loop" else 20
            cpu, watch, begin = crew.cpu(), Watch(server.port), time.monotonic()
            time.sleep(seconds)
            took, used, memory = time.monotonic() - begin, crew.cpu() - cpu, crew.resident() - before
            watch.stop()
            crew.check()
            kept = int(server.command("DBSIZE")) >= locks
        finally:
            crew.end()
            server.flush()
    if not kept:
        raise Failed("some were lost meanwhile")
    sent = sum(watch.by_clients.values())
    if not sent:
        raise Failed("renewed nothing in time")
    return {"commands_s": sent / took, "cpu": used / took, "bytes": memory / locks}
