# SPDX-License-Identifier: Apache-2.0
"""README.md and README.zh-CN.md show the same code, and their shell commands work.

    readme_commands.py HOLDFAST
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
HOLDFAST = os.path.abspath(sys.argv.pop(1))
LINES_MOST = 150
PATIENCE = 60


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


class Readme(unittest.TestCase):
    def test_both_languages_show_the_same_code(self):
        for language in ("sh", "c"):
            self.assertTrue(blocks(PAGES[0], language))
            self.assertEqual(blocks(PAGES[0], language), blocks(PAGES[1], language))

    def test_both_languages_have_the_same_links_and_tables(self):
        def skeleton(page):
            text = page.read_text(encoding="utf-8")
            return (sorted(set(re.findall(r"\]\(((?!README)[^)]+)\)", text))),
                    [line.count("|") for line in text.splitlines() if line.startswith("|")])
        self.assertEqual(skeleton(PAGES[0]), skeleton(PAGES[1]))

    def test_they_are_short(self):
        for page in PAGES:
            self.assertLessEqual(len(page.read_text(encoding="utf-8").splitlines()), LINES_MOST)

    def test_every_command_runs(self):
        """Uses a directory instead of a server, and commands that do nothing."""
        with tempfile.TemporaryDirectory() as scratch:
            for name in ("report.sh", "call.sh", "transfer.sh", "pg_dump"):
                path = Path(scratch) / name
                path.write_text("#!/bin/sh\n", encoding="ascii")
                path.chmod(0o755)
            os.symlink(HOLDFAST, Path(scratch) / "holdfast")
            env = {**os.environ, "PATH": f"{scratch}:{os.environ['PATH']}",
                   "HOLDFAST_URL": f"file://{scratch}/locks"}
            shown = [line for line in "".join(blocks(PAGES[0], "sh")).splitlines()
                     if line.startswith("holdfast ") and not line.startswith("holdfast top")]
            self.assertGreaterEqual(len(shown), 8)
            for line in shown:
                ended = subprocess.run(shlex.split(line, comments=True), cwd=scratch, env=env,
                                       capture_output=True, text=True, timeout=PATIENCE)
                wanted = 1 if line.startswith("holdfast status") else 0  # 1: the lock is free
                self.assertEqual(wanted, ended.returncode, f"{line}: {ended.stderr}")


if __name__ == "__main__":
    unittest.main()
