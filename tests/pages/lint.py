# SPDX-License-Identifier: Apache-2.0
"""Help, manual pages and completions agree: lint.py PAGES COMMAND

The help is parsed here with a simpler rule than in the program that makes the pages.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES, COMMAND = pathlib.Path(sys.argv.pop(1)).resolve(), os.path.abspath(sys.argv.pop(1))
FLAG = r"(?<![\w-])(--[a-z][a-z0-9-]+|-[A-Za-z0-9])(?![\w-])"


def output(*words):
    return subprocess.run([COMMAND, *words], check=True, capture_output=True, text=True).stdout


def subcommands():
    """The words at the start of lines in the first list of the general help."""
    block = next(b for b in output("help").split("\n\n") if re.match(r"  [a-z]+  ", b))
    return re.findall(r"^  ([a-z]+)  ", block, re.M)


def help_of(word):
    return output("help", word) if word else output("help")


def options_of_help(word):
    """Flags at the start of a line, and those after `also`."""
    found = set()
    for line in help_of(word).splitlines():
        if re.match(r" {2,6}-", line):
            found |= set(re.findall(FLAG, re.split(r"(?<=\S) {2,}", line.strip())[0]))
        found |= set(re.findall(r"also (--[a-z0-9-]+)", line))
    return found


def plain(name):
    return (PAGES / "man" / name).read_text().replace("\\-", "-")


def options_of_page(name):
    """Flags in the tags of the OPTIONS section, and those after `also`."""
    section = re.search(r"^\.SH OPTIONS\n(.*?)(?=^\.SH )", plain(name), re.M | re.S)
    if not section:
        return set()
    tags = re.findall(r"^\.TP\n(.*)", section.group(1), re.M)
    text = re.sub(r"\\f[BIR]", "", " ".join(tags))
    return set(re.findall(FLAG, text)) | set(re.findall(r"also (--[a-z0-9-]+)", section.group(1)))


def completion(name):
    return (PAGES / "completions" / name).read_text()


def bash_options(word):
    case = re.search(rf"^    {word}\)\n        flags='(.*)'$", completion("holdfast"), re.M)
    return set(case.group(1).split()) if case else None


def zsh_options(word):
    case = re.search(rf"^    {word}\)\n(.*?)^      ;;", completion("_holdfast"), re.M | re.S)
    text = re.sub(r"\[.*?\]", " ", case.group(1)).replace("_arguments -S -A", "")
    return set(re.findall(FLAG, text))


def fish_options(word):
    lines = [line for line in completion("holdfast.fish").splitlines() if f"from {word}'" in line]
    text = " ".join(re.split(r" -[drxa] ", line.split("'", 2)[2])[0] for line in lines)
    return {f"--{flag}" for flag in re.findall(r" -l ([a-z0-9-]+)", text)} | {
        f"-{flag}" for flag in re.findall(r" -s (\w)", text)}


class Command(unittest.TestCase):
    explained = [word for word in subcommands() if word != "help"]

    def test_there_are_subcommands(self):
        self.assertTrue({"run", "status", "help"} <= set(subcommands()))
        self.assertTrue({"-n", "--nonblock", "--timeout", "--lease"} <= options_of_help("run"))

    def test_every_subcommand_has_a_page_and_every_page_a_subcommand(self):
        pages = {path.name for path in (PAGES / "man").glob("*.1")}
        self.assertEqual({"holdfast.1"} | {f"holdfast-{w}.1" for w in subcommands() if w != "help"},
                         pages)

    def test_pages_have_the_options_of_the_help(self):
        for word in self.explained:
            self.assertEqual(options_of_help(word), options_of_page(f"holdfast-{word}.1"), word)
        self.assertEqual({"--help", "--version"}, options_of_page("holdfast.1"))

    def test_completions_have_the_options_of_the_help(self):
        for word in self.explained:
            wanted = options_of_help(word)
            self.assertEqual(wanted, bash_options(word), word)
            self.assertEqual(wanted, zsh_options(word), word)
            self.assertEqual(wanted, fish_options(word), word)

    def test_what_the_command_accepts_is_in_its_help(self):
        """The options of a subcommand are in a file with its name, or in a shared one."""
        checked = 0
        shared = {"run_args": ["run"], "release": ["release", "extend"]}
        for source in (ROOT / "cli").rglob("*.c"):
            names = re.findall(r'\{"([a-z0-9-]+)", (?:no|required|optional)_argument',
                               source.read_text())
            words = shared.get(source.stem, [source.stem])
            checked += len(names)
            helped = set().union(*(options_of_help(word) for word in words)) if names else set()
            for name in names:
                self.assertIn(f"--{name}", helped, source.name)
        self.assertGreater(checked, 80)

    def test_exit_codes_of_the_help_are_in_the_page(self):
        for word in self.explained:
            codes = set(re.findall(r"(?:^ +|  )(\d{1,2})  \w", help_of(word), re.M))
            page = set(re.findall(r"^\.TP\n\\fB(\d+)\\fR", plain(f"holdfast-{word}.1"), re.M))
            self.assertEqual(codes, page, word)

    def test_pages_added_by_hand_belong_to_a_page(self):
        for path in (ROOT / "docs" / "man").glob("*.md"):
            self.assertTrue((PAGES / "man" / (path.stem + ".1")).exists(), path)

    def test_examples_of_the_pages_run(self):
        examples = 0
        with tempfile.TemporaryDirectory() as directory:
            for script in ("report.sh", "fetch.sh"):
                path = pathlib.Path(directory, script)
                path.write_text("#!/bin/sh\n")
                path.chmod(0o755)
            env = {"PATH": f"{directory}:{os.environ['PATH']}", "HOME": directory,
                   "HOLDFAST_URL": f"file://{directory}/locks"}
            os.symlink(COMMAND, f"{directory}/holdfast")
            for path in (ROOT / "docs" / "man").glob("*.md"):
                cron = r"(?:[\d*]+ [\d*]+ [\d*]+ [\d*]+ [\d*]+  )?"
                for line in re.findall(rf"^    {cron}(.*holdfast .*)$",
                                       path.read_text(), re.M):
                    line = line.replace("redis://locks", "memory:")  # only the grammar is tested
                    ended = subprocess.run(["sh", "-c", line], cwd=directory, env=env, text=True,
                                           capture_output=True, stdin=subprocess.DEVNULL,
                                           timeout=30)
                    looks = re.search(r" (status|list|wait|break)\b", line)
                    self.assertIn(ended.returncode, (0, 1) if looks else (0,), (line, ended))
                    examples += 1
        self.assertGreater(examples, 5)


class Library(unittest.TestCase):
    header = (ROOT / "include/holdfast.h").read_text()

    def test_every_function_has_a_page_that_declares_and_explains_it(self):
        exported = (ROOT / "src/exports.txt").read_text().split()
        inline = re.findall(r"^static inline[^(]*?(hf_\w+)\(", self.header, re.M)
        for name in {*exported, *inline} - {"hf_scoped_release"}:
            with self.subTest(name):
                text = plain(f"{name}.3")
                self.assertRegex(text, rf"\b{name}\(")
                self.assertRegex(text, rf"\.SH NAME\n.*\b{name}\b")
                description = re.search(r"^\.SH DESCRIPTION\n(.*?)(?=^\.SH )", text, re.M | re.S)
                self.assertGreater(len(description.group(1)), 20)

    def test_the_overview_leads_everywhere(self):
        overview = plain("holdfast.3")
        for path in (PAGES / "man").glob("hf_*.3"):
            if not path.is_symlink():
                self.assertIn(f".BR {path.stem} (3)", overview)
        for result in re.findall(r"^    X\((HF_\w+),", self.header, re.M):
            self.assertIn(f"\\fB{result}\\fR", overview)

    def test_every_page_is_about_something_that_exists(self):
        for path in (PAGES / "man").glob("hf_*.3"):
            self.assertRegex(self.header, rf"\b{path.stem}\b")

    def test_links_lead_to_pages(self):
        for path in (PAGES / "man").iterdir():
            self.assertTrue(path.exists(), path)


if __name__ == "__main__":
    unittest.main()
