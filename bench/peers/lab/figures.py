# SPDX-License-Identifier: Apache-2.0
"""Computes figures from the records of the drivers, in the same way for all of them."""
from collections import defaultdict


def percentile(values, part):
    """Of sorted values; None if there are none."""
    return values[min(len(values) - 1, int(len(values) * part))] if values else None


def read(paths):
    """Records of all files: (process, worker, requested, acquired, releasing, released)."""
    records = []
    for process, path in enumerate(paths):
        with open(path, encoding="ascii") as file:
            records += [(process, *map(int, line.split())) for line in file]
    return records


class Figures:
    """Figures of one or more windows of the same workload."""

    def __init__(self):
        self.seconds = 0.0
        self.count = self.overlaps = 0
        self.again = 0  # windows that were discarded
        self.pairs, self.handovers, self.waits, self.shares = [], [], [], []
        self.commands = self.server_s = self.client_s = 0.0

    def add(self, records, processes, begin, end, one_name):
        """Add the records of a window. All processes use the same clock."""
        self.seconds += (end - begin) / 1e9
        within = [r for r in records if begin <= r[3] < end]
        self.count += len(within)
        self.pairs += [r[5] - r[2] for r in within]
        self.waits += [min(r[3], end) - r[2] for r in records if r[3] >= begin and r[2] < end]
        shares = [0] * processes
        for r in within:
            shares[r[0]] += 1
        self.shares += shares
        names = defaultdict(list)
        for r in records:
            names[0 if one_name else r[1]].append(r)
        for turns in names.values():
            self._hand_overs(sorted(turns, key=lambda r: r[3]), begin, end)

    def _hand_overs(self, turns, begin, end):
        """Add the times from the call of a release to the return of the waiter's acquire."""
        for last, turn in zip(turns, turns[1:]):
            if turn[3] < last[4]:
                self.overlaps += 1
            if begin <= turn[3] < end and turn[:2] != last[:2] and turn[2] < last[4]:
                self.handovers.append(turn[3] - last[4])

    def summary(self):
        self.pairs.sort()
        self.handovers.sort()
        each = max(1, self.count)
        return {
            "rate": self.count / self.seconds, "count": self.count,
            "pair_p50": percentile(self.pairs, .5), "pair_p99": percentile(self.pairs, .99),
            "handovers": len(self.handovers), "hand_p50": percentile(self.handovers, .5),
            "hand_p99": percentile(self.handovers, .99),
            "least": min(self.shares), "most": max(self.shares),
            "longest_wait": max(self.waits, default=None),
            "commands": self.commands / each, "server_us": self.server_s * 1e6 / each,
            "client_us": self.client_s * 1e6 / each, "overlaps": self.overlaps, "again": self.again,
        }


def overlaps(*window):
    """Count overlapping holds in a window whose other figures are discarded."""
    seen = Figures()
    seen.add(*window)
    return seen.overlaps
