# SPDX-License-Identifier: Apache-2.0
"""cli-guard: kill -9 of the wrapper, at any moment, leaves nothing running under its lock.

On the file store the kernel would free the lock when the wrapper dies, so nobody may get it before
the command is gone. On Redis the lease keeps others out, and the command is gone long before the
lease ends.
"""
import json
import os
import signal
import subprocess
import time

import kit
from kit import beaters, beats, now, on, until


class Killing:
    """Checks what must hold after a kill -9 of the wrapper; raises AssertionError."""

    def start_beating(self, holdfast, **options):
        self.beat = self.dir / "beat"
        job = self.start("run", self.name, "--", *self.child("beat", self.beat), holdfast=holdfast,
                         **options)
        until(lambda: len({line[0] for line in beats(self.beat)}) == 2 or job.ended(),
              "child and grandchild to run")
        self.assertFalse(job.ended(), job)
        return job

    def check_killed_wrapper(self, holdfast):
        job = self.start_beating(holdfast)
        job.signal(signal.SIGKILL)
        killed = now()
        job.wait()
        # A lease is 30 s, so a third of it is long before its end.
        self.assertGone(beaters(self.beat), "run on after kill -9 of the wrapper", 10)
        self.assertLess(beats(self.beat)[-1][3], killed + 10)

    def check_next_holder(self, holdfast, **options):
        job = self.start_beating(holdfast, **options)
        next_one = self.start("run", self.name, "--", *self.child("witness", self.beat))
        self.assertFalse(next_one.ended())
        job.signal(signal.SIGKILL)
        job.wait()
        result = next_one.wait()
        self.assertCode(0, result)
        seen = json.loads(result.out)
        self.assertEqual(2, len(seen["known"]))
        self.assertEqual([], seen["alive"],
                         "the next holder found the last one's processes running")

    def kill_strays(self):
        for process in kit.strays():
            process.kill()


@on("file", "redis")
class Guard(Killing, kit.Case):
    def test_F46_child_and_grandchild_die_with_the_wrapper(self):
        self.check_killed_wrapper(None)

    def test_planted_a_child_without_a_guard_is_noticed(self):
        with self.assertRaisesRegex(AssertionError, "run on after kill -9"):
            self.check_killed_wrapper(kit.planted_no_guard(self))
        self.kill_strays()

    def test_kill_at_any_moment_of_the_start(self):
        """At no moment does the child run without a guard."""
        notes = self.dir / "notes"
        for step in range(40):
            # The child notes its start, and would note a second later that it still runs.
            job = self.start("run", "-n", f"{self.name}-{step}", "sh", "-c",
                             'echo $$ >>"$0"; sleep 0.7; echo went on >>"$0"', notes)
            time.sleep(step * 0.0005)  # a moment to hit, not a wait for an event
            job.signal(signal.SIGKILL)
            job.wait()
        until(lambda: not [p for p in kit.strays() if p.runs], "all to be gone", 2)
        self.assertNotIn("went on", notes.read_text() if notes.exists() else "")

    def test_a_stopped_child_dies_too(self):
        job = self.start_beating(None, **kit.AS_A_JOB)
        for process in beaters(self.beat):
            process.kill(signal.SIGSTOP)
        until(lambda: job.process.stopped, "the wrapper to stop")
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertGone(beaters(self.beat), "stopped, and not killed", 2)

    def test_a_wrapper_killed_while_stopped(self):
        job = self.start_beating(None)
        job.signal(signal.SIGSTOP)
        until(lambda: job.process.stopped, "the wrapper to stop")
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertGone(beaters(self.beat), "run on", 2)

    def test_a_grandchild_whose_parent_is_gone_dies_too(self):
        job = self.start("run", self.name, "--", "sh", "-c",
                         '"$@" & sleep 300', "sh", *self.child("beat", self.dir / "beat"))
        until(lambda: len(beaters(self.dir / "beat")) == 2, "both to beat")
        beats_first = beaters(self.dir / "beat")
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertGone(beats_first, "run on", 2)

    # -- The guard

    def with_helper(self, **options):
        gate = self.dir / "gate"
        os.mkfifo(gate)
        job = self.start("run", self.name, "--", "sh", "-c", 'echo in; read x <"$1"; exit 3', "sh",
                         gate, **options)
        until(lambda: job.out, "the child to run")
        until(job.guard, lambda: f"the helper, among {job.family()}")
        return job, job.guard(), gate

    def test_the_helper_keeps_no_stream_of_the_user(self):
        """A reader of the output must not have to wait for the guard."""
        job, guard, gate = self.with_helper(stdin=subprocess.PIPE)
        ours = {os.readlink(f"/proc/{job.pid}/fd/{fd}") for fd in (0, 1, 2)}
        theirs = {fd: os.readlink(f"/proc/{guard.pid}/fd/{fd}")
                  for fd in os.listdir(f"/proc/{guard.pid}/fd")}
        gate.write_text("go\n")
        self.assertCode(3, job.wait())
        job.popen.stdin.close()
        self.assertFalse(ours & set(theirs.values()), theirs)

    def test_the_helper_ignores_signals(self):
        job, guard, gate = self.with_helper()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE,
                       signal.SIGALRM, signal.SIGTSTP, signal.SIGQUIT):
            guard.kill(number)
        self.assertTrue(guard.runs)
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertGone([guard], "the helper is still there", 5)

    def test_killing_the_helper_kills_nothing_else(self):
        job, guard, gate = self.with_helper()
        guard.kill()
        until(lambda: not guard.runs, "the helper to die")
        self.assertBusy()
        gate.write_text("go\n")
        self.assertCode(3, job.wait())
        self.assertFree()

    def test_a_helper_that_is_killed_is_replaced(self):
        """Otherwise a later kill -9 of the wrapper would leave the child running."""
        job = self.start_beating(None)
        first = job.guard()
        first.kill()
        until(lambda: (job.guard() or first).pid != first.pid, "another helper")
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertGone(beaters(self.beat), "run on after kill -9 of the wrapper", 2)

    def test_F46_the_child_dies_also_if_the_helper_is_killed_with_the_wrapper(self):
        job = self.holder()
        guard = job.guard()
        child = [p for p in job.family() if p.pid != guard.pid]
        self.assertEqual(1, len(child))
        job.signal(signal.SIGSTOP)  # it would start another guard
        until(lambda: job.process.stopped, "the wrapper to stop")
        guard.kill()
        until(lambda: not guard.runs, "the helper to die")
        self.assertTrue(child[0].runs)
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertGone(child, "run on after kill -9 of wrapper and helper", 10)

    def test_the_helper_works_with_closed_streams(self):
        """Files that the helper opens then get the numbers 0, 1 and 2. It closes these."""
        def close():
            for fd in (0, 1, 2):
                os.close(fd)
        job = self.start_beating(None, preexec_fn=close)
        end = now() + 0.3
        until(lambda: now() > end or job.ended(), "time to pass")
        self.assertFalse(job.ended(), "the helper killed the child that it guards")
        self.assertBusy()
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertGone(beaters(self.beat), "run on after kill -9 of the wrapper", 2)

    def test_the_helper_starts_before_the_child(self):
        """The guard exists before the child runs."""
        result = self.hf("run", self.name, "sh", "-c",
                         'for p in /proc/[0-9]*; do read -r line <$p/stat 2>/dev/null || continue; '
                         'set -- ${line##*) }; [ "$2" != "$PPID" ] || echo "${p#/proc/} $4"; done')
        self.assertCode(0, result)
        pairs = [line.split() for line in result.out.splitlines()]
        self.assertEqual(1, sum(pid == session for pid, session in pairs), pairs)

    def test_a_child_may_kill_its_own_group(self):
        """A child that kills its own group or session ends as without a wrapper."""
        self.assertCode(128 + 9, self.hf("run", self.name, "sh", "-c", "kill -9 0"))
        self.assertCode(128 + 15, self.hf("run", self.name, "sh", "-c", "kill 0"))
        self.assertFree()


@on("file")
class FileGuard(Killing, kit.Case):
    def test_B14_nobody_enters_before_processes_of_the_dead_wrapper_are_gone(self):
        for _ in range(3):
            self.check_next_holder(None)
            self.beat.unlink()

    def test_B14_nobody_enters_before_they_are_gone_with_closed_streams(self):
        def close():
            for fd in (0, 1, 2):
                os.close(fd)
        self.check_next_holder(None, preexec_fn=close)

    def test_planted_a_lock_freed_before_they_are_gone_is_noticed(self):
        with self.assertRaisesRegex(AssertionError, "found the last one's processes running"):
            self.check_next_holder(kit.planted_no_guard(self))
        self.kill_strays()

    def test_F46_the_lock_is_free_at_once_after_a_kill(self):
        holder = self.holder()
        holder.signal(signal.SIGKILL)
        holder.wait()
        self.assertCode(0, self.hf("run", "-w", "10", self.name, "true"))  # a third of a lease

    def test_a_wrapper_and_its_helper_killed_free_the_lock(self):
        """Nobody is left to end the child's processes, but the lock is free."""
        job = self.start_beating(None)
        guard = job.guard()
        job.signal(signal.SIGSTOP)
        guard.kill()
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertCode(0, self.hf("run", "-w", "5", self.name, "true"))
        self.kill_strays()


@on("redis")
class RedisGuard(Killing, kit.Case):
    def test_F46_the_lock_is_free_after_the_lease_and_not_before(self):
        holder = self.holder(None, "--lease", "2s")
        expires_at = self.redis.expires_at(self.name)
        holder.signal(signal.SIGKILL)
        holder.wait()
        result = self.start("run", self.name, "--", "true").wait()
        self.assertCode(0, result)
        self.assertGreaterEqual(now(), expires_at - 0.005)


if __name__ == "__main__":
    kit.main()
