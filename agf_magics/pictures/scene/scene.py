"""The parts of a picture as data: boxes, frames around them, lines between them.

A frame has a title and no box of its own: arrows end at its border.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...flow.step import Step

LineKind = Literal["then", "value", "late", "flow", "back", "limit", "hold"]
"""``then``: the order alone. ``value``: a value. ``late``: a value that is read much later. ``flow``: a
value, to the very next step. ``back``: to the next round. ``limit``: from a node that reached its limit.
``hold`` is not drawn: it keeps a box below another."""

Tags = Mapping[str, str]
"""The values of one box that come from far away, each with the id of the box that writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    id: str
    word: str
    name: str
    does: str = ""
    """What it does, if the name does not say it: the tool of a branch, an expression, a prompt."""
    output: str = ""
    case: str = ""
    """The condition of a choice under which it runs, on its upper border."""
    many: bool = False
    """Inside a fan-out or a fold: drawn as a stack."""
    opens: bool = False
    """Whether it is a called flow or a folded frame."""
    leaves: tuple[str, ...] = ()
    """The limit of a graph's node, and its edges that are not drawn as lines, ``x > 0 ▸ END``."""
    tooltip: str = ""
    step: Step | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame(Box):
    parts: tuple[Box, ...]
    first: tuple[Box, ...]
    """The boxes with which it begins."""
    last: tuple[Box, ...]
    """The boxes with which it ends."""


VALUES = frozenset({"value", "late", "flow"})


class Link(NamedTuple):
    """A line from the box or frame ``tail`` to the box or frame ``head``, by their ids."""

    tail: str
    head: str
    kind: LineKind
    label: str = ""
    way: str = ""
    """The key of a graph's edge among the states of a run (see `way`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    name: str
    parts: tuple[Box, ...]
    links: tuple[Link, ...]
    """The order of the steps, and the edges of a graph."""
    values: Mapping[tuple[str, str], tuple[str, ...]]
    """The names of the values that a box writes and another one reads."""
    is_free: bool
    """Whether only values place the boxes, or the edges of a graph."""

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
