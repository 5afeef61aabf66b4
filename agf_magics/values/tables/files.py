"""Reads tables in files (JSON lines, CSV, Parquet, data sets of pydantic-evals), a page at a time.

A file is opened again by its path for each page. If another program has saved it since, its pages
would be pages of other rows: reading one is an error.
"""

from __future__ import annotations

import csv
import os
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, StepError
from ...text.files import open_file, read_file
from ...text.source import UNUSABLE, Source, path_error_reason
from ...text.yaml.nodes import plain
from ...text.yaml.reader import documents
from ..value import Value
from .rows import (
    CELLS,
    LONGEST_LINE,
    PAGE,
    Cells,
    ListRows,
    Rows,
    broken_row,
    column_names,
    read_cells,
    refuse_double,
    row_object,
)


class FileRows(Rows):
    """The base of tables in files. It is pickled as the path, size and time of the file."""

    def __init__(self, path: Path, state: tuple[int, int] | None = None) -> None:
        """``state``: the size and the modification time that the file must have; None: any. Raises
        DefinitionError."""
        super().__init__()
        self.path = path
        self.length = 0
        try:
            self.state = self._state_now()
            if state is not None and self.state != tuple(state):
                raise DefinitionError(self._changed)
            self.open()
        except UNUSABLE as error:
            raise DefinitionError(self._unreadable(error)) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.state)

    def open(self) -> None:
        """Find the columns and the places of the pages."""
        raise NotImplementedError

    def read(self, page: int) -> list[Cells | StepError]:
        """The rows of a page. Raises StepError if the file has changed since `open`, or cannot be
        read any more."""
        try:
            self._refuse_change()
            try:
                rows = self.read_unchecked(page)
            finally:  # also after an error, whose cause is that the file was saved meanwhile
                self._refuse_change()
        except UNUSABLE as error:
            raise StepError(self._unreadable(error)) from None
        return rows

    def read_unchecked(self, page: int) -> list[Cells | StepError]:
        """The rows of a page, if the file is as it was."""
        raise NotImplementedError

    def _state_now(self) -> tuple[int, int]:
        with open_file(self.path) as file:
            facts = os.fstat(file.fileno())
        return facts.st_size, facts.st_mtime_ns

    def _refuse_change(self) -> None:
        if self._state_now() != self.state:
            raise StepError(self._changed) from None

    @property
    def _changed(self) -> Diagnostic:
        message = f"{str(self.path)!r} has changed since the start of the run"
        hint = "start a new run, or restore the file"
        return Diagnostic("over.changed-file", message, hint=hint)

    def _unreadable(self, error: Exception) -> Diagnostic:
        message = f"{str(self.path)!r} cannot be read: {path_error_reason(error)}"
        return Diagnostic("over.file", message)


class JsonLines(FileRows):
    """A JSONL file with a JSON object in each line. Blank lines are skipped."""

    def open(self) -> None:
        self._starts, counts, usable = array("Q"), Counter[str](), 0
        self._lines = array("Q")
        """The number of the first line of each page; `_starts` has its offset in the file."""
        broken: StepError | None = None
        with open_file(self.path) as file:
            place = 0
            for number, line in enumerate(_lines(file), 1):
                if line.strip():
                    if self.length % PAGE == 0:
                        self._starts.append(place)
                        self._lines.append(number)
                    row = row_object(line, number)
                    broken = broken or (row if isinstance(row, StepError) else None)
                    usable += not isinstance(row, StepError)
                    counts.update(column_names(row))
                    self.length += 1
                place += len(line)
        if broken is not None and not usable:
            message = f"{str(self.path)!r} has no rows: {broken.diagnostic.message}"
            hint = 'each line is an object in JSON: {"name": "pear", "kg": 2}'
            raise DefinitionError(Diagnostic("over.file", message, hint=hint))
        self.columns = tuple(counts)
        self.partial = frozenset(name for name, count in counts.items() if count < usable)

    def read_unchecked(self, page: int) -> list[Cells | StepError]:
        with open_file(self.path) as file:
            file.seek(self._starts[page])
            numbered = enumerate(_lines(file), self._lines[page])
            full = ((number, line) for number, line in numbered if line.strip())
            return [row_object(line, number) for number, line in islice(full, PAGE)]


class CsvFile(FileRows):
    """A CSV file whose first line that is not blank has the names. The cells of a column are numbers
    or booleans if all of them can be read so; an empty cell is null."""

    def open(self) -> None:
        self._starts, self._lines = array("Q"), array("Q")
        """The offset in the file of each page, and the number of its first line."""
        with open_file(self.path) as file:
            reader = _CsvReader(file, 0, 1)
            header = next(filter(None, reader.rows), [])
            self.columns = tuple(name.strip() for name in header)
            hint = "its first line has the names of the columns, separated by commas"
            refuse_double(self.columns, f"{str(self.path)!r}: ", hint)
            if not all(self.columns):
                message = f"{str(self.path)!r}: a column has no name"
                raise DefinitionError(Diagnostic("over.columns", message, hint=hint))
            possible = [list(CELLS) for _ in self.columns]
            place = reader.place
            line = reader.line
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
                place = reader.place
                line = reader.line
            self._readers = [kinds[0][1] if kinds else str for kinds in possible]

    def read_unchecked(self, page: int) -> list[Cells | StepError]:
        with open_file(self.path) as file:
            reader = _CsvReader(file, self._starts[page], self._lines[page])
            return [
                self._row(row, reader.line - 1) for row in islice(filter(None, reader.rows), PAGE)
            ]

    def _row(self, cells: list[str], line: int) -> Cells | StepError:
        if len(cells) > len(self.columns):
            many = f"it has {len(cells)} cells, and there are {len(self.columns)} columns"
            return broken_row(line, many, "line")
        texts = [*cells, *[""] * (len(self.columns) - len(cells))]
        return {
            name: read(text) if text else None
            for name, read, text in zip(self.columns, self._readers, texts, strict=True)
        }


class _CsvReader:
    """Reads the rows of a CSV file from ``place`` on, and tells the place and the line of the next
    row. Raises ValueError for a line that cannot be read."""

    def __init__(self, file: Any, place: int, line: int) -> None:
        file.seek(place)
        self.place = place
        self.line = line
        # The default limit of the whole process is 131,072 characters. Here a cell may be as long
        # as its row, as in JSON lines.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        self.rows = self._rows(csv.reader(self._texts(file), strict=False))

    def _rows(self, reader: Iterator[list[str]]) -> Iterator[list[str]]:
        self._first = self.line  # the first line of the row that is being read
        try:
            for row in reader:
                yield row
                self._first = self.line
        except UnicodeDecodeError:
            raise ValueError(f"line {self.line - 1} is not UTF-8") from None
        except csv.Error as error:
            # The part after the dash tells how to open a file in Python.
            why = str(error).partition(" - ")[0]
            if "new-line character" in why:
                why = "it ends with a carriage return alone: save the file with LF or CR LF"
            raise ValueError(f"line {self._first}: {why}") from None

    def _texts(self, file: Any) -> Iterator[str]:
        for line in _lines(file):
            self.place += len(line)
            self.line += 1
            # `line` is already that of the next line: 2 after the first one, which may have a mark.
            yield line.decode("utf-8-sig" if self.line == 2 else "utf-8")
        # The reader asks for one more line of the same row. After an open quote it would read all
        # further rows into one cell.
        if self.line > self._first:
            raise ValueError(f"a quote of line {self._first} is not closed")


class Parquet(FileRows):
    """A Parquet file. It needs pyarrow."""

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
        except Exception as error:  # pyarrow's errors have no common base class
            message = f"{str(self.path)!r} is not a Parquet file: {error}"
            raise DefinitionError(Diagnostic("over.file", message)) from None
        about = self._file.metadata
        self.columns = tuple(self._file.schema_arrow.names)
        refuse_double(self.columns, f"{str(self.path)!r}: ")
        self.length = about.num_rows
        groups = map(about.row_group, range(about.num_row_groups))
        self._starts = [0, *accumulate(group.num_rows for group in groups)]
        """The number of the first row of each row group, and the number of all rows."""
        self._open: list[tuple[int, Iterator[Any]]] = []
        """The number of the next row, and the iterator of batches from there on. Pages are mostly
        read in order, so a row group, which may be the whole file, is decoded once. It is a list of
        at most one item, so that only one of several threads takes it."""

    def read_unchecked(self, page: int) -> list[Cells | StepError]:
        start = page * PAGE
        rows = list[Cells | StepError]()
        end = min(start + PAGE, self.length)
        upcoming = -1
        batches: Iterator[Any] = iter(())
        with suppress(IndexError):  # it is the first page, or another thread has the iterator
            upcoming, batches = self._open.pop()
        if upcoming < 0 or not start - PAGE <= upcoming <= start:
            group = bisect_right(self._starts, start) - 1
            upcoming = self._starts[group]
            later = range(group, len(self._starts) - 1)
            batches = self._file.iter_batches(PAGE, row_groups=later)
        while start + len(rows) < end:
            batch = next(batches)
            first = upcoming
            upcoming += batch.num_rows
            here = start + len(rows)
            if upcoming > here:
                rows += _read_part(batch.slice(here - first, end - here), here)
        if upcoming == end:  # otherwise the last batch goes on after this page
            self._open[:] = [(upcoming, batches)]
        return rows


def _read_part(part: Any, first: int) -> list[Cells | StepError]:
    """The rows of ``part``, a batch of Arrow. ``first``: the number of its first row."""

    def records(start: int, stop: int, column: str | None) -> list[Mapping[str, Value]]:
        table = part if column is None else part.select([column])
        return list(table.slice(start - first, stop - start).to_pylist())

    return read_cells(first, first + part.num_rows, part.column_names, records)


class Cases(ListRows):
    """A data set of pydantic-evals: a YAML or JSON file with ``cases``. The inputs of a case are
    columns (``input`` if they are no mapping), beside ``name``, ``expected_output`` and
    ``metadata``. The evaluators are not read, because they are code."""

    def __init__(self, path: Path) -> None:
        try:
            text = read_file(path).decode("utf-8")
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


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        yield line
