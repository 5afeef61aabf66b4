"""Saves the result of a run over a table as CSV, JSON lines or Parquet, and converts it to Arrow.

A file has exactly the values, or is not written: an error lists all values that the format cannot
hold. In CSV and JSON lines a date is a text in ISO 8601, an array is a list, and a missing number
is empty or null (decision A1).
"""

from __future__ import annotations

import csv
import decimal
import fractions
import pathlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from ...catalog import MASK
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.replaced_file import replaced_file
from ...values.json_text import write_json
from ...values.no_json import has_no_json
from ...values.sequences import is_array
from ...values.tables.columns import LONGEST_CELL, NotHeld, arrow_column, is_utf8
from ...values.tables.data_frames import table_of_columns, write_parquet
from ...values.times import iso_text
from ...values.value import Value, parts_of, type_name
from .table_row import Cells, Unstored, not_stored, places_text

_TEXTS = (decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PurePath)
"""The types of values that their ``str`` describes completely."""

_RUN_BY_SPREADSHEETS = tuple("=+-@\t\r\n＝＋－＠")
"""The first characters of a text that a spreadsheet runs as a formula."""
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?%?")
"""A number, which no spreadsheet runs, even if it begins with a sign."""


class CellsOfRun(Protocol):
    """The saved data: the cells of a run over a table."""

    def number_of(self, place: int) -> int:
        """The number by which a person knows a row."""
        ...

    def named_cells(self) -> Iterator[tuple[int, Cells]]:
        """The number and the cells of each row, in order."""
        ...

    def everything(self) -> tuple[list[str], list[Cells]]:
        """The columns and the cells of all rows. Raises DefinitionError ``over.not-stored``."""
        ...

    def all_columns(self) -> list[str]: ...


class MaskedCells:
    """The cells of a run over a table for a file, with masks in place of the run's secrets."""

    def __init__(self, table: CellsOfRun, shown: Callable[[Value], Value]) -> None:
        """``shown``: returns a value with masks in place of its secrets."""
        self._table = table
        self._shown = shown
        self._has_masked = False

    @property
    def note(self) -> str:
        """The note that secrets were masked; empty if there were none."""
        return f"secrets are {MASK} in the file" if self._has_masked else ""

    def number_of(self, place: int) -> int:
        return self._table.number_of(place)

    def all_columns(self) -> list[str]:
        return self._table.all_columns()

    def named_cells(self) -> Iterator[tuple[int, Cells]]:
        return ((number, self._masked(cells)) for number, cells in self._table.named_cells())

    def everything(self) -> tuple[list[str], list[Cells]]:
        columns, rows = self._table.everything()
        return columns, [self._masked(cells) for cells in rows]

    def _masked(self, cells: Cells) -> Cells:
        return {name: self._cell(value) for name, value in cells.items()}

    def _cell(self, value: Value) -> Value:
        if isinstance(value, Unstored):
            return value
        shown = self._shown(value)
        # A container is copied even if it has no secret.
        self._has_masked |= shown is not value and (type(shown) is str or MASK in repr(shown))
        return shown


Places = list[tuple[int, str, str]]
"""Cells that a form cannot hold: the number of the row, the column, what is there."""


def arrow_table(table: CellsOfRun, form: str) -> Any:
    """The table of pyarrow. ``form``: what an error calls it. Raises ImportError, DefinitionError."""
    columns, rows = table.everything()
    arrays: list[Any] = []
    places: Places = []
    for name in columns:
        values = [row.get(name) for row in rows]
        try:
            arrays.append(arrow_column(values))
        except NotHeld as error:
            numbers = [(n, table.number_of(n)) for n in error.numbers]
            places += [(row, name, _kind(values[n])) for n, row in numbers]
    _refuse(places, form)
    return table_of_columns(columns, arrays)


def _refuse(places: Places, form: str) -> None:
    """Raise DefinitionError if there are cells that the form of a file cannot hold."""
    if not places:
        return
    kinds = ", ".join(dict.fromkeys(kind for *_, kind in sorted(places)))
    cells = places_text([(row, column) for row, column, _ in sorted(places)])
    message = f"{form} cannot hold {kinds}: {cells}"
    hint = "let the flow return what it can hold (a list, a number, a text); to_pandas() has every value"
    raise DefinitionError(Diagnostic("over.cannot-hold", message, hint=hint))


def _refuse_cells(table: CellsOfRun, form: str, is_held: Callable[[Value], bool]) -> None:
    """Refuse all cells that ``is_held`` refuses, before a line is written."""
    places: Places = []
    lost: list[tuple[int, str]] = []
    why = ""
    for number, cells in table.named_cells():
        for name, value in cells.items():
            if isinstance(value, Unstored):
                lost.append((number, name))
                why = why or value.why
            elif not is_held(value):
                places.append((number, name, _kind(value)))
    if lost:
        raise not_stored(lost, why)
    _refuse(places, form)


def _kind(value: Value) -> str:
    """The part of a value that the format cannot hold, for example the first opaque part."""
    if not is_utf8(value):
        return "a text with half of a surrogate pair"
    kinds = [_kind(part) for part in parts_of(value) if not _has_json(part)]
    return kinds[0] if kinds else type_name(value)


def _has_json(value: Value) -> bool:
    try:
        write_json(value, LONGEST_CELL, otherwise=_json_part)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _json_part(part: Any) -> Value:
    """The JSON for an opaque value that JSON can hold completely."""
    if isinstance(part, _TEXTS):
        return str(part)
    # Arrays of booleans, numbers ("iuf"), time spans ("m") and times ("M").
    if is_array(part) and part.dtype.kind in "biufmM" and part.shape:
        return part.tolist() if part.dtype.kind in "biuf" else list(part)
    raise TypeError(type_name(part))


def _json(value: Value) -> str:
    return write_json(value, LONGEST_CELL, otherwise=_json_part, compact=False).text


def _write_jsonl(table: CellsOfRun, path: Path) -> str:
    _refuse_cells(table, "a line of JSON", _has_json)
    with replaced_file(path) as file:
        file.writelines(f"{_json(cells)}\n" for _, cells in table.named_cells())
    return ""


def _write_csv(table: CellsOfRun, path: Path) -> str:
    def is_held(value: Value) -> bool:
        return is_utf8(value) and _has_json(value)

    _refuse_cells(table, "a CSV file", is_held)
    columns = table.all_columns()
    quoted = list[tuple[int, str]]()
    with replaced_file(path) as file:
        writer = csv.writer(file)
        writer.writerow(map(_inert, columns))
        for number, cells in table.named_cells():
            texts = [_csv_cell(cells.get(name)) for name in columns]
            safe = [_inert(text) if isinstance(text, str) else text for text in texts]
            quoted += [
                (number, name)
                for name, text, safe_text in zip(columns, texts, safe, strict=True)
                if text != safe_text
            ]
            writer.writerow(safe)
    if not quoted:
        return ""
    return (
        f"a spreadsheet would run the text of {places_text(quoted)} as a formula, so it begins with an "
        "apostrophe in the file"
    )


def _csv_cell(value: Value) -> Any:
    """The object that the csv module gets for a value."""
    if value is None or has_no_json(value):
        return ""
    if type(value) in (str, int, float):
        return value
    text = iso_text(value)
    if text is not None:
        return text
    return str(value) if isinstance(value, _TEXTS) else _json(value)


def _inert(text: str) -> str:
    """A text that no spreadsheet runs: a text that would be a formula gets an apostrophe before
    it."""
    is_formula = text.startswith(_RUN_BY_SPREADSHEETS) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _write_parquet(table: CellsOfRun, path: Path) -> str:
    columns = arrow_table(table, "a Parquet file")
    with replaced_file(path) as file:
        write_parquet(columns, file.buffer)
    return ""


WRITERS: Mapping[str, Callable[[CellsOfRun, Path], str]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
"""The functions that write a file, by the end of its name. They return the notes for the person."""
