# SPDX-License-Identifier: Apache-2.0
"""A process's connection to a store."""
from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import urllib.parse
import weakref
from ctypes import byref, c_void_p
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Type, Union

from . import _wait
from ._cancel import Cancel
from ._hold import Hold, LostFunction, callback_thread
from ._info import Info, Stats, info_of, stats_of
from ._latch import Latch
from ._leader import Leader, LeaderFunction, Observer, leader_of
from ._library import (LIST_FN, NO_RENEW, NOT_REENTRANT, CClientOptions, CInfo, CLeader, COptions,
                       CStats, Kind, check, count, encode, library, span_ms, text, value_of,
                       wait_ms)
from ._owner import Owner, set_owner
from ._request import Name, Request, plain
from .errors import (BusyError, CancelledError, ClosedError, ForkedError, InvalidError,
                     NotHeldError, WaitTimeoutError)

METRICS_MAX = 32768  # bytes

class Client:
    """A client of the store that a URL names. Without a URL, $HOLDFAST_URL is used.

    Threads of one process usually share one client. Closing it, or leaving its `with` block,
    releases its holds. A forked child cannot use the client of its parent: it must open its own.
    """

    def __init__(self, url: Optional[str] = None, *, lease: Optional[float] = None,
                 connect_timeout: Optional[float] = None, command_timeout: Optional[float] = None,
                 outage: Optional[float] = None, label: Optional[str] = None) -> None:
        options = CClientOptions(
            lease_ms=span_ms(lease, "lease"),
            connect_timeout_ms=span_ms(connect_timeout, "connect_timeout"),
            command_timeout_ms=span_ms(command_timeout, "command_timeout"),
            outage_ms=span_ms(outage, "outage"),
            label=None if label is None else encode(label, "label"))
        self._closed_by = Cancel()  # ends the waits when the client closes
        opened = c_void_p()
        check(library().hf_open_v(None if url is None else encode(url, "URL"), byref(options),
                                  ctypes.sizeof(options), byref(opened)))
        self._pid = os.getpid()
        self._pointer: int = opened.value or 0
        self._closing = False
        self._using = 0  # calls that are inside the library
        self._idle = threading.Condition()
        # Closes while Python still runs, because callbacks need it.
        self._closer = weakref.finalize(self, close_anywhere, self._pointer)

    # -- Acquiring

    def acquire(self, name: Name, timeout: Optional[float] = None, *, lease: Optional[float] = None,
                max_hold: Optional[float] = None, kind: Kind = Kind.MUTEX, permits: int = 0,
                capacity: int = 0, owner: Union[int, Owner, None] = None,
                cancel: Optional[Cancel] = None, on_lost: Optional[LostFunction] = None,
                renew: bool = True, reentrant: bool = True) -> Hold:
        """Acquire the lock `name` and return the hold, for a `with` statement.

        timeout   seconds to wait; None: forever; 0: try once
        lease     seconds after which the store drops the lock, unless it is renewed; None: the
                  lease of the client
        max_hold  the lock is lost this many seconds after the request, even if it is renewed
        owner     an Owner, or a number of your choice. An owner that holds the lock re-enters it.
                  None: a new owner for this call, which excludes every other call, even in the same
                  thread and task
        reentrant False: an owner that already holds the lock gets DeadlockError
        on_lost   called once with the hold if the lock is lost, on the client's callback thread

        Raises BusyError, WaitTimeoutError, CancelledError, DeadlockError, UnreachableError and
        other subclasses of HoldfastError.
        """
        options = COptions(
            wait_ms=wait_ms(timeout), lease_ms=span_ms(lease, "lease"),
            max_hold_ms=span_ms(max_hold, "max_hold"), kind=int(kind),
            permits=count(permits, "permits"), capacity=count(capacity, "capacity"),
            flags=(0 if renew else NO_RENEW) | (0 if reentrant else NOT_REENTRANT))
        set_owner(options, owner)
        raw = encode(name)
        return self._take(_wait.One(self._use, raw), raw, options, cancel, on_lost)

    def acquire_all(self, requests: Iterable[Union[Name, Request]],
                    timeout: Optional[float] = None, *, lease: Optional[float] = None,
                    max_hold: Optional[float] = None,
                    owner: Union[int, Owner, None] = None, cancel: Optional[Cancel] = None,
                    on_lost: Optional[LostFunction] = None, renew: bool = True) -> Hold:
        """Acquire several names, all or none, as one hold.

        Give names, or a Request for kinds other than the mutex. Every caller acquires them in the
        same order, so callers cannot deadlock. If one name is lost, the whole hold is lost. The
        other arguments are those of acquire().
        """
        options = COptions(
            wait_ms=wait_ms(timeout), lease_ms=span_ms(lease, "lease"),
            max_hold_ms=span_ms(max_hold, "max_hold"), flags=0 if renew else NO_RENEW)
        set_owner(options, owner)
        every = [plain(request) for request in requests]
        name = b", ".join(each.name for each in every)
        return self._take(_wait.All(self._use, every), name, options, cancel, on_lost)

    def try_acquire(self, name: Name, timeout: Optional[float] = 0, *,
                    lease: Optional[float] = None, max_hold: Optional[float] = None,
                    kind: Kind = Kind.MUTEX, permits: int = 0, capacity: int = 0,
                    owner: Union[int, Owner, None] = None, cancel: Optional[Cancel] = None,
                    on_lost: Optional[LostFunction] = None, renew: bool = True,
                    reentrant: bool = True) -> Optional[Hold]:
        """Like acquire(), but by default without waiting; returns None if another has the lock."""
        try:
            return self.acquire(
                name, timeout, lease=lease, max_hold=max_hold, kind=kind, permits=permits,
                capacity=capacity, owner=owner, cancel=cancel, on_lost=on_lost, renew=renew,
                reentrant=reentrant)
        except (BusyError, WaitTimeoutError):
            return None

    def campaign(self, name: Name, value: Union[str, bytes], timeout: Optional[float] = None, *,
                 lease: Optional[float] = None, max_hold: Optional[float] = None,
                 owner: Union[int, Owner, None] = None, cancel: Optional[Cancel] = None,
                 on_lost: Optional[LostFunction] = None) -> Hold:
        """Wait to become the leader: acquire `name` and publish `value` under its token.

        To resign, release the hold. Hold.proclaim publishes another value. The other arguments are
        those of acquire().
        """
        options = COptions(
            wait_ms=wait_ms(timeout), lease_ms=span_ms(lease, "lease"),
            max_hold_ms=span_ms(max_hold, "max_hold"))
        set_owner(options, owner)
        raw = encode(name)
        lead = _wait.Lead(self._use, raw, value_of(value))
        return self._take(lead, raw, options, cancel, on_lost)

    def adopt(self, exported: str, *, lease: Optional[float] = None,
              max_hold: Optional[float] = None, on_lost: Optional[LostFunction] = None,
              renew: bool = True) -> Hold:
        """Take over a hold that left its process by Hold.leave()."""
        options = COptions(lease_ms=span_ms(lease, "lease"),
                           max_hold_ms=span_ms(max_hold, "max_hold"),
                           flags=0 if renew else NO_RENEW)
        raw = encode(exported, "text")
        hold = Hold(urllib.parse.unquote_to_bytes(raw.rpartition(b":")[2]), on_lost)
        hold._set_callback(options)
        try:
            with self._use() as client:
                check(library().hf_adopt_v(
                    client, raw, byref(options), ctypes.sizeof(options), byref(hold._cell)))
        finally:
            hold._granted.set()
        return hold

    def extend_exported(self, exported: str, lease: Optional[float] = None) -> None:
        """Extend an exported hold to this many seconds from now; None: its lease."""
        with self._use() as client:
            check(library().hf_extend_exported(
                client, encode(exported, "text"), span_ms(lease, "lease")))

    def _take(self, call: _wait.Call, name: bytes, options: COptions, cancel: Optional[Cancel],
              on_lost: Optional[LostFunction]) -> Hold:
        hold = Hold(name, on_lost)
        hold._set_callback(options)
        try:
            self._ending(
                cancel, lambda: _wait.acquire(call, options, hold, self._closed_by, cancel))
        finally:
            hold._granted.set()
        return hold

    def _ending(self, cancel: Optional[Cancel], wait: Callable[[], None]) -> None:
        """Run a wait. If the client is closed, a cancel ends the wait with ClosedError."""
        try:
            wait()
        except CancelledError:
            if self._closing and not (cancel and cancel.fired):
                raise ClosedError("the client was closed") from None
            raise

    # -- Inspecting and breaking

    def inspect(self, name: Name) -> Info:
        """The holder of `name` and its waiters, as the store reports them now."""
        found = ctypes.POINTER(CInfo)()
        with self._use() as client:
            check(library().hf_inspect(client, encode(name), byref(found)))
        try:
            return info_of(found.contents)
        finally:
            library().hf_info_free(found)

    def list(self, pattern: Name = "*") -> Dict[str, Info]:
        """The names that are held or waited for and match the shell pattern, with their Info."""
        found: Dict[str, Info] = {}

        def each(name: bytes, info: Any, _arg: int) -> int:
            found[text(name)] = info_of(info.contents)
            return 0

        with self._use() as client:
            check(library().hf_list(client, encode(pattern, "pattern"), LIST_FN(each), None))
        return found

    def leader(self, name: Name) -> Optional[Leader]:
        """The current leader, as the store reports it; None if there is none."""
        found = ctypes.POINTER(CLeader)()
        try:
            with self._use() as client:
                check(library().hf_leader(client, encode(name), byref(found)))
        except NotHeldError:
            return None
        try:
            return leader_of(found.contents)
        finally:
            library().hf_leader_free(found)

    def observe(self, name: Name, function: LeaderFunction) -> Observer:
        """Call `function` with the Leader, or None, now and at every change that is seen.

        The function runs on the client's callback thread, until the observer is closed.
        """
        return Observer(self, name, function)

    def latch(self, name: Name) -> Latch:
        """The latch of that name. It is unrelated to a lock of the same name."""
        return Latch(self, name)

    def break_lock(self, name: Name, token: int = 0) -> None:
        """End the ownership of `name` by force. With a token, end it only if it has this token.

        The holder is notified of the loss. NotHeldError means that there was nothing to break.
        """
        if not 0 <= token < 1 << 64:
            raise InvalidError(f"the token {token} is not a 64-bit number")
        with self._use() as client:
            check(library().hf_break(client, encode(name), token))

    def stats(self) -> Stats:
        """Counters since the client was opened."""
        counted = CStats()
        with self._use() as client:
            check(library().hf_stats_get_v(client, byref(counted), ctypes.sizeof(counted)))
        return stats_of(counted)

    def metrics(self) -> str:
        """The counters in the OpenMetrics format."""
        said = ctypes.create_string_buffer(METRICS_MAX)
        with self._use() as client:
            check(library().hf_metrics_text(client, said, METRICS_MAX))
        return said.value.decode()

    # -- Closing

    def close(self) -> None:
        """Release all holds and end every wait, which raises ClosedError. Closing twice is allowed.

        Closing waits for callbacks to return. So if a callback calls this function, another thread
        closes the client.
        """
        if os.getpid() != self._pid:
            self._closer()  # frees memory
            return
        if getattr(callback_thread, "runs", False):
            threading.Thread(target=self.close).start()
            return
        with self._idle:
            self._closing = True
        self._closed_by.fire()
        with self._idle:
            self._idle.wait_for(lambda: self._using == 0)
        self._closer()

    @property
    def closed(self) -> bool:
        return self._closing

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    @contextlib.contextmanager
    def _use(self) -> Iterator[int]:
        """The library's client; it is not closed during the block."""
        if os.getpid() != self._pid:
            raise ForkedError("the client belongs to the parent process: open one in the child")
        with self._idle:
            if self._closing:
                raise ClosedError("the client is closed")
            self._using += 1
        try:
            yield self._pointer
        finally:
            with self._idle:
                self._using -= 1
                self._idle.notify_all()


def close_anywhere(client: int) -> None:
    """Close a client from any thread. The callback thread may drop the last reference to a client,
    but must not call hf_close, so a new thread calls it then."""
    if getattr(callback_thread, "runs", False):
        threading.Thread(target=library().hf_close, args=(client,)).start()
    else:
        library().hf_close(client)
