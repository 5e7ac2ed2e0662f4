# SPDX-License-Identifier: Apache-2.0
"""Completion in fish and zsh: shells.py COMPLETIONS

fish prints its completions. zsh gets its input in a terminal.
"""
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

DIRECTORY = pathlib.Path(sys.argv.pop(1)).resolve()
PATIENCE = 30

# A fake `holdfast list`, which also notes the store that it was given.
STUBS = tempfile.TemporaryDirectory()
STUB = pathlib.Path(STUBS.name) / "holdfast"
STUB.write_text("#!/bin/sh\nprintf 'nightly\\theld\\ndeploy:%s\\theld\\n' \"$3\"\n")
STUB.chmod(0o755)
PATH = f"{STUBS.name}:{os.environ['PATH']}"


class Fish(unittest.TestCase):
    def complete(self, line):
        with tempfile.TemporaryDirectory() as home:
            ended = subprocess.run(
                ["fish", "--no-config", "-c",
                 f"source {DIRECTORY}/holdfast.fish; complete -C '{line}'"],
                check=True, capture_output=True, text=True, timeout=PATIENCE,
                env={"PATH": PATH, "HOME": home, "XDG_CONFIG_HOME": home})
        self.assertEqual("", ended.stderr)
        return {offer.split("\t")[0] for offer in ended.stdout.splitlines()}

    def test_subcommands(self):
        self.assertTrue({"run", "status", "help"} <= self.complete("holdfast "))
        self.assertEqual({"run", "status"} & self.complete("holdfast help "), {"run", "status"})

    def test_options(self):
        self.assertTrue({"--lease", "--nonblock"} <= self.complete("holdfast run --"))
        self.assertNotIn("--lease", self.complete("holdfast status --"))

    def test_stores(self):
        self.assertTrue({"memory:", "redis://"} <= self.complete("holdfast run -S "))

    def test_a_command_after_the_name(self):
        self.assertIn("printf", self.complete("holdfast run nightly print"))
        self.assertNotIn("printf", self.complete("holdfast run print"))
        self.assertIn("printf", self.complete("holdfast run -n -w 5 nightly print"))

    def test_a_handle_is_a_file(self):
        self.assertIn(str(STUB), self.complete(f"holdfast release {STUBS.name}/ho"))
        self.assertNotIn(str(STUB), self.complete(f"holdfast status {STUBS.name}/ho"))

    def test_locks_in_use(self):
        self.assertEqual({"nightly"}, self.complete("holdfast status ni"))
        self.assertEqual({"deploy:there"}, self.complete("holdfast break -S there d"))
        self.assertEqual(set(), self.complete("holdfast status nightly ni"))


class Zsh(unittest.TestCase):
    """Each line is typed, completed, and run by a command that prints its arguments."""

    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"],
                       {"PATH": PATH, "HOME": self.home.name, "TERM": "dumb", "PS1": ""})
        self.addCleanup(self.end)
        self.text = ""
        self.say(f"fpath=({DIRECTORY} $fpath); autoload -U compinit; compinit -u -D; unsetopt beep")
        self.say("setopt no_list_ambiguous no_auto_menu; "
                 "holdfast() { print -r -- \"<<${(j:|:)@}>>\"; }")
        self.say("print rea''dy")
        self.wait_for("ready")

    def end(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)

    def say(self, line, end="\n"):
        os.write(self.terminal, (line + end).encode())

    def wait_for(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text):
            ready, _, _ = select.select([self.terminal], [], [],
                                        max(0, deadline - time.monotonic()))
            if not ready:
                self.fail(f"zsh did not show {pattern!r} but {self.text!r}")
            self.text += os.read(self.terminal, 65536).decode(errors="replace")
        found = re.search(pattern, self.text)
        self.text = self.text[found.end():]
        return found

    def completed(self, line):
        """The words of a line after a tab at its end."""
        self.say(line, "\t")
        self.say("")
        return self.wait_for(r"<<(.*?)>>").group(1).split("|")

    def test_everything(self):
        self.assertEqual(["status"], self.completed("holdfast stat"))
        self.assertEqual(["help", "run"], self.completed("holdfast help ru"))
        self.assertEqual(["run", "-n", "--lease"], self.completed("holdfast run -n --le"))
        self.assertEqual(["status", "--verbose"], self.completed("holdfast status --v"))
        self.assertEqual(["run", "-S", "memory:"], self.completed("holdfast run -S mem"))
        self.assertEqual(["release", str(STUB)],
                         self.completed(f"holdfast release {STUBS.name}/ho"))
        self.assertEqual(["status", "nightly"], self.completed("holdfast status ni"))
        self.assertEqual(["break", "-S", "there", "deploy:there"],
                         self.completed("holdfast break -S there d"))
        self.assertEqual(["run", "nightly", "zcompile"],
                         self.completed("holdfast run nightly zcomp"))
        self.assertEqual(["run", "-n", "-w", "5", "nightly", "zcompile"],
                         self.completed("holdfast run -n -w 5 nightly zcomp"))


if __name__ == "__main__":
    unittest.main()
