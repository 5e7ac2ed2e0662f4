# SPDX-License-Identifier: Apache-2.0
"""faults.py run | page | check: which test covers which fault, on which store.

run    Run every test that names a fault (F…) or a behaviour (B…). First all tests of CTest, then
       the conformance suite on the topologies that `make test` only samples. At last the tests of
       faults again: through a Sentinel, on a cluster and over TLS. Takes a quarter of an hour.
page   Write build/reports/FAULTS.md from the sources and from the output of the last runs. Fails if
       a number has neither a passed test nor a reason on some store.
check  Check the same from the sources alone. Runs and writes nothing; part of `make check`.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import fault_list
from results import Results
from sources import CORE, ROOT, STORES, TESTS, all_tests

PAGE = ROOT / "build/reports/FAULTS.md"
BUILD = ROOT / "build/dev"
LOGS = BUILD / "faults"
CTEST_LOG = BUILD / "Testing/Temporary/LastTest.log"
TITLES = {"memory": "memory", "file": "file", "single": "one server", "tls": "TLS",
          "sentinel": "Sentinel", "cluster": "cluster", "quorum": "quorum", CORE: "no store"}
AT_ONCE = 3

# Runs that are too long for CTest.
LONG_RUNS = {"sentinel_failover": "sentinel/sentinel_failover",
             "conformance-cluster": "conformance/conformance cluster",
             "conformance-redis-tls": "conformance/conformance redis-tls",
             "conformance-sentinel": "conformance/conformance sentinel",
             "conformance-redis-replicas": "conformance/conformance redis-replicas"}


# ---- Running ---------------------------------------------------------------------------------

def run_logged(log, command, env=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                          errors="replace", timeout=900)
    return log, done.stdout, done.returncode


def left_out(front, test):
    return any(re.fullmatch(pattern, test.title) for pattern in fault_list.NOT_THROUGH[front])


def through_jobs(certificates):
    """Each test of a fault runs alone, so that a hanging test costs no other."""
    for front in fault_list.NOT_THROUGH:
        env = dict(os.environ, HOLDFAST_FAULT_FRONT=front, HOLDFAST_FAULT_CERTIFICATES=certificates)
        if front == "cluster":  # a restarted node refuses clients for two seconds
            env.setdefault("HOLDFAST_TEST_PATIENCE", "3")
        for test in all_tests():
            fault = test.program.startswith("fault_") and test.stores == ("single",)
            if fault and not left_out(front, test):
                program = str(BUILD / "tests/faults" / test.program)
                yield f"{test.program}@{front}.log", [program, test.name], env


def run():
    LOGS.mkdir(parents=True, exist_ok=True)
    for log in LOGS.glob("*.log"):
        log.unlink()
    failed = subprocess.run(["ctest", "--preset", "dev"], cwd=ROOT).returncode
    with tempfile.TemporaryDirectory(prefix="hf-faults-") as certificates:
        subprocess.run([TESTS / "tls/certificates", certificates], check=True,
                       stdout=subprocess.DEVNULL)
        jobs = [(f"{name}.log", str(BUILD / "tests" / command).split(), None)
                for name, command in LONG_RUNS.items()]
        jobs += through_jobs(certificates)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for log, text, code in pool.map(lambda job: run_logged(*job), jobs):
                with open(LOGS / log, "a", encoding="utf-8") as file:
                    file.write(text)
                if code:
                    failed = 1
                    print("\n".join(re.findall(r"^.*FAILED.*$", text, re.M)) or f"{log}: {code}")
    return failed


# ---- The page --------------------------------------------------------------------------------

def gathered():
    results = Results()
    if CTEST_LOG.exists():
        results.read_ctest(CTEST_LOG)
    for log in sorted(LOGS.glob("*.log")):
        results.read_log(log)
    return results.of


def cell(number, store, passed, failed):
    if failed[number, store]:
        return "**failed**"
    if passed[number, store]:
        return str(passed[number, store])
    return fault_list.WHY.get((number, store), "**gap**")


def matrix(tests, results):
    passed, failed = collections.Counter(), collections.Counter()
    for test in tests:
        for store, result in results.get((test.program, test.name), {}).items():
            for number in test.numbers:
                passed[number, store] += result == "ok"
                failed[number, store] += result == "FAILED"
    yield "| | | " + " | ".join(TITLES[store] for store in (*STORES, CORE)) + " |"
    yield "|---|---|" + "---|" * (len(STORES) + 1)
    for number, what in fault_list.WHAT.items():
        cells = [cell(number, store, passed, failed) for store in STORES]
        cells.append(str(passed[number, CORE] or ""))
        yield f"| [{number}](#{number.lower()}) | {what} | " + " | ".join(cells) + " |"


def outcome(test, results):
    """ok memory, file; FAILED quorum; not run."""
    seen = results.get((test.program, test.name), {})
    words = []
    for result in ("ok", "FAILED", "skipped"):
        stores = [TITLES[s] for s in (*STORES, CORE) if seen.get(s) == result]
        if stores:
            words.append(f"{result}: {', '.join(stores)}")
    return "; ".join(words) or "not run"


def sections(tests, results):
    for number, what in fault_list.WHAT.items():
        yield f'\n### <a id="{number.lower()}"></a>{number}: {what}\n'
        for test in sorted(t for t in tests if number in t.numbers):
            yield f"- `{test.program}`: `{test.name}` — {outcome(test, results)}"


def reasons():
    used = set(fault_list.WHY.values())
    return [f"- **{letter}**: {text}."
            for letter, text in fault_list.REASONS.items() if letter in used]


def fronts():
    for front, patterns in fault_list.NOT_THROUGH.items():
        for pattern, why in patterns.items():
            yield f"- {TITLES[front]}: `{pattern}`: {why}."


INTRO = """# Faults and behaviours, and their tests

`make faults` writes this file from the tests and from what they printed.

Everything that can go wrong with a lease-based lock has a number (F). Everything that a lock does
when nothing goes wrong has a number too (B). The name of a test begins with the numbers that it
covers. The table counts the tests that passed, by store and topology. A letter is the reason why
there is no test.

A test runs where it applies:

- The conformance suite runs on every store.
- The tests of faults run on one server, and again through a Sentinel, on a cluster of one node, and
  over TLS (`tests/faults/front.h`).
- A topology that adds faults of its own has tests of its own.
- *No store*: a part of the library under virtual time.

Four more kinds of run cover many faults at once and are not counted: the simulator (`make sim`),
failing servers (`make test-failover`), lost updates (`make lost-updates`) and the
model (`make model`).
"""


def page():
    tests, results = all_tests(), gathered()
    ran = [CTEST_LOG, *LOGS.glob("*.log")]
    last = max((log.stat().st_mtime for log in ran if log.exists()), default=0)
    lines = [INTRO, f"{len(tests)} tests; run on {time.strftime('%Y-%m-%d', time.gmtime(last))}.\n"]
    lines += [*matrix(tests, results), "", *reasons(), ""]
    lines += ["Tests of faults that do not run through a front:\n", *fronts(), ""]
    lines += ["## The tests", *sections(tests, results)]
    text = "\n".join(lines) + "\n"
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text)
    print(f"{PAGE.relative_to(ROOT)}: {len(tests)} tests")
    rows = re.findall(r"^\| \[.*(?:\*\*gap\*\*|\*\*failed\*\*).*$", text, re.M)
    print("\n".join(f"neither a passed test nor a reason: {row}" for row in rows))
    return bool(rows)


# ---- The check -------------------------------------------------------------------------------

def stores_by_source(test):
    """The stores that a test runs on, with the fronts that `run` puts before it."""
    fronts = ()
    if test.program.startswith("fault_") and test.stores == ("single",):
        fronts = tuple(front for front in fault_list.NOT_THROUGH if not left_out(front, test))
    return test.stores + fronts


def complaints():
    tests = all_tests()
    covered = {(number, store)
               for test in tests for number in test.numbers for store in stores_by_source(test)}
    named = {number for number, _ in covered}
    for number in sorted(named - set(fault_list.WHAT)):
        yield f"tests name {number}, which is not in the list"
    for number in sorted({number for number, _ in fault_list.WHY} - set(fault_list.WHAT)):
        yield f"there is a reason for {number}, which is not in the list"
    for number, what in fault_list.WHAT.items():
        if number not in named:
            yield f"{number} ({what}) has no test"
        for store in STORES:
            if (number, store) not in covered and (number, store) not in fault_list.WHY:
                yield f"{number} ({what}) has neither a test nor a reason on {TITLES[store]}"
    for front, patterns in fault_list.NOT_THROUGH.items():
        for pattern in patterns:
            if not any(re.fullmatch(pattern, test.title) for test in tests):
                yield f"no test matches {pattern}, which is left out for {TITLES[front]}"


def check():
    found = list(complaints())
    good = f"{len(all_tests())} tests cover {len(fault_list.WHAT)} faults and behaviours"
    print("\n".join(found[:20]) or good)
    return bool(found)


if __name__ == "__main__":
    commands = {"run": run, "page": page, "check": check}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]]())
