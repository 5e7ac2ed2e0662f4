# SPDX-License-Identifier: Apache-2.0
"""The plots of docs/plots."""
import os

from . import svg

FOLDER = os.path.join("docs", "plots")


def hand_over(root, results):
    rows = [(name, row["hand_p50"], row["hand_p99"])
            for name, row in results["rows"].get("handover", {}).items() if row.get("hand_p50")]
    if rows:
        svg.ranges(os.path.join(root, FOLDER, "hand-over.svg"), "From one holder to the next",
                   "from the call of the release to the return of the acquire in another process",
                   rows, "● half of them are faster   ○ 99 % are faster")


def cost(root, results, key, name, title, upward):
    """Cost of an acquisition against the number of waiters."""
    found = {}
    for waiting, workload in ((1, "one2"), (7, "one8"), (31, "one32")):
        for library, row in results["rows"].get(workload, {}).items():
            if row.get(key):
                found.setdefault(library, []).append((waiting, row[key]))
    series = [(library, points) for library, points in found.items() if len(points) > 1]
    if series:
        svg.lines(os.path.join(root, FOLDER, name), title, "processes on one name, no hold time",
                  series, "waiting processes", upward)


def peers(root, results):
    os.makedirs(os.path.join(root, FOLDER), exist_ok=True)
    hand_over(root, results)
    cost(root, results, "commands", "commands.svg", "Redis commands for one acquisition",
         "commands")
    cost(root, results, "server_us", "server-time.svg",
         "Time of the Redis server for one acquisition", "µs of the server's CPU")


def growth(root, found):
    os.makedirs(os.path.join(root, FOLDER), exist_ok=True)
    for key, name, title, across, upward, unit in (
            ("locks_time", "growth-locks.svg", "Acquire and release, while other locks are held",
             "locks that the client holds", "median of a pair", svg.duration),
            ("locks_memory", "growth-memory.svg", "Memory of a lock that is held, or waited for",
             "locks held, or waits of one client", "bytes each", svg.number),
            ("waits_time", "growth-waiters.svg", "An acquisition of a lock that others wait for",
             "waiters in the queue", "time from one holder to the next", svg.duration)):
        series = [(label, points) for label, points in found[key].items() if points]
        if series:
            svg.lines(os.path.join(root, FOLDER, name), title, "", series, across, upward, unit)
