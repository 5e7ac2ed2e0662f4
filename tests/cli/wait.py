# SPDX-License-Identifier: Apache-2.0
"""cli-wait: waiting until a lock is free, without taking it."""
import signal

import kit
from kit import on


@on("file", "redis")
class Wait(kit.Case):
    def test_a_free_lock_is_not_waited_for(self):
        result = self.hf("wait", self.name)
        self.assertCode(0, result)
        self.assertEqual(("", ""), (result.out, result.err))

    def test_it_waits_for_the_release(self):
        holder = self.holder()
        job = self.start("wait", "--verbose", self.name)
        kit.until(lambda: "is held by" in job.err, "it to inspect the lock")
        self.assertFalse(job.ended())
        holder.signal(signal.SIGTERM)
        self.assertCode(0, job.wait())

    def test_it_acquires_nothing(self):
        self.assertCode(0, self.hf("wait", self.name))
        self.assertCode(1, self.hf("status", self.name))
        self.assertFree()

    def test_in_time_or_not(self):
        self.holder()
        for words in (["-w", "100ms"], ["--wait=0"], ["--timeout", "0.1"]):
            result = self.hf("wait", *words, self.name)
            self.assertCode(1, result)
            self.assertSays(result, "not free in time", f"holdfast status -S \\S+ {self.name}$")
        result = self.hf("wait", "-q", self.name, "-w", "0")
        self.assertCode(1, result)
        self.assertEqual("", result.err)

    def test_the_hint_can_be_typed(self):
        name = "it's a lock; $x"
        self.holder(name)
        result = self.hf("wait", "-w", "0", name)
        command = result.err.strip().split(", run: ")[1].replace("holdfast", kit.HOLDFAST, 1)
        del self.env["HOLDFAST_URL"]
        shown = self.run_bare("sh", "-c", command)
        self.assertCode(0, shown)
        self.assertIn(name, shown.out)

    def test_a_killed_holder_delays_the_wait_by_its_lease_at_most(self):
        holder = self.holder(None, "--lease", "1s")
        guard = holder.guard()
        holder.kill()
        self.assertGone([guard], "the guard")
        self.assertCode(0, self.hf("wait", self.name))

    def test_a_signal_ends_it(self):
        self.holder()
        job = self.start("wait", "--verbose", self.name)
        kit.until(lambda: "is held by" in job.err, "it to inspect the lock")
        job.signal(signal.SIGTERM)
        self.assertCode(-signal.SIGTERM, job.wait())

    def test_errors(self):
        self.assertCode(64, self.hf("wait"))
        self.assertCode(64, self.hf("wait", "a", "b"))
        self.assertCode(64, self.hf("wait", "-w", "soon", "a"))
        self.assertCode(74, self.hf("wait", "-S", "redis://127.0.0.1:1", "a"))


@on("redis")
class Outage(kit.Case):
    def test_the_wait_survives_an_outage(self):
        self.own_redis()
        self.holder()
        job = self.start("wait", "--verbose", self.name)
        kit.until(lambda: "is held by" in job.err, "it to inspect the lock")
        self.redis.stop()
        self.redis.start()  # it has lost all data
        self.assertCode(0, job.wait())


if __name__ == "__main__":
    kit.main()
