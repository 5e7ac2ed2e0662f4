# SPDX-License-Identifier: Apache-2.0
"""cli-loss: a lock that is lost ends its command, before anyone else can get the lock.

The children ignore SIGTERM and write the time (CLOCK_BOOTTIME) to a file every few milliseconds.
Their last line is compared with the moment at which the server drops the lock.
"""
import signal
import time

import kit
from kit import beaters, beats, now, on, until

LEASE = 2.0
STILL = 0.1  # a process without a beat for so long had no CPU


class Losing:
    def start_beating(self, *options, holdfast=None, what="beat"):
        self.beat = self.dir / "beat"
        job = self.start("run", *options, self.name, "--", *self.child(what, self.beat),
                         holdfast=holdfast)
        until(lambda: len(beaters(self.beat)) == 2 or job.ended(), "child and grandchild to run")
        self.assertFalse(job.ended(), job)
        return job

    def times(self, what):
        return [at for _, _, kind, at in beats(self.beat) if kind == what]

    def assertOverBefore(self, end, job):
        """No beat came after `end`, although there was time for one."""
        until(lambda: now() > end + STILL, "the lease to be over")
        # a killed process may die slowly: check its beats
        self.assertGone(beaters(self.beat), "ran on after the lease's end", 2)
        times = sorted(self.times("beat"))
        stood_still = [(a, b) for a, b in zip(times, times[1:]) if a < end <= b and b - a > STILL]
        # the machine was stalled, and so was the process that ends the group: not a fault
        if stood_still:
            end = stood_still[0][1] + STILL
        self.assertLess(times[-1], end, "ran on after the lease's end")

    def check_stopped_server(self, holdfast, *options):
        """The server stops answering. Returns when it drops the lock, and the result."""
        job = self.start_beating("--lease", f"{LEASE}", *options, holdfast=holdfast)
        end = self.redis.freeze_after_a_renewal(self.name, LEASE)
        self.addCleanup(self.redis.thaw)
        self.assertOverBefore(end, job)
        return end, job.wait()

    def check_stopped_wrapper(self, holdfast, *options):
        """Stops only the wrapper, for longer than the lease."""
        job = self.start_beating("--lease", f"{LEASE}", *options, holdfast=holdfast)
        job.signal(signal.SIGSTOP)
        until(lambda: job.process.stopped, "the wrapper to stop", every=0.0005)
        end = self.end_of_lease()
        self.assertOverBefore(end, job)
        job.signal(signal.SIGCONT)
        return job.wait()

    def end_of_lease(self):
        """On the file store the holder counts its lease itself: at most one lease from now."""
        return self.redis.expires_at(self.name) if self.redis else now() + LEASE

    def planted(self):
        self.addCleanup(lambda: [process.kill() for process in kit.strays()])
        return kit.planted_no_guard(self)


@on("redis")
class Loss(Losing, kit.Case):
    def setUp(self):
        super().setUp()
        self.own_redis()
        # At its end the command tries a release, and a stopped server delays that.
        self.env["HOLDFAST_URL"] += "?command_timeout=300ms"

    # -- A server that does not answer

    def test_B11_a_stopped_server_ends_the_group_before_the_lease_does(self):
        end, result = self.check_stopped_server(None)
        self.assertCode(75, result)
        self.assertSays(result, "lost", lines=2)  # "about to be lost", and "lost"
        # Both get SIGTERM first, once, and have a third of the lease to react.
        terms = self.times("term")
        self.assertEqual(2, len(terms))
        self.assertLess(max(terms), end - LEASE / 6)
        self.assertGreater(min(terms), end - LEASE * 2 / 3)
        # The kill does not come before the grace period has passed.
        self.assertGreater(max(self.times("beat")), max(terms) + LEASE / 6)

    def test_planted_a_child_that_runs_on_is_noticed(self):
        with self.assertRaisesRegex(AssertionError, "ran on after the lease's end"):
            self.check_stopped_server(self.planted())

    def test_without_grace_there_is_no_SIGTERM(self):
        end, result = self.check_stopped_server(None, "--grace", "0")
        self.assertCode(75, result)
        self.assertEqual([], self.times("term"))
        # Killed at the end of the lease, not at the first renewal that fails. On a busy machine the
        # client's own deadline is well before `end`: it counts from when the renewal was sent.
        self.assertGreater(max(self.times("beat")), end - LEASE / 2)

    def test_quiet_prints_nothing(self):
        self.assertEqual("", self.check_stopped_server(None, "-q")[1].err)

    def test_B11_a_server_that_is_gone(self):
        job = self.start_beating("--lease", f"{LEASE}")
        end = self.redis.freeze_after_a_renewal(self.name, LEASE)
        self.redis.stop()
        self.assertOverBefore(end, job)
        self.assertCode(75, job.wait())

    def test_a_child_that_obeys_ends_at_once(self):
        job = self.start_beating("--lease", f"{LEASE}", what="polite")
        end = self.redis.freeze_after_a_renewal(self.name, LEASE)
        result = job.wait()
        self.assertCode(75, result)
        self.assertLess(now(), end, "it waited for a group that had already ended")
        self.redis.thaw()

    def test_F14_a_short_silence_is_no_loss(self):
        """One renewal fails, the next one succeeds: the command notices nothing."""
        job = self.start_beating("--lease", "3s", "--grace", "100ms")
        self.redis.freeze_after_a_renewal(self.name, 3)
        time.sleep(1.5)  # the outage itself
        self.redis.thaw()
        before = self.redis.expires_at(self.name)
        until(lambda: self.redis.changed(self.name, before or 0), "the next renewal")
        self.assertEqual([], self.times("term"))
        self.assertTrue(all(p.runs for p in beaters(self.beat)))
        job.signal(signal.SIGKILL)
        job.wait()

    def test_F22_a_restart_without_data(self):
        """The loss is noticed on reconnect: the group ends after the grace period, not a lease."""
        job = self.start_beating("--lease", "30s", "--grace", "300ms")
        self.redis.stop()
        self.redis.start()
        result = job.wait()
        self.assertCode(75, result)
        self.assertSays(result, "lost")
        self.assertGone(beaters(self.beat), "ran on after the loss", 0)

    def test_the_group_ends_where_nobody_reaps_orphans(self):
        """As in a container: the dead grandchild stays in the group as a zombie."""
        job = self.start_beating("--lease", "1s", "--grace", "0")
        self.redis.command("DEL", self.redis.key(self.name))
        self.assertCode(75, job.wait(reap=False))

    # -- A sudden loss

    def check_sudden(self, take_away, *options):
        job = self.start_beating("--lease", "3s", "--grace", "500ms", *options)
        take_away()
        taken = now()
        result = job.wait()
        self.assertCode(75, result)
        self.assertGone(beaters(self.beat), "ran on after the loss", 0)
        self.assertEqual(2, len(self.times("term")))
        grace = max(self.times("beat")) - min(self.times("term"))
        self.assertGreater(grace, 0.25)
        self.assertLess(grace, 1.5)  # and not the rest of the lease
        return result, taken

    def test_F25_a_flush(self):
        result, _ = self.check_sudden(lambda: self.redis.command("FLUSHALL"))
        self.assertSays(result, "lost")

    def test_F25_a_key_deleted_by_hand(self):
        self.check_sudden(lambda: self.redis.command("DEL", self.redis.key(self.name)))

    def test_F25_the_next_holder_is_not_affected(self):
        """The old holder neither renews nor releases the lock of the new one."""
        job = self.start_beating("--lease", "1s", "--grace", "0")
        self.redis.command("DEL", self.redis.key(self.name))
        other = self.holder()
        self.assertCode(75, job.wait())
        self.assertBusy()
        other.signal(signal.SIGTERM)
        other.wait()

    # -- A stopped wrapper

    def test_F03_planted_a_child_of_a_stopped_wrapper_is_noticed(self):
        with self.assertRaisesRegex(AssertionError, "ran on after the lease's end"):
            self.check_stopped_wrapper(self.planted())

    def test_F03_nobody_enters_beside_the_child_of_a_stopped_wrapper(self):
        job = self.start_beating("--lease", f"{LEASE}")
        other = self.start("run", self.name, "--", *self.child("witness", self.beat))
        job.signal(signal.SIGSTOP)
        result = other.wait()
        self.assertCode(0, result)
        self.assertIn('"alive": []', result.out)
        job.signal(signal.SIGCONT)
        self.assertCode(75, job.wait())

    # -- Without a command

    def test_a_hold_without_a_command_ends_with_its_loss(self):
        job = self.start("run", "--lease", "1s", self.name)
        until(lambda: self.redis.held(self.name), "the lock to be held")
        self.redis.command("DEL", self.redis.key(self.name))
        result = job.wait()
        self.assertCode(75, result)
        self.assertSays(result, "lost", lines=2)

    def test_B15_renewal_keeps_a_lock_for_many_leases(self):
        job = self.start_beating("--lease", "1500ms")
        end = now() + 5
        until(lambda: now() > end or job.ended(), "three leases to pass")
        self.assertFalse(job.ended(), job)
        self.assertTrue(self.redis.held(self.name))
        self.assertEqual([], self.times("term"))


@on("file", "redis")
class StoppedWrapper(Losing, kit.Case):
    def test_F03_the_group_is_gone_before_the_end_of_the_lease(self):
        result = self.check_stopped_wrapper(None)
        self.assertCode(75, result)
        self.assertSays(result, "lost")

    def test_F03_the_group_is_gone_in_time_without_grace(self):
        self.assertCode(75, self.check_stopped_wrapper(None, "--grace", "0"))

    def test_F03_a_stopped_job_that_was_lost_does_not_run_on(self):
        """Ctrl-Z, a long pause, fg: the child is not continued."""
        job = self.start("run", "--lease", f"{LEASE}", self.name, "sh", "-c",
                         "echo in; kill -STOP $$; echo ran on; sleep 300", **kit.AS_A_JOB)
        until(lambda: job.process.stopped, "the wrapper to stop")
        end = self.end_of_lease()
        until(lambda: now() > end + 0.1, "the lease to be over")
        job.signal(signal.SIGCONT)
        result = job.wait()
        self.assertCode(75, result)
        self.assertEqual("in\n", result.out)
        self.assertSays(result, "lost")


@on("file")
class NoLease(Losing, kit.Case):
    def test_a_stopped_job_keeps_a_lock_of_the_file_store(self):
        """Without --lease the kernel keeps the lock while the process exists."""
        job = self.start_beating()
        job.signal(signal.SIGSTOP)
        until(lambda: job.process.stopped, "the wrapper to stop")
        end = now() + 2
        until(lambda: now() > end, "time to pass")
        self.assertTrue(all(p.runs for p in beaters(self.beat)))
        self.assertBusy()
        job.signal(signal.SIGCONT)
        self.assertFalse(job.ended())

    def test_the_lease_of_the_URL_wins(self):
        self.env["HOLDFAST_URL"] += f"?lease={int(LEASE * 1000)}ms"
        job = self.start_beating()
        job.signal(signal.SIGSTOP)
        until(lambda: job.process.stopped, "the wrapper to stop")
        self.assertOverBefore(now() + LEASE, job)
        job.signal(signal.SIGCONT)
        self.assertCode(75, job.wait())


if __name__ == "__main__":
    kit.main()
