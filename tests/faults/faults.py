"""faults.py run | page | check: docs/FAULTS.md, made of the tests.

run    Run what names a fault or a behaviour: the tests, the conformance suite on the topologies that `make test` only tries, and
       the tests of faults once more through a Sentinel, as a cluster and over TLS. A quarter of an hour.
page   Write the page, by the sources and by what the last runs printed; fails if a number has neither a test that passed nor a reason.
check  That the page has the tests of the sources. Runs nothing.
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

import numbers_ as numbers
from results import Results
from sources import CORE, ROOT, STORES, TESTS, all_tests

PAGE = ROOT / "docs/FAULTS.md"
BUILD = ROOT / "build/dev"
LOGS = BUILD / "faults"
CTEST_LOG = BUILD / "Testing/Temporary/LastTest.log"
TITLES = {"memory": "memory", "file": "file", "single": "one server", "tls": "TLS", "sentinel": "Sentinel",
          "cluster": "cluster", "quorum": "quorum", CORE: "no store"}
AT_ONCE = 3

# Whole runs beside CTest's.
BESIDE = {"sentinel_failover": "sentinel/sentinel_failover", "conformance-cluster": "conformance/conformance cluster",
          "conformance-redis-tls": "conformance/conformance redis-tls",
          "conformance-sentinel": "conformance/conformance sentinel",
          "conformance-redis-replicas": "conformance/conformance redis-replicas"}


# ---- Running -----------------------------------------------------------------------------------------

def run_logged(log, command, env=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, errors="replace",
                          timeout=900)
    return log, done.stdout, done.returncode


def left_out(front, test):
    return any(re.fullmatch(pattern, test.title) for pattern in numbers.NOT_THROUGH[front])


def through_jobs(certificates):
    """Each test of a fault on its own, so that one that hangs costs no other."""
    for front in numbers.NOT_THROUGH:
        env = dict(os.environ, HOLDFAST_FAULT_FRONT=front, HOLDFAST_FAULT_CERTIFICATES=certificates)
        if front == "cluster":  # a node that comes back lets nobody in for two seconds
            env.setdefault("HOLDFAST_TEST_PATIENCE", "3")
        for test in all_tests():
            if test.program.startswith("fault_") and test.stores == ("single",) and not left_out(front, test):
                program = str(BUILD / "tests/fault" / test.program)
                yield f"{test.program}@{front}.log", [program, test.name], env


def run():
    LOGS.mkdir(parents=True, exist_ok=True)
    for log in LOGS.glob("*.log"):
        log.unlink()
    failed = subprocess.run(["ctest", "--preset", "dev"], cwd=ROOT).returncode
    with tempfile.TemporaryDirectory(prefix="hf-faults-") as certificates:
        subprocess.run([TESTS / "tls/certificates", certificates], check=True, stdout=subprocess.DEVNULL)
        jobs = [(f"{name}.log", str(BUILD / "tests" / command).split(), None) for name, command in BESIDE.items()]
        jobs += through_jobs(certificates)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for log, text, code in pool.map(lambda job: run_logged(*job), jobs):
                with open(LOGS / log, "a", encoding="utf-8") as file:
                    file.write(text)
                if code:
                    failed = 1
                    print("\n".join(re.findall(r"^.*FAILED.*$", text, re.M)) or f"{log}: {code}")
    return failed


# ---- The page ----------------------------------------------------------------------------------------

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
    return numbers.WHY.get((number, store), "**gap**")


def matrix(tests, results):
    passed, failed = collections.Counter(), collections.Counter()
    for test in tests:
        for store, result in results.get((test.program, test.name), {}).items():
            for number in test.numbers:
                passed[number, store] += result == "ok"
                failed[number, store] += result == "FAILED"
    yield "| | | " + " | ".join(TITLES[store] for store in (*STORES, CORE)) + " |"
    yield "|---|---|" + "---|" * (len(STORES) + 1)
    for number, what in numbers.WHAT.items():
        cells = [cell(number, store, passed, failed) for store in STORES] + [str(passed[number, CORE] or "")]
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
    for number, what in numbers.WHAT.items():
        yield f'\n### <a id="{number.lower()}"></a>{number}: {what}\n'
        for test in sorted(t for t in tests if number in t.numbers):
            yield f"- `{test.program}`: `{test.name}` — {outcome(test, results)}"


def reasons():
    used = set(numbers.WHY.values())
    return [f"- **{letter}**: {text}." for letter, text in numbers.REASONS.items() if letter in used]


def fronts():
    for front, patterns in numbers.NOT_THROUGH.items():
        for pattern, why in patterns.items():
            yield f"- {TITLES[front]}: `{pattern}`: {why}."


INTRO = """# Faults and behaviours, and their tests

Made by `make faults` of the tests and of what they printed; do not edit it. What can go wrong with a lock that is a lease has a number (F),
how a lock behaves when nothing goes wrong has one too (B), and tests begin with the numbers that they show. The table counts the tests that
passed, by store and topology: a number links to their names. A letter says why there is none.

A test runs where it applies: the conformance suite on every store; the tests of faults on one server, and once more through a Sentinel, as a
cluster of one node, and over TLS (`tests/fault/front.h`); tests of their own where a topology adds something that can fail. *No store*: a part
of the library under virtual time. The simulator (`make sim`), the runs with failing servers (`make test-failover`), the lost-update run
([LOST-UPDATES.md](LOST-UPDATES.md)) and the model ([MODEL.md](MODEL.md)) show many of these at once, and are not counted.
"""


def page():
    tests, results = all_tests(), gathered()
    ran = [CTEST_LOG, *LOGS.glob("*.log")]
    last = max((log.stat().st_mtime for log in ran if log.exists()), default=0)
    lines = [INTRO, f"{len(tests)} tests; run on {time.strftime('%Y-%m-%d', time.gmtime(last))}.\n"]
    lines += [*matrix(tests, results), "", *reasons(), "", "Not run through another front:\n", *fronts(), "",
              "## The tests", *sections(tests, results)]
    text = "\n".join(lines) + "\n"
    PAGE.write_text(text)
    rows = re.findall(r"^\| \[.*(?:\*\*gap\*\*|\*\*failed\*\*).*$", text, re.M)
    print("\n".join(f"neither a test that passed nor a reason: {row}" for row in rows))
    return bool(rows)


# ---- The check ---------------------------------------------------------------------------------------

def complaints():
    text = PAGE.read_text() if PAGE.exists() else ""
    tests = all_tests()
    wanted = {(n, t.title) for t in tests for n in t.numbers if n in numbers.WHAT}
    for number in sorted({n for t in tests for n in t.numbers} - set(numbers.WHAT)):
        yield f"tests name {number}, which is in no list: tests/faults/numbers_.py"
    has = set()
    for section in re.split(r"^### ", text, flags=re.M)[1:]:
        number = re.match(r'<a id="\w+"></a>(\w+):', section).group(1)
        has |= {(number, f"{program}: {name}") for program, name in re.findall(r"^- `([\w-]+)`: `(\w+)`", section, re.M)}
    for number, title in sorted(wanted - has):
        yield f"{number} is shown by {title}, which the page lacks"
    for number, title in sorted(has - wanted):
        yield f"the page has {number} shown by {title}, which is no test"


def check():
    found = list(complaints())
    if found:
        print("\n".join(found[:20]) + "\nMake docs/FAULTS.md again: make faults, or after a run of all tests "
              "python3 -B tests/faults/faults.py page")
    return bool(found)


if __name__ == "__main__":
    commands = {"run": run, "page": page, "check": check}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]]())
