"""Tables as sequences of rows: what a run over data takes, and reads in parts.

A table is known by what it has, not by its class: nothing is imported but the library that the user
has already used to make it, and pyarrow for a file in its format. A small table becomes a list,
which the journal holds whole; a file is read again by its path, a page at a time.

A cell is JSON where that is possible: NaN, NaT and NA are null, a time is a text in ISO form, a
NumPy scalar is a number (decision D54). Other objects remain as they are.
"""

from __future__ import annotations

import csv
import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from ..text.diagnostics import (
    UNUSABLE,
    DefinitionError,
    Diagnostic,
    Diagnostics,
    Source,
    StepError,
    path_error_reason,
)
from ..text.late_imports import installed_only
from ..text.nodes import plain
from ..text.yamlnodes import documents
from .values import Value, as_json, settle, type_name

PAGE = 1_000
"""Rows that are read at a time."""

IN_MEMORY = 10_000
"""The most rows of a table that becomes a list, which the journal stores whole."""

PAGES_HELD = 4
"""Pages of a table that are held: concurrent rows read near each other."""

LONGEST_LINE = 50_000_000
"""Bytes of one row of a file."""

FOR_NAMES = 1_000
"""Rows of a list or a JSONL file whose names are the columns."""

MOST_CATEGORIES = 1_000
"""Categories of a column of pandas that are kept. They are a part of the run's definition."""

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
        self.columns = tuple(
            dict.fromkeys(name for row in rows[:FOR_NAMES] for name in _names(row))
        )

    def read(self, page: int) -> list[Cells | StepError]:
        first = page * PAGE
        return [_cells(first + i, row) for i, row in enumerate(self.source[first : first + PAGE])]


def _cells(number: int, row: object) -> Cells | StepError:
    if not isinstance(row, Mapping):
        return _broken(number, f"it is {type_name(row)}, not a mapping of names")
    cells = {str(name): cell(value) for name, value in row.items()}
    if len(cells) < len(row):  # 1 and "1"
        return _broken(number, "two of its names are the same text")
    return cells


class FrameRows(Rows):
    """A DataFrame of pandas or polars, or a table of pyarrow."""

    def __init__(
        self,
        frame: Any,
        columns: Sequence[Any],
        records: Callable[..., Any],
        about: Mapping[str, Value] = {},
    ) -> None:
        """``records(frame, start, stop)``: these rows as mappings. ``about``: `pandas_form`."""
        super().__init__()
        self.about = about
        self.frame, self.records, self.length = frame, records, len(frame)
        self.columns = tuple(map(str, columns))

    def read(self, page: int) -> list[Cells | StepError]:
        rows = self.records(self.frame, page * PAGE, (page + 1) * PAGE)
        return [{str(name): cell(value) for name, value in row.items()} for row in rows]


class FileRows(Rows):
    """A file of rows. It is pickled as its path, its size and its time."""

    def __init__(self, path: Path, state: tuple[int, int] | None = None) -> None:
        """``state``: the size and the time that it must have; None: any. Raises DefinitionError."""
        super().__init__()
        self.path, self.length = path, 0
        try:
            facts = path.stat()
            self.state = facts.st_size, facts.st_mtime_ns
            if state is not None and self.state != tuple(state):
                message = f"{str(path)!r} has changed since the start of the run"
                hint = "start a new run, or restore the file"
                raise DefinitionError(Diagnostic("over.changed-file", message, hint=hint))
            self.open()
        except UNUSABLE as error:
            message = f"{str(path)!r} cannot be read: {path_error_reason(error)}"
            raise DefinitionError(Diagnostic("over.file", message)) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.state)

    def open(self) -> None:
        """Find the columns and the places of the pages."""
        raise NotImplementedError


class JsonLines(FileRows):
    """A JSONL file: a JSON object in each line. Blank lines are skipped."""

    def open(self) -> None:
        self._starts, columns = array("Q"), dict[str, None]()
        self._lines = array("Q")
        with self.path.open("rb") as file:
            place = 0
            for number, line in enumerate(_lines(file), 1):
                if line.strip():
                    if self.length % PAGE == 0:
                        self._starts.append(place)
                        self._lines.append(number)
                    if self.length < FOR_NAMES:
                        columns.update(dict.fromkeys(_names(_object(line, number))))
                    self.length += 1
                place += len(line)
        self.columns = tuple(columns)

    def read(self, page: int) -> list[Cells | StepError]:
        with self.path.open("rb") as file:
            file.seek(self._starts[page])
            numbered = enumerate(_lines(file), self._lines[page])
            full = ((number, line) for number, line in numbered if line.strip())
            return [_object(line, number) for number, line in islice(full, PAGE)]


class CsvFile(FileRows):
    """A CSV file with a line of names. A column is numbers or booleans if all its cells are; an
    empty cell is null."""

    def open(self) -> None:
        self._starts, self._lines = array("Q"), array("Q")
        with self.path.open("rb") as file:
            reader = _CsvReader(file, 0, 1)
            header = next(reader.rows, [])
            self.columns = tuple(name.strip().removeprefix("\ufeff") for name in header)
            hint = "its first line has the names of the columns, separated by commas"
            _refuse_double(self.columns, f"{str(self.path)!r}: ", hint)
            if not all(self.columns):
                message = f"{str(self.path)!r}: a column has no name"
                raise DefinitionError(Diagnostic("over.columns", message, hint=hint))
            possible = [list(_CELLS) for _ in self.columns]
            place, line = reader.place, reader.line
            for row in reader.rows:
                if row:
                    if self.length % PAGE == 0:
                        self._starts.append(place)
                        self._lines.append(line)
                    self.length += 1
                    for number, text in enumerate(row[: len(possible)]):
                        if text:
                            possible[number] = [
                                kind for kind in possible[number] if kind[0].fullmatch(text)
                            ]
                place, line = reader.place, reader.line
            self._readers = [kinds[0][1] if kinds else str for kinds in possible]

    def read(self, page: int) -> list[Cells | StepError]:
        with self.path.open("rb") as file:
            reader = _CsvReader(file, self._starts[page], self._lines[page])
            return [
                self._row(row, reader.line - 1) for row in islice(filter(None, reader.rows), PAGE)
            ]

    def _row(self, cells: list[str], line: int) -> Cells | StepError:
        if len(cells) > len(self.columns):
            many = f"it has {len(cells)} cells, and there are {len(self.columns)} columns"
            return _broken(line, many, "line")
        texts = [*cells, *[""] * (len(self.columns) - len(cells))]
        return {
            name: read(text) if text else None
            for name, read, text in zip(self.columns, self._readers, texts, strict=True)
        }


class _CsvReader:
    """The rows of a CSV file from a place on, and the place and the line of the next one. Raises
    ValueError for a line that cannot be read."""

    def __init__(self, file: Any, place: int, line: int) -> None:
        file.seek(place)
        self.place, self.line = place, line
        self.rows = self._rows(csv.reader(self._texts(file), strict=False))

    def _rows(self, reader: Iterator[list[str]]) -> Iterator[list[str]]:
        self._first = self.line
        try:
            for row in reader:
                yield row
                self._first = self.line
        except UnicodeDecodeError:
            raise ValueError(f"line {self.line - 1} is not UTF-8") from None
        except csv.Error as error:
            # After the dash it tells how to open a file in Python.
            raise ValueError(f"line {self._first}: {str(error).partition(' - ')[0]}") from None

    def _texts(self, file: Any) -> Iterator[str]:
        for line in _lines(file):
            self.place += len(line)
            self.line += 1
            yield line.decode("utf-8-sig" if self.line == 2 else "utf-8")
        # The reader wants another line of its row: it would make one cell of all the rows after an
        # open quote.
        if self.line > self._first:
            raise ValueError(f"a quote of line {self._first} is not closed")


class Parquet(FileRows):
    """A Parquet file. Needs pyarrow."""

    def open(self) -> None:
        try:
            from pyarrow import parquet  # type: ignore[import-untyped]
        except ImportError:
            message = "a Parquet file needs the package pyarrow"
            raise DefinitionError(
                Diagnostic("over.file", message, hint="pip install pyarrow")
            ) from None
        try:
            self._file = parquet.ParquetFile(self.path)
        except Exception as error:  # pyarrow has many, and no base class for them
            message = f"{str(self.path)!r} is not a Parquet file: {error}"
            raise DefinitionError(Diagnostic("over.file", message)) from None
        about = self._file.metadata
        self.columns, self.length = tuple(self._file.schema_arrow.names), about.num_rows
        groups = map(about.row_group, range(about.num_row_groups))
        self._starts = [0, *accumulate(group.num_rows for group in groups)]

    def read(self, page: int) -> list[Cells | StepError]:
        start, rows = page * PAGE, list[Cells | StepError]()
        while len(rows) < PAGE and start + len(rows) < self.length:
            here = start + len(rows)
            group = bisect_right(self._starts, here) - 1
            place = here - self._starts[group]
            part = self._file.read_row_group(group).slice(place, PAGE - len(rows))
            rows += [{n: cell(v) for n, v in row.items()} for row in part.to_pylist()]
        return rows


class Cases(ListRows):
    """A data set of pydantic-evals: a YAML or JSON file with ``cases``. The inputs of a case are
    columns (``input`` if they are no mapping), beside ``name``, ``expected_output`` and
    ``metadata``. Its evaluators are not read: they are code."""

    def __init__(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except UNUSABLE as error:
            message = f"{str(path)!r} cannot be read: {path_error_reason(error)}"
            raise DefinitionError(Diagnostic("over.file", message)) from None
        problems = Diagnostics()
        nodes = documents(Source(str(path), text), problems)
        problems.refuse()
        content = plain(nodes[0]) if nodes else None
        cases = content.get("cases") if isinstance(content, dict) else None
        if not isinstance(cases, list):
            message = f"{str(path)!r} is not a data set: it has no list 'cases'"
            hint = "write the rows to a .jsonl or .csv file"
            raise DefinitionError(Diagnostic("over.file", message, hint=hint))
        super().__init__([_case(case) if isinstance(case, dict) else case for case in cases])


def _case(case: Mapping[str, Value]) -> Cells:
    inputs = case.get("inputs")
    about = {
        name: case[name]
        for name in ("name", "expected_output", "metadata")
        if case.get(name) is not None
    }
    return {**about, **(inputs if isinstance(inputs, dict) else {"input": inputs})}


class Picked(Sequence[Cells]):
    """Some rows of a table, each perhaps several times: the element of each number is a row."""

    def __init__(self, rows: Sequence[Cells], numbers: Sequence[int], repeat: int = 1) -> None:
        self.source, self.numbers, self.repeat = rows, numbers, repeat

    def __len__(self) -> int:
        return len(self.numbers) * self.repeat

    def __getitem__(self, number: Any) -> Any:
        return self.source[self.numbers[number // self.repeat]]


FILES: Mapping[str, type[FileRows]] = {
    ".csv": CsvFile,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".parquet": Parquet,
}
"""The kinds of files, by the end of the name."""

DATA_SETS = (".yaml", ".yml", ".json")
"""The ends of the names of data sets of pydantic-evals."""


def open_rows(table: Value) -> Rows:
    """The rows of a DataFrame, an Arrow table, a list of mappings or a file. Raises
    DefinitionError."""
    kind = type(table)
    if isinstance(table, Rows):
        return table
    if isinstance(table, str | Path):
        path = Path(table)
        if path.suffix.lower() in DATA_SETS:
            return Cases(path)
        if path.suffix.lower() not in FILES:
            message = f"{str(path)!r} is not a file of rows"
            hint = f"a file of rows has the suffix {', '.join(FILES)}"
            raise DefinitionError(Diagnostic("over.file", message, hint=hint))
        return FILES[path.suffix.lower()](path.absolute())
    library = kind.__module__.partition(".")[0]
    if library == "pandas" and hasattr(table, "iloc") and hasattr(table, "columns"):
        flat = _with_index(table)
        _refuse_double(list(flat.columns))
        return FrameRows(flat, flat.columns, _pandas, _pandas_form(table, flat))
    if library == "polars" and kind.__name__ == "LazyFrame":
        table = table.collect()
    if library == "polars" and hasattr(table, "to_dicts"):
        return FrameRows(table, table.columns, _polars)
    if library == "pyarrow" and hasattr(table, "to_pylist") and hasattr(table, "column_names"):
        _refuse_double(table.column_names)
        return FrameRows(table, table.column_names, _arrow)
    if isinstance(table, list | tuple):
        return ListRows(table)
    message = f"expected a table, got {type_name(table)}"
    hint = "a DataFrame, an Arrow table, a list of mappings, or a .csv, .jsonl or .parquet file"
    raise DefinitionError(Diagnostic("over.no-table", message, hint=hint))


def cell(value: Value) -> Value:
    """A cell as JSON, if it has an obvious form.

    >>> cell(float("nan")), cell(date(2026, 1, 2)), cell("a")
    (None, '2026-01-02', 'a')
    """
    if type(value) in (str, int, bool, type(None)):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    plain = settle(value)
    return None if type(plain) is float and not abs(plain) < float("inf") else plain


def arrow_table(columns: Sequence[str], rows: Iterable[Mapping[str, Value]]) -> Any:
    """The rows as a table of pyarrow. A column of values of different kinds is text in JSON. Raises
    ImportError without pyarrow."""
    with installed_only():
        import pyarrow

    rows = list(rows)
    arrays = [_array(pyarrow, [row.get(name) for row in rows]) for name in columns]
    return pyarrow.table(arrays, names=list(columns))


def _array(pyarrow: Any, values: list[Value]) -> Any:
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError):
        texts = [
            value if value is None or isinstance(value, str) else json_text(value)
            for value in values
        ]
        return pyarrow.array(texts, type=pyarrow.string())


def json_text(value: Value) -> str:
    return json.dumps(as_json(value), ensure_ascii=False)


def _with_index(frame: Any) -> Any:
    """``frame`` with its index as columns, unless that only numbers the rows."""
    index = frame.index
    numbers = (0, 1, None)
    if type(index).__name__ == "RangeIndex" and (index.start, index.step, index.name) == numbers:
        return frame
    return frame.reset_index(allow_duplicates=True)


def _pandas_form(frame: Any, flat: Any) -> Mapping[str, Value]:
    """What makes a DataFrame from its rows in JSON again: the types of its columns, and which of
    them are the index. ``flat``: ``frame`` with its index as columns."""
    index = list(map(str, flat.columns[: flat.shape[1] - frame.shape[1]]))
    types: dict[str, Value] = {}
    for name, kind in zip(map(str, flat.columns), flat.dtypes, strict=True):
        categories = getattr(kind, "categories", ())
        if str(kind) == "category" and len(categories) <= MOST_CATEGORIES:
            types[name] = {"categories": list(map(cell, categories)), "ordered": bool(kind.ordered)}
        elif str(kind) != "object":
            types[name] = str(kind)
    return {"types": types, "index": index, "names": list(frame.index.names) if index else []}


def in_pandas_form(
    pandas: Any, columns: list[str], rows: Sequence[Mapping[str, Value]], form: Mapping[str, Any]
) -> Any:
    """The DataFrame of ``rows`` with the types and the index of `_pandas_form`. A column that cannot
    have its type, for example because a row is missing, has the type that its values suggest."""
    frame = pandas.DataFrame(rows, columns=columns)
    for name, kind in form.get("types", {}).items():
        # Of the values: among nulls the DataFrame has made floats of whole numbers.
        values = pandas.Series([row.get(name) for row in rows], dtype=object)
        with suppress(TypeError, ValueError, OverflowError):
            if isinstance(kind, dict):
                frame[name] = values.astype(pandas.CategoricalDtype(**kind))
            elif kind.startswith("timedelta"):
                frame[name] = pandas.to_timedelta(values, unit="s").astype(kind)
            else:
                frame[name] = values.astype(kind)
    if form.get("index"):
        frame = frame.set_index(form["index"])
        frame.index.names = form["names"]
    return frame


def _pandas(frame: Any, start: int, stop: int) -> Any:
    return frame.iloc[start:stop].to_dict("records")


def _polars(frame: Any, start: int, stop: int) -> Any:
    return frame.slice(start, stop - start).to_dicts()


def _arrow(table: Any, start: int, stop: int) -> Any:
    return table.slice(start, stop - start).to_pylist()


def _refuse_double(names: Sequence[Any], file: str = "", hint: str = "rename one of them") -> None:
    texts = list(map(str, names))
    double = next((name for name in texts if texts.count(name) > 1), None)
    if double is not None:
        message = f"{file}two columns are called {double!r}"
        raise DefinitionError(Diagnostic("over.columns", message, hint=hint))


def _names(row: object) -> Iterator[str]:
    return map(str, row if isinstance(row, Mapping) else ())


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        yield line


def _object(line: bytes, number: int) -> Cells | StepError:
    try:
        row = json.loads(line.rstrip())  # a place is one in this line
    except (ValueError, RecursionError) as error:
        where = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return _broken(number, f"it is not valid JSON{where}", "line")
    if not isinstance(row, dict):
        return _broken(number, f"it is {type_name(row)}, not an object", "line")
    return {name: cell(value) for name, value in row.items()}


def _broken(number: int, why: str, what: str = "row") -> StepError:
    message = f"{what} {number:,} cannot be used: {why}"
    hint = f"correct this {what}; the other rows run without it"
    return StepError(Diagnostic("over.broken-row", message, hint=hint))


_CELLS: tuple[tuple[re.Pattern[str], Callable[[str], Value]], ...] = (
    (re.compile(r"-?(?:0|[1-9][0-9]{0,17})"), int),
    (re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?"), float),
    (re.compile(r"[Tt]rue|TRUE|[Ff]alse|FALSE"), lambda text: text.lower() == "true"),
)
"""What the cells of a column of a CSV file may be, and what reads them; else they are texts. A
number that begins with a zero is a text: it is a code."""
