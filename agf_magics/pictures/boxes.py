"""What a picture is made of: boxes, frames around them, arrows between them. No state and no place yet.

Every step is one box. A step with steps under it is a frame whose head is that box, so an arrow into a step always ends
at a box, and what its head says (source, limit, policy, counters) has a place of its own that no edge crosses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..flow.frame import Expr
from ..flow.steps import Branches, Each, Fold, Invoke, Repeat, Step
from . import theme as look
from .plain import line

Line = Literal["control", "data", "wire", "again", "back", "beside", "exit", "below", "right"]
"""``wire``: data that alone says what comes after what. ``again``: back to the head of a frame for the next element or
iteration. ``back``: to a node that was passed before, ``beside`` where only one way leads down from that; ``exit``:
where a node leads that has run often enough. ``below`` and ``right`` are not drawn: they keep a box in its place."""
HIDDEN = frozenset({"below", "right"})

INPUT = "input"
"""The id of the box for the run's input; no step's id, which always has a bracket or a dot."""

POINTS_WORD = 10.0
POINTS_NAME = 12.5
CORNER = 92.0
"""Room for a state in the corner of a box, with or without one: the layout must not change while a run goes on."""
LEADING = 15.0
LONGEST = 230.0
LINES = 3
"""In how many lines a name stands that is longer; the tooltip has all of it."""
WHOLE = 200
"""Characters of a name that a picture knows of."""
CONDITION = 52
"""Characters of a condition that are shown."""
LABEL = 40
"""Characters of what stands on the way to a branch or a case: they stand side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    id: str
    word: str
    kicker: str
    """The small first line: the kind, and what part of its frame it is."""
    name: str
    """The bold second line, and the lines after it where it is long."""
    note: str = ""
    """A small third one: how a fan-out runs."""
    head: bool = False
    many: bool = False
    """Stands in a fan-out or a fold: drawn as a stack."""
    small: bool = False
    """Only its kicker, in a box to fit: where a walk begins and ends."""
    step: Step | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The name as it is drawn."""
        return look.wrapped(self.name, POINTS_NAME, LONGEST, LINES) if self.name else ()

    @property
    def width(self) -> float:
        if self.small:
            return round(look.width(self.kicker, POINTS_WORD) + 28)
        corner = CORNER if self.step is not None else 0.0
        lines = (
            look.width(self.kicker, POINTS_WORD) + corner,
            *(look.width(one, POINTS_NAME, bold=True) for one in self.lines),
            look.width(self.note, POINTS_WORD),
        )
        return round(max(72.0, *lines) + 24)

    @property
    def height(self) -> float:
        if self.small:
            return 26.0
        return (60.0 if self.note and self.name else 44.0) + LEADING * max(0, len(self.lines) - 1)

    @property
    def stack(self) -> float:
        """What its stack takes more, to the right and above."""
        return 6.0 if self.many else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    id: str
    word: str
    parts: tuple[Box | Frame, ...]


class Arrow(NamedTuple):
    tail: str
    head: str
    line: Line = "control"
    label: str = ""
    leaves: str | None = None
    """The frame at whose border it begins."""
    carries: str = ""
    """What flows along a control arrow, from the very step before to the next."""
    way: str = ""
    """For an edge that a run may take or not: what it is called among the states (see `way`)."""


def way(walk: str, source: str, target: str) -> str:
    """What an edge of a walk is called among the states of boxes."""
    return f"{walk}: {source} → {target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    name: str
    parts: tuple[Box | Frame, ...]
    arrows: tuple[Arrow, ...]

    @property
    def boxes(self) -> Iterator[Box]:
        yield from within(self.parts)

    @property
    def frames(self) -> Iterator[Frame]:
        """Outer ones first."""
        yield from _frames(self.parts)


def box(step: Step, many: bool, part: str = "", head: bool = False, note: str = "", name: str = "") -> Box:
    """``part``: what part of its frame it is; ``note``: what is said of it where it stands; ``name``: what it is called
    there, where that is not its label."""
    if name and step.label != name:
        part = line(step.label, 32)
    kicker = f"{look.kind(step.word).glyph} {line(step.word, 24)}{f' · {part}' if part else ''}"
    name = line(name or step.label, WHOLE)
    told = " · ".join(bit for bit in (how(step), note) if bit)
    return Box(id=step.id, word=step.word, kicker=kicker, name=name, note=told, head=head, many=many, step=step)


def how(step: Step) -> str:
    """How a step of many runs goes: ``4 at once · on error: retry(2)``, ``until score >= 0.8 · at most 5 times``."""
    bits = []
    match step:
        case Each():
            bits.append(f"{step.limit} at once")
            bits += [_bound(step, step.most)] if step.most is not None else []
        case Fold() if step.most is not None:
            bits.append(f"at most {step.most:,}")
        case Repeat():
            bits += [f"until {condition(step.until)}"] if step.until is not None else []
            bits.append(f"at most {step.limit:,} times" if step.until is not None or step.session else
                        f"{step.limit:,} times")  # fmt: skip
    if isinstance(step, (Each, Branches)) and (step.retries or (step.on_error == "continue" and step.gather is None)):
        bits.append(f"on error: {f'retry({step.retries})' if step.retries else step.on_error}")
    if isinstance(step, Invoke) and step.permit is not None:
        bits.append("asks before")
    if step.rescue is not None:
        bits.append("a failure is kept")
    return " · ".join(bits)


def _bound(step: Each, most: int) -> str:
    refuses = step.cut is not None and step.cut(1).severity == "error"
    return f"{'at most' if refuses else 'the first'} {most:,}"


def condition(expr: Expr) -> str:
    """An expression as its language shows it (its ``text``), else as it is written."""
    return line(getattr(expr, "text", None) or expr.span.text, CONDITION)


def within(parts: tuple[Box | Frame, ...]) -> Iterator[Box]:
    """The boxes in ``parts``."""
    for part in parts:
        if isinstance(part, Box):
            yield part
        else:
            yield from within(part.parts)


def _frames(parts: tuple[Box | Frame, ...]) -> Iterator[Frame]:
    for part in parts:
        if isinstance(part, Frame):
            yield part
            yield from _frames(part.parts)
