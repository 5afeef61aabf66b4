"""The tree of a run as it is kept at its end: a row a step, also of the steps that are computed again and not kept."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

from .engine.masking import Secrets
from .engine.pickles import preview
from .engine.progress import Progress, Row, Usage
from .engine.records import Record
from .text.diagnostics import AgfError, Diagnostic, StepError

COUNTS = ("started", "finished", "failed", "cancelled", "left", "skipped", "dropped", "retried", "earlier")
OTHERS = ("excused", "fatal", "asks", "width", "why", "when", "ended")


def summary(progress: Progress, secrets: Secrets) -> list[Any]:
    """What is known of each row, as JSON."""
    return [[list(key), *_row(row, secrets)] for key, row in progress.rows.items() if row.started or row.skipped]


def fill(progress: Progress, found: list[Any]) -> None:
    """Put into ``progress`` what `summary` took out of it. Raises ValueError for what `summary` cannot have given."""
    for one in found:
        key, counts, others, value, error = one
        if not all(isinstance(part, list) for part in (one, key, counts, others)) or not _is_row(counts, others, error):
            raise ValueError("a row of a tree is not what was written")
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
    """Whether these are counts, the values of `OTHERS`, and an error's code and message."""
    if len(counts) != len(COUNTS) or len(others) != len(OTHERS):
        return False
    excused, fatal, asks, width, why, when, ended = others
    return (
        all(_is_count(count) for count in counts)
        and all(isinstance(flag, bool) for flag in (excused, fatal, asks))
        and (width is None or _is_count(width))
        and (why is None or isinstance(why, str))
        and all(time is None or (isinstance(time, int | float) and isfinite(time)) for time in (when, ended))
        and (error is None or (isinstance(error, list) and len(error) == 2 and all(isinstance(e, str) for e in error)))
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _row(row: Row, secrets: Secrets) -> list[Any]:
    error = row.error
    told = (error.code, secrets.text(error.diagnostic.message)) if isinstance(error, AgfError) else None
    if error is not None and told is None:
        told = ("step.tool-failed", type(error).__name__)
    return [
        [getattr(row, name) for name in COUNTS],
        [getattr(row, name) for name in OTHERS],
        preview(secrets.shown(row.value), 3, [40]),
        list(told) if told is not None else None,
    ]


def used(records: Iterable[Record]) -> Usage:
    """What a run asked of models, by its journal: what was taken over from another run is not counted."""
    taken, found = set[tuple[Any, str]](), list[Any]()
    for record in records:
        if record.what == "taken":
            taken.add((record.at, record.tries))
        elif record.what == "finished" and record.kind == "model" and (record.at, record.tries) not in taken:
            reply = record.value_shown
            usage = reply.get("usage") if isinstance(reply, dict) else None
            found.append(usage if isinstance(usage, dict) else {})
    return Usage(len(found), _total(found, "input"), _total(found, "output"))


def _total(usages: list[dict[str, Any]], what: str) -> int:
    return sum(count for usage in usages if _is_count(count := usage.get(what, 0)))
