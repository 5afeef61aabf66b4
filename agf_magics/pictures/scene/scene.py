"""The parts of a picture as data: boxes, frames around them, lines between them.

A frame has a title and no further box for its step: arrows end at the border of the frame. The builder
makes a scene from a flow; the room layout gives its parts places and paints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...flow.step import Step

LineKind = Literal["then", "value", "late", "flow", "back", "limit", "hold"]
"""The kind of a line. ``then``: the order alone. ``value``: a value. ``late``: a value that is read much
later. ``flow``: a value, to the very next step. ``back``: to the next round. ``limit``: from a node that
reached its limit. ``hold`` is not drawn: it keeps a box below another one."""

Tags = Mapping[str, str]
"""The values that one box reads from far away, by name, each with the id of the box that writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    id: str
    word: str
    """The word of the step in its language, such as ``for_each``: its look depends on it (theme.py)."""
    name: str
    does: str = ""
    """What the box does, if the name does not say it: the tool of a branch, an expression, a prompt."""
    output: str = ""
    """The name of the value that the box writes, if no other text of the box says it."""
    case: str = ""
    """The condition of a choice under which the box runs, on its upper border."""
    many: bool = False
    """Whether the box is inside a fan-out or a fold; it is drawn as a stack."""
    opens: bool = False
    """Whether the box is a called flow, which a person can open. A folded frame has a button of its own."""
    leaves: tuple[str, ...] = ()
    """The limit of a graph's node, and the edges from it that are tags, ``x > 0 ▸ END``."""
    tooltip: str = ""
    step: Step | None = None
    """The step of the box; None for the input, a terminal of a graph and a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame(Box):
    parts: tuple[Box, ...]
    first: tuple[Box, ...]
    """The boxes with which the frame begins."""
    last: tuple[Box, ...]
    """The boxes with which the frame ends."""


VALUES = frozenset({"value", "late", "flow"})
"""The kinds of lines that stand for values."""


class Link(NamedTuple):
    """A line from the box or frame ``tail`` to the box or frame ``head``, by their ids."""

    tail: str
    head: str
    kind: LineKind
    label: str = ""
    """A line of text for each condition under which a graph goes there, or the names of values."""
    way: str = ""
    """The key of a graph's edge among the states of a run (see `way`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    name: str
    parts: tuple[Box, ...]
    links: tuple[Link, ...]
    """The order of the steps, and the edges of a graph."""
    values: Mapping[tuple[str, str], tuple[str, ...]]
    """The names of the values between two boxes, by the ids of the writer and the reader."""
    is_free: bool
    """Whether the whole flow is a plan or a graph: only values or edges place the boxes, not an order."""

    @property
    def every(self) -> Iterator[Box]:
        """All boxes and frames, outer ones first."""
        return within(self.parts)

    @property
    def boxes(self) -> Iterator[Box]:
        return (box for box in self.every if not isinstance(box, Frame))

    @property
    def frames(self) -> Iterator[Frame]:
        return (box for box in self.every if isinstance(box, Frame))


def within(parts: Sequence[Box]) -> Iterator[Box]:
    """The boxes and frames in ``parts``, outer ones first."""
    for part in parts:
        yield part
        if isinstance(part, Frame):
            yield from within(part.parts)


def way(walk: str, source: str, target: str) -> str:
    """The key of a graph's edge among the states of a run."""
    return f"{walk}: {source} → {target}"


def first_boxes(box: Box) -> tuple[Box, ...]:
    """The boxes at which a line to ``box`` ends."""
    return box.first if isinstance(box, Frame) else (box,)


def last_boxes(box: Box) -> tuple[Box, ...]:
    """The boxes at which a line from ``box`` begins."""
    return box.last if isinstance(box, Frame) else (box,)


def framed(head: Box, parts: tuple[Box, ...], begin: Sequence[Box], end: Sequence[Box]) -> Box:
    """The frame ``head`` around ``parts``, with the boxes at which it begins and ends."""
    if not parts:
        return head
    fields = {field: getattr(head, field) for field in Box.__slots__} | {"opens": False}
    return Frame(
        **fields,
        parts=parts,
        first=tuple(begin or first_boxes(parts[0])),
        last=tuple(end or last_boxes(parts[-1])),
    )


def frames_around(
    parts: Sequence[Box], outer: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    """The id of each box and frame with the ids of the frames around it."""
    for part in parts:
        yield part.id, outer
        if isinstance(part, Frame):
            yield from frames_around(part.parts, outer | {part.id})
