# SPDX-License-Identifier: Apache-2.0
"""table.py PROGRAM SECONDS PLACE...: run the lost-update test on each place, and print its table.

The table is written to docs/LOST-UPDATES.md, between the marks there, if all places ran for at
least two minutes each. The script fails if a run fails. It also fails if a place with servers lost
no update without tokens, because such a run shows nothing.
"""
import os
import pathlib
import platform
import subprocess
import sys
import time

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/LOST-UPDATES.md"
BEGIN, END = "<!-- begin: make lost-updates -->", "<!-- end -->"
PLACES = {"single": "one server", "sentinel": "Sentinel, three nodes",
          "cluster": "cluster, six nodes", "quorum": "quorum, three nodes", "file": "`file:`"}
LONG_ENOUGH = 120


def run(program, seconds, place):
    done = subprocess.run([program, place, str(seconds)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    line = next((text for text in done.stdout.splitlines() if text.startswith("place=")), None)
    if not line or done.returncode:
        sys.exit(done.stdout)
    print(line, flush=True)
    figures = dict(word.split("=") for word in line.split())
    return {key: value if key == "place" else int(value) for key, value in figures.items()}


def percent(lost, of):
    return f"{lost} ({100 * lost / of:.1f} %)" if of else "0"


def total(rows):
    counts = [key for key in rows[0] if key not in ("place", "seed", "seconds")]
    return {key: sum(row[key] for row in rows) for key in counts}


def table(rows):
    yield "| | stopped | holds | lost by their holders " \
          "| updates acknowledged without tokens | of these lost " \
          "| acknowledged with tokens | of these lost | refused | holds that overlapped |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    named = [(PLACES[row["place"]], row) for row in rows]
    for name, row in [*named, ("all", total(rows))]:
        cells = [name, row["stops"], row["holds"], row["lost_holds"], row["open_acknowledged"],
                 f"**{percent(row['open_lost'], row['open_acknowledged'])}**",
                 row["fenced_acknowledged"], f"**{row['fenced_lost']}**", row["refused"],
                 f"**{row['overlaps']}**"]
        yield "| " + " | ".join(str(cell) for cell in cells) + " |"


def server_version():
    binary = os.environ.get("HOLDFAST_TEST_SERVER", "redis-server")
    shown = subprocess.run([binary, "--version"], stdout=subprocess.PIPE, text=True)
    words = shown.stdout.split()
    return " ".join([words[0], *(word[2:] for word in words if word.startswith("v="))])


def write(rows, seconds):
    today = time.strftime("%Y-%m-%d", time.gmtime())
    seeds = ", ".join(f"{row['place']} {row['seed']}" for row in rows)
    caption = f"{seconds} s each, on {today}: {server_version()}, Linux {platform.release()} " \
              f"{platform.machine()}, {os.cpu_count()} cores. Seeds: {seeds}."
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text("\n".join([before + BEGIN, *table(rows), "", caption, END]) + after)


def main(program, seconds, *places):
    seconds = int(seconds)
    rows = [run(program, seconds, place) for place in places]
    print("\n".join(table(rows)))
    if set(places) == set(PLACES) and seconds >= LONG_ENOUGH:
        write(rows, seconds)
    idle = [row["place"] for row in rows
            if row["place"] != "file" and seconds >= LONG_ENOUGH and not row["open_lost"]]
    return f"nothing was lost without tokens on: {', '.join(idle)}" if idle else 0


if len(sys.argv) < 4 or not set(sys.argv[3:]) <= set(PLACES):
    sys.exit(__doc__)
sys.exit(main(*sys.argv[1:]))
