"""Deletes old runs from the journal: when a process journals its first run, or when a person asks."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...journal import deletion
from ...journal import runs as queries
from ...journal.database.store import Store
from ...journal.runs import ENDED, RunHead
from ...settings.settings import Settings, current


def prune_once(store: Store) -> None:
    """Delete the runs that are too old, once in a process. Raises JournalError."""
    if store.path in _pruned:
        return
    _pruned.add(store.path)
    days, size = current.settings.journal_days, most_bytes(store)
    since = time.time() - days * DAY if days else 0.0
    if queries.has_older(store, since) or 0 < size < deletion.size(store):
        # Deleting thousands of runs takes seconds, and the first run of the process must not wait.
        store.in_background(lambda: forget_old(store, days, size, automatic=True))


def most_bytes(store: Store) -> int:
    """The bytes that the journal and its values may take; 0: no limit. A number equal to the
    default counts as not set: then the limit is at most a tenth of the disk."""
    size = current.settings.journal_size
    if size != Settings.journal_size:
        return size
    with suppress(OSError):
        return min(size, shutil.disk_usage(store.path.parent).total // 10)
    return size


_pruned: set[Path] = set()
"""Journals whose old runs were deleted: once in a process."""


DAY = 86_400.0


NEWEST_KEPT = 10
"""Runs that are never deleted because of their age alone, unless the user asks for it."""


def forget_old(store: Store, days: float, size: int, *, automatic: bool = False) -> int:
    """Delete runs that ended or were interrupted more than ``days`` ago, and then the oldest ones
    until the journal takes at most ``size`` bytes; 0: no limit. Running and waiting runs stay.

    ``automatic``: nobody asked. Then interrupted runs stay, and a run is old if it ended ``days``
    before each of the last `NEWEST_KEPT` runs: so a clock that is days ahead deletes nothing.

    Returns the number of deleted runs. Raises JournalError.
    """
    statuses = ENDED if automatic else (*ENDED, "interrupted")
    runs = queries.list_runs(store)
    now = time.time()
    if automatic:
        # With fewer runs none is old.
        now = min(now, runs[NEWEST_KEPT - 1].started) if len(runs) >= NEWEST_KEPT else 0.0
    ended = [run for run in runs if run.status in statuses]
    old = _choose_old(store, ended, now - days * DAY if days else 0.0, size)
    return deletion.forget(store, old)


def _choose_old(store: Store, runs: Sequence[RunHead], since: float, size: int) -> list[RunHead]:
    """The runs that ended before ``since``, and the oldest of the others until the rest takes at
    most ``size`` bytes."""
    old = [run for run in runs if (run.ended or run.started) < since]
    if size and deletion.size(store) > size:
        taken = _Taken(store)
        for run in old:
            taken.remove(run.num)
        for run in reversed(runs):
            if taken.size <= size:
                break
            if run not in old:
                old.append(run)
                taken.remove(run.num)
    return old


class _Taken:
    """The bytes of the runs in a journal. A part that several runs need is counted once."""

    def __init__(self, store: Store) -> None:
        """Raises JournalError."""
        self._rows, self._files = deletion.sizes(store), deletion.files_of_runs(store)
        self._users = Counter(digest for files in self._files.values() for digest, _ in files)
        parts = dict(file for files in self._files.values() for file in files)
        self.size = sum(self._rows.values()) + sum(parts.values())

    def remove(self, num: int) -> None:
        """Count the run ``num`` as deleted."""
        self.size -= self._rows.get(num, 0)
        for digest, size in self._files.get(num, ()):
            self._users[digest] -= 1
            self.size -= 0 if self._users[digest] else size
