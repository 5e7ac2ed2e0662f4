# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/BENCHMARKS.md."""
from . import libraries
from .svg import duration
from .workloads import STOLEN_MOST, WORKLOADS

LEVEL = 0.03  # smaller differences do not count
OURS = libraries.OURS.name


def is_peer(library):
    return library not in (OURS, libraries.OURS_ASYNC.name)


def whole(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def share(value):
    return f"{100 * value:.1f} %"


def size(value):
    return f"{value / 1024:.1f} KiB" if value >= 1024 else f"{value:.0f} B"


def micros(value):
    return f"{value:.0f} µs" if value >= 10 else f"{value:.1f} µs"


class Column:
    def __init__(self, key, title, show, better="less"):
        self.key, self.title, self.show, self.better = key, title, show, better

    def ratio(self, value, ours):
        return value / ours if value is not None and ours else None

    def ahead(self, value, ours):
        ratio = self.ratio(value, ours)
        if ratio is None:
            return False
        return ratio > 1 + LEVEL if self.better == "more" else ratio < 1 - LEVEL

    def cell(self, value, ours, library):
        if value is None:
            return "–"
        text = self.show(value)
        ratio = None if library == OURS else self.ratio(value, ours)
        if ratio is None:
            return text
        text += f" · {ratio:.3g}×" if ratio < 1000 else f" · {ratio:,.0f}×"
        return f"**{text}**" if is_peer(library) and self.ahead(value, ours) else text


RATE = Column("rate", "pairs/s", whole, "more")
COST = [Column("commands", "commands", lambda v: f"{v:.2f}"), Column("server_us", "server", micros),
        Column("client_us", "client", micros)]
HAND = [Column("hand_p50", "hand-over p50", duration), Column("hand_p99", "p99", duration)]
CONTENDED = [Column("rate", "acquisitions/s", whole, "more"), *HAND,
             Column("longest_wait", "longest wait", duration)]
COLUMNS = {
    "pair": [RATE, Column("pair_p50", "p50", duration), Column("pair_p99", "p99", duration), *COST],
    "names64": [RATE, Column("pair_p50", "p50", duration), Column("pair_p99", "p99", duration),
                *COST],
    "handover": HAND + COST[:2],
    "held": [Column("commands_s", "commands/s", whole), Column("cpu", "client CPU", share),
             Column("bytes", "memory each", size)],
}


def columns(key):
    return COLUMNS.get(key, CONTENDED + COST)


def _row(library, row, ours, cols, shares):
    if "failed" in row:
        return f"| {library} | {row['failed']} |" + " |" * (len(cols) + shares - 1)
    cells = [c.cell(row.get(c.key), ours.get(c.key), library) for c in cols]
    if shares:
        cells.append(f"{row['least']:,} to {row['most']:,}")
    return f"| {library} | " + " | ".join(cells) + " |"


def table(key, rows):
    """The table of one workload: {library: figures}; ours first."""
    cols, shares = columns(key), key.startswith("one")
    heads = [c.title for c in cols] + (["per process, least to most"] if shares else [])
    ours = rows.get(OURS, {})
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    return "\n".join(lines + [_row(name, row, ours, cols, shares) for name, row in rows.items()])


def ahead(results):
    """One line for each figure in which a peer is ahead of ours."""
    lines = []
    titles = {**{w.key: w.title for w in WORKLOADS}, "held": "10,000 held locks"}
    for key, rows in results["rows"].items():
        ours = rows.get(OURS, {})
        for column in columns(key):
            names = [f"{name} ({column.ratio(row[column.key], ours[column.key]):.2f}×)"
                     for name, row in rows.items() if is_peer(name)
                     and column.ahead(row.get(column.key), ours.get(column.key))]
            if names:
                lines.append(f"- {titles[key]}, {column.title}: {', '.join(names)}")
    return lines


def header(about):
    lines = [f"Measured {about['date']} on {about['cores']} cores ({about['cpu']}), "
             f"load {about['load']} before the run, Linux {about['kernel']}, "
             f"Redis {about['server']} on the loopback; Holdfast {about['holdfast']}. "
             f"{about['rounds']} rounds of {about['seconds']:g} s for each "
             "library, in turn."]
    lines += ["", "| library | version | language | a waiter | renewed by |",
              "|---|---|---|---|---|"]
    for row in about["libraries"]:
        lines.append("| {name} | {version} | {runtime} | {waits} | {renewal} |".format(**row))
    for name, why in about["absent"].items():
        lines.append(f"| {name} | absent | {why} | | |")
    return "\n".join(lines)


def report(results):
    parts = [header(results["about"])]
    for workload in WORKLOADS:
        if workload.key in results["rows"]:
            parts += [f"### {workload.title}", table(workload.key, results["rows"][workload.key])]
    if "held" in results["rows"]:
        parts += ["### 10,000 held locks, renewed", table("held", results["rows"]["held"])]
    every = [row for rows in results["rows"].values() for row in rows.values()]
    overlaps, again = (sum(row.get(key, 0) for row in every) for key in ("overlaps", "again"))
    parts.append(f"Overlapping holds of one name, in all rows: {overlaps}.")
    if again:
        parts.append(f"{again} windows were measured again, because the host of this virtual "
                     f"machine had taken more than {STOLEN_MOST:.0%} of its cores away.")
    behind = ahead(results)
    parts += ["### Where a peer is ahead", "\n".join(behind) if behind else "Nowhere in this run."]
    return "\n\n".join(parts)


def between(path, name, text):
    """Replace the text between the two markers of a name."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, rest = page.split(begin, 1)
    tail = rest.split(end, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{begin}\n\n{text}\n\n{end}{tail}")
