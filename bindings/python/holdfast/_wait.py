"""Waiting for a lock so that Ctrl-C ends it.

Python runs signal handlers in its main thread, between its own steps; a wait inside the library would keep
them from running. So the main thread asks once, and if the lock is taken it has itself called back and
waits in Python. Other threads wait in the library.
"""
from __future__ import annotations

import ctypes
import itertools
import threading
from ctypes import byref
from typing import Dict, Optional

from ._cancel import Cancel
from ._hold import Hold, in_callback
from ._library import ACQUIRED_FN, OK, COptions, c_hold, check, detail_of, library
from .errors import error_of

waits: Dict[int, "Wait"] = {}
numbers = itertools.count(1)


class Wait:
    """A wait under way. Either side may come first: the answer, or the end of patience."""

    def __init__(self, hold: Hold, cancel: Cancel) -> None:
        self.hold: Optional[Hold] = hold
        self.cancel = cancel  # lives until the answer
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
            elif pointer:  # nobody wants it any more
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


def acquire(client: int, name: bytes, options: COptions, hold: Hold, closed: Cancel,
            cancel: Optional[Cancel]) -> None:
    """Have the library write the handle into `hold`, or raise what it said instead."""
    waits_here = threading.current_thread() is threading.main_thread()
    if waits_here and options.wait_ms != 0:
        if not (cancel and cancel.fired) and try_once(client, name, options, hold):
            return
    elif not cancel:
        options.cancel = closed._pointer
        check(ask(client, name, options, hold))
        return
    inner = Cancel()
    both = [outer for outer in (closed, cancel) if outer]
    for outer in both:
        outer.link(inner)
    try:
        options.cancel = inner._pointer
        if waits_here:
            wait_in_python(client, name, options, hold, inner)
        else:
            check(ask(client, name, options, hold))
    finally:
        for outer in both:
            outer.unlink(inner)


def ask(client: int, name: bytes, options: COptions, hold: Hold) -> int:
    result: int = library().hf_acquire_v(
        client, name, byref(options), ctypes.sizeof(options), byref(hold._cell))
    return result


def try_once(client: int, name: bytes, options: COptions, hold: Hold) -> bool:
    """Whatever stands in the way, the wait will meet it too, and may sit it out."""
    wait_ms, options.wait_ms = options.wait_ms, 0
    result = ask(client, name, options, hold)
    options.wait_ms = wait_ms
    return result == OK


def wait_in_python(client: int, name: bytes, options: COptions, hold: Hold, inner: Cancel) -> None:
    wait = Wait(hold, inner)
    number = next(numbers)
    waits[number] = wait
    try:
        begun = library().hf_acquire_async_v(
            client, name, byref(options), ctypes.sizeof(options), acquired, number)
        if begun != OK:
            del waits[number]
            check(begun)
        wait.done.wait()
    except BaseException:
        wait.abandon()
        raise
    if wait.result != OK:
        raise error_of(wait.result, wait.detail)
