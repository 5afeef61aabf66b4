"""The steps and calls of a run as tables, and what the records of its calls say of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from ...compat.imports import installed_only
from ...flow.progress.events import TokensUsed
from ...flow.progress.progress import FAILURES_KEPT, Failure, Progress
from ...flow.progress.rows import Key, Row, cost_of, key_of
from ...journal.codec.json_texts import checker
from ...journal.database.store import Store
from ...journal.records.fields import Count
from ...journal.records.records import CallKey, Record, around
from ...journal.runs import once_each
from ...pictures.plain import untypeset
from ...pictures.values import cell_text, table_html, table_text
from ...text.diagnostics import AgfError, StepError
from ...values.value import Value
from ..input.fields import fields_of

MAX_SHOWN = 500
"""The number of rows that are displayed."""


def trace_rows(
    progress: Progress, place: tuple[Store, int] | None, shown: Callable[[Value], Value]
) -> Trace:
    """One row per step, in the order of the definition. ``place``: the journal that has the calls
    of the steps that run once; ``shown``: replaces the secrets in a value. Raises JournalError."""
    once = [row.key for row in progress.rows.values() if row.started and not row.many]
    calls = once_each(*place, once) if place is not None else ()
    journaled = {"/".join(map(str, record.at)): record for record in calls}
    return Trace(_row(row, journaled.get(row.id), shown) for row in progress.rows.values())


class Trace(tuple[dict[str, Any], ...]):
    """The rows of a run's steps; ``to_pandas()`` gives a DataFrame."""

    columns: ClassVar[tuple[str, ...]] = (
        "step",
        "kind",
        "label",
        "status",
        "ok",
        "failed",
        "took",
        "error",
    )
    """The displayed columns; a row has more keys."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row per step. Raises ImportError without pandas."""
        with installed_only():
            import pandas

        return pandas.DataFrame(list(self))

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        more = f"<p>… {len(self) - len(rows):,} more</p>" if len(self) > len(rows) else ""
        return untypeset(table_html(columns, rows) + more)

    def __repr__(self) -> str:
        columns, rows = self._table()
        more = [f"… {len(self) - len(rows):,} more"] if len(self) > len(rows) else []
        return "\n".join([*table_text(columns, rows), *more])

    def _table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        columns = self.columns
        return columns, tuple(
            tuple(_cell(row, column) for column in columns) for row in self[:MAX_SHOWN]
        )


class CallTable(Trace):
    """The calls of a run, in the order of their ends."""

    columns = ("step", "label", "status", "attempt", "took", "input", "output", "error")


TIMES = {"took": "seconds", "took in the other": "seconds of the other"}


def _cell(row: dict[str, Any], column: str) -> str:
    most = 60 if column != "step" else 100
    return cell_text(row[TIMES.get(column, column)], column in TIMES, most)


def _row(row: Row, call: Record | None, shown: Callable[[Value], Value]) -> dict[str, Any]:
    return {
        "step": row.id,
        "kind": row.word,
        "label": row.label,
        "status": row.state,
        "started": row.started,
        "ok": row.finished,
        "failed": row.failed,
        "seconds": row.seconds,
        "error": str(row.error.diagnostic.message) if isinstance(row.error, AgfError) else None,
        "attempts": row.started or None,
        "input": call.given_shown if call is not None else None,
        "output": call.value_shown if call is not None else None if row.many else shown(row.value),
    }


def restore_calls(progress: Progress, records: Iterable[Record], has_rows: bool) -> None:
    """Restore the times of calls, which a resumed run did not repeat, and the dropped elements, with
    their errors. ``has_rows``: without them, the run has not ended, and its tree is filled from its
    calls."""
    rows, containers, last = progress.rows, set[Key](), Key()
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
            containers.update(map(key_of, [*around(key)][:-1]))
            if key in rows:  # not a step of a definition without a text: a model's session
                _count(rows[key], record, error)
        while key and key not in rows:  # the time counts for the step around it
            key = key[:-1]
        if key and record.started is not None and record.ended is not None:
            first, end = times.get(key, (record.started, record.ended))
            times[key] = min(first, record.started), max(end, record.ended)
    # The last call is in those that had not ended.
    open_rows = {*around(last)}
    for key in containers & rows.keys():
        row, is_open = rows[key], key in open_rows
        row.started, row.finished, row.cancelled = 1, int(not is_open), int(is_open)
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
    taken = set[CallKey]()
    for record in records:
        if record.what == "taken":
            taken.add(record.key)
        elif record.what == "finished" and record.kind == "model" and record.key not in taken:
            amounts = fields_of(fields_of(record.value_shown).get("usage"))
            counts: Iterator[Any] = map(amounts.get, ("input", "output"))
            input, output = (count if _is_amount(count) else 0 for count in counts)
            yield TokensUsed(record.at, 0.0, input, output, record.name, cost_of(amounts))
