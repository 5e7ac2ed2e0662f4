# SPDX-License-Identifier: Apache-2.0
"""cli-signals: signals to the wrapper reach the command; a waiting wrapper dies of them."""
import resource
import signal
import time

import kit
from kit import now, on, until

FORWARDED = [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGALRM, signal.SIGTERM]


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@on("file", "redis")
class Signals(kit.Case):
    def notes(self):
        """What child.py noted: (who, pid, what)."""
        path = self.dir / "notes"
        if not path.exists():
            return []
        lines = [line.split() for line in path.read_text().splitlines()]
        return [(who, int(pid), what) for who, pid, _, what, _ in lines]

    def test_signals_reach_the_whole_group_and_the_wrapper_still_waits(self):
        names = [number.name for number in FORWARDED]
        child = self.child("note_signals", self.dir / "notes", *names)
        job = self.start("run", self.name, "--", *child)
        until(lambda: len(self.notes()) == 2, "both to be ready")
        for number in FORWARDED:
            with self.subTest(number.name):
                job.signal(number)
                until(lambda n=number.name: {who for who, _, what in self.notes() if what == n}
                      == {"child", "grandchild"}, f"{number.name} to reach both")
                if number != signal.SIGTERM:
                    self.assertFalse(job.ended())
        result = job.wait()
        self.assertCode(7, result)
        self.assertEqual("", result.err)
        # Each signal reached each process once.
        self.assertEqual(2 * len(FORWARDED) + 2, len(self.notes()))

    def test_the_exit_code_shows_the_signal_that_killed_the_child(self):
        for number in FORWARDED:
            with self.subTest(number.name):
                job = self.start("run", self.name, "sh", "-c", "echo in; exec sleep 300",
                                 preexec_fn=no_core)
                until(lambda: job.out, "the child to run")
                job.signal(number)
                self.assertCode(128 + number, job.wait())
                self.assertFree()

    def test_the_wrapper_waits_for_a_child_that_ignores_the_signal(self):
        job = self.start("run", self.name, "sh", "-c",
                         "trap '' TERM INT; echo in; "
                         "while [ ! -e gate ]; do sleep 0.02; done; exit 6",
                         cwd=self.dir)
        until(lambda: job.out, "the child to run")
        for _ in range(20):
            job.signal(signal.SIGTERM)
            job.signal(signal.SIGINT)
        self.assertBusy()
        (self.dir / "gate").touch()
        self.assertCode(6, job.wait())

    def test_a_storm_of_signals_harms_nobody(self):
        job = self.start("run", self.name, "sh", "-c",
                         "trap : USR1; echo in; while [ ! -e gate ]; do sleep 0.02; done; exit 6",
                         cwd=self.dir)
        until(lambda: job.out, "the child to run")
        for _ in range(2000):
            job.signal(signal.SIGUSR1)
        (self.dir / "gate").touch()
        self.assertCode(6, job.wait())

    def test_B07_a_waiter_dies_of_the_signal(self):
        holder = self.holder()
        for number in FORWARDED:
            with self.subTest(number.name):
                waiter = self.start("run", self.name, "echo", "no", preexec_fn=no_core)
                self.until_it_waits(waiter)
                waiter.signal(number)
                result = waiter.wait(10)
                self.assertCode(-number, result)
                self.assertEqual("", result.out)
        holder.signal(signal.SIGTERM)
        holder.wait()
        self.assertFree()

    def until_it_waits(self, job):
        """Waits until it sleeps with its handlers installed, so that signals are caught."""
        wanted = 1 << (signal.SIGTERM - 1)

        def caught():
            with open(f"/proc/{job.pid}/status", encoding="ascii") as file:
                line = next((x for x in file if x.startswith("SigCgt:")), "SigCgt: 0")
            return int(line.split()[1], 16) & wanted and job.process.state == "S"
        until(caught, "the waiter to wait")

    def test_B20_the_queue_continues_without_dead_waiters(self):
        holder = self.holder()
        waiters = [self.start("run", self.name, "echo", "mine") for _ in range(4)]
        for waiter in waiters:
            self.until_it_waits(waiter)
        for waiter, number in zip(waiters[:3], (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)):
            waiter.signal(number)
            self.assertCode(-number, waiter.wait())
        holder.signal(signal.SIGTERM)
        result = waiters[3].wait(15)
        self.assertCode(0, result)
        self.assertEqual("mine\n", result.out)

    def test_signals_ignored_from_the_start_stay_ignored(self):
        """nohup: a SIGHUP ends neither the wait nor the command."""
        def nohup():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        holder = self.holder()
        job = self.start("run", self.name, "sh", "-c",
                         "echo in; while [ ! -e gate ]; do sleep 0.02; done; exit 6",
                         cwd=self.dir, preexec_fn=nohup)
        self.until_it_waits(job)
        job.signal(signal.SIGHUP)
        holder.signal(signal.SIGTERM)
        until(lambda: job.out or job.ended(), "the child to run")
        self.assertFalse(job.ended(), job)
        job.signal(signal.SIGHUP)
        (self.dir / "gate").touch()
        self.assertCode(6, job.wait())

    def test_a_signal_at_any_moment_of_the_start(self):
        """The wrapper or the child died of it; nothing is left running or held."""
        codes = []
        for step in range(30):
            job = self.start("run", self.name, "sleep", "300")
            time.sleep(step * 0.0005)  # the moment to hit, not something that must have happened
            job.signal(signal.SIGTERM)
            result = job.wait()
            self.assertIn(result.code, (-signal.SIGTERM, 128 + signal.SIGTERM), result)
            codes.append(result.code)
            self.assertEqual([], [p for p in kit.strays() if p.runs])
        self.assertFree()

    def test_a_child_that_stops_stops_the_wrapper_and_continues_with_it(self):
        job = self.start("run", self.name, "sh", "-c", "echo in; kill -STOP $$; echo on; exit 8",
                         **kit.AS_A_JOB)
        until(lambda: job.process.stopped, "the wrapper to stop")
        self.assertEqual("in\n", job.out)
        child = [p for p in job.family() if p.stopped]
        self.assertEqual(1, len(child))
        if self.kind == "file":
            self.assertBusy()
        job.signal(signal.SIGCONT)
        result = job.wait()
        self.assertCode(8, result)
        self.assertEqual("in\non\n", result.out)

    def test_a_child_may_stop_again_and_again(self):
        job = self.start("run", self.name, "sh", "-c",
                         "for i in 1 2 3 4 5; do echo $i; kill -STOP $$; done; exit 8",
                         **kit.AS_A_JOB)
        for i in range(1, 6):
            until(lambda i=i: job.out.endswith(f"{i}\n") and job.process.stopped, f"stop {i}")
            job.signal(signal.SIGCONT)
        self.assertCode(8, job.wait())

    def test_a_stopped_wrapper_continues_where_it_was(self):
        """SIGSTOP and SIGCONT from outside; on the file store the stop may last any time."""
        job = self.start("run", self.name, "sh", "-c",
                         "echo in; while [ ! -e gate ]; do sleep 0.02; done; exit 6", cwd=self.dir)
        until(lambda: job.out, "the child to run")
        job.signal(signal.SIGSTOP)
        until(lambda: job.process.stopped, "the wrapper to stop")
        child = next(p for p in job.family() if p.command().startswith("sh -c"))
        (self.dir / "gate").touch()
        until(lambda: child.state == "Z", "the child to end")
        job.signal(signal.SIGCONT)
        self.assertCode(6, job.wait())

    def test_a_child_is_stopped_without_a_shell(self):
        """A child that is stopped alone is continued alone; the wrapper keeps the lock."""
        job = self.start("run", "--lease", "1500ms", self.name, "sh", "-c",
                         "echo in; while [ ! -e gate ]; do sleep 0.02; done; exit 6", cwd=self.dir)
        until(lambda: job.out, "the child to run")
        child = next(p for p in job.family() if p.command().startswith("sh -c"))
        child.kill(signal.SIGSTOP)
        end = now() + 2
        until(lambda: now() > end, "a lease to pass")
        self.assertTrue(child.stopped)
        self.assertFalse(job.process.stopped)
        self.assertBusy()
        (self.dir / "gate").touch()
        child.kill(signal.SIGCONT)
        self.assertCode(6, job.wait())

    def test_SIGTSTP_without_a_shell_stops_nothing_forever(self):
        """Without a wrapper the kernel ignores SIGTSTP in such a process group."""
        result = self.hf("run", self.name, "sh", "-c", "kill -TSTP $$; exit 8", seconds=10)
        self.assertCode(8, result)

    def test_a_child_that_is_killed_while_stopped(self):
        job = self.start("run", self.name, "sh", "-c", "kill -STOP $$; sleep 300", **kit.AS_A_JOB)
        until(lambda: job.process.stopped, "the wrapper to stop")
        child = next(p for p in job.family() if p.stopped)
        child.kill()
        job.signal(signal.SIGCONT)
        self.assertCode(128 + signal.SIGKILL, job.wait())

    def test_SIGTERM_to_a_stopped_job_ends_it(self):
        """`kill %1` of a stopped job: bash sends SIGTERM, then SIGCONT."""
        job = self.start("run", self.name, "sh", "-c", "kill -STOP $$; exec sleep 300",
                         **kit.AS_A_JOB)
        until(lambda: job.process.stopped, "the wrapper to stop")
        job.signal(signal.SIGTERM)
        job.signal(signal.SIGCONT)
        self.assertCode(128 + signal.SIGTERM, job.wait())

    def test_SIGTERM_comes_before_the_child_continues(self):
        """Otherwise a child that stops again at once, like a terminal reader, never ends."""
        for _ in range(10):
            job = self.start("run", self.name, "sh", "-c", "while :; do kill -STOP $$; done",
                             **kit.AS_A_JOB)
            until(lambda: job.process.stopped, "the wrapper to stop")
            job.signal(signal.SIGTERM)
            job.signal(signal.SIGCONT)
            self.assertCode(128 + signal.SIGTERM, job.wait(5))


if __name__ == "__main__":
    kit.main()
