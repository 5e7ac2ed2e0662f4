# SPDX-License-Identifier: Apache-2.0
"""The shared library: its location, its functions and its structs."""
from __future__ import annotations

import ctypes
import enum
import functools
import math
import os
import pathlib
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Iterator, Optional, Union

from .errors import InvalidError, error_of

OK, BUSY, TIMEOUT, CLOSED = 0, 1, 2, 14
FOREVER = -1
SPAN_MAX = 1e12  # seconds: effectively forever, and well inside 64 bits
NO_RENEW, NOT_REENTRANT, FRESH_OWNER = 1, 2, 4
SONAME = "libholdfast.so.0"
# Before 1.0 a minor version may change the interface.
COMPATIBLE = "0.2."


class Kind(enum.IntEnum):
    """Kinds of lock. All of them share the queue of a name."""

    MUTEX = 0
    READ = 1
    WRITE = 2
    UPGRADABLE = 3  # a reader that may become the writer: one at a time
    PERMITS = 4


# ---- Structs, as checked by tests/api/layout -----------------------------------------------------

class COptions(ctypes.Structure):
    _fields_ = [
        ("wait_ms", c_int64), ("lease_ms", c_int64), ("max_hold_ms", c_int64), ("owner", c_uint64),
        ("cancel", c_void_p), ("on_lost", c_void_p), ("arg", c_void_p), ("kind", c_uint32),
        ("permits", c_uint32), ("capacity", c_uint32), ("flags", c_uint32),
    ]


class CRequest(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("kind", c_uint32), ("permits", c_uint32), ("capacity", c_uint32),
        ("flags", c_uint32),
    ]


class CClientOptions(ctypes.Structure):
    _fields_ = [
        ("lease_ms", c_int64), ("connect_timeout_ms", c_int64), ("command_timeout_ms", c_int64),
        ("outage_ms", c_int64), ("label", c_char_p), ("log", c_void_p), ("log_arg", c_void_p),
        ("log_level", c_uint32), ("flags", c_uint32),
    ]


class CWaiter(ctypes.Structure):
    _fields_ = [
        ("pid", c_int64), ("client", c_char_p), ("owner", c_char_p), ("host", c_char_p),
        ("program", c_char_p), ("label", c_char_p),
    ]


class CInfo(ctypes.Structure):
    _fields_ = [
        ("held", c_int32), ("kind", c_uint32), ("count", c_uint32), ("waiting", c_uint32),
        ("remaining_ms", c_int64), ("token", c_uint64), ("since_unix_ms", c_int64),
        ("pid", c_int64), ("client", c_char_p), ("owner", c_char_p), ("host", c_char_p),
        ("program", c_char_p), ("label", c_char_p), ("waiters", POINTER(CWaiter)),
        ("holders", c_uint32),
        ("used", c_uint32), ("capacity", c_uint32),
    ]


class CLeader(ctypes.Structure):
    _fields_ = [
        ("token", c_uint64), ("remaining_ms", c_int64), ("pid", c_int64), ("value", c_void_p),
        ("client", c_char_p), ("host", c_char_p), ("program", c_char_p), ("label", c_char_p),
        ("value_length", c_uint32),
    ]


class CHistogram(ctypes.Structure):
    _fields_ = [("count", c_uint64), ("sum_us", c_uint64), ("bucket", c_uint64 * 40)]


class CStats(ctypes.Structure):
    _fields_ = [*((name, c_uint64) for name in (
        "acquired", "reentered", "released", "refused", "lost", "renewed", "commands", "reconnects",
        "held", "waiting", "handed_over")), ("waits", CHistogram), ("holds", CHistogram)]


# ---- Functions -----------------------------------------------------------------------------------

c_hold = c_void_p  # ctypes returns a pointer as a number; this makes it a pointer again
LOST_FN = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
ACQUIRED_FN = ctypes.CFUNCTYPE(None, c_int32, c_void_p, c_void_p)
LIST_FN = ctypes.CFUNCTYPE(c_int32, c_char_p, POINTER(CInfo), c_void_p)
LEADER_FN = ctypes.CFUNCTYPE(None, POINTER(CLeader), c_void_p)

SIGNATURES = {
    "hf_version": (c_char_p, []),
    "hf_error_detail": (c_char_p, []),
    "hf_result_text": (c_char_p, [c_int32]),
    "hf_open_v": (c_int32, [c_char_p, POINTER(CClientOptions), c_size_t, POINTER(c_void_p)]),
    "hf_close": (None, [c_void_p]),
    "hf_acquire_v": (c_int32, [c_void_p, c_char_p, POINTER(COptions), c_size_t, POINTER(c_void_p)]),
    "hf_acquire_all_v": (c_int32, [c_void_p, POINTER(CRequest), c_size_t, c_size_t,
                                   POINTER(COptions), c_size_t, POINTER(c_void_p)]),
    "hf_acquire_async_v": (
        c_int32, [c_void_p, c_char_p, POINTER(COptions), c_size_t, ACQUIRED_FN, c_void_p]),
    "hf_release": (c_int32, [c_void_p]),
    "hf_ref": (c_void_p, [c_void_p]),
    "hf_unref": (None, [c_void_p]),
    "hf_extend": (c_int32, [c_void_p, c_int64]),
    "hf_upgrade": (c_int32, [c_void_p, c_int64]),
    "hf_downgrade": (c_int32, [c_void_p]),
    "hf_held": (c_int32, [c_void_p]),
    "hf_remaining_ms": (c_int64, [c_void_p]),
    "hf_fence": (c_uint64, [c_void_p]),
    "hf_fence_of": (c_uint64, [c_void_p, c_size_t]),
    "hf_lost_fd": (c_int32, [c_void_p]),
    "hf_why_lost": (c_char_p, [c_void_p]),
    "hf_cancel_new": (c_void_p, []),
    "hf_cancel_fire": (None, [c_void_p]),
    "hf_cancel_free": (None, [c_void_p]),
    "hf_inspect": (c_int32, [c_void_p, c_char_p, POINTER(POINTER(CInfo))]),
    "hf_info_free": (None, [POINTER(CInfo)]),
    "hf_list": (c_int32, [c_void_p, c_char_p, LIST_FN, c_void_p]),
    "hf_export": (c_int32, [c_void_p, c_char_p, c_size_t]),
    "hf_adopt_v": (c_int32, [c_void_p, c_char_p, POINTER(COptions), c_size_t, POINTER(c_void_p)]),
    "hf_extend_exported": (c_int32, [c_void_p, c_char_p, c_int64]),
    "hf_latch_set": (c_int32, [c_void_p, c_char_p, c_uint32]),
    "hf_latch_count_down": (c_int32, [c_void_p, c_char_p, c_uint32, POINTER(c_uint32)]),
    "hf_latch_wait_v": (c_int32, [c_void_p, c_char_p, POINTER(COptions), c_size_t]),
    "hf_latch_left": (c_int32, [c_void_p, c_char_p, POINTER(c_uint32)]),
    "hf_campaign_v": (c_int32, [c_void_p, c_char_p, c_char_p, c_size_t, POINTER(COptions), c_size_t,
                                POINTER(c_void_p)]),
    "hf_proclaim": (c_int32, [c_void_p, c_char_p, c_size_t]),
    "hf_leader": (c_int32, [c_void_p, c_char_p, POINTER(POINTER(CLeader))]),
    "hf_leader_free": (None, [POINTER(CLeader)]),
    "hf_observe": (c_int32, [c_void_p, c_char_p, LEADER_FN, c_void_p, POINTER(c_void_p)]),
    "hf_unobserve": (None, [c_void_p]),
    "hf_break": (c_int32, [c_void_p, c_char_p, c_uint64]),
    "hf_metrics_text": (c_int32, [c_void_p, c_char_p, c_size_t]),
    "hf_stats_get_v": (c_int32, [c_void_p, POINTER(CStats), c_size_t]),
}


def candidates() -> Iterator[str]:
    """Paths where the library may be, the best first. Only $HOLDFAST_LIBRARY, if it is set."""
    named = os.environ.get("HOLDFAST_LIBRARY")
    if named:
        yield named
        return
    root = pathlib.Path(__file__).resolve().parents[3]
    if (root / "include" / "holdfast.h").exists():  # a source tree
        for preset in ("release", "dev"):
            built = root / "build" / preset / "src" / SONAME
            if built.exists():
                yield str(built)
    yield SONAME


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded at first use. Calls into it let other Python threads run."""
    failures = []
    for path in candidates():
        try:
            loaded = ctypes.CDLL(path)
        except OSError as failure:
            failures.append(str(failure))
            continue
        return declare(loaded, path)
    raise ImportError(
        "libholdfast is not found; install it, or name it in HOLDFAST_LIBRARY: "
        + "; ".join(failures))


def declare(loaded: ctypes.CDLL, path: str) -> ctypes.CDLL:
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name, None)
        if function is None:
            raise ImportError(f"{path} lacks {name}: it is older than this module")
        function.restype, function.argtypes = result, arguments
    version = loaded.hf_version().decode()
    if not version.startswith(COMPATIBLE):
        raise ImportError(f"{path} is libholdfast {version}; this module needs {COMPATIBLE}x")
    return loaded


def library_version() -> str:
    """The version of the loaded library."""
    version: bytes = library().hf_version()
    return version.decode()


# ---- Values --------------------------------------------------------------------------------------

def check(result: int) -> None:
    """Raise the exception for a result, with this thread's error detail."""
    if result != OK:
        raise error_of(result, detail_of(result))


def detail_of(result: int) -> str:
    hf = library()
    said: bytes = hf.hf_error_detail() or hf.hf_result_text(result)
    return text(said)


def text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "surrogateescape")


def encode(name: Union[str, bytes], what: str = "name") -> bytes:
    raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else bytes(name)
    if b"\0" in raw:  # C would stop at it
        raise InvalidError(f"the {what} contains a NUL byte")
    return raw


def value_of(value: Union[str, bytes]) -> bytes:
    """The value of a leader: any bytes."""
    return value.encode() if isinstance(value, str) else bytes(value)


def wait_ms(timeout: Optional[float]) -> int:
    """A wait in seconds; None is forever. Rounded up, because it must not end early."""
    if timeout is None or timeout == math.inf:
        return FOREVER
    if not 0 <= timeout < SPAN_MAX:  # also refuses what is not a number
        raise InvalidError(f"timeout is {timeout!r}; it must be a number of seconds, 0 or more")
    return math.ceil(timeout * 1000)


def span_ms(seconds: Optional[float], what: str) -> int:
    """A duration in seconds; None is the default, which is 0 for the library."""
    if seconds is None:
        return 0
    if not 0 < seconds < SPAN_MAX:
        raise InvalidError(f"{what} is {seconds!r}; it must be a number of seconds, above 0")
    return math.ceil(seconds * 1000)


def count(number: int, what: str) -> int:
    if not 0 <= number < 1 << 32:
        raise InvalidError(f"{what} is {number!r}; it must be a number from 0 to 2**32 - 1")
    return number
