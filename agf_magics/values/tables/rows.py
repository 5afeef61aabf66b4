"""What every table is: a sequence of rows, read a page at a time.

A cell is JSON where that is possible: NaN, NaT and NA are null, a time is a text in ISO form, a
NumPy scalar is a number (decision D54). Other objects remain as they are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ...text.diagnostics import DefinitionError, Diagnostic, StepError
from ..no_json import has_no_json
from ..times import duration_seconds, iso_text
from ..value import Value, settle, type_name

PAGE = 1_000
"""Rows that are read at a time."""


PAGES_HELD = 4
"""Pages of a table that are held: concurrent rows read near each other."""

LONGEST_LINE = 50_000_000
"""Bytes of one row of a file."""

Cells = dict[str, Value]


class Rows(Sequence[Cells]):
    """The rows of one table, each a mapping of column names to values."""

    # Without a value in the class: a class that has `columns` is a table, and no fan-out takes one.
    columns: tuple[str, ...]
    length: int

    def __init__(self) -> None:
        self._pages: dict[int, list[Cells | StepError]] = {}

    def read(self, page: int) -> list[Cells | StepError]:
        """The rows of a page; in the place of a row that cannot be read, why."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: Any) -> Any:
        """Cells ``number``. Raises StepError if it cannot be read."""
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
    """A list of mappings."""

    def __init__(self, rows: Sequence[Mapping[str, Value]]) -> None:
        super().__init__()
        self.source, self.length = rows, len(rows)
        self.columns = tuple(dict.fromkeys(name for row in rows for name in column_names(row)))

    def read(self, page: int) -> list[Cells | StepError]:
        first = page * PAGE
        return [_cells(first + i, row) for i, row in enumerate(self.source[first : first + PAGE])]


class ValueRows(ListRows):
    """A list of mappings whose cells are values of a flow, which stay what they are."""

    def read(self, page: int) -> list[Cells | StepError]:
        return [dict(row) for row in self.source[page * PAGE : (page + 1) * PAGE]]


def _cells(number: int, row: object) -> Cells | StepError:
    if not isinstance(row, Mapping):
        return broken_row(number, f"it is {type_name(row)}, not a mapping of names")
    cells = {str(name): cell(value) for name, value in row.items()}
    if len(cells) < len(row):  # 1 and "1"
        return broken_row(number, "two of its names are the same text")
    return cells


def cell(value: Value) -> Value:
    """A cell as JSON, if it has an obvious form.

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
    """The rows from ``start`` to ``stop``. ``records``: reads rows as mappings, all columns or one of
    them. Where the library cannot make Python's value of a cell (a date after the year 9999, text
    that is not UTF-8), its row is an error that names the column."""
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
    return [{str(name): cell(value) for name, value in row.items()} for row in rows]


def _is_of_library(error: BaseException) -> bool:
    # A panic of polars is no Exception.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _unreadable(
    number: int,
    columns: Sequence[str],
    records: Callable[[int, int, str | None], list[Mapping[str, Value]]],
    error: BaseException,
) -> StepError:
    """The error of a row, with the first column that cannot be read."""
    for name in columns:
        try:
            records(number, number + 1, name)
        except BaseException as found:
            if not _is_of_library(found):
                raise
            return broken_row(number, f"Python cannot hold its {name!r}: {found}")
    return broken_row(number, f"Python cannot hold it: {error}")


def refuse_double(names: Sequence[Any], file: str = "", hint: str = "rename one of them") -> None:
    counts = Counter(map(str, names))
    double = next((name for name, count in counts.items() if count > 1), None)
    if double is not None:
        message = f"{file}two columns are called {double!r}"
        raise DefinitionError(Diagnostic("over.columns", message, hint=hint))


def column_names(row: object) -> Iterator[str]:
    return map(str, row if isinstance(row, Mapping) else ())


def row_object(line: bytes, number: int) -> Cells | StepError:
    try:
        row = json.loads(line.rstrip(), object_pairs_hook=_once_each)  # a place is one in this line
    except DoubleKey as error:
        return broken_row(number, f"it has {error.args[0]!r} twice", "line")
    except (ValueError, RecursionError) as error:
        where = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return broken_row(number, f"it is not valid JSON{where}", "line")
    if not isinstance(row, dict):
        return broken_row(number, f"it is {type_name(row)}, not an object", "line")
    return {name: cell(value) for name, value in row.items()}


class DoubleKey(ValueError):
    """An object of JSON has a key twice: only one of the values would be left."""


def _once_each(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise DoubleKey(next(name for name, count in counts.items() if count > 1))
    return fields


def broken_row(number: int, why: str, what: str = "row") -> StepError:
    message = f"{what} {number:,} cannot be used: {why}"
    hint = f"correct this {what}; the other rows run without it"
    return StepError(Diagnostic("over.broken-row", message, hint=hint))


def _number(text: str) -> Value:
    return cell(float(text))  # 1e400 is larger than a float can be


CELLS: tuple[tuple[re.Pattern[str], Callable[[str], Value]], ...] = (
    (re.compile(r"-?(?:0|[1-9][0-9]{0,17})"), int),
    (re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?"), _number),
    (re.compile(r"[Tt]rue|TRUE|[Ff]alse|FALSE"), lambda text: text.lower() == "true"),
)
"""What the cells of a column of a CSV file may be, and what reads them; else they are texts. A
number that begins with a zero is a text: it is a code. So is a whole number of more digits than
every float has, in a column of floats: it may be an id."""
