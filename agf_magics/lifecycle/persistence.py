"""Which runs of a journal are deleted: those that are too old, then the oldest until the file is
small enough.

The tree of a run as journaled at its end: one row per step, also of steps whose results are not
journaled.

The journal of this process: where its file is, and that every run writes to it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from ..engine.limits import rights
from ..engine.linked import Linked
from ..engine.runner import clock
from ..flow.events import TokensUsed, Warned
from ..flow.progress import FAILURES_KEPT, Failure, Progress
from ..flow.rows import PRICE, Row, Usage, cost_of, key_of
from ..journal import queries
from ..journal.codec import checker, key_file, preview
from ..journal.file import JournalError, is_private, not_journaled
from ..journal.queries import ENDED, RunHead
from ..journal.recorder import Journal
from ..journal.records import Count, Record, is_within
from ..journal.secrets import Secrets
from ..journal.store import ROOM, Store
from ..text.diagnostics import AgfError, Diagnostic, StepError
from ..text.late_imports import IN_BROWSER
from .influence import find_secret_sources
from .manifest import write_manifest
from .run import Run
from .settings import current, user_file

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
    return queries.forget(store, old) if old else 0


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
        [getattr(row, name) for name in COUNTS],
        [getattr(row, name) for name in OTHERS],
        secrets.shown(preview(secrets.shown(row.value), 3, [40])),
        described,
    ]


def restore_calls(progress: Progress, records: Iterable[Record], has_rows: bool) -> None:
    """Restore the times of calls, which a resumed run did not repeat, and the dropped elements, with
    their errors. ``has_rows``: without them, the run has not ended, and its tree is filled from its
    calls."""
    rows, last = progress.rows, tuple[str, ...]()
    seen: dict[tuple[str, ...], None] = {}
    times: dict[tuple[str, ...], tuple[float, float]] = {}
    for record in records:
        if record.what not in ("finished", "failed", "dropped"):
            continue
        key = key_of(record.at)
        error = record.failure
        if record.what == "dropped":
            progress.failures.total += 1
            if error is not None and len(progress.failures) < FAILURES_KEPT:
                progress.failures.append(Failure(record.at, error))
        elif not has_rows:
            last = key
            seen[key] = None
            if key in rows:  # not a step of a definition without a text: a model's session
                _count(rows[key], record, error)
        while key and key not in rows:  # the time counts for the step around it
            key = key[:-1]
        if key and record.started is not None and record.ended is not None:
            first, end = times.get(key, (record.started, record.ended))
            times[key] = min(first, record.started), max(end, record.ended)
    for row in rows.values():
        inside = [key for key in seen if key != row.key and is_within(key, row.key)]
        if inside:
            row.started = 1
            row.finished, row.cancelled = int(last not in inside), int(last in inside)
    for key, (first, end) in times.items():
        rows[key].when, rows[key].ended = first, end


def _count(row: Row, record: Record, error: StepError | None) -> None:
    row.started += 1
    if error is None:
        row.finished += 1
        row.value = record.value_shown if not row.many else None
    else:
        row.failed += 1
        row.error = error


_is_amount = checker(Count)


def uses(records: Iterable[Record]) -> Iterator[TokensUsed]:
    """The replies of models in a run; those reused from another run are not counted."""
    taken = set[tuple[Any, str]]()
    for record in records:
        if record.what == "taken":
            taken.add((record.at, record.tries))
        elif (
            record.what == "finished"
            and record.kind == "model"
            and (record.at, record.tries) not in taken
        ):
            reply = record.value_shown
            usage = reply.get("usage") if isinstance(reply, dict) else None
            amounts = usage if isinstance(usage, dict) else {}
            counts = (amounts.get(what, 0) for what in ("input", "output"))
            input, output = (count if _is_amount(count) else 0 for count in counts)
            yield TokensUsed(record.at, 0.0, input, output, record.name, cost_of(amounts))


PROJECT = ("pyproject.toml", ".git", ".agf")
"""Files and folders that mark a project's folder."""


def journal_file() -> Path | None:
    """The file that the settings name, relative to the project that contains the current folder;
    None: no journal."""
    name = current.settings.journal
    if not name:
        return None
    path = Path(name).expanduser()
    # The user chose an absolute path, links included; a link in the project's folder may come with
    # the project.
    chosen = path.parent.resolve() / path.name if path.is_absolute() else _project() / path
    return _held(chosen) if IN_BROWSER else chosen


IN_MEMORY = Path(tempfile.gettempdir()) / "agf-journals"
"""Where SQLite works on the journals of a page. The storage of JupyterLite, /drive, has no locks and
no shared memory, and keeps what is written only when a file is closed."""


def _held(path: Path) -> Path:
    """The journal ``path`` in memory; what the storage has of it is read first."""
    held = IN_MEMORY / path.relative_to(path.anchor)
    if not held.exists():
        held.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists():
            shutil.copy(path, held)
    return held


def keep_journal(store: Store) -> None:
    """In a browser: put the journal into the storage of the page, which a reload leaves."""
    store.flush()
    store.checkpoint()
    path = Path("/") / store.path.relative_to(IN_MEMORY)
    try:
        path.parent.mkdir(exist_ok=True)
        shutil.copy(store.path, path)
    except OSError as error:
        message = f"the journal is in memory only, and a reload ends it: {path}: {error}"
        warnings.warn(message, stacklevel=2)


def _project() -> Path:
    """The nearest folder above that has a mark of a project, else the current folder.

    The search ends at the home folder, at a mount, and at a folder that is not the user's alone:
    what is above may come from anybody (decision A19)."""
    here, home = Path.cwd(), Path(os.path.expanduser("~"))
    for folder in (here, *here.parents):
        if folder != here and not is_private(folder):
            break
        if any((folder / mark).exists() for mark in PROJECT):
            return folder
        if folder == home or os.path.ismount(folder) or not is_private(folder):
            break
    return here


def own_files() -> tuple[Path, ...]:
    """The files that only this package may touch: the journal, the user's key and settings."""
    path, user = journal_file(), [user_file()]
    with contextlib.suppress(RuntimeError):  # there is no home folder
        user.append(key_file())
    runs = (
        [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal")]
        if path is not None
        else []
    )
    return (
        *runs,
        *(file.with_name("owners") for file in runs[:1]),
        *(file.parent for file in user if file is not None),
    )


def this_notebook() -> str:
    """The path of the notebook of this kernel, as its server gives it; empty elsewhere."""
    return os.environ.get("JPY_SESSION_NAME", "")


def start_journal(run: Run) -> None:
    """Journal ``run`` from before its first step on, if it can be.

    Not a dry run, which calls nothing, and not a run that a tool starts: it is part of the tool's
    call and is repeated with it; not a run that replays (decision D49). A run that cannot be
    journaled has a warning and continues.
    """
    mine = rights()
    if run._recording is not None:
        find_secrets(run)
        return
    path = None if run.dry or mine.inside else journal_file()
    if path is None:
        return
    try:
        store = Store.at(path)
        _forget_old_runs(store)
        most = current.settings.journal_value
        run.journal = Journal(store, secrets.randbits(36) * ROOM, run.run_id, most)
        run.work = write_manifest(run, watch(run), mine.grant, this_notebook())
    except JournalError as error:
        run.journal = None
        run.progress.apply(Warned(clock(), not_journaled(error)))


def watch(run: Run) -> list[Linked]:
    """Connect the journal of a run with the run's state and secrets. Returns the flows that it may
    run."""
    assert run.journal is not None
    run.journal.summary = lambda: snapshot_rows(run.progress, run.secrets)
    run.journal.used = lambda: _used(run.progress.usage)
    run.journal.rows.secret = run.secrets
    return find_secrets(run)


def find_secrets(run: Run) -> list[Linked]:
    """Tell a run which of its values are secret. Returns the flows that it may run."""
    flows = run._linked.reachable
    names, steps = find_secret_sources(flows)
    run.secrets.names = names
    run.secrets.steps = frozenset((id(flows[number].flow), step) for number, step in steps)
    for name in names & set(run.input if isinstance(run.input, dict) else ()):
        run.secrets.learn(run.input[name])
    return flows


def _used(usage: Usage) -> tuple[int | None, str | None]:
    """The tokens and the cost as the journal lists them."""
    cost = f"{usage.cost:f}" if usage.cost is not None else None
    return usage.tokens if usage.requests else None, cost if cost is None or PRICE.fullmatch(
        cost
    ) else None


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
