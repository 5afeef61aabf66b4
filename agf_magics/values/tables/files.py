"""Tables in files: JSON lines, CSV and Parquet, read page by page.

A file is read again by its path, a page at a time.
"""

from __future__ import annotations

import csv
import os
from array import array
from bisect import bisect_right
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
    """A file of rows. It is pickled as its path, its size and its time."""

    def __init__(self, path: Path, state: tuple[int, int] | None = None) -> None:
        """``state``: the size and the time that it must have; None: any. Raises DefinitionError."""
        super().__init__()
        self.path = path
        self.length = 0
        try:
            with open_file(path) as file:
                facts = os.fstat(file.fileno())
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
        broken: StepError | None = None
        has_row = False
        with open_file(self.path) as file:
            place = 0
            for number, line in enumerate(_lines(file), 1):
                if line.strip():
                    if self.length % PAGE == 0:
                        self._starts.append(place)
                        self._lines.append(number)
                    row = row_object(line, number)
                    broken = broken or (row if isinstance(row, StepError) else None)
                    has_row = has_row or not isinstance(row, StepError)
                    columns.update(dict.fromkeys(column_names(row)))
                    self.length += 1
                place += len(line)
        if broken is not None and not has_row:
            message = f"{str(self.path)!r} has no rows: {broken.diagnostic.message}"
            hint = 'each line is an object in JSON: {"name": "pear", "kg": 2}'
            raise DefinitionError(Diagnostic("over.file", message, hint=hint))
        self.columns = tuple(columns)

    def read(self, page: int) -> list[Cells | StepError]:
        with open_file(self.path) as file:
            file.seek(self._starts[page])
            numbered = enumerate(_lines(file), self._lines[page])
            full = ((number, line) for number, line in numbered if line.strip())
            return [row_object(line, number) for number, line in islice(full, PAGE)]


class CsvFile(FileRows):
    """A CSV file with a line of names. A column is numbers or booleans if all its cells are; an
    empty cell is null."""

    def open(self) -> None:
        self._starts, self._lines = array("Q"), array("Q")
        with open_file(self.path) as file:
            reader = _CsvReader(file, 0, 1)
            header = next(reader.rows, [])
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

    def read(self, page: int) -> list[Cells | StepError]:
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
    """The rows of a CSV file from a place on, and the place and the line of the next one. Raises
    ValueError for a line that cannot be read."""

    def __init__(self, file: Any, place: int, line: int) -> None:
        file.seek(place)
        self.place = place
        self.line = line
        # Its limit is one of the process, 131,072: a cell may be as long as its row, as in JSON lines.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
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
            why = str(error).partition(" - ")[0]
            if "new-line character" in why:
                why = "it ends with a carriage return alone: save the file with LF or CR LF"
            raise ValueError(f"line {self._first}: {why}") from None

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
        self.columns = tuple(self._file.schema_arrow.names)
        self.length = about.num_rows
        groups = map(about.row_group, range(about.num_row_groups))
        self._starts = [0, *accumulate(group.num_rows for group in groups)]
        self._open: list[tuple[int, Iterator[Any]]] = []
        """The number of the row that comes next, and the batches from there on: pages are mostly
        read in their order, and a row group, which may be the whole file, is decoded once. A list,
        so that each of several threads takes it alone."""

    def read(self, page: int) -> list[Cells | StepError]:
        start = page * PAGE
        rows = list[Cells | StepError]()
        end = min(start + PAGE, self.length)
        upcoming = -1
        batches: Iterator[Any] = iter(())
        with suppress(IndexError):  # the first page, or another thread has it
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
        if upcoming == end:  # else its last batch goes on after this page
            self._open[:] = [(upcoming, batches)]
        return rows


def _read_part(part: Any, first: int) -> list[Cells | StepError]:
    """The rows of a batch of Arrow, of which the first has the number ``first``."""

    def records(start: int, stop: int, column: str | None) -> list[Mapping[str, Value]]:
        table = part if column is None else part.select([column])
        return list(table.slice(start - first, stop - start).to_pylist())

    return read_cells(first, first + part.num_rows, part.column_names, records)


class Cases(ListRows):
    """A data set of pydantic-evals: a YAML or JSON file with ``cases``. The inputs of a case are
    columns (``input`` if they are no mapping), beside ``name``, ``expected_output`` and
    ``metadata``. Its evaluators are not read: they are code."""

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
