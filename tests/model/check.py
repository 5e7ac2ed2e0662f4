# SPDX-License-Identifier: Apache-2.0
"""Search the model with spin: the whole protocol, and the protocol with one rule removed.

    check.py [--long]

Prints for each search its subject, states, memory and time. Fails if a search of the whole protocol
finds a fault or is not complete, or if a search without a rule finds nothing.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent / "lock.pml"
DEPTH = 1000000
SAFETY, FAIR = ["-DMEMLIM=3900", "-DSAFETY"], ["-DMEMLIM=3900", "-DNFAIR=3"]
LARGE = ["-DMEMLIM=13000", "-DSAFETY", "-DCOLLAPSE"]  # stores the parts of states, each once

# Subject, switches of the model, options of the compiler, options of the search.
WHOLE = [
    ("three clients, one of them twice", "-DROUNDS=2 -DFAULTS=0", SAFETY, []),
    ("three clients and a resource", "-DROUNDS=1 -DFAULTS=0 -DRESOURCE", SAFETY, []),
    ("two clients, one of them twice, and a fault", "-DROUNDS=2 -DFAULTS=1 -DTWO", SAFETY, []),
    ("two clients, a resource, and a restart that forgets all",
     "-DROUNDS=2 -DFAULTS=1 -DTWO -DRESOURCE -DFORGETS", SAFETY, []),
    ("three clients that wait, and a fault: all are served",
     "-DROUNDS=1 -DFAULTS=1 -DPATIENT", FAIR, ["-a", "-f"]),
]
LONG = [
    ("three clients and a fault", "-DROUNDS=1 -DFAULTS=1", LARGE, ["-w27"]),
]
WITHOUT = [
    ("without the claim rule", "-DROUNDS=1 -DFAULTS=0 -DONLY_ALONE -DNO_CLAIM", "WITHIN"),
    ("without acquire ids", "-DROUNDS=2 -DFAULTS=1 -DTWO -DONLY_ALONE -DNO_ID", "WITHIN"),
    ("without the token check", "-DROUNDS=1 -DFAULTS=0 -DRESOURCE -DNO_CHECK", "newest"),
]
FOUND = {"WITHIN": r"assertion violated .*left\[", "newest": r"assertion violated .*newest"}


def search(switches, compiled, called):
    with tempfile.TemporaryDirectory(prefix="hf-model-") as directory:
        def run(*command):
            return subprocess.run(command, cwd=directory, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        made = run("spin", "-a", *switches.split(), str(MODEL))
        built = run("cc", "-O2", "-w", *compiled, "-o", "pan", "pan.c")
        if made.returncode or built.returncode:
            sys.exit(made.stdout + built.stdout)
        began = time.monotonic()
        text = run("./pan", f"-m{DEPTH}", *called).stdout
        return text, time.monotonic() - began


def figure(pattern, text):
    found = re.search(pattern, text)
    return float(found.group(1)) if found else 0


def report(what, text, seconds):
    errors = int(figure(r"errors: (\d+)", text)) if "errors:" in text else -1
    states = figure(r"([0-9.e+]+) states, stored", text)
    megabytes = figure(r"([0-9.]+).total actual memory", text)
    print(f"{what}: {states:,.0f} states, {megabytes:,.0f} MB, {seconds:.0f} s, errors: {errors}",
          flush=True)
    return errors


def complete(text):
    return not re.search(
        r"Search not completed|max search depth too small|memory limit|out of memory", text)


def main():
    bad = []
    for what, switches, compiled, called in WHOLE + (LONG if "--long" in sys.argv else []):
        text, seconds = search(switches, compiled, called)
        if report(what, text, seconds) != 0 or not complete(text):
            bad.append(f"{what} ({switches}):\n{text[:2000]}")
    for what, switches, about in WITHOUT:
        text, seconds = search(switches, SAFETY, [])
        if report(what, text, seconds) < 1 or not re.search(FOUND[about], text):
            bad.append(f"{what}: nothing was found ({switches}):\n{text[:2000]}")
    return "\n".join(bad) or 0


sys.exit(main())
