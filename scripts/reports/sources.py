# SPDX-License-Identifier: Apache-2.0
"""The tests, read from their sources: program, name, covered numbers and stores of each.

The name of a test begins with the numbers that it covers: F28_…, B08_F24_…, test_F49_…. Nothing is
built or run.
"""
import ast
import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
STORES = ("memory", "file", "single", "tls", "sentinel", "cluster", "quorum")
PREFIX = {"faults": "fault"}  # of the programs of a folder, if it is not the name of the folder
CORE = "core"  # no store: a part of the library under virtual time

NAME = re.compile(r"\b(?:test_)?((?:[FB]\d\d?_)+)\w+")

# The stores of the conformance suite, by their names there.
CONFORMANCE = {"memory": "memory", "file": "file", "redis": "single", "redis-replicas": "single",
               "redis-unix": "single", "redis-tls": "tls", "sentinel": "sentinel",
               "cluster": "cluster", "redis-quorum": "quorum"}

# Programs, or tests of them, and the stores that they run on. The first match counts.
RUNS_ON = [
    (r"fault_\w+: .*", ("single",)),
    (r"redis_failing: .*_on_memory", ("memory",)),
    (r"redis_failing: .*sentinel", ("sentinel",)),
    (r"redis_failing: .*quorum", ("quorum",)),
    (r"redis_.*", ("single",)),
    (r"tls: .*quorum.*", ("tls", "quorum")),
    (r"tls: .*", ("tls",)),
    (r"(sentinel|cluster|quorum)_\w+: .*tls.*", ("tls",)),
    (r"sentinel_.*", ("sentinel",)),
    (r"cluster_.*", ("cluster",)),
    (r"file_.*", ("file",)),
    (r"unit_figures: .*|unit_memory_.*", ("memory",)),
    (r"unit_.*", (CORE,)),
]
ALSO = [  # exceptions
    (r"fault_quorum(_crowd)?: .*", ("quorum",)),
    (r"(sentinel|cluster)_\w+: .*tls.*", None),
]


class Test(NamedTuple):
    program: str
    name: str
    numbers: tuple  # "F28", …
    stores: tuple

    @property
    def title(self):
        return f"{self.program}: {self.name}"


def numbers_of(name):
    """As in the lists: F3, not F03."""
    prefix = NAME.fullmatch(name).group(1)
    return tuple(kind + str(int(n)) for kind, n in re.findall(r"([FB])(\d+)_", prefix))


def names_in(text):
    return sorted({match.group(0) for match in NAME.finditer(text)})


def stores_of(title):
    if re.fullmatch(ALSO[0][0], title):
        return ALSO[0][1]
    stores = next((stores for pattern, stores in RUNS_ON if re.fullmatch(pattern, title)), ())
    owner = title.split("_", 1)[0]
    return stores + ((owner,) if stores == ("tls",) and owner in STORES else ())


# ---- The conformance suite: what a case needs, and what a store has --------------------------

def flags(expression):
    return set(re.findall(r"CF_\w+", expression))


def conformance_stores():
    """[(name of the store there, features that it has)]"""
    text = (TESTS / "conformance/main.c").read_text()
    table = re.search(r"static const store stores\[\] = \{(.*?)\n\};", text, re.S).group(1)
    rows = re.findall(r'\{"([\w-]+)",\s*([^,]*?),\s*start_', table)
    return [(name, flags(has) | {"CF_FORK_WITH_THREADS"}) for name, has in rows]


def conformance_tests():
    stores = conformance_stores()
    for path in sorted((TESTS / "conformance").glob("*.c")):
        cases = re.findall(r"CF_CASE(?:_NEEDS)?\((\w+)(?:,\s*([^)]*))?\)", path.read_text())
        for name, needs in cases:
            if not NAME.fullmatch(name):
                continue
            on = {CONFORMANCE[store] for store, has in stores if flags(needs) <= has}
            yield Test("conformance", name, numbers_of(name), tuple(s for s in STORES if s in on))


# ---- The others ------------------------------------------------------------------------------

def program_tests():
    for folder in ("cluster", "cpp", "faults", "file", "redis", "sentinel", "tls", "topology",
                   "unit"):
        for path in sorted((TESTS / folder).glob("*.c*")):
            program = folder if folder == path.stem else f"{PREFIX.get(folder, folder)}_{path.stem}"
            for name in names_in(path.read_text()) if path.suffix != ".txt" else ():
                yield Test(program, name, numbers_of(name), stores_of(f"{program}: {name}"))


def kinds_of(case):
    """The stores in the @on(…) of a class. None: the test starts what it needs."""
    for decorator in case.decorator_list:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "on":
            return [argument.value for argument in decorator.args]
    return []


def command_tests():
    names = {"file": "file", "redis": "single", None: "single"}
    for path in sorted((TESTS / "cli").glob("*.py")):
        program = "cli-" + path.stem.rstrip("_").replace("_", "-")
        found = {}
        for case in ast.walk(ast.parse(path.read_text())):
            if not isinstance(case, ast.ClassDef):
                continue
            for test in case.body:
                if isinstance(test, ast.FunctionDef) and NAME.fullmatch(test.name):
                    found.setdefault(test.name, set()).update(names[k] for k in kinds_of(case))
        for name, on in sorted(found.items()):
            yield Test(program, name, numbers_of(name), tuple(s for s in STORES if s in on))


def all_tests():
    return [*conformance_tests(), *program_tests(), *command_tests()]
