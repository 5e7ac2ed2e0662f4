# SPDX-License-Identifier: Apache-2.0
"""Ending waits from outside."""
from __future__ import annotations

from typing import Set

from ._library import library
from .errors import NoMemoryError


class Cancel:
    """Ends the waits that use it. Once it has fired, later calls with it fail at once.

    Fire it from any thread, or from a handler of the signal module.
    """

    def __init__(self) -> None:
        self._pointer = library().hf_cancel_new()
        self._fired = False
        self._linked: Set[Cancel] = set()
        if not self._pointer:
            raise NoMemoryError("out of memory or descriptors")

    def fire(self) -> None:
        """End every wait that uses it. The waits raise CancelledError."""
        self._fired = True
        library().hf_cancel_fire(self._pointer)
        # No lock: a signal handler may run in the middle of link(), which checks again at its end.
        for other in tuple(self._linked):
            other.fire()

    @property
    def fired(self) -> bool:
        return self._fired

    def link(self, other: Cancel) -> None:
        """Fire `other` together with this one, until unlink()."""
        self._linked.add(other)
        if self._fired:
            other.fire()

    def unlink(self, other: Cancel) -> None:
        self._linked.discard(other)

    def __del__(self) -> None:
        # Safe: every call that uses it has a reference to it.
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer:
            library().hf_cancel_free(pointer)
