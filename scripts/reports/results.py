# SPDX-License-Identifier: Apache-2.0
"""The results of tests, read from their output.

{(program, name): {store: "ok" | "FAILED" | "skipped"}}
"""
import re

from fault_list import NOT_THROUGH
from sources import CONFORMANCE, NAME, stores_of

CMOCKA = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\w+)$", re.M)
UNITTEST = re.compile(r"^(test_\w+) \(__main__\.\w*?(?:_(file|redis)|_)?(?:\.\w+)?\)"
                      r"(?:\n[^\n]*?)? \.\.\. (?:[^\n]*? )?"
                      r"(ok|FAIL|ERROR|skipped|expected failure)\b", re.M)
WORDS = {"OK": "ok", "FAILED": "FAILED", "SKIPPED": "skipped"}


class Results:
    def __init__(self):
        self.of = {}

    def add(self, program, name, stores, result):
        if not NAME.fullmatch(name):
            return
        seen = self.of.setdefault((program, name), {})
        for store in stores:
            if seen.get(store) != "FAILED":
                seen[store] = result

    def add_cmocka(self, program, text, stores=None):
        for result, name in CMOCKA.findall(text):
            self.add(program, name, stores or stores_of(f"{program}: {name}"), WORDS[result])

    def add_through(self, program, text, front):
        """Only tests whose clients connected through that front count."""
        runs = re.findall(r"^\[ RUN +\] (\w+)\n(.*?)^\[ +(?:OK|FAILED)", text, re.M | re.S)
        for name, printed in runs:
            title = f"{program}: {name}"
            unfit = any(re.fullmatch(pattern, title) for pattern in NOT_THROUGH[front])
            if unfit or f"through: {front}" not in printed:
                text = re.sub(rf"^\[ +\w+ +\] {name}$", "", text, flags=re.M)
        self.add_cmocka(program, text, (front,))

    def add_unittest(self, program, text):
        stores = {"file": "file", "redis": "single", "": "single"}
        for name, kind, result in UNITTEST.findall(text):
            known = result if result in ("ok", "skipped") else "FAILED"
            self.add(program, name, (stores[kind],), known)

    def add_output(self, test, text):
        """The output of a test, by its name in CTest."""
        if test.startswith("conformance"):
            store = re.sub(r"-?\dof\d$", "", test.partition("-")[2]) or "memory"
            self.add_cmocka("conformance", text, (CONFORMANCE[store],))
        elif test.startswith("cli-"):
            self.add_unittest(test, text)
        else:
            self.add_cmocka(test, text)

    def read_ctest(self, path):
        parts = re.split(r"^\d+/\d+ Testing: (\S+)\n", path.read_text(errors="replace"), flags=re.M)
        for test, text in zip(parts[1::2], parts[2::2]):
            self.add_output(test, text)

    def read_log(self, path):
        """A log of `faults.py run`: NAME.log or PROGRAM@FRONT.log."""
        program, _, front = path.stem.partition("@")
        text = path.read_text(errors="replace")
        if front:
            self.add_through(program, text, front)
        else:
            self.add_output(program, text)
