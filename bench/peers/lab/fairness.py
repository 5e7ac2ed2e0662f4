# SPDX-License-Identifier: Apache-2.0
"""32 processes that all want one lock: how often each gets it, and how long it waits."""
import csv
import os
import tempfile
import time
from dataclasses import dataclass, replace

from . import figures, libraries
from .crew import Crew, Failed
from .svg import COLOURS, WIDTH, Drawing, duration
from .table import whole
from .workloads import END_S, TAIL_S, Workload, stolen_s, too_heavy

WORKLOAD = Workload("fairness", "32 processes on one lock", 32, hold_ms=1)
WARM_S = {"java": 10.0}  # 32 virtual machines compile at the same time
OURS = libraries.OURS.name
FIELDS = ["library", "round", "process", "acquisitions", "longest_wait_ms"]

ON_REDIS = [
    libraries.OURS,
    libraries.Library("SET NX by hand", "python", "setnx", "", "polls every 50 ms", "", 0),
    *libraries.PEERS,
]
FAIR = libraries.Library("Redisson, fair lock", "java", "fair", "4.7.0", "the next is notified", "",
                         0)
ON_REDIS.insert(1 + [library.name for library in ON_REDIS].index("Redisson"), FAIR)
ON_ONE_MACHINE = [
    replace(libraries.OURS, name="Holdfast, file:"),
    libraries.Library("flock", "python", "flock", "", "the kernel wakes it", "", 0),
]


@dataclass
class Share:
    """What one process got in one window."""
    library: str
    round: int
    process: int
    acquisitions: int
    longest_wait_ns: int


def shares(records, processes, begin, end):
    """The acquisitions and the longest wait of each process within the window."""
    counts, longest = [0] * processes, [0] * processes
    for process, _, requested, acquired, _, _ in records:
        counts[process] += begin <= acquired < end
        longest[process] = max(longest[process], min(acquired, end) - max(requested, begin))
    return list(zip(counts, longest))


def window(library, server, seconds):
    """Run a new crew. Returns its records, begin and end of the window, and the stolen share."""
    warm = WARM_S.get(library.folder, 1.0)
    with tempfile.TemporaryDirectory() as scratch:
        url = f"file://{scratch}/locks" if library.name.endswith("file:") else None
        crew = Crew(library, server, scratch, WORKLOAD.processes, url, hold_ms=WORKLOAD.hold_ms,
                    seconds=warm + seconds + TAIL_S)
        try:
            crew.expect("ready")
            crew.go()
            time.sleep(warm)
            begin, stolen = time.monotonic_ns(), stolen_s()
            time.sleep(seconds)
            end, stolen = time.monotonic_ns(), stolen_s() - stolen
            crew.join(END_S)
            return figures.read(crew.outs), begin, end, stolen / seconds / os.cpu_count()
        finally:
            crew.end()
            server.flush()


def measure(have, server, seconds, rounds, say):
    """Measure the libraries in turn: shares, {library: reason of failure}, {library: overlaps}."""
    found, failed, overlaps = [], {}, {}
    for round_ in range(1, rounds + 1):
        for library in have:
            try:
                heavy = too_heavy(library, WORKLOAD)
                if heavy:
                    raise Failed(heavy)
                records, begin, end, stolen = window(library, server, seconds)
            except Failed as why:
                failed[library.name] = str(why)
                say(f"round {round_}: {library.name}: {why}")
                continue
            both = figures.overlaps(records, WORKLOAD.processes, begin, end, True)
            if both:
                overlaps[library.name] = overlaps.get(library.name, 0) + both
            own = [Share(library.name, round_, process, *got) for process, got in
                   enumerate(shares(records, WORKLOAD.processes, begin, end))]
            found += own
            say(f"round {round_}: {library.name}: {sum(s.acquisitions for s in own)} acquisitions, "
                f"{min(s.acquisitions for s in own)} to {max(s.acquisitions for s in own)} each, "
                f"longest wait {duration(max(s.longest_wait_ns for s in own))}; "
                f"the host took {stolen:.0%} of the cores")
    return found, failed, overlaps


# ---- The raw figures ----

def write_csv(path, found):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(FIELDS)
        for s in found:
            wait_ms = f"{s.longest_wait_ns / 1e6:.3f}"
            out.writerow([s.library, s.round, s.process, s.acquisitions, wait_ms])


# ---- Results ----

@dataclass
class Row:
    """A library, over all rounds. The least and the most are those of its least equal round."""
    name: str
    longest_wait: int
    least: int
    most: int
    rate: float
    parts: list  # acquisitions of a process, relative to an equal share


def row_of(name, own, seconds):
    rounds = [[s.acquisitions for s in own if s.round == n] for n in sorted({s.round for s in own})]
    parts = [count * len(counts) / max(1, sum(counts)) for counts in rounds for count in counts]
    worst = max(rounds, key=lambda counts: max(counts) / max(0.5, min(counts)))
    return Row(name, max(s.longest_wait_ns for s in own), min(worst), max(worst),
               sum(map(sum, rounds)) / (seconds * len(rounds)), parts)


def rows(found, seconds):
    names = list(dict.fromkeys(s.library for s in found))
    return [row_of(name, [s for s in found if s.library == name], seconds) for name in names]


def wait_text(row, seconds):
    """A wait that filled the whole window may have been longer."""
    whole_window = row.longest_wait >= 0.999 * seconds * 1e9
    if whole_window:
        return f"{seconds:g} s or more"
    seconds_waited = row.longest_wait / 1e9
    return f"{seconds_waited:.2f} s" if seconds_waited >= 1 else duration(row.longest_wait)


def report(found, failed, overlaps, about):
    seconds = about["seconds"]
    lines = [
        f"Measured {about['date']} on {about['cores']} cores ({about['cpu']}), "
        f"load {about['load']} before, Redis {about['server']} on the loopback; "
        f"Holdfast {about['holdfast']}. {about['rounds']} rounds of {seconds:g} s each, "
        "the libraries in turn.", "",
        "| | longest wait | least to most of a process | most ÷ least | acquisitions/s |",
        "|---|---|---|---|---|"]
    for row in rows(found, seconds):
        ratio = f"{row.most / row.least:.3g}" if row.least else "one got none"
        lines.append(f"| {row.name} | {wait_text(row, seconds)} | {row.least:,} to {row.most:,} "
                     f"| {ratio} | {whole(row.rate)} |")
    lines += [f"| {name} | {why} | | | |" for name, why in {**about["absent"], **failed}.items()]
    seen = ", ".join(f"{name} {count}" for name, count in overlaps.items())
    seen = f"{seen}; others none" if seen else "none"
    return "\n".join([*lines, "", f"Holds that overlapped: {seen}."])


# ---- The plot: a dot for each process ----

PART_MOST = 4.0  # times an equal share; dots beyond are drawn at the edge
TICK_TEXTS = ["0", "1× (equal share)", "2×", "3×", "4× or more"]
LEFT, RIGHT, TOP, STEP, GAP = 158, WIDTH - 128, 86, 28, 26


def part_place(part):
    return LEFT + min(part, PART_MOST) / PART_MOST * (RIGHT - LEFT)


def window_text(found, seconds):
    """When one dot of the plot was measured: "in one of two rounds of 10 s"."""
    rounds = len({s.round for s in found})
    return f"for {seconds:g} s" if rounds == 1 else f"in one of {rounds} rounds of {seconds:g} s"


def plot(path, found, seconds):
    drawn = rows(found, seconds)
    local = [library.name for library in ON_ONE_MACHINE]
    on_redis = sum(row.name not in local for row in drawn)
    bottom = TOP + STEP * len(drawn) + GAP
    drawing = Drawing(
        bottom + 62, "32 processes want one lock: how often does each of them get it?",
        f"each dot is one process {window_text(found, seconds)}; "
        "it holds the lock for 1 ms and wants it again at once")
    drawing.text(WIDTH - 12, TOP - 14, "longest wait", "end", 12, "#222", "bold")
    for tick in range(int(PART_MOST) + 1):
        x = part_place(tick)
        drawing.line(x, TOP - 6, x, bottom, "#888" if tick == 1 else "#ddd")
        drawing.text(x, bottom + 18, TICK_TEXTS[tick], "middle")
    drawing.text((LEFT + RIGHT) / 2, bottom + 42,
                 "acquisitions of each process, relative to an equal share", "middle", 12, "#555")
    drawing.text(LEFT - 14, TOP - 14, "on one Redis", "end", 12, "#555")
    drawing.text(LEFT - 14, TOP + STEP * on_redis + GAP - 8, "on one machine", "end", 12, "#555")
    for i, row in enumerate(drawn):
        y = TOP + STEP / 2 + STEP * i + (GAP if row.name in local else 0)
        ours = row.name.startswith(OURS)
        colour = COLOURS[0 if ours else 1]
        weight = "bold" if ours else "normal"
        drawing.text(LEFT - 14, y + 4, row.name, "end", 12.5, weight=weight)
        for k, part in enumerate(row.parts):
            drawing.mark(part_place(part), y + (k % 5 - 2) * 2.6, colour)
        drawing.text(WIDTH - 12, y + 4, wait_text(row, seconds), "end", 12.5,
                     colour if ours else "#222", weight)
    drawing.write(path)
