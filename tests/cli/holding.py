# SPDX-License-Identifier: Apache-2.0
"""cli-holding: --min-hold, --max-hold, and what a loss does to the command."""
import json
import signal

import kit
from kit import now, on, until

TRAP = 'trap "echo %s; exit 9" %s; echo in; while :; do sleep 0.01; done'


@on("file", "redis")
class AtLeast(kit.Case):
    def test_the_lock_stays_held_after_the_command_has_ended(self):
        done = self.dir / "done"
        job = self.start("run", "--min-hold", "300", self.name, "--", "touch", done)
        until(done.exists, "the command to run")
        until(lambda: not [p for p in job.family() if "touch" in p.command()], "its end")
        self.assertBusy()
        self.assertFalse(job.ended())
        job.signal(signal.SIGTERM)
        self.assertCode(0, job.wait())
        self.assertFree()

    def test_min_hold_keeps_the_exit_code_of_the_command(self):
        result = self.hf("run", "--min-hold=300ms", self.name, "sh", "-c", "exit 7")
        self.assertCode(7, result)
        self.assertGreaterEqual(result.seconds, 0.3)
        self.assertEqual("", result.err)

    def test_a_longer_command_is_not_delayed(self):
        result = self.hf("run", "--min-hold", "1ms", self.name, "sleep", "0.1")
        self.assertCode(0, result)

    def test_a_command_that_cannot_be_run_does_not_keep_the_lock(self):
        result = self.hf("run", "--min-hold", "300", self.name, "/no/such/thing")
        self.assertCode(69, result)

    def test_a_loss_after_the_command_is_reported_and_changes_nothing(self):
        job = self.start("run", "--verbose", "--min-hold", "300", "--lease", "6s", self.name,
                         "true")
        until(lambda: "--min-hold" in job.err, "the command's end")
        self.assertCode(0, self.hf("break", "--yes", self.name))
        result = job.wait()
        self.assertCode(0, result)
        self.assertRegex(result.err, "lost after the command had ended")


@on("file", "redis")
class AtMost(kit.Case):
    def test_the_command_gets_a_signal_and_the_lock_is_free(self):
        result = self.hf("run", "--max-hold", "4", "--grace", "2s", self.name, "--", "bash", "-c",
                         TRAP % ("caught", "TERM"))
        self.assertCode(75, result)
        self.assertEqual("in\ncaught\n", result.out)
        self.assertIn("--max-hold", result.err)
        self.assertLess(result.seconds, kit.PATIENCE)
        self.assertFree()

    def test_without_a_command(self):
        result = self.hf("run", "--max-hold", "100ms", self.name)
        self.assertCode(75, result)
        self.assertSays(result, "lost", lines=2)
        # The command counts from before the acquire, the store from the grant: a little later.
        self.assertCode(0, self.hf("run", "-w", str(kit.PATIENCE), self.name, "true"))

    def test_a_command_that_ends_in_time_notices_nothing(self):
        self.assertCode(3, self.hf("run", "--max-hold", "5m", self.name, "sh", "-c", "exit 3"))


@on("redis")
class AtMostOfRedis(kit.Case):
    def test_a_command_that_ignores_the_signal_is_killed_in_time(self):
        beat = self.dir / "beat"
        begin = now()
        result = self.hf("run", "--max-hold", "3", "--grace", "500ms", self.name, "--",
                         *self.child("beat", beat))
        self.assertCode(75, result)
        self.assertGone(kit.beaters(beat), "ran on after --max-hold", 0)
        self.assertGreater(max(line[3] for line in kit.beats(beat)), begin + 1)

    def test_the_wait_does_not_count(self):
        holder = self.holder()
        waiter = self.start("run", "--max-hold", "2", self.name, "--", "echo", "mine")
        until(lambda: json.loads(self.hf("status", "--json", self.name).out)["waiting"],
              "the waiter")
        begin = now()
        until(lambda: now() > begin + 2.2, "more than --max-hold")
        holder.signal(signal.SIGTERM)
        result = waiter.wait()
        self.assertCode(0, result)
        self.assertEqual("mine\n", result.out)
        holder.wait()


class Losing(kit.Case):
    def lose(self, *options, script):
        """On Redis a loss is noticed within a third of the lease, so there is time to react."""
        job = self.start("run", "--lease", "6s", "--grace", "3s", *options, self.name, "--", "bash",
                         "-c", script)
        until(lambda: job.out, "the command to run")
        self.assertCode(0, self.hf("break", "--yes", self.name))
        return job.wait()


@on("file", "redis")
class OnLost(Losing):
    def test_B11_the_signal_is_chosen(self):
        """Uses a signal that is not ignored where tests start, as SIGINT is in the background."""
        values = (("ALRM", "ALRM"), ("SIGUSR1", "USR1"), ("12", "USR2"))
        for value, name in values if self.kind == "file" else values[:1]:
            with self.subTest(value):
                result = self.lose(f"--on-lost={value}", script=TRAP % (name, name))
                self.assertCode(75, result)
                self.assertEqual(f"in\n{name}\n", result.out)

    def test_the_command_may_continue_without_the_lock(self):
        go = self.dir / "go"
        job = self.start("run", "--lease", "6s", "--on-lost", "continue", self.name, "--", "sh",
                         "-c",
                         f"echo in; while ! test -e {go}; do sleep 0.01; done; exit 6")
        until(lambda: job.out, "the command to run")
        self.assertCode(0, self.hf("break", "--yes", self.name))
        until(lambda: "continues without" in job.err, "the loss to be reported")
        self.assertFree()
        self.assertFalse(job.ended())
        go.touch()
        result = job.wait()
        self.assertCode(6, result)
        self.assertSays(result, "lost")

    def test_a_command_without_the_lock_ends_with_its_wrapper(self):
        beat = self.dir / "beat"
        job = self.start("run", "--on-lost", "continue", self.name, "--", *self.child("beat", beat))
        until(lambda: len(kit.beaters(beat)) == 2, "child and grandchild")
        job.signal(signal.SIGKILL)
        self.assertGone(kit.beaters(beat), "ran on without the wrapper")

    def test_a_hook_gets_the_reason_and_the_command_ends_as_usual(self):
        said = self.dir / "said"
        result = self.lose("--on-lost",
                           f'echo "$HOLDFAST_EVENT $HOLDFAST_NAME: $HOLDFAST_WHY" >{said}',
                           "--on-lost", "USR1", script=TRAP % ("caught", "USR1"))
        self.assertCode(75, result)
        self.assertEqual("in\ncaught\n", result.out)
        self.assertRegex(said.read_text(), rf"^lost {self.name}: .+\n$")


@on("file")
class OnLostMore(Losing):
    """Cases that do not depend on the store."""

    def test_B11_a_command_that_ignores_the_signal_is_killed(self):
        result = self.lose("--on-lost", "WINCH", "--grace", "100ms", script="echo in; sleep 300")
        self.assertCode(75, result)

    def test_a_hook_without_a_command(self):
        said = self.dir / "said"
        job = self.start("run", "--verbose", "--lease", "6s", "--on-lost", f"touch {said}",
                         self.name)
        until(lambda: "acquired" in job.err, "the lock")
        self.assertCode(0, self.hf("break", "--yes", self.name))
        self.assertCode(75, job.wait())
        self.assertTrue(said.exists())


@on("redis")
class OnLostOfAServer(kit.Case):
    def test_the_command_continues_while_the_server_is_away(self):
        self.own_redis()
        job = self.start("run", "--lease", "500ms", "--on-lost", "continue", self.name, "--", "sh",
                         "-c", "echo in; read x; exit 5", stdin=kit.subprocess.PIPE)
        until(lambda: job.out, "the command to run")
        self.redis.stop()
        until(lambda: "continues without" in job.err, "the loss to be reported")
        job.popen.stdin.close()
        self.assertCode(5, job.wait())


@on("file")
class Mistakes(kit.Case):
    def test_invalid_options_are_refused(self):
        for words in (["--min-hold", "x"], ["--max-hold", "1ms"], ["--max-hold", "never"],
                      ["--min-hold", "9", "--max-hold", "8"], ["--on-lost", "SIGNONE"],
                      ["--on-lost", "99"], ["--on-lost", ""], ["-n", "-w", "5"],
                      ["--min-hold", "999999999999h"], ["--label", "x" * 129], ["--json", "x"],
                      ["--json", "77"]):
            with self.subTest(words):
                result = self.hf("run", *words, self.name, "echo", "no")
                self.assertCode(64, result)
                self.assertSays(result, "holdfast run --help")
                self.assertEqual("", result.out)

    def test_options_for_a_command_need_a_command(self):
        for words in (["--min-hold", "1"], ["--on-lost", "continue"], ["--on-lost", "INT"]):
            with self.subTest(words):
                self.assertCode(64, self.hf("run", *words, self.name))

    def test_options_after_the_name_are_reported(self):
        result = self.hf("run", self.name, "-w", "5", "true")
        self.assertCode(69, result)
        self.assertSays(result, "before NAME")


if __name__ == "__main__":
    kit.main()
