"""Which runs of a journal are deleted: those that are too old, then the oldest until the file is
small enough."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..journal import queries
from ..journal.queries import ENDED, RunHead
from ..journal.store import Store

DAY = 86_400.0


def forget_old(store: Store, days: float, size: int, interrupted: bool) -> int:
    """Delete runs that ended (``interrupted``: or were interrupted) more than ``days`` ago, and
    then the oldest ones until the journal takes at most ``size`` bytes; 0: no limit. Running and
    waiting runs stay.

    Returns the number of deleted runs. Raises JournalError.
    """
    statuses = (*ENDED, "interrupted") if interrupted else ENDED
    found = [one for one in queries.list_runs(store) if one.status in statuses]
    old = _old(store, found, days, size)
    if old:
        queries.forget(store, old)
    return len(old)


def _old(store: Store, found: Sequence[RunHead], days: float, size: int) -> list[int]:
    since = time.time() - days * DAY if days else 0.0
    old = [one.num for one in found if (one.ended or one.started) < since]
    if size and queries.size(store.path) > size:
        sizes = queries.sizes(store)
        left = sum(sizes.values()) - sum(sizes.get(num, 0) for num in old)
        for one in reversed(found):
            if left <= size:
                break
            if one.num not in old:
                old.append(one.num)
                left -= sizes.get(one.num, 0)
    return old
