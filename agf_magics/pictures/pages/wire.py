"""The rows in the messages to a page: the names of their fields, which its script gets from here.

A row is sent as a list, since a message may have thousands of rows: the place of a field says what it
is. Kernel and page write the name of a field, and only this file knows its place. Entries of a mapping,
which are pairs of a key and a value, have no row here. Single answers are objects with names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class StateRow(NamedTuple):
    """How a state of a row or a run looks."""

    name: str
    mark: str
    word: str
    color: str
    ink: str
    ring: float
    """The width of the border of a box."""


class StepRow(NamedTuple):
    """A step in the tree: what never changes."""

    id: str
    depth: int
    glyph: str
    name: str
    does: str
    """What the step does, beside its name."""
    repeats: bool
    """Whether the step may run several times, in a fan-out, a loop or a graph."""
    is_inner: bool
    """Whether the list leaves the step out until an update has a name for it."""


class UpdateRow(NamedTuple):
    """A step in an update: what changes. It is sent without the fields at its end that are None."""

    number: int
    """The number of the step's row in the tree."""
    state: int
    """The number of the step's state in the table of states."""
    corner: str
    """The text in the corner of the step's box."""
    words: str
    """The state in words."""
    counted: str
    """The counters of the step, in words."""
    start: float | None
    """Seconds from the start of the run to the start of the step."""
    end: float | None
    """Seconds from the start of the run to the end of the step; None while it runs."""
    tail: str
    """The end of what the step printed, or of a reply that arrives."""
    ok_share: float | None = None
    """The share of elements or calls that are ok; None: the step has no bar."""
    failed_share: float | None = None
    """The share of elements or calls that failed."""
    brief: str | None = None
    """The counters for a place with little room, if they are shorter there."""
    name: str | None = None
    """The name of a step whose name changes during the run; None for every other step."""
    brief_name: str | None = None
    """Such a name for a place with too little room for it."""
    is_unused: bool | None = None
    """True if the run has ended and never ran the step: the list has such steps at its end."""
    has_attempts: bool | None = None
    """True if a call of the step failed or broke off and was made again: its bar in the timeline has
    both."""
    idle: float | None = None
    """The seconds between start and end in which the step did not run; None: there are none."""
    old: int | None = None
    """How many results the step keeps from its function before an edit; None: none."""
    is_reused: bool | None = None
    """True if all its results are those of another run: it has no time."""

    def sent(self) -> list[Any]:
        row = [*self]
        while row[-1] is None:
            row.pop()
        return row


class EdgeRow(NamedTuple):
    """An edge in a picture, and the place for its numbers."""

    key: str
    """The key of the edge (see `scene.way`), as in the ``edges`` of an update."""
    line: int
    """The number of the edge's line among the paths of the SVG without a fill."""
    room: int
    """The number of characters that cover nothing at the place; 0: the edge has no place for numbers."""
    x: float = 0
    y: float = 0
    side: int = 0
    """-1: the numbers end at x; 1: they begin at x; 0: x is their middle."""
    leader: list[float] | None = None
    """The point of the line to which a thin line leads from numbers that are further away."""


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
    """1 if the call failed, else 0."""
    number: int
    """The number of the call in its run."""


class DensityRow(NamedTuple):
    """A part of a time: how many calls ran in it, and how many of them failed."""

    ran: int
    failed: int


class ElementRow(NamedTuple):
    """An element of a fan-out, or an iteration."""

    numbers: list[int]
    """The number of the element, after the numbers of the elements around it."""
    calls: int
    failed: int
    """How many calls of the element failed."""
    is_failed: bool
    """Whether the last call of the element failed."""
    took: str
    output: str
    """The result or the error of the call that ended last."""
    input: str
    """The input of the call that began first."""


class EvaluationRow(NamedTuple):
    """What a step that only evaluates an expression read and returned."""

    numbers: list[int]
    given: list[list[str]]
    """The values that the step read, each as its name and its text."""
    case: str
    output: str
    error: str


class SessionRow(NamedTuple):
    """One of several sessions of a step with a model."""

    numbers: list[int]
    """The numbers of the elements that lead to the session."""
    state: str
    """``running``, ``ok``, ``failed`` or ``cancelled``."""
    failed: int
    """How many calls of the session failed."""
    input: str
    """What the model was asked first; empty until its first call has ended."""


class StaleRow(NamedTuple):
    """A step that an edit made stale: its recorded calls no longer fit its text."""

    number: int
    """The number of the step's row in the tree."""
    state: str
    why: str
    """Sentences: why, and what a new run does."""
    change: str


class NamedStoreRow(NamedTuple):
    """One of the stores of a run: how large it is, or a short value itself."""

    name: str
    about: str


class StoreRow(NamedTuple):
    """A store at one moment of a run."""

    name: str
    value: Any
    is_new: bool
    """Whether the value differs from the value at the moment before."""
    about: str
    """How large the value is, or a short value itself."""


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
    look: str
    """How it looks (`text_tables.Looks`)."""


class TableRow(NamedTuple):
    """A row of the table of a run over a table."""

    place: int
    """The number of the row in the whole table, from 0."""
    is_failed: bool
    cells: list[str]
    label: str


class ComparedRunRow(NamedTuple):
    """One of two runs side by side."""

    id: str
    took: str


class ComparedStepRow(NamedTuple):
    """A step of two runs: its name, its id, how it differs, its figures in both runs, and how much of
    its work each run reused, in words."""

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
    """A part of a value that differs between two runs; an empty text for a run without the part. Of two
    tables ``table`` has what differs."""

    name: str
    first: str
    other: str
    table: Mapping[str, Any] | None = None


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
    """The names of a row's fields as JavaScript writes them: ``ok_share`` is ``okShare``."""
    return [re.sub("_(.)", lambda match: match[1].upper(), name) for name in row._fields]


def wire_script() -> str:
    """The constant from which the script of a page gets the names of each row's fields."""
    names = {row.__name__: fields_of(row) for row in WIRE}
    return f"const WIRE = {json.dumps(names, separators=(',', ':'))};"
