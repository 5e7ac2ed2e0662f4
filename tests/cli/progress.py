# SPDX-License-Identifier: Apache-2.0
"""cli-progress: the line that a terminal shows during a wait, and only a terminal."""
import json
import re
import signal
import socket
import time

import kit
from kit import on, until
from terminal import Terminal

HOST = re.escape(socket.gethostname())


class Waits(kit.Case):
    def await_waiters(self, count):
        until(lambda: json.loads(self.hf("status", "--json", self.name).out)["waiting"] == count,
              f"{count} in the queue")


@on("file", "redis")
class Progress(Waits):
    def test_the_line_names_the_holder_and_ends_with_the_wait(self):
        holder = self.holder("x", "--label", "nightly")
        t = Terminal(self)
        t.type("$H run x echo mine")
        t.see(rf"^waiting for \d+ s; held by pid {holder.pid} on {HOST} \(nightly\); "
              "first in the queue$")
        first = t.see(r"^waiting for (\d+) s;").group(1)
        t.see(rf"^waiting for (?!{first} )\d+ s;")
        self.assertEqual(1, t.screen().count("waiting"))
        holder.signal(signal.SIGTERM)
        self.assertEqual(0, t.prompt())
        self.assertNotIn("waiting", t.screen())
        self.assertRegex(t.screen(), r"(?m)^mine$")

    def test_the_line_counts_the_waiters_ahead(self):
        self.holder()
        self.waiters(3)
        t = Terminal(self)
        t.type(f"$H run {self.name} true")
        t.see(r"^waiting .*; 3 ahead in the queue$")
        self.jobs[1].signal(signal.SIGTERM)
        t.see(r"^waiting .*; 2 ahead in the queue$")
        t.key("C-c")
        self.assertEqual(130, t.prompt())
        self.assertNotIn("waiting", t.screen())


@on("file")
class OnATerminal(Waits):
    def test_the_end_of_a_wait_does_not_erase_its_message(self):
        self.holder()
        t = Terminal(self)
        self.assertEqual(1, t.run(f"$H run -w 1.5 {self.name} true"))
        self.assertRegex(t.screen().replace("\n", ""), r"true *holdfast: .*was not free in time")

    def test_it_fits_into_a_narrow_terminal(self):
        self.holder(None, "--label", "a long label " * 6)
        t = Terminal(self, columns=40)
        t.type(f"$H run {self.name} true")
        t.see(r"^waiting for [1-9]\d* s;")
        lines = [line for line in t.screen().splitlines() if line.startswith("waiting")]
        self.assertEqual(1, len(lines), t.screen())
        self.assertLess(len(lines[0]), 40)
        t.key("C-c")
        self.assertEqual(130, t.prompt())

    def test_with_several_names_the_line_is_about_the_held_one(self):
        holder = self.holder("b")
        t = Terminal(self)
        t.type("$H run --also b --also c a true")
        t.see(rf"^waiting for .* held by pid {holder.pid} on {HOST} \(sh\)")
        t.key("C-c")
        t.prompt()

    def test_not_in_the_background(self):
        holder = self.holder()
        t = Terminal(self)
        t.type(f"$H run {self.name} true &")
        t.prompt()
        self.await_waiters(1)
        time.sleep(1.5)  # wait long enough for a line to appear
        self.assertNotIn("waiting", t.screen())
        holder.signal(signal.SIGTERM)
        t.type("wait")
        t.prompt()

    def test_text_of_others_is_escaped_on_the_terminal(self):
        self.holder(None, "--label", b"x\x1b[7my\nz\xc2\x9b7m\x9b\xe2\x80\xae")
        code, text = self.in_terminal(80, "run", "-w", "3", self.name, "true")
        self.assertEqual(1, code)
        self.assertIn("waiting", text)
        self.assertNotIn("\x1b[7m", text)
        self.assertNotIn("\nz", text)
        self.assertNotRegex(text, "[\x80-\x9f\u202e\udc9b]")


@on("file")
class Silence(Waits):
    def test_nothing_where_there_is_no_terminal(self):
        holder = self.holder()
        job = self.start("run", self.name, "true")
        self.await_waiters(1)
        time.sleep(1.2)  # longer than the line takes to appear on a terminal
        holder.signal(signal.SIGTERM)
        result = job.wait()
        self.assertCode(0, result)
        self.assertEqual(("", ""), (result.out, result.err))

    def test_nothing_with_quiet(self):
        self.holder()
        self.assertEqual((1, ""), self.in_terminal(40, "run", "-q", "-w", "1.2", self.name, "true"))

    def test_a_dumb_terminal_gets_no_control_sequences(self):
        self.holder()
        code, text = self.in_terminal(40, "run", "-w", "1.2", self.name, "true", TERM="dumb")
        self.assertEqual(1, code)
        self.assertTrue(text.startswith("holdfast: "), text)
        self.assertNotIn("\x1b", text)

    def test_no_colours_with_or_without_NO_COLOR(self):
        self.holder()
        for env in ({}, {"NO_COLOR": "1"}):
            _, text = self.in_terminal(40, "run", "-w", "3", self.name, "true", **env)
            self.assertIn("waiting ", text)
            self.assertNotRegex(text, r"\x1b\[[0-9;]*m")

    def test_a_wait_that_ends_at_once_shows_nothing(self):
        self.assertEqual((0, ""), self.in_terminal(40, "run", self.name, "true"))

    def test_verbose_names_the_holder_once(self):
        holder = self.holder(None, "--label", "nightly")
        result = self.hf("run", "--verbose", "-w", "500ms", self.name, "true")
        self.assertCode(1, result)
        lines = [line for line in result.err.splitlines() if "waiting for" in line]
        self.assertEqual(1, len(lines), result)
        self.assertRegex(lines[0],
                         rf"{self.name}, held for .* by holdfast, pid {holder.pid} .*\(nightly\)")


if __name__ == "__main__":
    kit.main()
