"""What is displayed of a run over a table: its first rows, in the order in which a person reads them.

The page of the run, `RowTable` and the explorer show the same columns. They have the room of a saved
cell (decision D58), and say what they leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from ...languages.over import OverTerms
from ...pictures.amounts import counted
from ...pictures.plain import html, line
from ...pictures.text_tables import Looks, Table, look_of, table_html, table_text
from ...pictures.value_line import cell_text
from ...values.value import Value

MOST_ROWS = 20
"""Rows that are displayed."""
MOST_COLUMNS = 40
"""Columns that are displayed."""
MOST_CELLS = 300
"""Cells that are displayed: of a table with more than 15 columns, fewer rows."""


class RowsShown(Protocol):
    """What is read of a `RowTable`."""

    terms: OverTerms

    def __len__(self) -> int: ...
    @property
    def failed(self) -> Sequence[int]: ...
    @property
    def counts(self) -> dict[str, int]: ...
    def column_of(self, name: str) -> str: ...
    def shown_at(self, places: Sequence[int]) -> Iterator[dict[str, Value]]: ...


def displayed_html(table: RowsShown) -> str:
    about, shown, looks = _displayed(table)
    return table_html(*shown, html(about), looks=looks)


def displayed_text(table: RowsShown) -> str:
    about, shown, looks = _displayed(table)
    return "\n".join([about, *table_text(*shown, looks)])


def shown_columns(table: RowsShown, rows: Iterable[Mapping[str, Value]]) -> tuple[list[str], int]:
    """The columns of ``rows``, which are those of `RowTable.shown_at`, without columns about the run,
    such as cost, that are empty here; and how many others are left out.

    What came of a row is after its number: how it ended, its output, its scores; then follow the columns
    of the input, of which the last ones are left out in a wide table: its file has them."""
    filled = dict[str, bool]()
    for row in rows:
        for name, value in row.items():
            filled[name] = filled.get(name, False) or value is not None
    first = [*map(table.column_of, ("row", "repeat", "status", "error_text"))]
    last = [*map(table.column_of, ("error", "seconds", "tokens", "cost"))]
    about = {*first, *last}
    columns = [name for name, is_filled in filled.items() if is_filled or name not in about]
    places: dict[str, float] = {name: place for place, name in enumerate(first, -len(first))}
    places |= {name: place for place, name in enumerate(last, 1)}
    places |= dict.fromkeys(table.terms.columns, 0.5)
    columns.sort(key=lambda name: places.get(name, 0))
    of_input = [name for name in columns if name in table.terms.columns]
    hidden = {*of_input[max(0, len(of_input) + MOST_COLUMNS - len(columns)) :]}
    shown = [name for name in columns if name not in hidden][:MOST_COLUMNS]
    return shown, len(columns) - len(shown)


def _displayed(table: RowsShown) -> tuple[str, Table, Looks]:
    """A line about the table, its columns, the cells of its first rows, and the looks of its columns. Of
    a table with more rows than are displayed, the failed ones come first: they need attention."""
    places = _first_places(table)
    columns, left_out = shown_columns(table, table.shown_at(places))
    places = places[: MOST_CELLS // len(columns)]
    if len(places) == len(table):
        places.sort()
    rows = list(table.shown_at(places))
    seconds = table.column_of("seconds")
    cells = tuple(
        tuple(cell_text(row.get(name), name == seconds) for name in columns) for row in rows
    )
    counts = ", ".join(f"{count:,} {status}" for status, count in table.counts.items())
    more = _which(table, places) if len(table) > len(rows) else ""
    more += f"; without {counted(left_out, 'more column')}" if left_out else ""
    about = f"{counted(len(table), 'row')}: {counts}{more}"
    looks = [look_of(row.get(name) for row in rows) for name in columns]
    return about, (tuple(line(name, 60) for name in columns), cells), looks


def _first_places(table: RowsShown) -> list[int]:
    """The places of the rows that are displayed first: those that failed, then the others."""
    failed = table.failed[:MOST_ROWS]
    others = (place for place in range(len(table)) if place not in failed)
    return [*failed, *islice(others, MOST_ROWS - len(failed))]


def _which(table: RowsShown, places: Sequence[int]) -> str:
    """``; the failed ones and the first 14 others are shown``"""
    failed = len({*places} & {*table.failed})
    if not failed:
        return f"; the first {len(places)} are shown"
    if failed < len(table.failed):
        return f"; the first {failed} of the failed ones are shown"
    others = f" and the first {len(places) - failed} others" if failed < len(places) else ""
    return f"; the failed ones{others} are shown"
