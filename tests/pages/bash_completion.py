# SPDX-License-Identifier: Apache-2.0
"""Completion in bash: bash_completion.py FILE

The function is called like bash calls it, with the line split where bash splits it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FILE = sys.argv.pop(1)

SCRIPT = r"""
source "$1"
compopt() { echo "compopt $*"; }  # it works only while bash completes
COMP_LINE=$2 COMP_POINT=${#2}
shift 2
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_holdfast
printf '%s\n' "${COMPREPLY[@]}"
"""


def complete(line, **env):
    """The completions at the end of a line."""
    words = [w for w in re.split(r"([:=])|\s+", line) if w] + ([""] if line.endswith(" ") else [])
    ended = subprocess.run(["bash", "--norc", "-c", SCRIPT, "bash", FILE, line, *words],
                           check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                           env={**os.environ, **env})
    assert not ended.stderr, ended.stderr
    return [word for word in ended.stdout.split("\n") if word]


class Bash(unittest.TestCase):
    def test_subcommands(self):
        offered = complete("holdfast ")
        self.assertTrue({"run", "status", "help", "--help", "--version"} <= set(offered), offered)
        self.assertEqual(["status"], complete("holdfast sta"))
        self.assertEqual(["run"], complete("holdfast help ru"))
        self.assertEqual([], complete("holdfast help run "))
        self.assertEqual([], complete("holdfast walk "))

    def test_options(self):
        self.assertTrue({"-n", "--nonblock", "--store",
                         "--lease"} <= set(complete("holdfast run -")))
        self.assertEqual(["--lease"], complete("holdfast run -n --le"))
        self.assertNotIn("--lease", complete("holdfast status -"))
        self.assertEqual([], complete("holdfast run "))  # a name, which cannot be completed
        self.assertEqual([], complete("holdfast run --lease -"))

    def test_stores(self):
        for line in ("holdfast run -S ", "holdfast run -n --store ", "holdfast status --store="):
            offered = complete(line)
            self.assertTrue({"memory:", "file:", "redis://", "rediss://"} <= set(offered), line)
            self.assertIn("compopt -o nospace", offered)
        self.assertIn("memory:", complete("holdfast run -S mem"))
        # After a colon bash wants only the rest.
        self.assertIn("//", complete("holdfast run -S redis:"))
        self.assertIn("//", complete("holdfast run --store=redis:/"))

    def test_a_handle_is_a_file(self):
        for line in ("holdfast release ", "holdfast extend --lease 30m "):
            self.assertIn("/etc/passwd", complete(line + "/etc/pass"), line)
            self.assertEqual([], complete(line + "/etc/passwd /etc/pass"), line)
        self.assertEqual([], complete("holdfast status /etc/pass"))

    def test_locks_in_use(self):
        with tempfile.TemporaryDirectory() as folder:
            answers = pathlib.Path(folder) / "holdfast"
            answers.write_text("#!/bin/sh\n"
                               "printf 'nightly\\theld\\nnight shift\\theld\\n'\n"
                               "printf 'deploy:%s\\theld\\n' \"$3\"\n")
            answers.chmod(0o755)
            env = {"PATH": f"{folder}:{os.environ['PATH']}"}
            self.assertEqual(["nightly", r"night\ shift"], complete("holdfast status nig", **env))
            self.assertEqual(["nightly", r"night\ shift"], complete("holdfast break -y ni", **env))
            self.assertEqual(["there"], complete("holdfast wait -S there deploy:", **env))
            self.assertEqual(["there"], complete("holdfast wait --store=there -w 5 deploy:", **env))
            self.assertEqual([], complete("holdfast status nightly ", **env))
            self.assertEqual([], complete("holdfast run nig", **env))  # may be a new name

    def test_a_command_after_the_name(self):
        for line in ("holdfast run nightly ", "holdfast run -n -w 5 nightly -- ",
                     "holdfast run -S redis://locks nightly "):
            self.assertIn("printf", complete(line + "print"), line)
        self.assertEqual(["compopt -o default"], complete("holdfast run nightly ls -"))
        self.assertNotIn("printf", complete("holdfast run -w print"))
        self.assertEqual([], complete("holdfast status nightly print"))


if __name__ == "__main__":
    unittest.main()
