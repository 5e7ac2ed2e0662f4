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
from ._library import (LIST_FN, NO_RENEW, NOT_REENTRANT, CClientOptions, CInfo, CLeader, COptions, CStats,
                       Kind, check, count, encode, library, span_ms, text, value_of, wait_ms)
from ._owner import Owner, set_owner
from ._request import Name, Request, plain
from .errors import (BusyError, CancelledError, ClosedError, ForkedError, InvalidError,
                     NotHeldError, WaitTimeoutError)

METRICS_MAX = 32768  # bytes

class Client:
    """A client of the store that a URL names; without one, of $HOLDFAST_URL.

    Threads of one process usually share one. Closing it, or leaving its `with` block, releases what it
    holds. A client is not for a forked child: it opens its own.
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
        self._closed_by = Cancel()  # ends the waits when it closes
        opened = c_void_p()
        check(library().hf_open_v(None if url is None else encode(url, "URL"), byref(options),
                                  ctypes.sizeof(options), byref(opened)))
        self._pid = os.getpid()
        self._pointer: int = opened.value or 0
        self._closing = False
        self._using = 0  # calls that are in the library
        self._idle = threading.Condition()
        # At the latest while Python still runs: callbacks need it.
        self._closer = weakref.finalize(self, close_anywhere, self._pointer)

    # -- Taking locks

    def acquire(self, name: Name, timeout: Optional[float] = None, *, lease: Optional[float] = None,
                max_hold: Optional[float] = None, kind: Kind = Kind.MUTEX, permits: int = 0,
                capacity: int = 0, owner: Union[int, Owner, None] = None, cancel: Optional[Cancel] = None,
                on_lost: Optional[LostFunction] = None, renew: bool = True,
                reentrant: bool = True) -> Hold:
        """Take the lock `name`, and return the hold: use it in a `with` statement.

        timeout   seconds to wait; None: without end; 0: try once
        lease     seconds after which the store forgets it if it is not renewed; None: the client's
        max_hold  it is lost this many seconds after it was asked for, whatever renews it
        owner     who takes it: an Owner, or a number of yours. An owner that has it takes it again. None: this call
                  alone, which excludes every other call, also of the same thread and task
        reentrant False: an owner that has it gets DeadlockError instead
        on_lost   called once with the hold if it is lost, on a thread of the client's

        Raises BusyError, WaitTimeoutError, CancelledError, DeadlockError, UnreachableError and the other
        classes of HoldfastError.
        """
        options = COptions(
            wait_ms=wait_ms(timeout), lease_ms=span_ms(lease, "lease"),
            max_hold_ms=span_ms(max_hold, "max_hold"), kind=int(kind),
            permits=count(permits, "permits"), capacity=count(capacity, "capacity"),
            flags=(0 if renew else NO_RENEW) | (0 if reentrant else NOT_REENTRANT))
        set_owner(options, owner)
        raw = encode(name)
        return self._take(_wait.One(self._use, raw), raw, options, cancel, on_lost)

    def acquire_all(self, requests: Iterable[Union[Name, Request]], timeout: Optional[float] = None, *,
                    lease: Optional[float] = None, max_hold: Optional[float] = None,
                    owner: Union[int, Owner, None] = None, cancel: Optional[Cancel] = None,
                    on_lost: Optional[LostFunction] = None, renew: bool = True) -> Hold:
        """Take several names, all or none, as one hold: names, or a Request for what is no mutex.

        They are taken in one order by everybody, so that nobody waits for each other. The hold is lost with the
        first that is lost. Otherwise as acquire().
        """
        options = COptions(
            wait_ms=wait_ms(timeout), lease_ms=span_ms(lease, "lease"),
            max_hold_ms=span_ms(max_hold, "max_hold"), flags=0 if renew else NO_RENEW)
        set_owner(options, owner)
        every = [plain(request) for request in requests]
        name = b", ".join(each.name for each in every)
        return self._take(_wait.All(self._use, every), name, options, cancel, on_lost)

    def try_acquire(self, name: Name, timeout: Optional[float] = 0, *, lease: Optional[float] = None,
                    max_hold: Optional[float] = None, kind: Kind = Kind.MUTEX, permits: int = 0,
                    capacity: int = 0, owner: Union[int, Owner, None] = None, cancel: Optional[Cancel] = None,
                    on_lost: Optional[LostFunction] = None, renew: bool = True,
                    reentrant: bool = True) -> Optional[Hold]:
        """As acquire(), but without waiting unless told to; None if another has the lock."""
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
        """Wait to lead: take the lock `name`, and publish `value` under its token. Releasing it resigns.

        Hold.proclaim says something else. Otherwise as acquire().
        """
        options = COptions(
            wait_ms=wait_ms(timeout), lease_ms=span_ms(lease, "lease"),
            max_hold_ms=span_ms(max_hold, "max_hold"))
        set_owner(options, owner)
        raw = encode(name)
        return self._take(_wait.Lead(self._use, raw, value_of(value)), raw, options, cancel, on_lost)

    def adopt(self, exported: str, *, lease: Optional[float] = None, max_hold: Optional[float] = None,
              on_lost: Optional[LostFunction] = None, renew: bool = True) -> Hold:
        """Take over what has left a process by Hold.leave()."""
        options = COptions(lease_ms=span_ms(lease, "lease"), max_hold_ms=span_ms(max_hold, "max_hold"),
                           flags=0 if renew else NO_RENEW)
        raw = encode(exported, "text")
        hold = Hold(urllib.parse.unquote_to_bytes(raw.rpartition(b":")[2]), on_lost)
        hold._told_by(options)
        try:
            with self._use() as client:
                check(library().hf_adopt_v(
                    client, raw, byref(options), ctypes.sizeof(options), byref(hold._cell)))
        finally:
            hold._granted.set()
        return hold

    def extend_exported(self, exported: str, lease: Optional[float] = None) -> None:
        """Make what has left last so many seconds from now; None: its lease."""
        with self._use() as client:
            check(library().hf_extend_exported(client, encode(exported, "text"), span_ms(lease, "lease")))

    def _take(self, asking: _wait.Asking, name: bytes, options: COptions, cancel: Optional[Cancel],
              on_lost: Optional[LostFunction]) -> Hold:
        hold = Hold(name, on_lost)
        hold._told_by(options)
        try:
            self._ending(cancel, lambda: _wait.acquire(asking, options, hold, self._closed_by, cancel))
        finally:
            hold._granted.set()
        return hold

    def _ending(self, cancel: Optional[Cancel], wait: Callable[[], None]) -> None:
        """Closing ends waits by a cancel of its own."""
        try:
            wait()
        except CancelledError:
            if self._closing and not (cancel and cancel.fired):
                raise ClosedError("the client was closed") from None
            raise

    # -- Looking and breaking

    def inspect(self, name: Name) -> Info:
        """Ask the store who holds `name`, and who waits for it."""
        found = ctypes.POINTER(CInfo)()
        with self._use() as client:
            check(library().hf_inspect(client, encode(name), byref(found)))
        try:
            return info_of(found.contents)
        finally:
            library().hf_info_free(found)

    def list(self, pattern: Name = "*") -> Dict[str, Info]:
        """The names that are held or waited for and match `pattern`, as a shell's does, and who has them."""
        found: Dict[str, Info] = {}

        def each(name: bytes, info: Any, _arg: int) -> int:
            found[text(name)] = info_of(info.contents)
            return 0

        with self._use() as client:
            check(library().hf_list(client, encode(pattern, "pattern"), LIST_FN(each), None))
        return found

    def leader(self, name: Name) -> Optional[Leader]:
        """Ask the store who leads; None: nobody does."""
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
        """Have `function` called with the Leader, or None, now and at every change that is seen.

        It is called on a thread of the client's, until the observer is closed.
        """
        return Observer(self, name, function)

    def latch(self, name: Name) -> Latch:
        """The latch of that name; no lock's name is in its way."""
        return Latch(self, name)

    def break_lock(self, name: Name, token: int = 0) -> None:
        """The operator's force: end the ownership of `name`; with a token only if it is that one.

        Its holder is told that it lost it. NotHeldError says that there was nothing to break.
        """
        if not 0 <= token < 1 << 64:
            raise InvalidError(f"the token {token} is no number of 64 bits")
        with self._use() as client:
            check(library().hf_break(client, encode(name), token))

    def stats(self) -> Stats:
        """What this client has done so far."""
        counted = CStats()
        with self._use() as client:
            check(library().hf_stats_get_v(client, byref(counted), ctypes.sizeof(counted)))
        return stats_of(counted)

    def metrics(self) -> str:
        """The same in the OpenMetrics format."""
        said = ctypes.create_string_buffer(METRICS_MAX)
        with self._use() as client:
            check(library().hf_metrics_text(client, said, METRICS_MAX))
        return said.value.decode()

    # -- Closing

    def close(self) -> None:
        """Release what is held and end every wait with ClosedError. Closing twice is allowed.

        Called by an on_lost it is done behind, for it waits until those have returned.
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
        """The library's client, which is not closed meanwhile."""
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
    """hf_close, which may not be called by the thread that runs callbacks: the last reference to a client
    may go there."""
    if getattr(callback_thread, "runs", False):
        threading.Thread(target=library().hf_close, args=(client,)).start()
    else:
        library().hf_close(client)
