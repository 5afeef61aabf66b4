"""Which runs of a journal are forgotten: by their age, then the oldest until the file is small enough."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..journal import queries as history
from ..journal.queries import ENDED, RunHead
from ..journal.store import Store

DAY = 86_400.0


def prune(store: Store, days: float, size: int, cut: bool) -> int:
    """Forget runs that came to an end (``cut``: or were interrupted) more than ``days`` ago, and then the oldest ones
    until what is kept takes at most ``size`` bytes; 0: no limit. Those that go on or wait for an answer stay.

    Gives how many were forgotten. Raises Trouble.
    """
    statuses = (*ENDED, "interrupted") if cut else ENDED
    found = [one for one in history.list_runs(store) if one.status in statuses]
    old = _old(store, found, days, size)
    if old:
        history.forget(store, old)
    return len(old)


def _old(store: Store, found: Sequence[RunHead], days: float, size: int) -> list[int]:
    since = time.time() - days * DAY if days else 0.0
    old = [one.num for one in found if (one.ended or one.started) < since]
    if size and history.size(store.path) > size:
        sizes = history.sizes(store)
        left = sum(sizes.values()) - sum(sizes.get(num, 0) for num in old)
        for one in reversed(found):
            if left <= size:
                break
            if one.num not in old:
                old.append(one.num)
                left -= sizes.get(one.num, 0)
    return old
