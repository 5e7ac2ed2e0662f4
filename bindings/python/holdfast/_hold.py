# SPDX-License-Identifier: Apache-2.0
"""A lock that is held."""
from __future__ import annotations

import contextlib
import ctypes
import itertools
import sys
import threading
import weakref
from ctypes import c_void_p
from types import TracebackType
from typing import Callable, Dict, Iterator, Optional, Tuple, Type, Union

from ._library import (FOREVER, LOST_FN, OK, TIMEOUT, COptions, c_hold, check, detail_of, library,
                       span_ms, text, value_of, wait_ms)
from .errors import LostError, NotHeldError, error_of

LostFunction = Callable[["Hold"], None]

# The functions to call when a hold is lost. The key is the number that was passed to the library.
lost_functions: Dict[int, Tuple[LostFunction, "weakref.ref[Hold]"]] = {}
numbers = itertools.count(1)

# Marks the thread that runs a callback. It must not close a client, which waits for callbacks.
callback_thread = threading.local()


@contextlib.contextmanager
def in_callback() -> Iterator[None]:
    callback_thread.runs = True
    try:
        yield
    finally:
        callback_thread.runs = False


# Python's signal handlers cannot run during a wait inside the library. So an upgrade in the main
# thread returns to Python this often. It keeps its position ahead of all other waiters.
SLICE_MS = 500

EXPORT_MAX = 3584  # bytes


def call_lost_function(_hold: int, number: int) -> None:
    with in_callback():
        function, reference = lost_functions.get(number, (None, None))
        hold = reference() if reference else None
        if function and hold:
            hold._granted.wait()  # a loss may be reported before the acquire has returned
            function(hold)
        del hold  # here, while the thread is marked as one that runs callbacks


c_lost_function = LOST_FN(call_lost_function)


class Hold:
    """An ownership of a lock, from Client.acquire. Leaving its `with` block releases it.

    held, remaining, fence and why_lost do not contact the store. A Hold keeps a reference to the
    library's handle as long as it lives, so any thread may use it at any time.
    """

    def __init__(self, name: bytes, on_lost: Optional[LostFunction] = None) -> None:
        # The library writes the handle directly into this cell, so that an interrupt in between
        # cannot lose it.
        self._cell = c_void_p()
        self._name = name
        self._released = False
        self._granted = threading.Event()
        self._number = 0
        if on_lost:
            self._number = next(numbers)
            lost_functions[self._number] = on_lost, weakref.ref(self)

    def _set_callback(self, options: COptions) -> None:
        if self._number:
            options.on_lost = ctypes.cast(c_lost_function, c_void_p)
            options.arg = self._number

    def __repr__(self) -> str:
        state = "held" if self.held else "not held"
        return f"<holdfast.Hold {text(self._name)!r}, {state}, token {self.fence}>"

    # -- State

    @property
    def name(self) -> str:
        return text(self._name)

    @property
    def held(self) -> bool:
        """True while it is held. False after a release or a loss, and after the deadline."""
        return bool(library().hf_held(self._cell))

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, unless it is renewed; 0 if it is not held."""
        return float(library().hf_remaining_ms(self._cell)) / 1000

    @property
    def fence(self) -> int:
        """The token, greater than those of earlier holders. A resource should refuse lower ones."""
        return int(library().hf_fence(self._cell))

    def fence_of(self, index: int) -> int:
        """The token of one of several names, by its index in acquire_all; 0 if out of range."""
        return int(library().hf_fence_of(self._cell, index)) if index >= 0 else 0

    @property
    def why_lost(self) -> Optional[str]:
        """Why it was lost, in one line; None if it was not."""
        why = library().hf_why_lost(self._cell)
        return text(why) if why else None

    def fileno(self) -> int:
        """A descriptor that polls readable once the hold is lost. Do not read from it."""
        return int(library().hf_lost_fd(self._cell))

    def check(self) -> None:
        """Raise LostError if it was lost, or NotHeldError if it was released. No round trip."""
        if self.held:
            return
        if self._released:
            raise NotHeldError("the hold was released")
        raise LostError(self.why_lost or "the hold is over")

    # -- Operations

    def extend(self, lease: float) -> None:
        """Extend it to at least this many seconds from now."""
        check(library().hf_extend(self._cell, span_ms(lease, "lease")))

    def upgrade(self, timeout: Optional[float] = None) -> None:
        """Turn an UPGRADABLE hold into a writer's. Waits until the other readers have released."""
        left = wait_ms(timeout)
        in_slices = threading.current_thread() is threading.main_thread()
        while in_slices and (left == FOREVER or left > SLICE_MS):
            result = library().hf_upgrade(self._cell, SLICE_MS)
            if result != TIMEOUT:
                check(result)
                return
            left = left if left == FOREVER else left - SLICE_MS
        check(library().hf_upgrade(self._cell, left))

    def downgrade(self) -> None:
        """Turn a writer's hold into a reader's; the lock is not free in between."""
        check(library().hf_downgrade(self._cell))

    def proclaim(self, value: Union[str, bytes]) -> None:
        """Publish a value. From then on the holder leads. See Client.campaign."""
        data = value_of(value)
        check(library().hf_proclaim(self._cell, data, len(data)))

    def leave(self) -> str:
        """Export the hold from this process. Any process can adopt it with the returned text.

        See Client.adopt. The hold lasts for its lease, without renewal. Only a mutex on a server
        can be exported. If this raises an error, the hold was not exported. But after
        UnknownOutcomeError this is unknown.
        """
        hf = library()
        exported = ctypes.create_string_buffer(EXPORT_MAX)
        mine = c_hold(hf.hf_ref(self._cell))
        result = hf.hf_export(mine, exported, EXPORT_MAX)
        if result != OK:
            failure = error_of(result, detail_of(result))
            hf.hf_unref(mine)
            raise failure
        self._released = True
        return text(exported.value)

    def release(self) -> None:
        """Release the lock. LostError: it was lost before, and others may have worked since."""
        result, detail = self._end()
        if result != OK:
            raise error_of(result, detail)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._released:  # inside the block
            return
        result, detail = self._end()
        if result != OK and kind is None:  # the block's own exception takes precedence
            raise error_of(result, detail)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # This does not wait for the store, because it may run on any thread at any time. When
        # Python ends, the clients are already closed, and the names of this module are gone.
        if ending():
            return
        cell = getattr(self, "_cell", None)
        if cell:
            library().hf_unref(cell)
        lost_functions.pop(getattr(self, "_number", 0), None)

    def _end(self) -> Tuple[int, str]:
        hf = library()
        result: int = hf.hf_release(c_hold(hf.hf_ref(self._cell)))
        detail = detail_of(result) if result != OK else ""
        self._released = True
        return result, detail
