"""`Rows`, the base of all tables: a sequence of rows that is read a page at a time.

Cells are converted to JSON where possible: NaN, NaT and NA are null, a time is a text in ISO form,
a NumPy scalar is a number (decision D54). Other objects stay as they are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ...text.diagnostics import DefinitionError, Diagnostic, StepError
from ..extent import TooDeep
from ..no_json import has_no_json
from ..once_each import DoubleKey, read_once_each
from ..times import duration_seconds, iso_text
from ..value import Value, settle, type_name

PAGE = 1_000
"""The number of rows that are read at a time."""


PAGES_HELD = 4
"""The number of pages of a table that stay in memory. Concurrent calls read neighbouring rows."""

LONGEST_LINE = 50_000_000
"""The largest number of bytes of one row of a file."""

Cells = dict[str, Value]
"""A row: its values by the names of the columns."""


class Rows(Sequence[Cells]):
    """The rows of one table, each a mapping of column names to values."""

    # The class itself must not have `columns`: `is_table` would take it for a foreign table, which
    # a fan-out refuses.
    columns: tuple[str, ...]
    length: int
    partial: frozenset[str] = frozenset()
    """The columns that some of the rows lack."""

    def __init__(self) -> None:
        self._pages: dict[int, list[Cells | StepError]] = {}
        """The last pages, by number."""

    def read(self, page: int) -> list[Cells | StepError]:
        """The rows of a page, with the error in place of a row that cannot be read."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: Any) -> Any:
        """The cells of row ``number``. Raises StepError if the row cannot be read."""
        if number < 0:
            number += self.length
            if number < 0:
                raise IndexError(number)
        page = number // PAGE
        rows = self._pages.get(page)
        if rows is None:
            rows = self.read(page)
            while len(self._pages) >= PAGES_HELD:
                self._pages.pop(next(iter(self._pages), None), None)  # type: ignore[arg-type]
            self._pages[page] = rows
        row = rows[number % PAGE]
        if isinstance(row, StepError):
            raise row
        return row


class ListRows(Rows):
    """A table that is a list of mappings."""

    def __init__(self, rows: Sequence[Mapping[str, Value]]) -> None:
        super().__init__()
        self.source, self.length = rows, len(rows)
        counts = Counter(name for row in rows for name in dict.fromkeys(column_names(row)))
        self.columns = tuple(counts)
        usable = sum(isinstance(row, Mapping) for row in rows)
        self.partial = frozenset(name for name, count in counts.items() if count < usable)

    def read(self, page: int) -> list[Cells | StepError]:
        first = page * PAGE
        return [_cells(first + i, row) for i, row in enumerate(self.source[first : first + PAGE])]


class ValueRows(ListRows):
    """A list of mappings whose cells are values of a flow. Cells are not converted."""

    def read(self, page: int) -> list[Cells | StepError]:
        return [dict(row) for row in self.source[page * PAGE : (page + 1) * PAGE]]


def _cells(number: int, row: object) -> Cells | StepError:
    if not isinstance(row, Mapping):
        return broken_row(number, f"it is {type_name(row)}, not a mapping of names")
    cells = _converted(number, row)
    if isinstance(cells, StepError):
        return cells
    if len(cells) < len(row):  # two keys with the same text, as 1 and "1"
        return broken_row(number, "two of its names are the same text")
    return cells


def _converted(number: int, row: Mapping[Any, Value], unit: str = "row") -> Cells | StepError:
    """The cells of a row; the error if one of them nests too deep."""
    cells: Cells = {}
    for name, value in row.items():
        try:
            cells[str(name)] = cell(value)
        except TooDeep as error:
            return broken_row(number, f"{str(name)!r} is too large: {error}", unit)
    return cells


def cell(value: Value) -> Value:
    """``value`` as JSON if it has an obvious form there; otherwise ``value`` itself.

    >>> cell(float("nan")), cell(timedelta(hours=1)), cell("a")
    (None, 3600.0, 'a')
    """
    if type(value) in (str, int, bool, type(None)):
        return value
    if has_no_json(value):
        return None
    if isinstance(value, timedelta):
        return value.total_seconds()
    text = iso_text(value)
    if text is None:
        plain = settle(value)
        return None if has_no_json(plain) else plain
    return text if (seconds := duration_seconds(value)) is None else seconds


def read_cells(
    start: int,
    stop: int,
    columns: Sequence[str],
    records: Callable[[int, int, str | None], list[Mapping[str, Value]]],
) -> list[Cells | StepError]:
    """The rows from ``start`` to ``stop``. ``records(start, stop, column)``: reads rows as
    mappings, with all columns (None) or one of them. If a library cannot convert a cell to Python
    (a date after the year 9999, text that is not UTF-8), the row is an error that names the
    column."""
    try:
        rows = records(start, stop, None)
    except BaseException as error:
        if not _is_of_library(error):
            raise
        if stop - start == 1:
            return [_unreadable(start, columns, records, error)]
        middle = (start + stop) // 2
        halves = ((start, middle), (middle, stop))
        return [row for half in halves for row in read_cells(*half, columns, records)]
    return [_converted(start + i, row) for i, row in enumerate(rows)]


def _is_of_library(error: BaseException) -> bool:
    # A panic of polars is not a subclass of Exception.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _unreadable(
    number: int,
    columns: Sequence[str],
    records: Callable[[int, int, str | None], list[Mapping[str, Value]]],
    error: BaseException,
) -> StepError:
    """The error for row ``number``, with the first column that cannot be read."""
    for name in columns:
        try:
            records(number, number + 1, name)
        except BaseException as error_of_column:
            if not _is_of_library(error_of_column):
                raise
            return broken_row(number, f"Python cannot hold its {name!r}: {error_of_column}")
    return broken_row(number, f"Python cannot hold it: {error}")


def refuse_double(names: Sequence[Any], file: str = "", hint: str = "rename one of them") -> None:
    """Raise DefinitionError if two columns have the same name. ``file``: the beginning of the message,
    which names the file; default: empty."""
    counts = Counter(map(str, names))
    double = next((name for name, count in counts.items() if count > 1), None)
    if double is not None:
        message = f"{file}two columns are called {double!r}"
        raise DefinitionError(Diagnostic("over.columns", message, hint=hint))


def column_names(row: object) -> Iterator[str]:
    """The keys of a row as text; none if it is not a mapping."""
    return map(str, row if isinstance(row, Mapping) else ())


def row_object(line: bytes, number: int) -> Cells | StepError:
    """The row in a line of JSON; the error if it is not an object."""
    try:
        # The line alone is parsed, so the places in an error are places in the line.
        row = read_once_each(line.rstrip())
    except DoubleKey as error:
        return broken_row(number, f"it has {error.args[0]!r} twice", "line")
    except (ValueError, RecursionError) as error:
        where = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return broken_row(number, f"it is not valid JSON{where}", "line")
    if not isinstance(row, dict):
        return broken_row(number, f"it is {type_name(row)}, not an object", "line")
    return _converted(number, row, "line")


def broken_row(number: int, why: str, unit: str = "row") -> StepError:
    """The error of a row that cannot be used. ``unit``: the word for it, ``row`` or ``line``."""
    message = f"{unit} {number:,} cannot be used: {why}"
    hint = f"correct this {unit}; the other rows run without it"
    return StepError(Diagnostic("over.broken-row", message, hint=hint))


def _number(text: str) -> Value:
    return cell(float(text))  # 1e400 is too large for a float and becomes null


CELLS: tuple[tuple[re.Pattern[str], Callable[[str], Value]], ...] = (
    (re.compile(r"-?(?:0|[1-9][0-9]{0,17})"), int),
    (re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?"), _number),
    (re.compile(r"[Tt]rue|TRUE|[Ff]alse|FALSE"), lambda text: text.lower() == "true"),
)
"""The patterns of the cells of a CSV column, each with the function that reads them; other cells
are texts. A number that begins with a zero is a text, because it is a code. In a column of floats,
so is a whole number with more digits than a float has: it may be an id."""
