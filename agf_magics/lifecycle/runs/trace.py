"""Tabulates the steps and calls of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...compat.imports import installed_only
from ...flow.progress.progress import Progress
from ...flow.progress.rows import Row
from ...flow.step_names import only_call
from ...journal.database.store import Store
from ...journal.records.records import Record
from ...journal.runs import once_each
from ...pictures.plain import untypeset
from ...pictures.row_words import listed, shown_name
from ...pictures.text_tables import Table, table_html, table_text
from ...pictures.value_line import cell_text
from ...text.diagnostics import AgfError
from ...values.tables.data_frames import in_pandas_form
from ...values.value import Value

MAX_SHOWN = 500
"""The number of rows that are displayed."""


def trace_rows(
    progress: Progress, place: tuple[Store, int] | None, shown: Callable[[Value], Value]
) -> Trace:
    """One row per listed step, in the order of the definition. ``place``: the journal that has the
    calls of the steps that run once; ``shown``: replaces the secrets in a value. Raises
    JournalError."""
    rows = listed(progress)
    once = [_row_of_call(row).key for row in rows if row.started and not row.many]
    calls = once_each(*place, once) if place is not None else ()
    journaled = {"/".join(map(str, record.at)): record for record in calls}
    return Trace(_row(row, journaled.get(_row_of_call(row).id), shown) for row in rows)


def _row_of_call(row: Row) -> Row:
    """The row of the call inside a step that only adds a failure policy to one call; of any other
    step the row itself."""
    return row.elements[0] if only_call(row.step) is not None else row


class Trace(tuple[dict[str, Any], ...]):
    """The rows of a run's steps; ``to_pandas()`` gives a DataFrame."""

    columns: ClassVar[tuple[str, ...]] = (
        "step",
        "kind",
        "name",
        "status",
        "ok",
        "failed",
        "took",
        "error",
    )
    """The displayed columns; a row has more keys."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row per row of the table. Whole numbers and booleans beside
        missing ones have the types that can be empty. Raises ImportError without pandas."""
        with installed_only():
            import pandas

        columns = dict.fromkeys(column for row in self for column in row)
        return in_pandas_form(pandas, list(columns), self, {})

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        more = f"<p>… {len(self) - len(rows):,} more</p>" if len(self) > len(rows) else ""
        return untypeset(table_html(columns, rows) + more)

    def __repr__(self) -> str:
        columns, rows = self._table()
        more = [f"… {len(self) - len(rows):,} more"] if len(self) > len(rows) else []
        return "\n".join([*table_text(columns, rows), *more])

    def _table(self) -> Table:
        return table_of(self, self.columns)


class CallTable(Trace):
    """The calls of a run, in the order of their ends."""

    columns = ("step", "label", "status", "attempt", "took", "input", "output", "error")


def table_of(rows: Sequence[Mapping[str, Any]], columns: tuple[str, ...]) -> Table:
    """The first rows as texts."""
    return columns, tuple(
        tuple(_cell(row, column) for column in columns) for row in rows[:MAX_SHOWN]
    )


TIMES = {"took": "seconds", "at": "seconds", "took in the other": "seconds of the other"}
"""The key in a row of each column that shows seconds."""


def _cell(row: Mapping[str, Any], column: str) -> str:
    most = 60 if column != "step" else 100
    value = row[TIMES.get(column, column)]
    callee = row.get("label")
    if column == "error" and isinstance(value, str) and row.get("name", callee) == callee:
        # The row says which tool it is, and that it failed.
        value = value.removeprefix(f"{row['kind']} {callee!r} failed: ")
    return cell_text(value, column in TIMES, most)


def _row(row: Row, call: Record | None, shown: Callable[[Value], Value]) -> dict[str, Any]:
    step, row = row, _row_of_call(row)
    output = None if row.many else shown(row.held)
    return {
        "step": step.id,
        "kind": row.word,
        "name": shown_name(step),
        "label": row.label,
        "status": row.state,
        "started": row.started,
        "ok": row.finished,
        "failed": row.failed,
        "seconds": row.seconds,
        "error": str(row.error.diagnostic.message) if isinstance(row.error, AgfError) else None,
        "attempts": row.started or None,
        "input": call.arguments_shown if call is not None else None,
        "output": call.value_shown if call is not None else output,
    }
