# SPDX-License-Identifier: Apache-2.0
"""Waiting for a lock so that Ctrl-C ends it.

Python runs signal handlers in its main thread, between its own steps. During a wait inside the
library they could not run. So the main thread tries once. If the lock is taken, it starts an async
call and waits in Python for the callback. Other threads wait inside the library.
"""
from __future__ import annotations

import ctypes
import itertools
import threading
from ctypes import byref, c_void_p
from typing import Callable, ContextManager, Dict, Optional, Sequence, Union

from ._cancel import Cancel
from ._hold import Hold, in_callback
from ._library import (ACQUIRED_FN, CLOSED, OK, COptions, CRequest, c_hold, check, detail_of,
                       library)
from .errors import ClosedError, error_of

# A signal that arrives just before Python sleeps does not wake it, so it wakes up this often.
SLICE = 0.5  # seconds

waits: Dict[int, "Wait"] = {}
numbers = itertools.count(1)


class Wait:
    """A wait in progress. The answer may come first, or the caller may give up first."""

    def __init__(self, hold: Hold, cancel: Cancel) -> None:
        self.hold: Optional[Hold] = hold
        self.cancel = cancel  # must live until the answer
        self.done = threading.Event()
        self.lock = threading.RLock()
        self.result = OK
        self.detail = ""

    def answered(self, result: int, pointer: Optional[int]) -> None:
        with self.lock:
            self.result = result
            self.detail = detail_of(result) if result != OK else ""
            if self.hold:
                self.hold._cell.value = pointer
            elif pointer:  # the caller has given up
                library().hf_unref(c_hold(pointer))
        self.done.set()

    def abandon(self) -> None:
        self.cancel.fire()
        with self.lock:
            self.hold = None


def answer(result: int, pointer: Optional[int], number: int) -> None:
    with in_callback():
        wait = waits.pop(number, None)
        if wait:
            wait.answered(result, pointer)
        del wait


acquired = ACQUIRED_FN(answer)


Use = Callable[[], ContextManager[int]]


class One:
    """An acquire of one name; the library calls back."""

    def __init__(self, use: Use, name: bytes) -> None:
        self.use, self.name = use, name

    def run_blocking(self, options: COptions, cell: c_void_p) -> int:
        with self.use() as client:
            result: int = library().hf_acquire_v(
                client, self.name, byref(options), ctypes.sizeof(options), byref(cell))
        return result

    def begin(self, options: COptions, wait: Wait) -> None:
        number = next(numbers)
        waits[number] = wait
        with self.use() as client:
            begun = library().hf_acquire_async_v(
                client, self.name, byref(options), ctypes.sizeof(options), acquired, number)
        if begun != OK:
            del waits[number]
            check(begun)


class ByThread:
    """A call without a callback in the library: a thread waits for it."""

    def run_blocking(self, options: COptions, cell: c_void_p) -> int:
        raise NotImplementedError

    def begin(self, options: COptions, wait: Wait) -> None:
        threading.Thread(target=self.work, args=(options, wait), daemon=True).start()

    def work(self, options: COptions, wait: Wait) -> None:
        cell = c_void_p()
        try:
            wait.answered(self.run_blocking(options, cell), cell.value)
        except ClosedError:  # before the call began
            wait.answered(CLOSED, None)


class All(ByThread):
    """An acquire of several names."""

    def __init__(self, use: Use, requests: Sequence[CRequest]) -> None:
        self.use, self.requests = use, (CRequest * len(requests))(*requests)

    def run_blocking(self, options: COptions, cell: c_void_p) -> int:
        with self.use() as client:
            result: int = library().hf_acquire_all_v(
                client, self.requests, len(self.requests), ctypes.sizeof(CRequest), byref(options),
                ctypes.sizeof(options), byref(cell))
        return result


class Lead(ByThread):
    """An acquire that publishes a leader's value."""

    def __init__(self, use: Use, name: bytes, value: bytes) -> None:
        self.use, self.name, self.value = use, name, value

    def run_blocking(self, options: COptions, cell: c_void_p) -> int:
        with self.use() as client:
            result: int = library().hf_campaign_v(
                client, self.name, self.value, len(self.value), byref(options),
                ctypes.sizeof(options), byref(cell))
        return result


class WaitOnly(ByThread):
    """A wait that does not acquire anything."""

    def __init__(self, call: Callable[[COptions], int]) -> None:
        self.call = call

    def run_blocking(self, options: COptions, cell: c_void_p) -> int:
        return self.call(options)


Call = Union[One, ByThread]


def acquire(call: Call, options: COptions, hold: Hold, closed: Cancel,
            cancel: Optional[Cancel]) -> None:
    """Let the library write the handle into `hold`, or raise its error."""
    if waits_here(options):
        if not (cancel and cancel.fired) and try_once(call, options, hold):
            return
    wait_for(call, options, hold, closed, cancel)


def run(call: Callable[[COptions], int], options: COptions, closed: Cancel,
        cancel: Optional[Cancel]) -> None:
    """Run a waiting call that does not acquire anything."""
    wait_for(WaitOnly(call), options, Hold(b""), closed, cancel)


def waits_here(options: COptions) -> bool:
    return threading.current_thread() is threading.main_thread() and options.wait_ms != 0


def wait_for(call: Call, options: COptions, hold: Hold, closed: Cancel,
             cancel: Optional[Cancel]) -> None:
    if not waits_here(options) and not cancel:
        options.cancel = closed._pointer
        check(call.run_blocking(options, hold._cell))
        return
    inner = Cancel()
    both = [outer for outer in (closed, cancel) if outer]
    for outer in both:
        outer.link(inner)
    try:
        options.cancel = inner._pointer
        if waits_here(options):
            wait_in_python(call, options, hold, inner)
        else:
            check(call.run_blocking(options, hold._cell))
    finally:
        for outer in both:
            outer.unlink(inner)


def try_once(call: Call, options: COptions, hold: Hold) -> bool:
    """True if one try succeeds. Errors are ignored here, because a wait may outlast them."""
    wait_ms, options.wait_ms = options.wait_ms, 0
    result = call.run_blocking(options, hold._cell)
    options.wait_ms = wait_ms
    return result == OK


def wait_in_python(call: Call, options: COptions, hold: Hold, inner: Cancel) -> None:
    wait = Wait(hold, inner)
    try:
        call.begin(options, wait)
        while not wait.done.wait(SLICE):
            pass
    except BaseException:
        wait.abandon()
        raise
    if wait.result != OK:
        raise error_of(wait.result, wait.detail)
