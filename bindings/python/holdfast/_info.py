# SPDX-License-Identifier: Apache-2.0
"""Who holds a lock, and what a client has done."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

from ._library import CHistogram, CInfo, CStats, CWaiter, Kind, text


@dataclass(frozen=True)
class Waiter:
    """A client in the queue of a lock: one entry, even if several of its threads wait."""

    pid: int  # 0: unknown
    client: str
    owner: str
    host: str
    program: str
    label: str


@dataclass(frozen=True)
class Info:
    """Who holds a lock, as the store reports it. If the lock is free, only waiters are known."""

    held: bool
    kind: Kind
    count: int  # how many times its owner has entered
    remaining: float  # seconds until the store forgets it, if it is not renewed
    token: int
    since: float  # when it was granted, in seconds of Unix time, by the store's clock
    pid: int
    client: str
    owner: str
    host: str
    program: str
    label: str
    holders: int  # how many; the fields above describe one of them
    used: int  # permits
    capacity: int
    waiting: int  # clients in the queue
    waiters: Tuple[Waiter, ...]  # in queue order


@dataclass(frozen=True)
class Histogram:
    """Durations: buckets[i] counts those of at most 2**i microseconds, without earlier buckets."""

    count: int
    sum: float  # seconds
    buckets: Tuple[int, ...]


@dataclass(frozen=True)
class Stats:
    """Counters since the client was opened; `held` and `waiting` are current values."""

    acquired: int
    reentered: int
    released: int
    refused: int
    lost: int
    renewed: int
    commands: int
    reconnects: int
    held: int
    waiting: int
    handed_over: int  # acquires that waited while another had the lock, and then got it
    waits: Histogram  # from the call to the grant
    holds: Histogram  # from the grant to the release or the loss


WAITERS_MAX = 64  # of hf_info


def waiter_of(c: CWaiter) -> Waiter:
    return Waiter(
        c.pid, text(c.client), text(c.owner), text(c.host), text(c.program), text(c.label))


def info_of(c: CInfo) -> Info:
    waiters = tuple(waiter_of(c.waiters[i]) for i in range(min(c.waiting, WAITERS_MAX)))
    return Info(
        held=bool(c.held), kind=Kind(c.kind), count=c.count, remaining=c.remaining_ms / 1000,
        token=c.token, since=c.since_unix_ms / 1000, pid=c.pid, client=text(c.client),
        owner=text(c.owner), host=text(c.host), program=text(c.program), label=text(c.label),
        holders=c.holders, used=c.used, capacity=c.capacity, waiting=c.waiting, waiters=waiters)


def histogram_of(c: CHistogram) -> Histogram:
    return Histogram(c.count, c.sum_us / 1e6, tuple(c.bucket))


def stats_of(c: CStats) -> Stats:
    numbers = {field: getattr(c, field) for field, *_ in CStats._fields_}
    numbers.update(waits=histogram_of(c.waits), holds=histogram_of(c.holds))
    return Stats(**numbers)
