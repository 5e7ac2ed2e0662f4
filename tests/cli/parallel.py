# SPDX-License-Identifier: Apache-2.0
"""cli-parallel: 1,000 commands on one name start at once, and no two hold the lock together.

A gatekeeper holds the lock until all are started, so that all of them contend. A machine that
cannot run so many (by `ulimit -u` and free memory) gets as many as it can run; the test prints the
number and fails below 200. Each command appends a line with its token when it begins, and another
when it ends.
All lines go to one file, so their order is the order of events.
"""
import resource
import signal
import subprocess

import kit
from kit import now, on, until

ALL = 1000
PROCESSES_EACH, MEGABYTES_EACH = 4, 8  # wrapper and its thread, guard, child; rounded up

# `env true` takes a millisecond: long enough to overlap with a wrong holder.
INSIDE = ('echo "begin $$ $HOLDFAST_FENCE" >>"$0"; env true; '
          'echo "end $$ $HOLDFAST_FENCE" >>"$0"')


def possible_count():
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) for line in file
                    if line.startswith("MemAvailable")) // 1024
    by_processes = ALL if soft == resource.RLIM_INFINITY else soft // (2 * PROCESSES_EACH)
    return min(ALL, by_processes, free // (2 * MEGABYTES_EACH))


def overlaps(lines):
    """Pairs of holders that overlapped, and holders that never ended."""
    inside, wrong = None, []
    for line in lines:
        what, who, _ = line.split()
        if what == "begin" and inside is not None:
            wrong.append(f"{who} began inside {inside}")
        if what == "end" and inside != who:
            wrong.append(f"{who} ended, inside was {inside}")
        inside = who if what == "begin" else None
    return wrong


def disorder(lines):
    """Tokens that did not grow."""
    tokens = [int(line.split()[2]) for line in lines if line.startswith("begin")]
    return [pair for pair in zip(tokens, tokens[1:]) if pair[1] <= pair[0]]


@on("file", "redis")
class Parallel(kit.Case):
    def contend(self, count, holdfast=None):
        """Starts all commands, then opens the gate. Returns the lines they wrote."""
        notes = self.dir / "notes"
        notes.touch()
        gate = self.holder()
        errors = open(self.dir / "errors", "ab")
        self.addCleanup(errors.close)
        crowd = [subprocess.Popen(
            [holdfast or kit.HOLDFAST, "run", self.name, "--", "sh", "-c", INSIDE, str(notes)],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            start_new_session=True) for _ in range(count)]
        kit.KNOWN.update(one.pid for one in crowd)
        self.addCleanup(self.end, crowd)
        started = now()
        gate.signal(signal.SIGTERM)
        gate.wait()
        until(lambda: all([one.poll() is not None for one in crowd]),
              lambda: f"all to end: {sum(one.poll() is None for one in crowd)} left", 240, 0.05)
        print(f"{count} at once, {now() - started:.1f} s ", end="", flush=True)
        text = (self.dir / "errors").read_text()
        self.assertEqual({0}, {one.returncode for one in crowd}, text[:2000])
        self.assertEqual("", text)
        return notes.read_text().splitlines()

    def end(self, crowd):
        for one in crowd:
            if one.poll() is None:
                one.kill()
            one.wait()
            kit.KNOWN.discard(one.pid)

    def check(self, lines, count):
        self.assertEqual(2 * count, len(lines))
        self.assertEqual([], overlaps(lines), "two were inside")
        self.assertEqual([], disorder(lines), "tokens did not grow")

    def test_B08_B13_B28_a_thousand_commands_exclude_each_other(self):
        count = possible_count()
        self.assertGreaterEqual(count, 200, "too small a machine for this test")
        self.check(self.contend(count), count)
        self.assertFree()

    def test_planted_commands_without_a_lock_are_noticed(self):
        with self.assertRaisesRegex(AssertionError, "two were inside"):
            self.check(self.contend(200, kit.planted_no_lock(self)), 200)


@on("file")
class Order(kit.Case):
    """First come, first served. A position in the queue is a kernel lock, which shows the order."""

    def locked_ranges(self):
        """The number of ranges locked in the file: one for the holder and for each waiter."""
        inodes = {str(path.stat().st_ino) for path in (self.shared / "locks").glob("lock.*")
                  if self.name in path.name}
        with open("/proc/locks", encoding="ascii") as file:
            return sum(line.split()[5].split(":")[2] in inodes for line in file if "->" not in line)

    def enqueue(self, count):
        """A holder, and its waiters, one after the other."""
        notes = self.dir / "notes"
        gate = self.holder()
        jobs = []
        for i in range(count):
            before = self.locked_ranges()
            jobs.append(self.start("run", self.name, "--", "sh", "-c", f'echo {i} >>"$0"', notes))
            until(lambda b=before: self.locked_ranges() > b, f"waiter {i} to be queued")
        return gate, jobs, notes

    def test_B08_in_order_of_arrival(self):
        gate, jobs, notes = self.enqueue(20)
        gate.signal(signal.SIGTERM)
        for job in jobs:
            self.assertCode(0, job.wait())
        self.assertEqual(list(map(str, range(20))), notes.read_text().split())

    def test_B08_B14_killed_waiters_do_not_change_the_order(self):
        gate, jobs, notes = self.enqueue(9)
        for job in jobs[::3]:
            job.signal(signal.SIGKILL)
            job.wait()
        gate.signal(signal.SIGKILL)
        for job in jobs:
            job.wait()
        self.assertEqual([str(i) for i in range(9) if i % 3], notes.read_text().split())


if __name__ == "__main__":
    kit.main()
