# SPDX-License-Identifier: Apache-2.0
"""Distributed locks, on a database or in a directory.

    with holdfast.Client("redis://localhost") as client:
        with client.acquire("invoices", timeout=5) as hold:
            write_with_token(hold.fence)

Times are in seconds. This is a thin layer over the C library. holdfast.h describes the calls in
full.
"""
from ._cancel import Cancel
from ._client import Client
from ._hold import Hold
from ._info import Histogram, Info, Stats, Waiter
from ._latch import Latch
from ._leader import Leader, Observer
from ._library import Kind, library_version
from ._owner import Owner
from ._request import Request
from .errors import (
    BusyError,
    CancelledError,
    ClosedError,
    DeadlockError,
    ForkedError,
    HoldfastError,
    InvalidError,
    LostError,
    NoMemoryError,
    NoQuorumError,
    NotHeldError,
    ProtocolError,
    RefusedError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
    WaitTimeoutError,
)

__version__ = "0.2.0"

__all__ = [
    "BusyError",
    "Cancel",
    "CancelledError",
    "Client",
    "ClosedError",
    "DeadlockError",
    "ForkedError",
    "Histogram",
    "Hold",
    "HoldfastError",
    "Info",
    "InvalidError",
    "Kind",
    "Latch",
    "Leader",
    "LostError",
    "NoMemoryError",
    "NoQuorumError",
    "NotHeldError",
    "Observer",
    "Owner",
    "ProtocolError",
    "RefusedError",
    "Request",
    "Stats",
    "UnknownOutcomeError",
    "UnreachableError",
    "UnsupportedError",
    "Waiter",
    "WaitTimeoutError",
    "library_version",
]
