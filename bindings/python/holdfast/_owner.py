# SPDX-License-Identifier: Apache-2.0
"""The owner of a lock."""
from __future__ import annotations

import itertools
from typing import Union

from ._library import FRESH_OWNER, COptions
from .errors import InvalidError

NAMED = 1 << 63  # programs choose numbers below this; Owner objects have this number or higher ones
numbers = itertools.count(NAMED)


class Owner:
    """An owner that may re-enter a lock: pass it to each acquire that is to re-enter.

    A task, a thread or an object creates one and keeps it. Without an Owner, every acquire has a
    new owner. If the thread were the owner, two tasks of one event loop could hold a lock at once.
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
