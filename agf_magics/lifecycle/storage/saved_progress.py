"""Stores the progress of a run as JSON, and restores it with the times and results of its calls.

The tree of steps is journaled at the end of the run, with one row for each step, even for steps
whose results are not journaled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from operator import attrgetter
from typing import Annotated, Any

from ...engine.linking.linked import Linked, flow_at
from ...flow import steps
from ...flow.graph_steps import Dag, Walk
from ...flow.progress.progress import FAILURES_KEPT, Failure, Progress, restore_end
from ...flow.progress.rows import Key, Row, key_of
from ...flow.progress.worked import Worked, union
from ...flow.step import Step
from ...flow.steps import calls, every
from ...journal.codec.encoding import preview
from ...journal.codec.type_checks import checker
from ...journal.records.fields import Count
from ...journal.records.records import Record, around
from ...journal.secrets.masking import Secrets
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...values.value import Value

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
"""The counts of a row, in the order in which they are stored. `Row.old` follows them, unless it is
0."""


OTHERS = ("excused", "fatal", "asks", "width", "why")
"""The attributes of a row that are stored beside its counts and times."""

TIMES = ("when", "ended")
"""The times of a row, in seconds of the run's clock, which stands still between sessions. `Row.idle`
follows them, unless it is 0."""


Times = defaultdict[Key, list[tuple[float, float]]]
"""The begin and the end of each call of each row, in seconds since 1970."""

MOST_PARTS = 40
"""The number of parts in the preview of a value."""

_counts_of = attrgetter(*COUNTS)
_others_of = attrgetter(*OTHERS)


_Time = int | Annotated[float, isfinite] | None


_is_row = checker(
    tuple[
        list[str],
        Annotated[list[Count], lambda counts: 0 <= len(counts) - len(COUNTS) <= 1],
        tuple[bool, bool, bool, Count | None, str | None, _Time, _Time]
        | tuple[bool, bool, bool, Count | None, str | None, _Time, _Time, _Time],
        object,
        tuple[str, str] | None,
    ]
)
"""The form of a row: its key, the values of `COUNTS`, `OTHERS` and `TIMES`, its value, the code and
the message of its error. The row of a fan-out also has its sequence."""


def snapshot_rows(progress: Progress, secrets: Secrets) -> list[Any]:
    """The state of each row, as JSON."""
    zero = progress.when or 0.0
    return [
        [list(key), *_row(row, secrets, zero)]
        for key, row in progress.rows.items()
        if row.started or row.skipped
    ]


def restore_rows(progress: Progress, rows: list[Any]) -> None:
    """Restore ``progress`` from `snapshot_rows`, with a clock that begins at 0. Raises ValueError for
    damaged rows."""
    for stored in rows:
        if type(stored) is not list or not _is_row(stored[:5]):
            raise ValueError("a row of the tree is damaged")
        key, counts, other_counts, value, error, *sequence = stored
        row = progress.rows.get(tuple(key))
        if row is None:
            continue
        for name, number in zip((*COUNTS, "old"), counts, strict=False):
            setattr(row, name, number)
        for name, other in zip((*OTHERS, *TIMES, "idle"), other_counts, strict=False):
            setattr(row, name, other)
        row.held = value
        row.over = sequence[0] if sequence else None
        row.error = StepError(Diagnostic(*error)) if error is not None else None
    restore_end(progress)


def _row(row: Row, secrets: Secrets, zero: float) -> list[Any]:
    """A row as `_is_row` checks it, without its key. ``zero``: the begin of the run."""
    times = [None if when is None else when - zero for when in (row.when, row.ended)]
    if idle := row.idle - row.gap:
        times.append(idle)
    described = None
    if isinstance(row.error, AgfError):
        described = [row.error.code, secrets.text(row.error.diagnostic.message)]
    elif row.error is not None:
        described = ["step.tool-failed", type(row.error).__name__]
    over = [] if row.over is None else [_preview(row.over, secrets)]
    held = _preview(row.held, secrets)
    counts = [*_counts_of(row), *([row.old] if row.old else [])]
    return [counts, [*_others_of(row), *times], held, described, *over]


def _preview(value: Value, secrets: Secrets) -> Value:
    """The first parts of a value."""
    return secrets.shown(preview(secrets.shown(value), 3, [MOST_PARTS]))


def restore_calls(
    progress: Progress,
    records: Iterable[Record],
    clock: Callable[[float], float],
    has_rows: bool,
    has_times: bool,
) -> None:
    """Restore the dropped elements, with their errors, and the times of rows that are not stored.
    ``clock``: converts a time in seconds since 1970 to the run's clock. ``has_rows``: whether the
    journal has the rows of the steps; if not, the tree of steps is filled from the calls: the run has
    not ended, or has a secret that cannot be searched for. ``has_times``: whether their times are
    those of the last session."""
    rows = progress.rows
    containers = set[Key]()
    last = Key()
    times = Times(list)
    for record in records:
        if record.what not in ("finished", "failed", "dropped"):
            continue
        key = key_of(record.at)
        if record.what == "dropped":
            _add_dropped(progress, record)
        else:
            if not has_rows:
                last = key
                containers.update(map(key_of, [*around(key)][:-1]))
            # A key without a row belongs to a model's session, which is no step of a text.
            if key in rows and not has_rows:
                _add_call(rows[key], record)
        while key and key not in rows:  # the time counts for the step around it
            key = key[:-1]
        if key:
            _add_time(times, key, record)
    # The steps around the last call had not ended, unless the run ended well. In a run that goes on in
    # another process they run.
    open_rows = {*around(last)} if progress.status != "ok" else set()
    for key in containers & rows.keys():
        is_open = key in open_rows
        rows[key].started = 1
        rows[key].finished = int(not is_open)
        rows[key].cancelled = int(is_open and progress.status != "running")
    for key, worked in clocked(times, clock).items():
        row = rows[key]
        if row.when is None or not has_times:
            row.when, row.ended, row.idle = worked


def clocked(times: Times, clock: Callable[[float], float]) -> dict[Key, Worked]:
    """When the calls of each row ran, on the clock of the run."""
    return {
        key: worked
        for key, calls in times.items()
        if (worked := union((clock(begin), clock(end)) for begin, end in calls)) is not None
    }


def stored_times(rows: Iterable[Any]) -> Iterator[tuple[Key, Worked]]:
    """When the rows of a tree ran, on the clock of the run. A damaged row has no time: its calls have
    theirs."""
    for stored in rows:
        if type(stored) is list and _is_row(stored[:5]):
            key, _, others, *_ = stored
            begin, end, idle = [*others[len(OTHERS) :], 0.0][:3]
            if begin is not None and end is not None:
                yield tuple(key), Worked(begin, end, idle)


def restore_evaluated(progress: Progress, linked: Linked) -> None:
    """Restore, in a run without a tree, the steps that only evaluate expressions. They have no
    record; but where a step began, those that it follows have ended. If the run ended well, so have
    all steps of its flow."""
    if progress.status == "ok":
        for step in linked.flow.body.steps:
            row = progress.rows.get((step.id,))
            if row is not None and not row.started and not isinstance(step, steps.Invoke):
                row.started = row.finished = 1
    scopes = {key[:-1]: flow_at(linked, key[:-1]) for key in progress.rows}
    flows = [(scope, flow.flow.body) for scope, flow in scopes.items() if flow is not None]
    is_news = True
    while is_news:  # what is proven may prove more
        is_news = False
        for scope, body in flows:
            for outer in every(body):
                is_news |= _prove(progress, scope, outer)


def _prove(progress: Progress, scope: Key, outer: Step) -> bool:
    """Count what the rows of the steps directly in ``outer`` prove. Returns whether one is news."""

    def row(step: Step) -> Row | None:
        return progress.rows.get((*scope, step.id))

    is_news = False
    for before, after in _followed(outer):
        times = max((later.started for step in after if (later := row(step))), default=0)
        evaluated = None if any(calls(before)) else row(before)
        if evaluated is not None and times > evaluated.started:
            evaluated.started = evaluated.finished = times
            is_news = True
    return is_news


def _followed(outer: Step) -> Iterator[tuple[Step, Sequence[Step]]]:
    """The steps directly in ``outer``, each with steps that begin only after it has ended."""
    match outer:
        case steps.Sequence():
            for number, step in enumerate(outer.steps):
                yield step, outer.steps[number + 1 :]
        case Dag():
            by_id = {step.id: step for step in outer.steps}
            for source, reader, _ in outer.feeds:
                if source in by_id and reader in by_id:
                    yield by_id[source], (by_id[reader],)
        case Walk():
            before: dict[str, set[str]] = {}
            for source, target in (
                *((edge.source, edge.target) for edge in outer.edges),
                *outer.exits.items(),
            ):
                before.setdefault(target, set()).add(source)
            for target, sources in before.items():
                (source, *others) = sources
                if not others and source in outer.nodes and target in outer.nodes:
                    yield outer.nodes[source], (outer.nodes[target],)


def noting_times(records: Iterable[Record], times: Times) -> Iterator[Record]:
    """Yields the records, and adds the times of the calls of each row to ``times``."""
    for record in records:
        if record.kind:
            _add_time(times, key_of(record.at), record)
        yield record


def _add_time(times: Times, key: Key, record: Record) -> None:
    """Add the time of a call to those of its row."""
    if record.started is not None and record.ended is not None:
        times[key].append((record.started, record.ended))


def _add_dropped(progress: Progress, record: Record) -> None:
    progress.failures.total += 1
    error = record.failure
    if error is not None and len(progress.failures) < FAILURES_KEPT:
        progress.failures.append(Failure(record.at, error))


def _add_call(row: Row, record: Record) -> None:
    """Add a call to the counts of its row."""
    error = record.failure
    row.started += 1
    if error is None:
        row.finished += 1
        row.held = record.value_shown if not row.many else None
    else:
        row.failed += 1
        row.error = error
