# SPDX-License-Identifier: Apache-2.0
"""Waiting until others have done their part."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_uint32
from typing import TYPE_CHECKING, Optional

from . import _wait
from ._cancel import Cancel
from ._library import COptions, check, count, encode, library, text, wait_ms
from .errors import BusyError, WaitTimeoutError

if TYPE_CHECKING:
    from ._client import Client
    from ._request import Name


class Latch:
    """A latch is set to a count and counted down; at zero it opens. It comes from Client.latch.

    It can be set again, for another round. A latch that is not set raises NotHeldError.
    """

    def __init__(self, client: Client, name: Name) -> None:
        self._client = client
        self._name = encode(name)

    @property
    def name(self) -> str:
        return text(self._name)

    def set(self, number: int) -> None:
        """Begin a round with this count; 0 is open at once."""
        with self._client._use() as client:
            check(library().hf_latch_set(client, self._name, count(number, "count")))

    def count_down(self, by: int = 1) -> int:
        """Count down, never below zero, and return the remaining count."""
        left = c_uint32()
        with self._client._use() as client:
            check(library().hf_latch_count_down(client, self._name, count(by, "by"), byref(left)))
        return left.value

    @property
    def left(self) -> int:
        """The remaining count of this round, as the store reports it."""
        left = c_uint32()
        with self._client._use() as client:
            check(library().hf_latch_left(client, self._name, byref(left)))
        return left.value

    def wait(self, timeout: Optional[float] = None, *, cancel: Optional[Cancel] = None) -> bool:
        """Wait until it is open. False: it was not open after `timeout` seconds. None: forever."""
        options = COptions(wait_ms=wait_ms(timeout))
        try:
            self._client._ending(
                cancel, lambda: _wait.run(self._ask, options, self._client._closed_by, cancel))
        except (BusyError, WaitTimeoutError):
            return False
        return True

    def _ask(self, options: COptions) -> int:
        with self._client._use() as client:
            result: int = library().hf_latch_wait_v(
                client, self._name, byref(options), ctypes.sizeof(options))
        return result
