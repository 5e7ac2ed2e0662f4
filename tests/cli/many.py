# SPDX-License-Identifier: Apache-2.0
"""cli-many: several names with --also: all locks or none."""
import signal

import kit
from kit import on, until


def also(*names):
    return [word for name in names for word in ("--also", name)]


@on("file", "redis")
class Many(kit.Case):
    def test_B19_all_are_held_while_the_command_runs(self):
        job = self.start("run", *also("b", "c d"), self.name, "--", "sh", "-c", "echo in; sleep 60")
        until(lambda: job.out, "the command to run")
        for name in (self.name, "b", "c d"):
            self.assertBusy(name)
        job.signal(signal.SIGTERM)
        job.wait()
        for name in (self.name, "b", "c d"):
            self.assertFree(name)

    def test_B19_none_is_kept_when_one_is_held(self):
        self.holder("b")
        for words, code in ((["-n"], 1), (["-w", "0.05"], 1), (["-n", "-E", "9"], 9)):
            with self.subTest(words):
                result = self.hf("run", *words, *also("b", "c"), self.name, "echo", "no")
                self.assertCode(code, result)
                self.assertSays(result, "2 more", "status")
                self.assertEqual("", result.out)
                self.assertFree()
                self.assertFree("c")

    def test_B19_it_waits_for_all_and_is_served(self):
        holder = self.holder("b")
        waiter = self.start("run", *also("b"), self.name, "--", "echo", "mine")
        self.assertFalse(waiter.ended())
        holder.signal(signal.SIGTERM)
        result = waiter.wait()
        self.assertCode(0, result)
        self.assertEqual("mine\n", result.out)
        holder.wait()

    def test_B19_opposite_orders_do_not_deadlock(self):
        script = 'for i in 1 2 3 4 5 6 7 8 9 10; do "$0" run --also "$2" "$1" true || exit 9; done'
        jobs = [self.popen(script, *names) for names in (("a", "b"), ("b", "a")) * 2]
        for job in jobs:
            self.assertCode(0, job.wait())

    def popen(self, script, *names):
        return self.start("-c", script, kit.HOLDFAST, *names, holdfast="/bin/sh")

    def test_the_signal_that_ends_the_wait_leaves_nothing_held(self):
        self.holder("b")
        waiter = self.start("run", *also("b"), "a", "--", "echo", "no")
        until(lambda: self.hf("run", "-n", "a", "true").code == 1, "the first to be held")
        waiter.signal(signal.SIGTERM)
        result = waiter.wait()
        self.assertEqual("", result.out)
        self.assertFree("a")

    # -- The environment of the command

    def variables(self, *words):
        result = self.hf("run", *words, self.name, "env", "-0")
        self.assertCode(0, result)
        lines = result.out.split("\0")[:-1]
        return dict(line.split("=", 1) for line in lines if line.startswith("HOLDFAST_"))

    def test_names_and_tokens_are_numbered(self):
        seen = self.variables(*also("b = 1\n2", "a", "b = 1\n2"))
        self.assertEqual(self.name, seen["HOLDFAST_NAME"])
        self.assertEqual("b = 1\n2", seen["HOLDFAST_NAME_2"])
        self.assertEqual("a", seen["HOLDFAST_NAME_3"])
        self.assertEqual(seen["HOLDFAST_FENCE_2"], seen["HOLDFAST_FENCE_4"])  # the same name twice
        self.assertNotIn("HOLDFAST_FENCE_1", seen)
        self.assertNotIn("HOLDFAST_FENCE_5", seen)
        again = self.variables(*also("a"))
        self.assertGreater(int(again["HOLDFAST_FENCE"]), int(seen["HOLDFAST_FENCE"]))
        self.assertGreater(int(again["HOLDFAST_FENCE_2"]), int(seen["HOLDFAST_FENCE_3"]))

    def test_variables_of_an_outer_wrapper_are_not_taken_for_its_own(self):
        self.env.update({"HOLDFAST_NAME_2": "outer", "HOLDFAST_FENCE_2": "7",
                         "HOLDFAST_NAME_3": "outer", "HOLDFAST_FENCE_3": "7"})
        self.assertLessEqual({"HOLDFAST_NAME", "HOLDFAST_FENCE", "HOLDFAST_STORE"},
                             set(self.variables()))
        self.assertNotIn("HOLDFAST_FENCE_2", self.variables())
        self.assertNotIn("HOLDFAST_NAME_3", self.variables(*also("b")))

    def test_verbose_names_all_and_their_tokens(self):
        result = self.hf("run", "--verbose", *also("b", "c"), self.name, "true")
        self.assertCode(0, result)
        self.assertEqual(3, result.err.count(", token "), result)

    # -- Arguments

    def test_the_maximum_number_of_names(self):
        names = [f"n{i}" for i in range(63)]
        self.assertCode(0, self.hf("run", *also(*names), self.name, "true"))
        result = self.hf("run", *also(*names, "n"), self.name, "echo", "no")
        self.assertCode(64, result)
        self.assertSays(result, "64")
        self.assertEqual("", result.out)

    def test_invalid_names_are_refused(self):
        self.assertCode(64, self.hf("run", "--also", self.name))
        self.assertCode(64, self.hf("run", "--also"))
        for name in ("", "x" * 2000):
            with self.subTest(name[:9]):
                result = self.hf("run", *also(name), self.name, "echo", "no")
                self.assertCode(64, result)
                self.assertSays(result)
        self.assertFree()

    def test_the_help_names_the_option(self):
        self.assertIn("--also", self.hf("run", "--help").out)


@on("redis")
class ManyKinds(kit.Case):
    def test_B19_the_kind_applies_to_all_names(self):
        reader = self.start("run", "-s", *also("b"), self.name, "--", "sh", "-c",
                            "echo in; sleep 60")
        until(lambda: reader.out, "the reader to run")
        self.assertCode(0, self.hf("run", "-n", "-s", *also("b"), self.name, "true"))
        self.assertCode(1, self.hf("run", "-n", *also("b"), self.name, "true"))
        self.assertCode(1, self.hf("run", "-n", "-x", "b", "true"))
        reader.signal(signal.SIGTERM)
        reader.wait()
        self.assertCode(0, self.hf("run", "-n", "--permits", "1/2", *also("b"), self.name, "true"))

    def test_B19_the_loss_of_one_is_the_loss_of_all(self):
        job = self.start("run", "--lease", "1s", *also("b"), self.name, "--", "sh", "-c",
                         "echo in; exec sleep 60")
        until(lambda: job.out, "the command to run")
        self.redis.command("DEL", self.redis.key("b"))
        result = job.wait()
        self.assertCode(75, result)
        self.assertSays(result, "lost")


if __name__ == "__main__":
    kit.main()
