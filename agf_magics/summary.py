"""The tree of a run as it is kept at its end: a row a step, also of the steps that are computed again and not kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .engine.masking import Secrets
from .engine.pickles import preview
from .engine.progress import Progress, Row, Usage
from .engine.records import Record
from .text.diagnostics import AgfError, Diagnostic, StepError

COUNTS = ("started", "finished", "failed", "cancelled", "left", "skipped", "dropped", "retried", "earlier")
OTHERS = ("excused", "fatal", "asks", "width", "why", "when", "ended")


def summary(progress: Progress, secrets: Secrets) -> list[Any]:
    """What is known of each row, as JSON; before them the tokens, where models were asked, for a list of runs."""
    used = [{"tokens": progress.usage.tokens}] if progress.usage.requests else []
    return [
        *used,
        *([list(key), *_row(row, secrets)] for key, row in progress.rows.items() if row.started or row.skipped),
    ]


def fill(progress: Progress, found: list[Any]) -> None:
    """Put into ``progress`` what `summary` took out of it."""
    for key, counts, others, value, error in (one for one in found if isinstance(one, list)):
        row = progress.rows.get(tuple(key))
        if row is None:
            continue
        for name, number in zip(COUNTS, counts, strict=True):
            setattr(row, name, number)
        for name, one in zip(OTHERS, others, strict=True):
            setattr(row, name, one)
        row.value = value
        row.error = StepError(Diagnostic(*error)) if error is not None else None


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
            found.append(reply.get("usage", {}) if isinstance(reply, dict) else {})
    return Usage(len(found), sum(u.get("input", 0) for u in found), sum(u.get("output", 0) for u in found))
