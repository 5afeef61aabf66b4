"""The result of a run over a table, for the page: its rows sorted, filtered and labelled by a
person.

The rows are sorted once for each order, and the order is remembered for the next pages. All rows
are read for an order by a column that was not added (scores and labels are), and for the filter
``changed``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...journal.runs import ENDED
from ...languages.over import OVER
from ...lifecycle.past.past_runs import runs
from ...lifecycle.run_internals import definition_of, place_in_journal
from ...lifecycle.table_runs.table_display import shown_columns
from ...pictures.amounts import counted
from ...pictures.pages.wire import ColumnRow, TableRow
from ...pictures.plain import line
from ...pictures.text_tables import look_of
from ...pictures.value_line import cell_text
from ...pictures.values import value_text
from ...values.no_json import has_no_json
from ...values.value import Value
from .arguments import natural
from .request_types import AnyRun, Json, Refused

if TYPE_CHECKING:
    from ...lifecycle.table_runs.table import RowTable

ROWS_SHOWN = 50
"""Rows on one page."""
CHANGED = "changed"
"""The filter of rows whose outcome differs from that in the run before."""
FAILED = "failed"
"""The filter of rows that failed."""

RowOrder = tuple[str, bool, str, float | None]
"""The column by which rows are sorted (empty: the order of the table), whether the largest value comes
first, a filter (empty, failed or changed), and the number below which the column's value must be."""


class _LastTable:
    """The table that a page asked for last, and the places of its rows in the requested order.
    ``order``: the requested order, and the number of finished rows when it was computed."""

    run_id = ""
    table: RowTable
    is_final = False
    """Whether the run had ended when the table was read."""
    order: tuple[RowOrder, int] | None = None
    places: Sequence[int] = ()


def table_page(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """A page of the table. ``sort``, ``down``, ``only``, ``below``: see `RowOrder`. ``offset``: the rows
    before the page."""
    table = _table_of(run, is_first=natural(arguments.get("offset")) == 0)
    places = _requested_places(table, arguments)
    offset = min(
        natural(arguments.get("offset")), max(0, len(places) - 1) // ROWS_SHOWN * ROWS_SHOWN
    )
    shown = places[offset : offset + ROWS_SHOWN]
    rows = list(table.shown_at(shown))
    label = table.label_column
    names, left_out = shown_columns(table, rows)
    columns = [name for name in names if name != label]
    more = f"run.table has {counted(left_out, 'more column')}" if left_out else ""
    seconds = table.column_of("seconds")
    return {
        "total": len(places),
        "offset": offset,
        "page": ROWS_SHOWN,
        "failed": len(table.failed),
        "before": line(_earlier(run), 90),
        "note": more,
        "label": line(label, 60),
        "columns": [
            ColumnRow(name, line(name, 60), look_of(row.get(name) for row in rows))
            for name in columns
        ],
        "rows": [
            TableRow(
                place=place,
                is_failed=row[table.column_of("status")] == "failed",
                cells=[cell_text(row.get(name), name == seconds) for name in columns],
                label=line(str(row.get(label) or ""), 200),
            )
            for place, row in zip(shown, rows, strict=True)
        ],
    }


def label_row(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """Label the row at ``place`` with ``text``."""
    table = _table_of(run)
    place = natural(arguments.get("place"))
    text = arguments.get("text")
    if place >= len(table) or not isinstance(text, str):
        raise Refused("this row does not exist")
    table.label(place, text.strip())
    return {}


def has_table(run: AnyRun) -> bool:
    """Whether a run is a run over a table."""
    language, *_ = definition_of(run)
    return language == OVER


def _table_of(run: AnyRun, is_first: bool = False) -> RowTable:
    """The table of a run. ``is_first``: whether the first page is requested, which needs fresh rows."""
    if not has_table(run):
        raise Refused("this run has no table")
    # A table that was read during the run has more rows by now, and another page may have changed a
    # label.
    if _LastTable.run_id != run.run_id or (is_first and not _LastTable.is_final):
        _LastTable.run_id = run.run_id
        _LastTable.is_final = run.status in ENDED
        _LastTable.table = run.table
        _LastTable.order = None
    elif is_first:
        _LastTable.table.refresh()
    return _LastTable.table


def _requested_places(table: RowTable, arguments: Mapping[str, Any]) -> Sequence[int]:
    """The places of the rows in the order that a page requests, which is remembered."""
    below = arguments.get("below")
    order: RowOrder = (
        str(arguments.get("sort") or "")[:200],
        arguments.get("down") is True,
        str(arguments.get("only") or ""),
        float(below) if isinstance(below, int | float) and math.isfinite(below) else None,
    )
    finished = sum(table.counts.values()) - table.counts.get("not run", 0)
    if _LastTable.order != (order, finished):
        _LastTable.places = _places(table, order)
        _LastTable.order = (order, finished)
    return _LastTable.places


def _places(table: RowTable, order: RowOrder) -> Sequence[int]:
    """The places of the rows in the order that a page requests."""
    sort, down, only, below = order
    places: Sequence[int] = range(len(table))
    if only == FAILED:
        places = table.failed
    elif only == CHANGED:
        places = _changed(table)
    if not sort:
        return places
    values = table.added.get(sort)
    if values is None:
        rows = zip(places, table.shown_at(places), strict=True)
        values = {place: row.get(sort) for place, row in rows}
    if below is not None:
        places = [place for place in places if _is_below(values.get(place), below)]
    keys = {place: _sort_key(values.get(place)) for place in places}
    # Rows without a value come last in both directions.
    filled = [place for place in places if keys[place] is not None]
    empty = [place for place in places if keys[place] is None]
    return [*sorted(filled, key=keys.__getitem__, reverse=down), *empty]  # type: ignore[arg-type]


def _is_below(value: Value, most: float) -> bool:
    return isinstance(value, int | float) and value < most


def _sort_key(value: Value) -> tuple[int, float, str] | None:
    """Numbers, then texts, then other values as text; None for no value and for NaN."""
    if isinstance(value, int | float):
        return (0, float(min(max(value, -1e300), 1e300)), "") if value == value else None
    if value is None or has_no_json(value):
        return None
    return (
        (1, 0.0, value)
        if isinstance(value, str)
        else (2, 0.0, value_text(value, is_exact=True)[:200])
    )


def _earlier(run: AnyRun) -> str:
    """The id of the run over a table of the same flow before this one; empty if there is none."""
    if place_in_journal(run) is None:
        return ""
    ids = [
        earlier.run_id
        for earlier in runs()
        if earlier.name == run.name and earlier.status != "running"
    ]
    return next(iter(ids[ids.index(run.run_id) + 1 :] if run.run_id in ids else ids), "")


def _changed(table: RowTable) -> list[int]:
    """The places of the rows whose outcome differs from their outcome in the run before."""
    earlier = _earlier(table.run)  # type: ignore[arg-type]
    if not earlier:
        raise Refused("there is no earlier run over a table of this flow")
    other = runs(earlier)
    from ...lifecycle.scoring.table_comparison import TableComparison

    compared = TableComparison(other.table, table)
    changed = {(pair.other.number, pair.other.repeat) for pair in compared.changed}
    rows = enumerate(table.rows())
    return [place for place, row in rows if (row.number, row.repeat) in changed]
