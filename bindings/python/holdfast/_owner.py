"""Who takes a lock."""
from __future__ import annotations

import itertools
from typing import Union

from ._library import FRESH_OWNER, COptions
from .errors import InvalidError

NAMED = 1 << 63  # what a program may choose is below, what is made here is not
numbers = itertools.count(NAMED)


class Owner:
    """Somebody who may take a lock again: give it to each acquire that is to re-enter.

    A task, a thread or an object makes one and keeps it. Without an owner every acquire has its own, since tasks share
    threads: two tasks of an event loop would otherwise both have the lock.
    """

    def __init__(self) -> None:
        self._number = next(numbers)

    def __repr__(self) -> str:
        return f"<holdfast.Owner o{self._number}>"


def set_owner(options: COptions, owner: Union[int, Owner, None]) -> None:
    if owner is None:
        options.flags |= FRESH_OWNER
    elif isinstance(owner, Owner):
        options.owner = owner._number
    elif 0 < owner < NAMED:
        options.owner = owner
    else:
        raise InvalidError(f"owner is {owner}: a holdfast.Owner, or a number from 1 to 2**63 - 1")
