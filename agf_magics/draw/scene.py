"""What is drawn of a flow: boxes, frames around them, arrows between them. No state and no place yet.

Every step is one box. A step with steps under it is a frame whose head is that box, so an arrow into a step always ends
at a box, and what its head says (source, limit, policy, counters) has a place of its own that no edge crosses. An arrow
leaves a frame at its border (the whole of it is done), and what flows to steps in a frame ends at its head: which of
them reads it stands in the outline, and no line runs past their siblings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from ..flow.steps import Branches, Choose, Each, Flow, Fold, Sequence, Step
from ..flow.wiring import Wire, wires
from . import look
from .plain import line

Line = Literal["control", "data", "again", "below", "right"]
"""``again``: back to the next element; ``below`` and ``right`` are not drawn, they keep a box where it belongs."""
HIDDEN = frozenset({"below", "right"})

INPUT = "input"
"""The id of the box for the run's input; no step's id, which always has a bracket or a dot."""

POINTS_WORD = 10.0
POINTS_NAME = 12.5
CORNER = 92.0
"""Room for a state in the corner of a box, with or without one: the layout must not change while a run goes on."""
LONGEST = 230.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    id: str
    word: str
    kicker: str
    """The small first line: the kind, and what part of its frame it is."""
    name: str
    """The bold second line."""
    note: str = ""
    """A small third one: how a fan-out runs."""
    head: bool = False
    many: bool = False
    """Stands in a fan-out or a fold: drawn as a stack."""
    step: Step | None = None

    @property
    def width(self) -> float:
        corner = CORNER if self.step is not None else 0.0
        lines = (
            look.width(self.kicker, POINTS_WORD) + corner,
            look.width(self.name, POINTS_NAME, bold=True),
            look.width(self.note, POINTS_WORD),
        )
        return round(max(72.0, *lines) + 24)

    @property
    def height(self) -> float:
        return 60.0 if self.note else 44.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    name: str
    parts: tuple[Box | Frame, ...]
    arrows: tuple[Arrow, ...]

    @property
    def boxes(self) -> Iterator[Box]:
        yield from _boxes(self.parts)

    @property
    def frames(self) -> Iterator[Frame]:
        """Outer ones first."""
        yield from _frames(self.parts)


def scene(flow: Flow) -> Scene:
    """What is drawn of ``flow``."""
    drawing = _Drawing()
    placed = drawing.sequence(flow.body, False)
    parts = placed.parts
    wanted: dict[tuple[str, str], list[str]] = {}
    for source, dest, wire in drawing.flows(flow):
        names = wanted.setdefault((source, dest), [])
        names += [] if wire in names else [wire]
    given = list(dict.fromkeys(name for (source, _), names in wanted.items() if source == INPUT for name in names))
    if given:
        name = look.fitted(line(", ".join(given), 60), POINTS_NAME, LONGEST)
        parts = (Box(id=INPUT, word="input", kicker="→ input", name=name), *parts)
        if (INPUT, placed.entry) not in wanted:
            drawing.arrows.append(Arrow(INPUT, placed.entry, "below"))
    for (source, dest), names in wanted.items():
        drawing.data(source, dest, line(", ".join(names), 32))
    return Scene(name=flow.name, parts=parts, arrows=tuple(drawing.arrows))


class _Placed(NamedTuple):
    parts: tuple[Box | Frame, ...]
    entry: str
    exits: tuple[str, ...]
    leaves: str | None = None


class _Drawing:
    def __init__(self) -> None:
        self.arrows: list[Arrow] = []
        self.ends: dict[str, tuple[str, str | None]] = {}
        """Of each step: the box an arrow from it begins at, and the frame it leaves."""
        self.inside: dict[str, frozenset[str]] = {}
        """Of each frame, inner ones first: the boxes in it."""
        self.shown: set[Wire] = set()
        """What is seen without an arrow of its own: what a branch gives, what a fold hands to its next element."""

    def data(self, source: str, dest: str, names: str) -> None:
        tail, leaves = self.ends.get(source, (source, None))
        if leaves is not None and dest in self.inside[leaves]:  # what a frame hands to the steps in it: its element
            tail, leaves = source, None
        for place, arrow in enumerate(self.arrows):
            if (arrow.tail, arrow.head, arrow.line) == (tail, dest, "control"):
                self.arrows[place] = arrow._replace(carries=names, label="")
                return
        self.arrows.append(Arrow(tail, dest, "data", names, leaves))

    def flows(self, flow: Flow) -> Iterator[tuple[str, str, str]]:
        """Source, destination and name of what flows. What flows into a frame ends at its head."""
        for wire in wires(flow):
            if wire not in self.shown:
                source = wire.source or INPUT
                # Outer frames first: they are made after the ones in them.
                into = (frame for frame, ids in reversed(self.inside.items()) if wire.dest in ids and source not in ids)
                yield source, next(into, wire.dest), wire.name

    def step(self, step: Step, many: bool, part: str = "") -> _Placed:
        match step:
            case Sequence():
                return self.sequence(step, many)
            case Branches() | Each() | Fold() | Choose():
                placed = self.framed(step, many, part)
            case _:
                placed = _Placed((_box(step, many, part),), step.id, (step.id,))
        self.ends[step.id] = (placed.exits[len(placed.exits) // 2], placed.leaves)
        return placed

    def sequence(self, sequence: Sequence, many: bool) -> _Placed:
        placed = [self.step(step, many) for step in sequence.steps]
        for before, after in pairwise(placed):
            self.join(before, after.entry)
        parts = tuple(part for one in placed for part in one.parts)
        return _Placed(parts, placed[0].entry, placed[-1].exits, placed[-1].leaves)

    def framed(self, step: Branches | Each | Fold | Choose, many: bool, part: str) -> _Placed:
        head = _box(step, many, part, head=True)
        match step:
            case Branches(branches=branches):
                inner, exits = self.side_by_side(head, dict(branches), many, step.collect)
            case Choose(cases=cases, default=default):
                labelled = {**{f"= {label}": case for label, case in cases.items()}}
                inner, exits = self.side_by_side(head, labelled | ({"otherwise": default} if default else {}), many)
            case Each(body=body, collect=collect):
                one = self.step(body, True)
                last = self.step(collect, many, "collect")
                self.arrows.append(Arrow(head.id, one.entry, label="each"))
                self.join(one, last.entry)
                inner, exits = (*one.parts, *last.parts), last.exits
            case Fold(body=body, acc=acc):
                one = self.step(body, True)
                self.arrows.append(Arrow(head.id, one.entry, label="each"))
                names = [ref.path[-1] for ref in acc.writes()]
                inner_ids = self.inside.get(body.id, {body.id})
                self.shown |= {Wire(source, id, n) for source in (step.id, body.id) for id in inner_ids for n in names}
                again = ", ".join(names)
                self.arrows.append(Arrow(one.exits[0], head.id, "again", line(again, 24), one.leaves))
                inner, exits = one.parts, one.exits
        frame = Frame(id=step.id, word=step.word, parts=(head, *inner))
        self.inside[frame.id] = frozenset(box.id for box in _boxes(frame.parts))
        return _Placed((frame,), head.id, exits, frame.id)

    def side_by_side(
        self, head: Box, steps: dict[str, Step], many: bool, collect: Step | None = None
    ) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        placed = [self.step(step, many) for step in steps.values()]
        for label, one in zip(steps, placed, strict=True):
            self.arrows.append(Arrow(head.id, one.entry, label=line(label, 24)))
        self.arrows += [Arrow(a.entry, b.entry, "right") for a, b in pairwise(placed)]
        parts = tuple(part for one in placed for part in one.parts)
        if collect is None:
            return parts, tuple(one.exits[0] for one in placed)
        last = self.step(collect, many, "collect")
        for (label, step), one in zip(steps.items(), placed, strict=True):
            self.join(one, last.entry)
            self.shown.add(Wire(step.id, collect.id, label))
        return (*parts, *last.parts), last.exits

    def join(self, before: _Placed, entry: str) -> None:
        seen = before.exits[len(before.exits) // 2]
        self.arrows.append(Arrow(seen, entry, leaves=before.leaves))
        self.arrows += [Arrow(other, entry, "below") for other in before.exits if other != seen]


def _box(step: Step, many: bool, part: str, head: bool = False) -> Box:
    kicker = f"{look.kind(step.word).glyph} {line(step.word, 24)}{f' · {part}' if part else ''}"
    name = look.fitted(line(step.label, 60), POINTS_NAME, LONGEST)
    return Box(id=step.id, word=step.word, kicker=kicker, name=name, note=how(step), head=head, many=many, step=step)


def how(step: Step) -> str:
    """How a fan-out runs: ``4 at once · on error: retry(2)``."""
    bits = []
    if isinstance(step, Each):
        bits.append(f"{step.limit} at once")
    if isinstance(step, Fold) and step.most is not None:
        bits.append(f"at most {step.most:,}")
    if isinstance(step, (Each, Branches)) and (step.retries or step.on_error != "abort"):
        bits.append(f"on error: {f'retry({step.retries})' if step.retries else step.on_error}")
    return " · ".join(bits)


def _boxes(parts: tuple[Box | Frame, ...]) -> Iterator[Box]:
    for part in parts:
        if isinstance(part, Box):
            yield part
        else:
            yield from _boxes(part.parts)


def _frames(parts: tuple[Box | Frame, ...]) -> Iterator[Frame]:
    for part in parts:
        if isinstance(part, Frame):
            yield part
            yield from _frames(part.parts)
