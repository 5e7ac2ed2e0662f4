# SPDX-License-Identifier: Apache-2.0
"""Tests of the module: test_holdfast.py [arguments of unittest] [URL]; the default is memory:."""
import asyncio
import concurrent.futures
import gc
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import threading
import time
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
sys.path.insert(0, str(PACKAGE))

import holdfast  # noqa: E402
from holdfast import Kind, _client, _hold, _library  # noqa: E402
from holdfast.errors import error_of  # noqa: E402

URL = "memory:"
PATIENCE = 20


def until(ready, what):
    """Wait for an event; the deadline only says when to give up."""
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise AssertionError(f"timed out waiting for {what}")
        time.sleep(0.001)


class Worker(threading.Thread):
    """A thread whose result or exception is returned by join()."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.value, self.failure = work, None, None
        self.start()

    def run(self):
        try:
            self.value = self.work()
        except BaseException as failure:  # to be raised by join()
            self.failure = failure

    def join(self, timeout=PATIENCE):
        super().join(timeout)
        if self.is_alive():
            raise AssertionError("a thread does not end")
        if self.failure:
            raise self.failure
        return self.value


class Case(unittest.TestCase):
    def setUp(self):
        self.client = holdfast.Client(URL)
        self.addCleanup(self.client.close)
        self.name = "python:" + self.id()

    def is_free(self, name=None):
        hold = self.client.try_acquire(name or self.name, owner=77)
        if hold:
            hold.release()
        return hold is not None

    def wait_for_a_wait(self, number=1):
        until(lambda: self.client.stats().waiting == number, "a wait")


class Holding(Case):
    def test_a_block_holds_and_releases(self):
        with self.client.acquire(self.name) as hold:
            self.assertTrue(hold.held)
            self.assertGreater(hold.fence, 0)
            self.assertTrue(0 < hold.remaining <= 30)
            self.assertIsNone(hold.why_lost)
            self.assertEqual(self.name, hold.name)
            self.assertIn("held", repr(hold))
            hold.check()
            self.assertFalse(self.is_free())
        self.assertTrue(self.is_free())
        self.assertFalse(hold.held)
        self.assertEqual(0, hold.remaining)
        self.assertGreater(hold.fence, 0)
        with self.assertRaises(holdfast.NotHeldError):
            hold.check()

    def test_an_exception_releases_and_is_passed_on(self):
        with self.assertRaises(ZeroDivisionError):
            with self.client.acquire(self.name):
                1 / 0
        self.assertTrue(self.is_free())

    def test_a_second_release_raises(self):
        hold = self.client.acquire(self.name)
        hold.release()
        with self.assertRaises(holdfast.NotHeldError):
            hold.release()
        with self.client.acquire(self.name) as hold:
            hold.release()  # the end of the block accepts that
        for call in (lambda: hold.extend(1), hold.downgrade):
            with self.assertRaises(holdfast.NotHeldError):
                call()

    def test_a_hold_without_references_is_released(self):
        self.client.acquire(self.name)
        gc.collect()
        until(self.is_free, "the release")

    def test_an_owner_may_reenter_a_lock(self):
        me = holdfast.Owner()
        with self.client.acquire(self.name, owner=me) as first, \
                self.client.acquire(self.name, owner=me) as second:
            self.assertEqual(first.fence, second.fence)
            again = Worker(lambda: self.client.try_acquire(self.name, owner=me)).join()
            self.assertEqual(first.fence, again.fence)
            again.release()
            self.assertIsNone(self.client.try_acquire(self.name))
            self.assertIsNone(self.client.try_acquire(self.name, owner=holdfast.Owner()))
            with self.assertRaises(holdfast.DeadlockError):
                self.client.acquire(self.name, owner=me, reentrant=False)
        self.assertTrue(self.is_free())

    def test_a_thread_does_not_reenter_a_lock(self):
        with self.client.acquire(self.name):
            self.assertIsNone(self.client.try_acquire(self.name))
            with self.assertRaises(holdfast.WaitTimeoutError):
                self.client.acquire(self.name, timeout=0.1)  # in the main thread
            with self.assertRaises(holdfast.BusyError):
                self.client.acquire(self.name, timeout=0)
        self.assertTrue(self.is_free())

    def test_a_wait_of_the_main_thread_has_its_owner_too(self):
        me = holdfast.Owner()
        hold = self.client.acquire(self.name, owner=5)
        Worker(lambda: (self.wait_for_a_wait(), hold.release()))
        with self.client.acquire(self.name, owner=me) as mine:  # through _wait
            with self.client.acquire(self.name, timeout=0, owner=me) as again:
                self.assertEqual(mine.fence, again.fence)

    def test_leases_and_extending(self):
        with self.client.acquire(self.name, lease=10, renew=False) as hold:
            self.assertLessEqual(hold.remaining, 10)
            hold.extend(60)
            self.assertGreater(hold.remaining, 10)

    def test_threads_exclude_each_other(self):
        seen = {"inside": 0, "crowd": 0, "turns": 0}

        def work():
            for _ in range(10):
                with self.client.acquire(self.name):
                    seen["inside"] += 1
                    seen["crowd"] += seen["inside"] > 1
                    time.sleep(0)
                    seen["turns"] += 1
                    seen["inside"] -= 1

        for worker in [Worker(work) for _ in range(6)]:
            worker.join()
        self.assertEqual({"inside": 0, "crowd": 0, "turns": 60}, seen)

    def test_clients_exclude_each_other(self):
        with holdfast.Client(URL) as other, self.client.acquire(self.name):
            self.assertIsNone(other.try_acquire(self.name))
            with self.assertRaises(holdfast.BusyError):
                other.acquire(self.name, timeout=0)


class Tasks(Case):
    """Tasks share threads: each acquire has a new owner, unless it names one."""

    def test_two_tasks_of_an_event_loop_exclude_each_other(self):
        inside, most, turns = 0, 0, 0

        async def work():
            nonlocal inside, most, turns
            for _ in range(5):
                while not (hold := self.client.try_acquire(self.name)):
                    await asyncio.sleep(0)
                with hold:
                    inside += 1
                    most = max(most, inside)
                    for _ in range(3):
                        await asyncio.sleep(0)  # the other task runs, on the same thread
                    inside -= 1
                turns += 1

        async def both():
            await asyncio.wait_for(asyncio.gather(work(), work()), PATIENCE)

        asyncio.run(both())
        self.assertEqual((1, 10), (most, turns))

    def test_a_task_waits_for_another_that_used_the_same_thread(self):
        async def both():
            loop = asyncio.get_running_loop()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:  # both tasks use its one thread
                first = await loop.run_in_executor(pool, self.client.acquire, self.name)
                with self.assertRaises(holdfast.WaitTimeoutError):
                    await loop.run_in_executor(pool, self.client.acquire, self.name, 0.1)
                second = loop.run_in_executor(pool, self.client.acquire, self.name)
                await loop.run_in_executor(None, self.wait_for_a_wait)
                first.release()
                with await asyncio.wait_for(second, PATIENCE) as hold:
                    self.assertGreater(hold.fence, first.fence)

        asyncio.run(both())

    def test_every_way_to_acquire_has_an_owner_of_its_own(self):
        again = (lambda: self.client.acquire(self.name, 0),
                 lambda: self.client.acquire_all([self.name], 0),
                 lambda: self.client.campaign(self.name, "me", 0))
        for first in again:
            hold = first()
            for second in again:
                with self.assertRaises(holdfast.BusyError):
                    second()
            hold.release()

    def test_an_owner_reenters_in_any_task(self):
        async def enter(owner):
            return self.client.try_acquire(self.name, owner=owner)

        async def tasks():
            me, other = holdfast.Owner(), holdfast.Owner()
            holds = [await asyncio.create_task(enter(me)) for _ in range(2)]
            self.assertEqual(holds[0].fence, holds[1].fence)
            self.assertIsNone(await asyncio.create_task(enter(other)))
            for hold in holds:
                hold.release()

        asyncio.run(tasks())
        self.assertTrue(self.is_free())


class Waiting(Case):
    def setUp(self):
        super().setUp()
        self.hold = self.client.acquire(self.name, owner=5)

    def test_a_wait_ends(self):
        for where in (lambda work: work(), lambda work: Worker(work).join()):
            with self.assertRaises(holdfast.WaitTimeoutError) as caught:
                where(lambda: self.client.acquire(self.name, timeout=0.2))
            self.assertIsInstance(caught.exception, TimeoutError)
            begin = time.monotonic()
            self.assertIsNone(where(lambda: self.client.try_acquire(self.name, timeout=0.2005)))
            self.assertGreaterEqual(time.monotonic() - begin, 0.2005)

    def test_invalid_times(self):
        for timeout in (-1, -0.001, float("nan"), -float("inf"), 1e300):
            with self.assertRaises(holdfast.InvalidError):
                self.client.acquire(self.name, timeout=timeout)
        for wrong in ({"lease": 0}, {"lease": -1}, {"lease": 0.001}, {"max_hold": 0},
                      {"permits": -1},
                      {"capacity": 1 << 32}, {"owner": 0}, {"owner": 1 << 63}, {"kind": 9}):
            with self.assertRaises(holdfast.HoldfastError, msg=wrong) as caught:
                self.client.acquire(self.name, timeout=0, **wrong)
            self.assertIn(type(caught.exception),
                          (holdfast.InvalidError, holdfast.UnsupportedError), wrong)
        with self.assertRaises(ValueError):
            self.hold.extend(0)

    def test_a_release_serves_a_waiter(self):
        for timeout in (None, PATIENCE, float("inf")):
            waiter = Worker(lambda: self.client.acquire(self.name, timeout))
            self.wait_for_a_wait()
            self.hold.release()
            self.hold = waiter.join()
            self.assertTrue(self.hold.held)

    def test_a_cancel_ends_waits(self):
        cancel = holdfast.Cancel()
        waiter = Worker(lambda: self.client.acquire(self.name, cancel=cancel))
        Worker(lambda: (self.wait_for_a_wait(2), cancel.fire()))
        with self.assertRaises(holdfast.CancelledError):
            self.client.acquire(self.name, cancel=cancel)  # in the main thread
        with self.assertRaises(holdfast.CancelledError):
            waiter.join()
        self.assertTrue(cancel.fired)
        with self.assertRaises(holdfast.CancelledError):
            self.client.acquire(self.name, cancel=cancel)
        with self.assertRaises(holdfast.CancelledError):
            self.client.acquire(self.name + " free", timeout=0, cancel=cancel)
        self.assertTrue(self.hold.held)
        self.assertFalse(cancel._linked)

    def test_ctrl_c_ends_a_wait_and_leaves_the_queue(self):
        def interrupt():
            self.wait_for_a_wait()
            os.kill(os.getpid(), signal.SIGINT)

        worker = Worker(interrupt)
        with self.assertRaises(KeyboardInterrupt):
            try:
                self.client.acquire(self.name)
            finally:
                worker.join()
        until(lambda: self.client.stats().waiting == 0, "the wait to leave")
        self.hold.release()
        self.assertTrue(self.is_free())

    def test_a_signal_that_raises_nothing_does_not_end_a_wait(self):
        handled = []
        before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def interrupt():
            self.wait_for_a_wait()
            os.kill(os.getpid(), signal.SIGUSR1)
            until(lambda: handled, "the handler")  # it runs while the wait continues
            self.hold.release()

        worker = Worker(interrupt)
        self.client.acquire(self.name).release()
        worker.join()

    def test_an_upgrade_can_be_interrupted(self):
        name = self.name + " up"
        reader = self.client.acquire(name, kind=Kind.READ, owner=6)
        mine = self.client.acquire(name, kind=Kind.UPGRADABLE)

        def interrupt():
            self.wait_for_a_wait()
            os.kill(os.getpid(), signal.SIGINT)

        worker = Worker(interrupt)
        with self.assertRaises(KeyboardInterrupt):
            mine.upgrade()
        worker.join()
        self.assertTrue(mine.held and reader.held)

    def test_closing_ends_waits_and_calls(self):
        waiter = Worker(lambda: self.client.acquire(self.name))
        other = Worker(lambda: self.client.acquire(self.name, cancel=holdfast.Cancel()))
        closer = Worker(lambda: (self.wait_for_a_wait(3), self.client.close()))
        with self.assertRaises(holdfast.ClosedError):
            self.client.acquire(self.name)
        closer.join()
        for each in (waiter, other):
            with self.assertRaises(holdfast.ClosedError):
                each.join()
        for call in (lambda: self.client.acquire(self.name), lambda: self.client.inspect(self.name),
                     self.client.stats, lambda: self.client.break_lock(self.name)):
            with self.assertRaises(holdfast.ClosedError):
                call()
        self.assertTrue(self.client.closed)
        self.client.close()
        self.assertFalse(self.hold.held)
        with self.assertRaises(holdfast.ClosedError):
            self.hold.release()

    def test_closing_waits_for_calls_that_are_in_the_library(self):
        with self.client._use():
            closer = Worker(self.client.close)
            until(lambda: self.client.closed, "the closing")
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                self.assertTrue(self.client._closer.alive, "it was freed under a call")
                time.sleep(0.005)
        closer.join()
        self.assertFalse(self.client._closer.alive)

    def test_closing_during_calls_does_not_crash(self):
        for _ in range(30):
            client = holdfast.Client(URL)
            begin = threading.Barrier(3)

            def work():
                begin.wait()
                try:
                    while True:
                        with client.acquire(self.name + " race"):
                            pass
                except holdfast.ClosedError:
                    return

            workers = [Worker(work), Worker(work)]
            begin.wait()
            client.close()
            for worker in workers:
                worker.join()


class Kinds(Case):
    def test_readers_share_and_a_writer_does_not(self):
        with holdfast.Client(URL) as other, self.client.acquire(self.name, kind=Kind.READ, owner=1):
            with self.client.acquire(self.name, kind=Kind.READ, owner=2):
                self.assertIsNone(self.client.try_acquire(self.name, kind=Kind.WRITE, owner=3))
            with other.acquire(self.name, kind=Kind.READ):
                self.assertEqual(2, self.client.inspect(self.name).holders)
        with self.client.acquire(self.name, kind=Kind.WRITE, owner=3):
            self.assertIsNone(self.client.try_acquire(self.name, kind=Kind.READ, owner=1))

    def test_upgrading_and_downgrading(self):
        reader = self.client.acquire(self.name, kind=Kind.READ, owner=1)
        with self.client.acquire(self.name, kind=Kind.UPGRADABLE) as hold:
            with self.assertRaises(holdfast.BusyError):
                hold.upgrade(0)
            with self.assertRaises(holdfast.WaitTimeoutError):
                hold.upgrade(0.005)
            with self.assertRaises(holdfast.DeadlockError):
                reader.upgrade(0)
            Worker(lambda: (self.wait_for_a_wait(), reader.release()))
            before = hold.fence
            hold.upgrade()
            self.assertGreater(hold.fence, before)
            hold.upgrade(0)  # it is upgraded already
            hold.downgrade()
            self.client.acquire(self.name, kind=Kind.READ, owner=1).release()

    def test_permits(self):
        hold = self.client.acquire(self.name, kind=Kind.PERMITS, permits=2, capacity=3)
        info = self.client.inspect(self.name)
        self.assertEqual((Kind.PERMITS, 2, 3), (info.kind, info.used, info.capacity))
        with self.client.acquire(self.name, kind=Kind.PERMITS, capacity=3):
            self.assertIsNone(self.client.try_acquire(self.name, kind=Kind.PERMITS, capacity=3))
        with self.assertRaises(holdfast.InvalidError):
            self.client.acquire(self.name, kind=Kind.PERMITS, capacity=4)
        hold.release()


class Several(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.name + " a", self.name + " b"

    def test_all_or_none(self):
        with self.client.acquire_all([self.a, holdfast.Request(self.b, Kind.READ)]) as both:
            self.assertTrue(both.held and both.fence_of(0) and both.fence_of(1))
            self.assertEqual((0, 0), (both.fence_of(2), both.fence_of(-1)))
            with self.assertRaises(holdfast.BusyError):
                self.client.acquire_all([self.name, self.a], timeout=0, owner=3)
            self.assertTrue(self.is_free())
            self.assertIsNone(self.client.try_acquire(self.a, owner=3))
            self.client.acquire(self.b, kind=Kind.READ, owner=3).release()
        self.assertTrue(self.is_free(self.a) and self.is_free(self.b))
        for wrong in ([], ["a\0b"], [holdfast.Request("x", permits=-1)]):
            with self.assertRaises(holdfast.InvalidError):
                self.client.acquire_all(wrong)

    def test_waiting(self):
        hold = self.client.acquire(self.b, owner=3)
        worker = Worker(lambda: (self.wait_for_a_wait(), hold.release()))
        with self.client.acquire_all([self.a, self.b]) as both:  # in the main thread
            self.assertTrue(both.held)
        worker.join()
        with self.client.acquire(self.b, owner=3):
            for where in (lambda work: work(), lambda work: Worker(work).join()):
                with self.assertRaises(holdfast.WaitTimeoutError):
                    where(lambda: self.client.acquire_all([self.a, self.b], timeout=0.2))
                self.assertTrue(self.is_free(self.a))

    def test_ctrl_c_ends_a_wait_and_keeps_nothing(self):
        hold = self.client.acquire(self.b, owner=3)

        def interrupt():
            self.wait_for_a_wait()
            os.kill(os.getpid(), signal.SIGINT)

        worker = Worker(interrupt)
        with self.assertRaises(KeyboardInterrupt):
            self.client.acquire_all([self.a, self.b])
        worker.join()
        until(lambda: self.is_free(self.a), "the first of them to be free")
        hold.release()
        self.assertTrue(self.is_free(self.b))

    def test_closing_ends_a_wait(self):
        hold = self.client.acquire(self.b, owner=3)
        closer = Worker(lambda: (self.wait_for_a_wait(), self.client.close()))
        with self.assertRaises(holdfast.ClosedError):
            self.client.acquire_all([self.a, self.b])
        closer.join()
        self.assertFalse(hold.held)

    def test_they_are_lost_as_one(self):
        calls = []
        both = self.client.acquire_all([self.a, self.b], on_lost=calls.append)
        self.client.break_lock(self.b, both.fence_of(1))
        with self.assertRaises(holdfast.LostError):
            both.extend(30)
        until(lambda: calls, "the callback")
        with self.assertRaises(holdfast.LostError):
            both.release()


class Losing(Case):
    def lose(self, hold):
        self.client.break_lock(self.name, hold.fence)
        with self.assertRaises(holdfast.LostError):
            hold.extend(30)  # notices the loss now, not at the next renewal

    def test_the_end_of_a_block_says_that_it_was_lost(self):
        with self.assertRaises(holdfast.LostError) as caught:
            with self.client.acquire(self.name) as hold:
                self.lose(hold)
                self.assertFalse(hold.held)
                self.assertTrue(hold.why_lost)
                with self.assertRaises(holdfast.LostError):
                    hold.check()
        self.assertTrue(caught.exception.detail)

    def test_the_exception_of_a_block_takes_precedence(self):
        with self.assertRaises(ZeroDivisionError):
            with self.client.acquire(self.name) as hold:
                self.lose(hold)
                1 / 0

    def test_a_callback_runs_once_and_gets_the_hold(self):
        calls = []
        hold = self.client.acquire(self.name, on_lost=calls.append)
        self.lose(hold)
        until(lambda: calls, "the callback")
        with self.assertRaises(holdfast.LostError):
            hold.release()
        self.assertEqual([hold], calls)

    def test_a_normal_release_calls_no_callback(self):
        calls, before = [], set(holdfast._hold.lost_functions)
        for _ in range(20):
            self.client.acquire(self.name, on_lost=calls.append).release()
        self.assertEqual([], calls)
        gc.collect()
        self.assertEqual(set(), set(holdfast._hold.lost_functions) - before)

    def test_a_callback_may_release(self):
        results = []

        def on_lost(hold):
            try:
                hold.release()
            except holdfast.LostError as error:
                results.append(error)

        hold = self.client.acquire(self.name, on_lost=on_lost)
        self.lose(hold)
        until(lambda: results, "the callback")
        with self.assertRaises(holdfast.NotHeldError):
            hold.release()

    def test_a_callback_may_close_the_client(self):
        client = holdfast.Client(URL)
        hold = client.acquire(self.name, on_lost=lambda _: client.close())
        self.client.break_lock(self.name, hold.fence)
        with self.assertRaises((holdfast.LostError, holdfast.ClosedError)):
            hold.extend(30)
        until(lambda: not client._closer.alive, "the end of the client")

    def test_a_descriptor_polls_readable(self):
        with self.assertRaises(holdfast.LostError):
            with self.client.acquire(self.name) as hold:
                self.assertEqual([], select.select([hold], [], [], 0)[0])
                self.lose(hold)
                self.assertEqual([hold], select.select([hold], [], [], PATIENCE)[0])

    def test_a_bounded_hold_ends(self):
        hold = self.client.acquire(self.name, max_hold=0.05)
        until(lambda: not hold.held, "its end")
        with self.assertRaises(holdfast.LostError):
            hold.release()


class Looking(Case):
    def test_inspecting(self):
        self.assertFalse(self.client.inspect(self.name).held)
        with holdfast.Client(URL, label="tested") as other, other.acquire(self.name) as hold:
            info = self.client.inspect(self.name)
            self.assertTrue(info.held)
            self.assertEqual((os.getpid(), "tested", hold.fence, 1, Kind.MUTEX),
                             (info.pid, info.label, info.token, info.count, info.kind))
            self.assertTrue(0 < info.remaining <= 31)
            self.assertLess(abs(info.since - time.time()), 3600)

    def test_waiters_are_seen(self):
        if URL.startswith("memory:"):
            return  # this store does not show its queue
        cancel = holdfast.Cancel()
        with holdfast.Client(URL, label="patient") as other, self.client.acquire(self.name):
            waiter = Worker(lambda: other.try_acquire(self.name, None, cancel=cancel))
            until(lambda: self.client.inspect(self.name).waiting == 1, "a waiter")
            (seen,) = self.client.inspect(self.name).waiters
            self.assertEqual((os.getpid(), "patient"), (seen.pid, seen.label))
            cancel.fire()
            with self.assertRaises(holdfast.CancelledError):
                waiter.join()

    def test_break_only_the_given_token(self):
        with self.assertRaises(holdfast.NotHeldError):
            self.client.break_lock(self.name)
        with self.client.acquire(self.name) as hold:
            with self.assertRaises(holdfast.NotHeldError):
                self.client.break_lock(self.name, hold.fence - 1)
            for token in (-1, 1 << 64):
                with self.assertRaises(holdfast.InvalidError):
                    self.client.break_lock(self.name, token)

    def test_counters(self):
        self.client.acquire(self.name).release()
        stats = self.client.stats()
        self.assertEqual((1, 1, 0, 0), (stats.acquired, stats.released, stats.held, stats.lost))
        self.assertEqual(
            (1, 1, 0), (stats.waits.count, sum(stats.holds.buckets), stats.handed_over))
        text = self.client.metrics()
        self.assertIn("\nholdfast_acquired_total 1\n", text)
        self.assertTrue(text.endswith("# EOF\n"))

    def test_names(self):
        for name in ("é", b"\xff\xfe", "\udcff", "{}", "a\nb", "x" * 1024):
            with self.client.acquire(name):
                self.assertTrue(self.client.inspect(name).held)
        for name in ("", "x" * 1025, "a\0b", b"\0"):
            with self.assertRaises(holdfast.InvalidError):
                self.client.acquire(name)


    def test_listing(self):
        names = [self.name + ":a", self.name + ":b"]
        with self.client.acquire_all(names) as both:
            found = self.client.list(self.name + ":*")
            self.assertEqual(names, sorted(found))
            self.assertEqual(both.fence_of(1), found[names[1]].token)
            self.assertTrue(set(found) <= set(self.client.list()))
        self.assertEqual({}, self.client.list(self.name + ":*"))


class Latches(Case):
    def setUp(self):
        super().setUp()
        self.latch = self.client.latch(self.name)

    def test_it_opens_when_it_is_counted_down(self):
        self.assertEqual(self.name, self.latch.name)
        for call in (lambda: self.latch.left, self.latch.count_down, self.latch.wait):
            with self.assertRaises(holdfast.NotHeldError):
                call()
        self.latch.set(3)
        self.assertEqual(3, self.latch.left)
        for where in (lambda work: work(), lambda work: Worker(work).join()):
            self.assertFalse(where(lambda: self.latch.wait(0)))
            self.assertFalse(where(lambda: self.latch.wait(0.2)))
        self.assertEqual(2, self.latch.count_down())
        waits = Worker(self.latch.wait)
        self.assertEqual(0, self.latch.count_down(2))
        self.assertTrue(waits.join())
        self.assertTrue(self.latch.wait())
        with self.assertRaises(holdfast.InvalidError):
            self.latch.set(-1)

    def test_a_wait_ends_by_a_cancel_or_by_closing(self):
        self.latch.set(1)
        cancel = holdfast.Cancel()
        waits = Worker(lambda: self.latch.wait(cancel=cancel))
        cancel.fire()
        with self.assertRaises(holdfast.CancelledError):
            waits.join()
        waits = Worker(self.latch.wait)
        self.client.close()
        with self.assertRaises(holdfast.ClosedError):
            waits.join()

    def test_ctrl_c_ends_a_wait(self):
        self.latch.set(1)
        before = threading.active_count()

        def interrupt():
            until(lambda: threading.active_count() > before + 1, "the thread that waits")
            os.kill(os.getpid(), signal.SIGINT)

        worker = Worker(interrupt)
        with self.assertRaises(KeyboardInterrupt):
            self.latch.wait()
        worker.join()


class Leading(Case):
    def test_a_leader_publishes_a_value_under_its_token(self):
        self.assertIsNone(self.client.leader(self.name))
        with self.client.campaign(self.name, b"here\0we are") as hold:
            leader = self.client.leader(self.name)
            self.assertEqual((hold.fence, b"here\0we are"), (leader.token, leader.value))
            self.assertEqual(os.getpid(), leader.pid)
            hold.proclaim("elsewhere")
            self.assertEqual(b"elsewhere", self.client.leader(self.name).value)
            with self.assertRaises(holdfast.BusyError):
                self.client.campaign(self.name, "I", timeout=0, owner=7)
        self.assertIsNone(self.client.leader(self.name))

    def test_waiting_to_lead(self):
        hold = self.client.campaign(self.name, "first", owner=3)
        Worker(lambda: (self.wait_for_a_wait(), hold.release()))
        with self.client.campaign(self.name, "second"):  # in the main thread
            self.assertEqual(b"second", self.client.leader(self.name).value)

    def test_changes_are_reported(self):
        calls = []
        with self.client.observe(self.name, calls.append) as observer:
            until(lambda: calls[-1:] == [None], "that nobody leads")
            hold = self.client.campaign(self.name, "first")
            until(lambda: calls[-1] and calls[-1].value == b"first", "the leader")
            hold.release()
            until(lambda: calls[-1] is None, "the resignation")
        before = len(calls)
        observer.close()
        with self.client.campaign(self.name, "unseen"):
            self.assertEqual(before, len(calls))
        with self.assertRaises(holdfast.InvalidError):
            self.client.observe("", calls.append)

    def test_an_observer_outlives_its_client(self):
        calls = []
        observer = self.client.observe(self.name, calls.append)
        self.client.close()
        observer.close()
        with self.assertRaises(holdfast.ClosedError):
            self.client.observe(self.name, calls.append)


class Leaving(Case):
    def test_a_hold_leaves_and_is_adopted(self):
        self.name += ":{%}\u00e9"
        hold = self.client.acquire(self.name)
        if not URL.startswith("redis"):  # where holds end with their process
            with self.assertRaises(holdfast.UnsupportedError):
                hold.leave()
            self.assertTrue(hold.held)
            return
        left = hold.leave()
        self.assertFalse(hold.held)
        with self.assertRaises(holdfast.NotHeldError):
            hold.release()
        self.client.extend_exported(left, 60)
        with holdfast.Client(URL) as other, other.adopt(left) as adopted:
            self.assertEqual((self.name, hold.fence), (adopted.name, adopted.fence))
            self.assertTrue(adopted.held)
            with self.assertRaises(holdfast.LostError):
                other.adopt(left)
            with self.assertRaises(holdfast.InvalidError):
                other.adopt("nothing of ours")
        self.assertTrue(self.is_free())


class Opening(Case):
    def test_errors_say_what_and_why(self):
        with self.assertRaises(holdfast.InvalidError) as caught:
            holdfast.Client("memory:?walk=1")
        self.assertEqual(11, caught.exception.result)
        self.assertIn("walk", str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(holdfast.UnreachableError):
            holdfast.Client("redis+unix:///nowhere/redis.sock")
        self.assertIs(holdfast.HoldfastError, type(error_of(4711, "new")))
        self.assertEqual(4711, error_of(4711, "new").result)

    def test_the_url_may_come_from_the_environment(self):
        before = os.environ.pop("HOLDFAST_URL", None)
        try:
            with self.assertRaises(holdfast.InvalidError):
                holdfast.Client()
            os.environ["HOLDFAST_URL"] = URL
            holdfast.Client().close()
        finally:
            os.environ.pop("HOLDFAST_URL", None)
            if before is not None:
                os.environ["HOLDFAST_URL"] = before

    def test_a_client_without_references_is_closed(self):
        client = holdfast.Client(URL)
        hold = client.acquire(self.name)
        del client
        gc.collect()
        self.assertFalse(hold.held)
        self.assertTrue(self.is_free())

    def test_a_forked_child_holds_nothing(self):
        with self.client.acquire(self.name) as hold:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    self.assertFalse(hold.held)
                    with self.assertRaises(holdfast.ForkedError):
                        self.client.acquire(self.name)
                    with self.assertRaises(holdfast.ForkedError):
                        hold.release()
                    self.client.close()
                    code = 0
                finally:
                    os._exit(code)
            self.assertEqual(0, os.waitpid(child, 0)[1])
            hold.check()
            self.assertFalse(self.is_free())

    def run_python(self, code, **env):
        return subprocess.run(
            [sys.executable, "-B", "-c", code], text=True, capture_output=True, timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": str(PACKAGE), **env})

    def test_the_end_of_the_program_releases(self):
        ended = self.run_python(
            f"import holdfast\nclient = holdfast.Client({URL!r})\n"
            f"hold = client.acquire({self.name!r}, on_lost=print)\nprint(hold.held)")
        self.assertEqual((0, "True\n", ""), (ended.returncode, ended.stdout, ended.stderr))
        self.assertTrue(self.is_free())

    def test_a_missing_library_is_named(self):
        ended = self.run_python("import holdfast; holdfast.Client('memory:')",
                                HOLDFAST_LIBRARY="/nowhere/libholdfast.so")
        self.assertEqual(1, ended.returncode)
        self.assertRegex(ended.stderr, "ImportError: .*/nowhere/libholdfast.so")


class Agreeing(unittest.TestCase):
    """What the module repeats from the header is the same there."""

    header = (ROOT / "include/holdfast.h").read_text()

    def test_every_result_has_its_class(self):
        results = dict(re.findall(r"X\(HF_(\w+), (\d+),", self.header))
        self.assertEqual(0, int(results.pop("OK")))
        numbers = {cls.code for cls in holdfast.HoldfastError.__subclasses__()}
        self.assertEqual({int(number) for number in results.values()}, numbers)
        for name, number in results.items():
            word = {"TIMEOUT": "WAITTIMEOUT", "NOMEM": "NOMEMORY"}.get(name, name).replace("_", "")
            self.assertEqual(word + "ERROR", type(error_of(int(number), "")).__name__.upper())

    def test_structs_have_the_same_layout(self):
        layout = (ROOT / "tests/api/layout.c").read_text()
        structs = {"hf_options": _library.COptions, "hf_client_options": _library.CClientOptions,
                   "hf_info": _library.CInfo, "hf_waiter": _library.CWaiter,
                   "hf_stats": _library.CStats, "hf_request": _library.CRequest,
                   "hf_leader_info": _library.CLeader}
        fields = re.findall(r"^AT\((\w+), (\w+), (\d+)\);", layout, re.M)
        known = [(struct, field, offset) for struct, field, offset in fields if struct in structs]
        self.assertGreater(len(known), 40)
        for struct, field, offset in known:
            if hasattr(structs[struct], field):
                self.assertEqual(int(offset), getattr(structs[struct], field).offset, field)
        for name, struct in structs.items():
            have = [field for field, *_ in struct._fields_]
            self.assertEqual([field for of, field, _ in known if of == name][:len(have)], have)

    def test_versions(self):
        version = ".".join(re.findall(r"#define HF_VERSION_\w+ (\d+)", self.header))
        self.assertEqual(version, holdfast.__version__)
        self.assertEqual(version, holdfast.library_version())
        self.assertIn(f'version = "{version}"', (PACKAGE / "pyproject.toml").read_text())

    def test_kinds_and_limits(self):
        for limit, value in (("HF_EXPORT_MAX", _hold.EXPORT_MAX),
                             ("HF_METRICS_MAX", _client.METRICS_MAX)):
            self.assertRegex(self.header, rf"#define {limit} +{value}\b")
        for kind in Kind:
            self.assertRegex(self.header, rf"HF_{kind.name} = {kind.value}\b")

    def test_examples_of_the_page_run(self):
        page = PACKAGE / "README.md"
        shown = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
        self.assertTrue(shown, page)
        for code in shown:
            exec(compile(code.replace("redis://localhost", URL), str(page), "exec"), {})


if __name__ == "__main__":
    if ":" in sys.argv[-1]:
        URL = sys.argv.pop()
    unittest.main()
