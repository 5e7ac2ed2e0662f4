# SPDX-License-Identifier: Apache-2.0
"""An exception class for each result of the library."""
from __future__ import annotations

from typing import Dict, Type


class HoldfastError(Exception):
    """A call that failed.

    result: the number, as in holdfast.h; detail: one line that a person can act on, never a secret.
    """

    code = -1  # the result that the class is for

    def __init__(self, detail: str, result: int = -1) -> None:
        super().__init__(detail)
        self.detail = detail
        self.result = self.code if result < 0 else result

    def __str__(self) -> str:
        return self.detail


class BusyError(HoldfastError):
    """Another holds the lock, and this call did not wait."""

    code = 1


class WaitTimeoutError(HoldfastError, TimeoutError):
    """Another held the lock during the whole wait. It is a TimeoutError too."""

    code = 2


class CancelledError(HoldfastError):
    """The wait was cancelled."""

    code = 3


class LostError(HoldfastError):
    """The lock was lost while held: others may have worked since."""

    code = 4


class NotHeldError(HoldfastError):
    """The lock is not held: it was released before, or there is nothing to break."""

    code = 5


class DeadlockError(HoldfastError):
    """This owner holds the lock and may not acquire it again: waiting would never end."""

    code = 6


class UnreachableError(HoldfastError):
    """The store cannot be reached at the moment."""

    code = 7


class RefusedError(HoldfastError):
    """The store refused: password, rights, replica, memory, disk."""

    code = 8


class UnknownOutcomeError(HoldfastError):
    """The store did not answer. After an acquire: the lock is not held."""

    code = 9


class UnsupportedError(HoldfastError):
    """This store or this version of the library does not support it."""

    code = 10


class InvalidError(HoldfastError, ValueError):
    """An argument, a name, an option or a URL is not valid. It is a ValueError too."""

    code = 11


class ProtocolError(HoldfastError):
    """The server is not a Redis, or the key holds something else."""

    code = 12


class ForkedError(HoldfastError):
    """The client belongs to the parent process: open one in the child."""

    code = 13


class ClosedError(HoldfastError):
    """The client is closed."""

    code = 14


class NoMemoryError(HoldfastError):
    """Out of memory, descriptors or threads."""

    code = 15


class NoQuorumError(HoldfastError):
    """Too few nodes of a quorum can be reached, or may vote."""

    code = 16


_classes: Dict[int, Type[HoldfastError]] = {
    cls.code: cls for cls in HoldfastError.__subclasses__()
}


def error_of(result: int, detail: str) -> HoldfastError:
    """The exception for a result; a plain HoldfastError for one newer than this module."""
    return _classes.get(result, HoldfastError)(detail, result)
