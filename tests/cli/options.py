# SPDX-License-Identifier: Apache-2.0
"""cli-options: every option of the command, and wrong options."""
import os
import re
import signal
import subprocess

import kit
from kit import on, until

RUN_OPTIONS = ["-S", "--store", "-n", "--nonblock", "-w", "--wait", "-E", "--conflict-exit-code",
               "-x", "--exclusive", "--also", "-c", "--command", "--lease", "--grace", "--min-hold",
               "--max-hold", "--on-lost", "--on-wait", "--on-acquire", "--label", "--json",
               "--metrics",
               "-q", "--quiet", "--verbose", "--help"]


@on("file", "redis")
class Options(kit.Case):
    def test_B01_the_command_runs_and_its_lock_is_free_afterwards(self):
        result = self.hf("run", self.name, "echo", "one", "two")
        self.assertCode(0, result)
        self.assertEqual(("one two\n", ""), (result.out, result.err))
        self.assertFree()

    def test_B01_names_are_independent(self):
        self.holder()
        self.assertFree("another")

    def test_B09_names_are_case_sensitive(self):
        self.holder("Name")
        self.assertFree("name")
        self.assertBusy("Name")

    def test_words_after_the_name_belong_to_the_command(self):
        for words in (["echo", "-n", "--", "-c", "x"], ["--", "echo", "-n", "--", "-c", "x"]):
            with self.subTest(words):
                result = self.hf("run", self.name, *words)
                self.assertCode(0, result)
                self.assertEqual("-- -c x", result.out)

    def test_an_option_after_the_name_is_taken_as_the_command(self):
        self.assertCode(69, self.hf("run", self.name, "-n", "true"))
        self.assertCode(69, self.hf("run", self.name, "--", "-c", "true"))
        self.assertCode(69, self.hf("run", self.name, "--", "--", "true"))

    def test_options_may_end_before_the_name(self):
        self.assertCode(5, self.hf("run", "-n", "--", self.name, "sh", "-c", "exit 5"))

    # -- -c

    def test_c_is_a_command_of_the_shell(self):
        for words in ([self.name, "-c", "echo a; exit 9"], ["-c", "echo a; exit 9", self.name],
                      ["--command=echo a; exit 9", self.name]):
            with self.subTest(words):
                result = self.hf("run", *words)
                self.assertCode(9, result)
                self.assertEqual("a\n", result.out)

    def test_c_uses_SHELL_and_sh_without_it(self):
        self.env["SHELL"] = self.script("shell", '#!/bin/sh\nprintf "%s." mine "$@"\n')
        result = self.hf("run", self.name, "-c", "a  b")
        self.assertEqual("mine.-c.a  b.", result.out, result)
        del self.env["SHELL"]
        self.assertEqual("/bin/sh\n", self.hf("run", self.name, "-c", "echo $0").out)

    def test_c_replaces_the_command(self):
        self.assertCode(64, self.hf("run", self.name, "-c"))
        self.assertCode(64, self.hf("run", self.name, "-c", "true", "more"))
        self.assertCode(64, self.hf("run", "-c", "true", self.name, "true"))

    # -- Waiting

    def test_B04_nonblock_does_not_wait(self):
        self.holder()
        for words in (["-n"], ["--nonblock"], ["-w0"], ["-w", "0"], ["--wait=0"],
                      ["--timeout", "0"],
                      ["--timeout=0ms"]):
            with self.subTest(words):
                result = self.hf("run", *words, self.name, "echo", "no")
                self.assertCode(1, result)
                self.assertSays(result)
                self.assertEqual("", result.out)
                self.assertLess(result.seconds, 5)

    def test_B06_a_wait_ends_when_its_time_is_up(self):
        self.holder()
        for words in (["-w", "0.3"], ["-w.3"], ["--wait=300ms"], ["--timeout", "300ms"],
                      ["-qw", "0.3"]):
            with self.subTest(words):
                result = self.hf("run", *words, self.name, "echo", "no")
                self.assertCode(1, result)
                self.assertEqual("", result.out)
                self.assertGreaterEqual(result.seconds, 0.3)
                self.assertLess(result.seconds, 5)

    def test_units_of_time(self):
        for words in (["-w", "60"], ["-w", "60s"], ["-w", "60000ms"], ["-w", "1m"], ["-w", "1h"],
                      ["-w", "60.001"], ["-w", "62.5"], ["--lease", "60"], ["--lease", "1m"],
                      ["--lease", "59.5"], ["--lease=2h", "--grace=1m"]):
            with self.subTest(words):
                self.assertCode(0, self.hf("run", *words, self.name, "true"))

    def test_B06_a_wait_that_is_served_in_time_is_a_hold(self):
        for words in ([], ["-w", "1m"]):
            with self.subTest(words):
                holder = self.holder()
                waiter = self.start("run", *words, self.name, "--", "echo", "mine")
                self.assertFalse(waiter.ended())
                holder.signal(signal.SIGTERM)
                result = waiter.wait()
                self.assertCode(0, result)
                self.assertEqual("mine\n", result.out)
                holder.wait()

    def test_the_default_is_to_wait_forever(self):
        holder = self.holder()
        waiter = self.start("run", self.name, "true")
        with self.assertRaises(subprocess.TimeoutExpired):
            waiter.popen.wait(1.5)  # time that must pass, not an event
        holder.signal(signal.SIGTERM)
        self.assertCode(0, waiter.wait())

    def test_invalid_times_are_refused(self):
        for option in ("-w", "--lease", "--grace"):
            for word in ("", "x", "1x", "-1", "-0.5", "1 s", "5d", "s", "ms", ".", "1..2", "1,5",
                         "nan", "inf", "0x10", "1e9999", "99999999999999999999",
                         "9223372036854775807", "9223372036854775808h", "5124095576030432h",
                         "99999999999999999999999999999999999999999999ms"):
                with self.subTest(option=option, word=word):
                    result = self.hf("run", option, word, self.name, "echo", "no")
                    self.assertCode(64, result)
                    self.assertSays(result)
                    self.assertEqual("", result.out)

    # -- Lease and grace

    def test_F49_a_lease_out_of_range_is_refused_with_the_range(self):
        for word in ("0", "0s", "0ms", "0.0", "-1", "-30s", "1ms", "49ms", "0.049", "721h",
                     "2592001", "9223372036854775", "18446744073709551615",
                     "18446744073709551616s"):
            with self.subTest(word):
                result = self.hf("run", f"--lease={word}", self.name, "echo", "no")
                self.assertCode(64, result)
                self.assertSays(result, r"50 ?ms", r"30 ?d|720 ?h")
                self.assertEqual("", result.out)

    def test_F49_the_ends_of_the_range_are_allowed(self):
        self.assertCode(0, self.hf("run", "--lease", "720h", self.name, "true"))
        # A lease this short may be lost on a busy machine.
        result = self.hf("run", "--lease", "50ms", self.name, "true")
        if "four round trips" not in result.err:
            self.assertIn(result.code, (0, 75))

    def test_grace(self):
        for words, code in ((["--grace", "0"], 0), (["--grace=0ms"], 0),
                            (["--lease", "10", "--grace", "5"], 0),
                            (["--grace", "5", "--lease", "10"], 0),
                            (["--lease", "10", "--grace", "5.001"], 64),
                            (["--grace", "5001ms", "--lease", "10"], 64),
                            (["--lease", "1s", "--grace", "1s"], 64)):
            with self.subTest(words):
                result = self.hf("run", *words, self.name, "true")
                self.assertCode(code, result)
                if code:
                    self.assertSays(result, "grace", "lease")

    def test_grace_is_compared_with_the_lease_of_the_URL(self):
        self.env["HOLDFAST_URL"] += "?lease=10s"
        self.assertCode(0, self.hf("run", "--grace", "5", self.name, "true"))
        self.assertCode(64, self.hf("run", "--grace", "6", self.name, "true"))
        self.assertCode(0, self.hf("run", "--grace", "6", "--lease", "1m", self.name, "true"))

    # -- Messages

    def test_E_is_the_code_of_a_conflict(self):
        self.holder()
        for words, code in ((["-nE", "42"], 42), (["-nE42"], 42), (["-n", "-E", "0"], 0),
                            (["-nxqE255"], 255), (["-w0.05", "--conflict-exit-code=7"], 7),
                            (["-n", "--conflict-exit-code", "9"], 9)):
            with self.subTest(words):
                result = self.hf("run", *words, self.name, "echo", "no")
                self.assertCode(code, result)
                self.assertEqual("", result.out)

    def test_E_out_of_range_is_refused(self):
        for word in ("256", "-1", "", "x", "1x", "0x10", "1.5", "4294967296", "4294967297",
                     "18446744073709551616"):
            with self.subTest(word):
                result = self.hf("run", "-E", word, self.name, "echo", "no")
                self.assertCode(64, result)
                self.assertSays(result, "0", "255")
                self.assertEqual("", result.out)

    def test_quiet_prints_nothing(self):
        self.holder()
        for words in (["-qn"], ["--quiet", "--nonblock"]):
            self.assertEqual("", self.hf("run", *words, self.name, "true").err)
        self.assertEqual("", self.hf("run", "-q", "other", "./none").err)

    def test_verbose_names_the_store(self):
        result = self.hf("run", "--verbose", self.name, "true")
        self.assertCode(0, result)
        self.assertIn(self.url, result.err)
        self.assertEqual("", result.out)
        self.assertTrue(all(line.startswith("holdfast: ") for line in result.err.splitlines()))

    def test_without_verbose_nothing_is_printed(self):
        self.assertEqual("", self.hf("run", self.name, "true").err)

    def test_a_conflict_names_the_lock(self):
        self.holder()
        self.assertSays(self.hf("run", "-n", self.name, "true"), self.name)

    # -- Kinds

    def test_exclusive_is_the_default(self):
        self.holder()
        for option in ("-x", "--exclusive"):
            self.assertCode(1, self.hf("run", "-n", option, self.name, "true"))

    def test_shared_locks_share_only_with_each_other(self):
        job = self.start("run", "-s", self.name)
        until(lambda: "shared, by 1" in self.hf("status", self.name).out or job.ended(), "the lock")
        self.assertCode(0, self.hf("run", "-n", "--shared", self.name, "true"))
        self.assertCode(1, self.hf("run", "-n", "-x", self.name, "true"))
        self.assertCode(1, self.hf("run", "-n", "-s", "-x", self.name, "true"))  # the last one wins
        job.signal(signal.SIGTERM)
        self.assertCode(0, job.wait())
        self.assertCode(0, self.hf("run", "-n", "-x", self.name, "true"))

    def test_permits_are_granted_up_to_the_capacity(self):
        job = self.start("run", "--permits", "2/3", self.name)
        until(lambda: "2 of 3 permits in use, by 1" in self.hf("status", self.name).out
              or job.ended(),
              "the permits")
        self.assertCode(0, self.hf("run", "-n", "--permits", "1/3", self.name, "true"))
        self.assertCode(0, self.hf("run", "-n", "--permits", "3", self.name, "true"))
        self.assertCode(1, self.hf("run", "-n", "--permits", "2/3", self.name, "true"))
        self.assertSays(self.hf("run", "-n", "--permits", "4", self.name, "true"), "capacity of 3")
        job.signal(signal.SIGTERM)
        self.assertCode(0, job.wait())

    def test_invalid_permits_are_refused(self):
        for permits in ("0", "0/3", "4/3", "x", "1/", "1/3x", "-1", "1/99999999"):
            with self.subTest(permits):
                result = self.hf("run", "--permits", permits, self.name, "true")
                self.assertCode(64, result)
                self.assertSays(result, "--permits")

    # -- Holding without a command

    def test_without_a_command_it_holds_until_signalled(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                job = self.start("run", self.name)
                until(lambda: job.process.blocks_signals or job.ended(), "it to hold the lock")
                self.assertBusy()
                job.signal(number)
                ended = job.wait()
                self.assertCode(0, ended)
                # A user who forgot the command, or the name before it, gets a message.
                self.assertSays(ended, f"holding {self.name} until SIGINT", "there is no command")
                self.assertFree()

    # -- Names

    def test_F50_a_name_may_have_any_bytes(self):
        names = ["{", "}", "{}", "}{", "{a}", "a{b}c", "%7B", "a\nb", "\n", " ", "*", "'", '"',
                 "a/b",
                 "/", "..", "../x", ".", "\\", "-", "--", "-n", "--help", "é", b"\xff\xfe",
                 "\x1b[31m",
                 "\x01", "\t", "$HOME", "`id`", "x" * 1000, "/" * 1000, "é" * 500, "x" * 1024]
        for name in names:
            with self.subTest(name):
                result = self.hf("run", "--", name, "--", "printenv", "-0", "HOLDFAST_NAME",
                                 text=False)
                self.assertCode(0, result)
                self.assertEqual(os.fsencode(name) + b"\0", result.out)

    def test_F50_each_name_is_a_separate_lock(self):
        """All held at once: two names with one lock would be busy."""
        names = ["{", "}", "{}", "a/b", "a%2Fb", "a", "A", "a\n", "..", "%", "%25", "x" * 1000,
                 "x" * 999 + "y"]
        nest = []
        for name in names:
            nest += [kit.HOLDFAST, "run", "-n", "--", name, "--"]
        result = self.run_bare(*nest, "echo", "inside")
        self.assertCode(0, result)
        self.assertEqual("inside\n", result.out)
        result = self.run_bare(*nest, kit.HOLDFAST, "run", "-n", "a", "true")
        self.assertCode(1, result)

    def test_F50_an_invalid_name_is_refused(self):
        for name in ("", "x" * 1025):
            for words in (["run", name, "true"], ["status", name]):
                result = self.hf(*words)
                self.assertCode(64, result)
                self.assertSays(result, "name")

    def test_F50_a_name_is_escaped_on_the_terminal(self):
        name = "a\nb\x1b[31mc\rd\x07"
        holder = self.holder(name, "--")
        for result in (self.hf("run", "-n", name, "true"),
                       self.hf("run", "-w", "0.05", name, "true"),
                       self.hf("run", "--verbose", "-n", name, "true"), self.hf("status", name)):
            self.assertIn(result.code, (0, 1))
            text = result.out + result.err
            self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]", result)
            self.assertNotIn("a\nb", text)
        holder.kill()


@on(None)
class Usage(kit.Case):
    def setUp(self):
        super().setUp()
        self.env["HOLDFAST_URL"] = "memory:"

    def test_help_goes_to_stdout(self):
        for words in (["--help"], ["help"], ["run", "--help"], ["status", "--help"],
                      ["help", "run"],
                      ["help", "status"]):
            with self.subTest(words):
                result = self.hf(*words)
                self.assertCode(0, result)
                self.assertEqual("", result.err)
                self.assertRegex(result.out, r"(?i)usage")
                self.assertIn("holdfast", result.out)
                self.assertLessEqual(max(map(len, result.out.splitlines())), 80)

    def test_the_general_help_names_the_subcommands(self):
        text = self.hf("--help").out
        for word in ("run", "status", "--help", "--version"):
            self.assertIn(word, text)

    def test_help_of_run_names_every_option_and_exit_code(self):
        text = self.hf("run", "--help").out
        self.assertEqual(text, self.hf("help", "run").out)
        for option in RUN_OPTIONS:
            self.assertRegex(text, rf"(?<![\w-]){re.escape(option)}(?![\w-])")
        for code in (64, 69, 71, 74, 75, 76, 77):
            self.assertRegex(text, rf"\b{code}\b")

    def test_version(self):
        result = self.hf("--version")
        self.assertCode(0, result)
        self.assertRegex(result.out, r"\Aholdfast \d+\.\d+\.\d+\n\Z")

    def test_usage_errors(self):
        for words in ([], ["walk"], ["help", "walk"], ["--walk"], ["run"], ["run", "-n"],
                      ["status"],
                      ["run", "--walk", "x", "true"], ["run", "-Z", "x", "true"], ["run", "-S"],
                      ["run", "-w"], ["run", "-E"], ["run", "--nonblock=yes", "x", "true"],
                      ["run", "--label"], ["status", "a", "b"],
                      ["status", "-w", "1", "a"], ["status", "--walk", "a"], [""]):
            with self.subTest(words):
                result = self.hf(*words)
                self.assertCode(64, result)
                self.assertEqual("", result.out)
                self.assertRegex(result.err, r"\Aholdfast: .")
                self.assertRegex(result.err, "help", "it says where to look")

    def test_a_typo_gets_a_suggestion(self):
        for words, hint in ((["rnu", "x"], r"unknown subcommand rnu \(did you mean run\?\);"),
                            (["sttaus", "x"], r"did you mean status\?\);"),
                            (["help", "brake"], r"did you mean break\?\);"),
                            (["version"], r"did you mean --version\?\);"),
                            (["nightly", "true"], "nightly; to run a command, use holdfast run"),
                            (["walk"], "unknown subcommand walk; to run"),
                            (["run", "--wiat", "3", "x"],
                             r"unknown option --wiat \(did you mean --wait\?\);"),
                            (["run", "--timout=3", "x"], r"--timout \(did you mean --timeout\?\);"),
                            (["run", "--m", "3", "x"],
                             "--m is ambiguous: it can mean --min-hold, --max-hold, --metrics;"),
                            (["doctor", "--jsno"], r"--jsno \(did you mean --json\?\);"),
                            (["bench", "--walk"], "unknown option --walk;"),
                            (["run", "--" + "x" * 500], "unknown option --x+;")):
            with self.subTest(words):
                result = self.hf(*words)
                self.assertCode(64, result)
                self.assertSays(result, hint)

    def test_an_error_about_a_word_is_one_line(self):
        self.assertNotIn("\x1b", self.hf("wa\x1b[31mlk").err)
        self.assertNotIn("\x1b", self.hf("run", "--wa\x1b[31mlk").err)

    def test_memory_is_a_store_too(self):
        result = self.hf("run", "-S", "memory:", "x", "printenv", "HOLDFAST_STORE")
        self.assertCode(0, result)
        self.assertEqual("memory:\n", result.out)

    def test_an_invalid_store_is_refused(self):
        for url in ("", "x", "http://localhost", "redis:/x", "redis://host:99999", "file",
                    "redis://localhost?walk=1", "memory:?lease=0s", "memory:?lease=-1s",
                    "memory:?lease=99999999999999999999s", "redis+cluster://a,,b"):
            with self.subTest(url):
                result = self.hf("run", "-S", url, "x", "echo", "no")
                self.assertCode(64, result)
                self.assertSays(result)
                self.assertEqual("", result.out)


if __name__ == "__main__":
    kit.main()
