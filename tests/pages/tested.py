# SPDX-License-Identifier: Apache-2.0
"""Every option in a help text is used by a test: tested.py PAGES COMMAND

A test uses an option of a subcommand if one function names both: the option in its own words, the
subcommand in its own words or in those of a method of its class that it calls.
"""
import ast
import re
import unittest

from lint import ROOT, options_of_help, subcommands



def words_of(node):
    """The strings in a node of a test, and the words in them."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.add(part.value)
            found |= set(part.value.split())
    return found


def calls_of(node):
    """The methods of `self` that a node calls."""
    return {part.func.attr for part in ast.walk(node)
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
            and isinstance(part.func.value, ast.Name) and part.func.value.id == "self"}


def functions():
    """(own words, words of all that it calls) for each method in tests/cli."""
    for path in sorted((ROOT / "tests" / "cli").glob("*.py")):
        if path.name in ("kit.py", "child.py"):
            continue
        classes = {c.name: c for c in ast.parse(path.read_text()).body
                   if isinstance(c, ast.ClassDef)}
        for name in classes:
            methods = {}
            lineage = [name]
            while lineage:  # the nearest first
                one = classes.get(lineage.pop(0))
                for base in one.bases if one else []:
                    if isinstance(base, ast.Name):
                        lineage.append(base.id)
                for item in one.body if one else []:
                    if isinstance(item, ast.FunctionDef):
                        methods.setdefault(item.name, item)
            for method in methods.values():
                yield words_of(method), reached(method, methods)


def reached(method, methods):
    words, seen, ahead = set(), set(), [method]
    while ahead:
        one = ahead.pop()
        words |= words_of(one)
        for called in calls_of(one) - seen:
            seen.add(called)
            if called in methods:
                ahead.append(methods[called])
    return words


def says(words, option):
    """-w, -w5 and -qw5 all use -w; --wait=5 uses --wait."""
    if option.startswith("--"):
        return any(word == option or word.startswith(option + "=") for word in words)
    pattern = re.compile(rf"-[A-Za-z]*{option[1]}[^\s-]*\Z")
    return any(pattern.match(word) for word in words)


class Tested(unittest.TestCase):
    def test_every_option_is_used_by_a_test(self):
        used = list(functions())
        for word in subcommands():
            if word == "help":
                continue
            for option in sorted(options_of_help(word)):
                with self.subTest(f"{word} {option}"):
                    self.assertTrue(any(says(own, option) and word in all_words for own,
                                        all_words in used),
                                    f"no test in tests/cli uses holdfast {word} {option}")

    def test_a_nonexistent_option_is_found_in_no_test(self):
        """The rule can fail."""
        used = list(functions())
        for word, option in (("run", "--frobnicate"), ("status", "-K"), ("wait", "--permits"),
                             ("doctor", "--also")):
            self.assertFalse(any(says(own, option) and word in all_words for own,
                                 all_words in used),
                             (word, option))


if __name__ == "__main__":
    unittest.main()
