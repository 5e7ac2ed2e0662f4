# SPDX-License-Identifier: Apache-2.0
"""cli-bench: it measures, prints results and leaves nothing behind. Speed is not checked."""
import json
import re
import signal

import kit
from kit import on, until
from terminal import Terminal

PARTS = ["uncontended", "parallel", "contended"]
SHORT = ("--seconds", "100ms")


class Bench(kit.Case):
    def parts(self, *args):
        result = self.hf("bench", "--json", *args)
        self.assertCode(0, result)
        self.assertEqual("", result.err)
        report = json.loads(result.out)
        self.assertEqual(PARTS, [part["name"] for part in report["parts"]])
        return report


@on("file", "redis")
class OfAnyStore(Bench):
    def test_numbers_for_programs(self):
        report = self.parts(*SHORT)
        self.assertEqual(4, report["threads"])
        self.assertEqual(self.url, report["store"])
        for part in report["parts"]:
            spans = part["handover_us" if part["name"] == "contended" else "pair_us"]
            self.assertGreater(part["acquired"], 0)
            self.assertGreater(spans["count"], 0)
            self.assertLessEqual(spans["p50"], spans["p90"])
            self.assertLessEqual(spans["p90"], spans["p99"])
            self.assertLessEqual(spans["p99"], spans["max"])
            self.assertGreaterEqual(part["commands_per_acquisition"], 1)
            self.assertEqual(self.kind == "redis", "server_us_per_acquisition" in part)

    def test_a_table_for_people(self):
        result = self.hf("bench", *SHORT, "--threads", "2")
        self.assertCode(0, result)
        self.assertEqual("", result.err)
        self.assertNotRegex(result.out, r"[\x1b\r]")
        self.assertIn(f"The store is {self.url}\n2 threads, 100 ms per part\n", result.out)
        for part in PARTS:
            self.assertRegex(result.out, rf"(?m)^{part} +\d+( +[\d.e+]+ (us|ms|s)){{4}} +[\d.]+ +")

    def test_quiet(self):
        result = self.hf("bench", "-q", *SHORT)
        self.assertCode(0, result)
        self.assertEqual(("", ""), (result.out, result.err))

    def test_locks_of_others_are_left_alone(self):
        self.holder()
        self.parts(*SHORT)
        self.assertBusy()

    def test_without_standard_streams(self):
        result = self.run_bare("sh", "-c", '"$0" bench --json --seconds 50ms <&- 2>&-',
                               kit.HOLDFAST)
        self.assertEqual(3, len(json.loads(result.out)["parts"]))
        result = self.run_bare("sh", "-c", '"$0" bench --json --seconds 50ms >/dev/full',
                               kit.HOLDFAST)
        self.assertCode(71, result)

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            job = self.start("bench", "--seconds", "1h")
            until(lambda: "per sec" in job.out or self.busy_with(job), "it to begin")
            job.signal(number)
            self.assertEqual(-number, job.wait().code)
        if self.redis:
            self.redis.until_left(pattern="hf:*")

    def busy_with(self, job):
        """It has used some CPU time, so it is past its start."""
        with open(f"/proc/{job.pid}/stat", encoding="ascii") as file:
            return int(file.read().rsplit(")", 1)[1].split()[11]) > 5


@on(None)
class OfRedis(Bench):
    def test_nothing_is_left_behind(self):
        self.own_redis()
        self.parts(*SHORT)
        self.redis.until_left()
        self.parts(*SHORT, "-S", self.url + "?prefix=mine")
        self.redis.until_left()

    def test_a_user_without_the_right_to_info(self):
        self.own_redis()
        self.redis.command("ACL", "SETUSER", "default", "-info")
        for part in self.parts(*SHORT)["parts"]:
            self.assertNotIn("server_us_per_acquisition", part)
        self.assertRegex(self.hf("bench", *SHORT).out, r"(?m)^parallel .* -$")

    def test_a_server_that_is_not_there(self):
        result = self.hf("bench", "-S", f"redis://127.0.0.1:{kit.free_port()}")
        self.assertCode(74, result)

    def test_a_server_that_goes_away(self):
        self.own_redis()
        job = self.start("bench", "--json", "--seconds", "1h", "-S",
                         self.url + "?outage=200ms&command_timeout=500ms")
        calls = lambda: re.search(rb"cmdstat_evalsha:calls=(\d+)",
                                  self.redis.command("INFO", "commandstats"))
        until(lambda: (calls() or [0, 0])[1] and int(calls()[1]) > 100, "it to be at work")
        self.redis.stop()
        result = job.wait()
        self.assertIn(result.code, (74, 75, 76))
        self.assertRegex(result.err, "^holdfast: uncontended: ")
        self.assertEqual("", result.out)

    def test_usage(self):
        for args in (["x"], ["--unknown"], ["-S"], ["--seconds", "1ms"], ["--seconds", "2h"],
                     ["--seconds", "x"], ["--threads", "1"], ["--threads", "257"],
                     ["--threads", "x"]):
            result = self.hf("bench", *args)
            self.assertCode(64, result)
            self.assertIn("holdfast bench --help", result.err)
        self.assertIn("Usage: holdfast bench", self.hf("bench", "--help").out)


@on(None)
class InATerminal(Bench):
    def test_progress_comes_and_goes(self):
        self.own_redis()
        terminal = Terminal(self, columns=100)
        terminal.type("$H bench --seconds 1")
        terminal.see(r"^uncontended: \d of 1 s, \d+ per second$")
        terminal.prompt()
        self.assertNotRegex(terminal.screen(), "of 1 s")
        self.assertRegex(terminal.screen(), r"(?m)^contended +\d+ ")

    def test_forty_columns(self):
        self.own_redis()
        terminal = Terminal(self, columns=40, rows=100)
        self.assertEqual(0, terminal.run("$H bench --seconds 50ms"))
        self.assertRegex(terminal.screen(), r"(?m)^parallel\n  per sec     \d+\n  median      ")


if __name__ == "__main__":
    kit.main()
