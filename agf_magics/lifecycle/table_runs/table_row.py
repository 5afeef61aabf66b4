"""`TableRow`, one row of the result of a run over a table, with its values and previews.

A value is the one that the flow returned, even if it is read from the journal. If the journal does
not hold a value, reading it raises: its preview is only a text, which a score must not judge. Only
views use previews, for which nothing is unpickled (decision A19).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from ...journal.codec.encoding import DecodeError, EncodedValue, encode_value
from ...journal.codec.json_texts import encode
from ...journal.codec.same_values import Stored, is_same, is_same_json
from ...journal.database.value_files import ValueFiles
from ...journal.records.records import Record
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic, StepError
from ...values.tables.rows import cell
from ...values.value import Value, type_name

Cells = dict[str, Value]
"""The cells of a row by the names of their columns; a value that is not held is an `Unstored`."""

OUTPUT = "output"

NOT_RUN, NOT_STORED = "not run", "not stored"
"""The statuses of a row that has not ended, and of one of which nobody knows how it ended."""

LOST = "the row has ended, but the journal had no room for its outcome"
"""Why an output is not stored."""

_LOST_TEXT = "⟨not stored⟩"

_MAPPING = re.compile(rb"\x80.(?:\x95.{8})?\}", re.DOTALL)
"""The first bytes of the pickle of a mapping."""


class Unstored(NamedTuple):
    """A value that the journal does not hold."""

    shown: Value
    """The preview of the value."""
    why: str


class LostInput(NamedTuple):
    """A row that was given and that neither the journal nor this process has."""

    shown: Mapping[str, Value]
    """The preview of the row."""
    why: str


class FindInput(Protocol):
    def __call__(self, *, shown: bool) -> Mapping[str, Value] | LostInput:
        """The row as it was given. ``shown``: whether a preview is enough."""


@dataclass(eq=False)
class TableRow:
    """One row of the result."""

    number: int
    """The number by which a person knows the row (`OverTerms.number_of`)."""
    repeat: int
    """The number of this repetition of the row, from 0 on."""
    status: str
    """``ok``, ``failed``, `NOT_RUN` or `NOT_STORED`."""
    find_input: FindInput
    record: Record | None = None
    """The journal's record of the row."""
    held_output: Value = None
    """The output of the row, if the journal did not get it."""
    is_lost: bool = False
    """Whether the row has ended and nothing has its outcome."""
    run_id: str = ""
    files: ValueFiles | None = None
    """The folder of the journal's large values."""
    error: StepError | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    """The cost of the row's models in US dollars; None: unknown, or the row asked no model."""

    @property
    def has_unknown_cost(self) -> bool:
        """Whether the row asked a model without a known price."""
        return self.cost is None and self.tokens is not None

    @property
    def input(self) -> Mapping[str, Value]:
        """The row as it was given. Raises DefinitionError ``over.not-stored``."""
        input = self._input
        if isinstance(input, LostInput):
            raise not_stored([(self.number, "its input")], input.why)
        return input

    @property
    def output(self) -> Value:
        """The output of the flow for the row; None if the row failed. Raises DefinitionError
        ``over.not-stored``."""
        value = self._output
        if isinstance(value, Unstored):
            raise not_stored([(self.number, OUTPUT)], value.why)
        return value

    @property
    def is_whole(self) -> bool:
        """Whether the whole input of the row is known."""
        return not isinstance(self._input, LostInput)

    def given_cells(self, shown: bool) -> Cells:
        """The input of the row by the names of its columns. ``shown``: whether previews are
        enough."""
        input = self.find_input(shown=True) if shown else self._input
        if not isinstance(input, LostInput):
            return dict(input)
        if shown:
            return dict(input.shown)
        return {name: Unstored(value, input.why) for name, value in input.shown.items()}

    def returned_cells(self, shown: bool) -> Cells:
        """The output of the row by the names of its columns: the keys of a mapping; for another
        value only ``output``. ``shown``: whether previews are enough."""
        if self.status not in ("ok", NOT_STORED):
            return {}
        value = self._shown if shown else self._output
        # The preview of a dataclass is an object too.
        has_columns = is_object(value) and (not shown or self._is_mapping)
        return dict(value) if has_columns else {OUTPUT: value}

    def has_same_outcome(self, other: TableRow) -> bool | None:
        """Whether ``other`` ended in the same way with the same output; None: the journal has too
        little of the outputs to tell."""
        if self.status != other.status:
            return False
        if self.is_lost or other.is_lost:
            return None
        if self.status != "ok":
            return True  # there is no output
        return is_same(self._stored, other._stored)

    def has_same_input(self, other: TableRow) -> bool | None:
        """Whether ``other`` had the same input; None: the input of a row is not known, or is no
        JSON."""
        own_text, other_text = self._given_text, other._given_text
        if own_text is None or other_text is None:
            return None
        return is_same_json(own_text, other_text)

    @property
    def shown_output(self) -> Value:
        """The output of the row for a display: its preview, if it is not JSON."""
        return self._shown

    @cached_property
    def _input(self) -> Mapping[str, Value] | LostInput:
        return self.find_input(shown=False)

    @cached_property
    def _output(self) -> Value:
        record = self.record
        if self.is_lost:
            return Unstored(_LOST_TEXT, LOST)
        if record is None:
            return self.held_output
        if self.status != "ok":
            return None
        if record.result.form == "again":  # the value was not stored
            return Unstored(record.value_shown, "")
        try:
            return record.read_value(self.run_id, trust=False, files=self.files)
        except DecodeError as error:
            return Unstored(record.value_shown, str(error))

    @property
    def _shown(self) -> Value:
        if self.is_lost:
            return _LOST_TEXT
        return self.held_output if self.record is None else self.record.value_shown

    @property
    def _is_mapping(self) -> bool:
        """Whether the output is a mapping, as far as that is known without reading a pickle."""
        if self.record is None or self.record.result.form == "json":
            return True
        result = self.record.result
        data = result.data if result.parts is None else result.parts.partition(b"\n")[2]
        return isinstance(data, bytes) and _MAPPING.match(data) is not None

    @cached_property
    def _stored(self) -> Stored:
        return _encode(self.held_output) if self.record is None else self.record.result

    @cached_property
    def _given_text(self) -> str | None:
        """The input of the row as JSON; None: a part of the input is no JSON, so it is not
        compared."""
        if self.record is not None and self.record.arguments.is_one_text:
            return self.record.arguments.text
        packed = _encode(dict(self.input)) if self.is_whole else None
        return packed.data if packed is not None and isinstance(packed.data, str) else None


def _encode(value: Value) -> EncodedValue:
    return encode_value(value, current.settings.journal_value)


def is_object(value: Value) -> bool:
    """Whether it has columns of its own: a JSON object with a name."""
    return type(value) is dict and bool(value) and all(type(name) is str for name in value)


class PartialRow(Mapping[str, Value]):
    """A row as a mapping, of which some values are not stored. Reading such a value is an error."""

    def __init__(self, number: int, cells: Cells) -> None:
        self._number, self._cells = number, cells

    def __getitem__(self, name: str) -> Value:
        if name not in self._cells and isinstance(output := self._cells.get(OUTPUT), Unstored):
            raise not_stored([(self._number, name)], output.why)  # it may be a part of it
        value = self._cells[name]
        if isinstance(value, Unstored):
            raise not_stored([(self._number, name)], value.why)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        shown = {n: v.shown if isinstance(v, Unstored) else v for n, v in self._cells.items()}
        return f"<row {self._number}, not stored whole: {shown!r}>"


def as_mapping(number: int, cells: Cells) -> Mapping[str, Value]:
    """The cells of a row, for a person: reading one that is not stored is an error."""
    if any(isinstance(value, Unstored) for value in cells.values()):
        return PartialRow(number, cells)
    return cells


MOST_PLACES = 10
"""Cells that an error names."""


def places_text(places: list[tuple[int, str]]) -> str:
    """Cells in an error: ``row 0 'image', row 3 'image' and 7 more``."""
    named = ", ".join(
        f"row {row:,} {column if column == 'its input' else repr(column)}"
        for row, column in places[:MOST_PLACES]
    )
    more = len(places) - MOST_PLACES
    return f"{named} and {more:,} more" if more > 0 else named


def not_stored(places: list[tuple[int, str]], why: str = "") -> DefinitionError:
    """The error for cells whose values the journal does not hold."""
    message = f"the journal does not hold the value of {places_text(places)}"
    hint = (
        why
        or "the warning journal.unkept of the run says why: it cannot be pickled, it has a secret, or the "
        "disk had no room; a run with the journal switched off keeps all values in memory"
    )
    return DefinitionError(Diagnostic("over.not-stored", message, hint=hint))


def added_cell(value: Value, number: int, name: str) -> Value:
    """A value of an added column as the journal keeps it: JSON, or what has an obvious form there,
    as the cells of a table that is given. ``number``, ``name``: its row and column, for an error.
    Raises DefinitionError."""
    with suppress(TypeError, ValueError, RecursionError):
        encode(value)
        return value
    with suppress(TypeError, ValueError, RecursionError):
        plain = cell(value)
        encode(plain)
        return plain
    place = places_text([(number, name)])
    message = f"an added column cannot hold {type_name(value)}: {place}"
    hint = "add numbers, texts, lists and mappings of them"
    raise DefinitionError(Diagnostic("over.cannot-hold", message, hint=hint))


def free_name(prefix: str, name: str, taken: Container[str]) -> str:
    """``name`` with ``prefix`` before it as often as is necessary: a table that was saved and is run
    over again has the names with one."""
    while name in taken:
        name = prefix + name
    return name
