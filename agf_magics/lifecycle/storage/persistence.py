"""The journal of a run is started, watched and closed; rows are saved and restored; old runs are
forgotten.

The tree of steps is journaled at the end of the run: one row per step, also of steps whose results
are not journaled. When a process journals its first run, old runs are deleted.
"""

from __future__ import annotations

import secrets as random
import time
from collections.abc import Sequence
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from ...engine.runner import clock
from ...engine.threads.rights import rights
from ...flow.progress.events import Warned
from ...flow.progress.progress import Progress
from ...flow.progress.rows import PRICE, Row, Usage
from ...journal import runs as queries
from ...journal.codec.encoding import preview
from ...journal.codec.json_texts import checker
from ...journal.database.errors import JournalError, not_journaled
from ...journal.database.store import ROOM, Store
from ...journal.recorder import Journal
from ...journal.records.fields import Count
from ...journal.runs import ENDED, RunHead
from ...journal.secrets.masking import Secrets
from ...settings.settings import current
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ..runs.state import RunState
from .manifest import write_manifest


def start_journal(state: RunState, path: Path) -> None:
    """Journal a run from before its first step on. A run that cannot be journaled has a warning
    and continues."""
    try:
        store = Store.at(path)
        _forget_old_runs(store)
        most = current.settings.journal_value
        journal = Journal(store, random.randbits(36) * ROOM, state.run_id, most)
        watch(state, journal)
        journal.manifest = write_manifest(state, journal, rights().grant)
    except JournalError as error:
        state.journal = None
        state.progress.apply(Warned(clock(), not_journaled(error)))


def watch(state: RunState, journal: Journal) -> None:
    """Give a run its journal, which reads the state and the secrets of the run."""
    state.journal = journal
    journal.summary = lambda: snapshot_rows(state.progress, state.secrets)
    journal.used = lambda: _used(state.progress.usage)
    journal.rows.secret = state.secrets
    state.find_secrets()


def _used(usage: Usage) -> tuple[int | None, str | None]:
    """The tokens and the cost as the journal lists them."""
    cost = f"{usage.cost:f}" if usage.cost is not None else ""
    tokens = usage.tokens if usage.requests else None
    return tokens, cost if PRICE.fullmatch(cost) else None


def _forget_old_runs(store: Store) -> None:
    """Delete the runs that are too old, once in a process. Raises JournalError."""
    if store.path in _pruned:
        return
    _pruned.add(store.path)
    days, size = current.settings.journal_days, current.settings.journal_size
    since = time.time() - days * DAY if days else 0.0
    if queries.has_older(store, since) or 0 < size < queries.size(store.path):
        # Thousands of runs take seconds: the run that happens to be first does not wait.
        store.in_background(lambda: forget_old(store, days, size, automatic=True))


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
        now = min(now, runs[NEWEST_KEPT - 1].started) if len(runs) >= NEWEST_KEPT else 0.0
    ended = [run for run in runs if run.status in statuses]
    old = _old(store, ended, now - days * DAY if days else 0.0, size)
    return queries.forget(store, old)


def _old(store: Store, runs: Sequence[RunHead], since: float, size: int) -> list[RunHead]:
    old = [run for run in runs if (run.ended or run.started) < since]
    if size and queries.size(store.path) > size:
        sizes = queries.sizes(store)
        left = sum(sizes.values()) - sum(sizes.get(run.num, 0) for run in old)
        for run in reversed(runs):
            if left <= size:
                break
            if run not in old:
                old.append(run)
                left -= sizes.get(run.num, 0)
    return old


COUNTS = (
    "started",
    "finished",
    "failed",
    "cancelled",
    "left",
    "skipped",
    "dropped",
    "retried",
    "earlier",
)


OTHERS = ("excused", "fatal", "asks", "width", "why", "when", "ended")
_counts_of, _others_of = attrgetter(*COUNTS), attrgetter(*OTHERS)


_Time = int | Annotated[float, isfinite] | None


_is_row = checker(
    tuple[
        list[str],
        Annotated[list[Count], lambda counts: len(counts) == len(COUNTS)],
        tuple[bool, bool, bool, Count | None, str | None, _Time, _Time],
        object,
        tuple[str, str] | None,
    ]
)
"""A row: its key, the values of `COUNTS`, those of `OTHERS`, its value, the code and the message of
its error."""


def snapshot_rows(progress: Progress, secrets: Secrets) -> list[Any]:
    """The state of each row, as JSON."""
    return [
        [list(key), *_row(row, secrets)]
        for key, row in progress.rows.items()
        if row.started or row.skipped
    ]


def restore_rows(progress: Progress, rows: list[Any]) -> None:
    """Restore ``progress`` from `snapshot_rows`. Raises ValueError for damaged rows."""
    for stored in rows:
        if not _is_row(stored):
            raise ValueError("a row of the tree is damaged")
        key, counts, others, value, error = stored
        row = progress.rows.get(tuple(key))
        if row is None:
            continue
        for name, number in zip(COUNTS, counts, strict=True):
            setattr(row, name, number)
        for name, other in zip(OTHERS, others, strict=True):
            setattr(row, name, other)
        row.value = value
        row.error = StepError(Diagnostic(*error)) if error is not None else None


def _row(row: Row, secrets: Secrets) -> list[Any]:
    described = None
    if isinstance(row.error, AgfError):
        described = [row.error.code, secrets.text(row.error.diagnostic.message)]
    elif row.error is not None:
        described = ["step.tool-failed", type(row.error).__name__]
    return [
        _counts_of(row),
        _others_of(row),
        secrets.shown(preview(secrets.shown(row.value), 3, [40])),
        described,
    ]
