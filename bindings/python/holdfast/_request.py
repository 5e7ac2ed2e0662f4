# SPDX-License-Identifier: Apache-2.0
"""One of several names to acquire at once."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from ._library import NOT_REENTRANT, CRequest, Kind, count, encode

Name = Union[str, bytes]


@dataclass(frozen=True)
class Request:
    """A name for Client.acquire_all, for kinds other than the mutex."""

    name: Name
    kind: Kind = Kind.MUTEX
    permits: int = 0
    capacity: int = 0
    reentrant: bool = True


def plain(request: Union[Name, Request]) -> CRequest:
    if not isinstance(request, Request):
        request = Request(request)
    return CRequest(
        name=encode(request.name), kind=int(request.kind),
        permits=count(request.permits, "permits"), capacity=count(request.capacity, "capacity"),
        flags=0 if request.reentrant else NOT_REENTRANT)
