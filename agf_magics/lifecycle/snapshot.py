"""The tree of a run as journaled at its end: one row per step, also of steps whose results are not
journaled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from ..journal.records import Record, error_from, is_within
from ..progress.events import TokensUsed
from ..progress.progress import FAILURES_KEPT, Failure, Progress, Row
from ..progress.rows import cost_of
from ..secrets.masking import Secrets
from ..serialization.codec import preview
from ..text.diagnostics import AgfError, Diagnostic, StepError

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


def snapshot_rows(progress: Progress, secrets: Secrets) -> list[Any]:
    """The state of each row, as JSON."""
    return [
        [list(key), *_row(row, secrets)]
        for key, row in progress.rows.items()
        if row.started or row.skipped
    ]


def restore_rows(progress: Progress, found: list[Any]) -> None:
    """Restore ``progress`` from `snapshot_rows`. Raises ValueError for damaged rows."""
    for one in found:
        key, counts, others, value, error = one
        if not all(isinstance(part, list) for part in (one, key, counts, others)) or not _is_row(
            counts, others, error
        ):
            raise ValueError("a row of the tree is damaged")
        row = progress.rows.get(tuple(key))
        if row is None:
            continue
        for name, number in zip(COUNTS, counts, strict=True):
            setattr(row, name, number)
        for name, other in zip(OTHERS, others, strict=True):
            setattr(row, name, other)
        row.value = value
        row.error = StepError(Diagnostic(*error)) if error is not None else None


def _is_row(counts: list[Any], others: list[Any], error: Any) -> bool:
    """Whether these are the values of `COUNTS`, those of `OTHERS`, and an error's code and
    message."""
    if len(counts) != len(COUNTS) or len(others) != len(OTHERS):
        return False
    excused, fatal, asks, width, why, when, ended = others
    return (
        all(_is_count(count) for count in counts)
        and all(isinstance(flag, bool) for flag in (excused, fatal, asks))
        and (width is None or _is_count(width))
        and (why is None or isinstance(why, str))
        and all(
            time is None or (isinstance(time, int | float) and isfinite(time))
            for time in (when, ended)
        )
        and (
            error is None
            or (
                isinstance(error, list)
                and len(error) == 2
                and all(isinstance(e, str) for e in error)
            )
        )
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _row(row: Row, secrets: Secrets) -> list[Any]:
    error = row.error
    described = (
        [error.code, secrets.text(error.diagnostic.message)]
        if isinstance(error, AgfError)
        else None
    )
    if error is not None and described is None:
        described = ["step.tool-failed", type(error).__name__]
    return [
        [getattr(row, name) for name in COUNTS],
        [getattr(row, name) for name in OTHERS],
        secrets.shown(preview(secrets.shown(row.value), 3, [40])),
        described,
    ]


def count_calls(progress: Progress, records: Iterable[Record]) -> None:
    """Fill the tree of a run that has not ended, from its calls."""
    last: tuple[str, ...] = ()
    seen: dict[tuple[str, ...], None] = {}
    for record in records:
        if record.what == "dropped":
            continue
        last = tuple(bit for bit in record.at if isinstance(bit, str))
        seen[last] = None
        row = progress.rows.get(last)
        if (
            row is None
        ):  # a step of a definition without a text: a model's session, a builder's flow
            continue
        row.started += 1
        if record.what == "finished":
            row.finished += 1
            row.value = record.value_shown if not row.many else None
        else:
            row.failed += 1
            row.error = error_from(record.error or "{}", ())
    for row in progress.rows.values():
        inside = [key for key in seen if key != row.key and is_within(key, row.key)]
        if inside:
            row.started = 1
            cut = last in inside
            row.finished, row.cancelled = int(not cut), int(cut)


def time_calls(progress: Progress, records: Iterable[Record]) -> None:
    """Take the times of calls from the journal: a resumed run did not repeat them."""
    found: dict[tuple[str, ...], tuple[float, float]] = {}
    for record in records:
        if record.started is not None and record.ended is not None:
            key = tuple(bit for bit in record.at if isinstance(bit, str))
            while (
                key and key not in progress.rows
            ):  # a step without a row: count the time for the step around it
                key = key[:-1]
            first, last = found.get(key, (record.started, record.ended))
            found[key] = min(first, record.started), max(last, record.ended)
    for key, (first, last) in found.items():
        if key:
            progress.rows[key].when, progress.rows[key].ended = first, last


def drop_elements(progress: Progress, records: list[Record]) -> None:
    """Add the dropped elements, with their errors."""
    dropped = [record.at for record in records if record.what == "dropped"]
    progress.failures.total = len(dropped)
    failed = [record for record in records if record.error is not None]
    for at in dropped[:FAILURES_KEPT]:
        why = next((one.error for one in failed if is_within(one.at, at)), None)
        unknown = StepError(Diagnostic("step.tool-failed", "it failed"))
        progress.failures.append(Failure(at, error_from(why, ()) if why is not None else unknown))


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
            known = usage if isinstance(usage, dict) else {}
            input, output = (_amount(known, what) for what in ("input", "output"))
            yield TokensUsed(record.at, 0.0, input, output, record.name, cost_of(known))


def _amount(usage: dict[str, Any], what: str) -> int:
    count = usage.get(what, 0)
    return count if _is_count(count) else 0
