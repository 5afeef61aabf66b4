"""The rows in the messages to a page: the names of their fields, which its script gets from here.

A row is sent as a list, since a message may have thousands: so the place of a field is its meaning.
Kernel and page name the field, and only this file knows the place. Entries of a mapping, which are
pairs of a key and a value, have no row. Answers of which there is one are objects with names.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple


class StateRow(NamedTuple):
    """How a state of a row or a run looks."""

    name: str
    mark: str
    word: str
    color: str
    ink: str
    ring: float


class StepRow(NamedTuple):
    """A step in the tree: what never changes."""

    id: str
    depth: int
    glyph: str
    name: str
    does: str
    """What it does, beside its name."""
    repeats: bool
    is_inner: bool
    """Whether the list lacks it, unless an update has a name for it."""


class UpdateRow(NamedTuple):
    """A step in an update: what changes. It is sent without the fields at its end that are None."""

    number: int
    """The number of its row in the tree."""
    state: int
    """The number of its state in the table of states."""
    corner: str
    """The text of the corner of its box."""
    words: str
    """Its state in words."""
    counted: str
    """Its counters."""
    start: float | None
    """Seconds after the start of the run."""
    end: float | None
    tail: str
    """The end of what it printed, or of a reply that arrives."""
    ok_share: float | None = None
    """The share of its elements that are ok; None: it is no fan-out."""
    failed_share: float | None = None
    brief: str | None = None
    """Its counters where there is little room, if they are shorter."""
    name: str | None = None
    """Its name, if it changes during the run."""
    is_unused: bool | None = None
    """Whether the run has ended and never ran it: the list has such steps at its end."""

    def sent(self) -> list[Any]:
        row = [*self]
        while row[-1] is None:
            row.pop()
        return row


class EdgeRow(NamedTuple):
    """An edge in a picture, and the place for its numbers."""

    key: str
    line: int
    """The number of its line among the paths without a fill."""
    room: int
    """The number of characters that cover nothing at the place; 0: the edge has no place for numbers."""
    x: float = 0
    y: float = 0
    side: int = 0
    """-1: the numbers end at x; 1: they begin there; 0: it is their middle."""


class DroppedRow(NamedTuple):
    """Failures of dropped elements with one message."""

    why: str
    times: int
    places: list[str]


class BarRow(NamedTuple):
    """A call over time, in milliseconds after the first start."""

    start: float
    end: float
    failed: int
    number: int


class DensityRow(NamedTuple):
    """A part of a time: how many calls ran in it, and how many of them failed."""

    ran: int
    failed: int


class ElementRow(NamedTuple):
    """An element of a fan-out, or an iteration."""

    numbers: list[int]
    calls: int
    failed: int
    """How many of its calls failed."""
    is_failed: bool
    took: str


class EvaluationRow(NamedTuple):
    """What a step that only evaluates read and gave."""

    numbers: list[int]
    given: list[list[str]]
    """What it read, by its name."""
    case: str
    output: str
    error: str


class SessionRow(NamedTuple):
    """One of several sessions of a step."""

    numbers: list[int]
    failed: int


class StaleRow(NamedTuple):
    """A step that an edit made stale."""

    number: int
    """The number of its row in the tree."""
    state: str
    why: str
    calls: int
    reused: int
    change: str


class NamedStoreRow(NamedTuple):
    """One of the stores of a run: how large it is, or a short value itself."""

    name: str
    about: str


class StoreRow(NamedTuple):
    """A value of a moment."""

    name: str
    value: Any
    is_new: bool
    """Whether it differs from that of the moment before."""
    about: str
    """How large it is, or a short value itself."""


class DifferenceRow(NamedTuple):
    """A part of a value that differs between two moments."""

    path: str
    first: str
    other: str


class ColumnRow(NamedTuple):
    """A column of the table of a run over a table."""

    name: str
    text: str
    """The name as it is displayed."""


class TableRow(NamedTuple):
    """A row of the table of a run over a table."""

    place: int
    is_failed: bool
    cells: list[str]
    label: str


class ComparedRunRow(NamedTuple):
    """One of two runs side by side."""

    id: str
    took: str


class ComparedStepRow(NamedTuple):
    """A step of two runs: its name, its id, how it differs, and its figures in both; what of it was
    reused, in words."""

    name: str
    step: str
    differs: str
    seconds: float
    other_seconds: float
    cost: str
    other_cost: str
    calls: int
    other_calls: int
    reused: str
    other_reused: str


class ComparedValueRow(NamedTuple):
    """A part of a value that differs between two runs; empty for a run that lacks it."""

    name: str
    first: str
    other: str


WIRE: tuple[type[Any], ...] = (
    StateRow,
    StepRow,
    UpdateRow,
    EdgeRow,
    DroppedRow,
    BarRow,
    DensityRow,
    ElementRow,
    EvaluationRow,
    SessionRow,
    StaleRow,
    NamedStoreRow,
    StoreRow,
    DifferenceRow,
    ColumnRow,
    TableRow,
    ComparedRunRow,
    ComparedStepRow,
    ComparedValueRow,
)


def fields_of(row: type[Any]) -> list[str]:
    """The names of its fields as JavaScript writes them."""
    return [re.sub("_(.)", lambda match: match[1].upper(), name) for name in row._fields]


def wire_script() -> str:
    """The constant from which the script of a page gets the names of each row's fields."""
    names = {row.__name__: fields_of(row) for row in WIRE}
    return f"const WIRE = {json.dumps(names, separators=(',', ':'))};"
