# SPDX-License-Identifier: Apache-2.0
"""Leaders and observers."""
from __future__ import annotations

import ctypes
import itertools
from ctypes import byref, c_void_p
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Type

from ._hold import in_callback
from ._library import LEADER_FN, CLeader, check, encode, library, text

if TYPE_CHECKING:
    from ._client import Client
    from ._request import Name


@dataclass(frozen=True)
class Leader:
    """The leader: it holds the lock and has published a value under its token."""

    token: int  # the fence of its hold
    value: bytes
    remaining: float  # seconds until the store forgets it, if it is not renewed
    pid: int  # 0: unknown
    client: str
    host: str
    program: str
    label: str


LeaderFunction = Callable[[Optional[Leader]], None]

# The functions to call. The key is the number that was passed to the library.
observers: Dict[int, LeaderFunction] = {}
numbers = itertools.count(1)


def leader_of(c: CLeader) -> Leader:
    return Leader(
        token=c.token, value=ctypes.string_at(c.value, c.value_length),
        remaining=c.remaining_ms / 1000, pid=c.pid, client=text(c.client), host=text(c.host),
        program=text(c.program), label=text(c.label))


def call_observer(found: Any, number: int) -> None:  # a pointer to a CLeader
    with in_callback():
        function = observers.get(number)
        if function:
            function(leader_of(found.contents) if found else None)


c_observer_function = LEADER_FN(call_observer)


class Observer:
    """Calls a function with the Leader, or None, now and at every change; from Client.observe.

    It ends with close(), or with its `with` block.
    """

    def __init__(self, client: Client, name: Name, function: LeaderFunction) -> None:
        self._cell = c_void_p()
        self._number = next(numbers)
        observers[self._number] = function
        try:
            with client._use() as pointer:
                check(library().hf_observe(
                    pointer, encode(name), c_observer_function, self._number, byref(self._cell)))
        except BaseException:
            del observers[self._number]
            raise

    def close(self) -> None:
        """End it: the callback does not run any more, unless it made this call itself."""
        pointer, self._cell = self._cell, c_void_p()
        observers.pop(self._number, None)
        if pointer:
            library().hf_unobserve(pointer)

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_cell", None):
            self.close()
