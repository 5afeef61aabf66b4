"""The scene of a flow: its steps as boxes and frames, the order of steps and the flow of values as
arrows.

An arrow leaves a frame at its border, because all of the frame is done then. A value flows to the
very box that reads it, also inside a frame. Only its wires place the calls of a plan, only its
edges the nodes of a graph; if that is the whole flow, it has no frame. The values of a graph are in
its boxes: every node may read and write the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ..flow.steps import (
    Branches,
    Choose,
    Dag,
    Each,
    Flow,
    Fold,
    Repeat,
    Sequence,
    Step,
    Walk,
    children,
)
from ..flow.wiring import Wire
from . import theme as look
from .boxes import INPUT, LABEL, LONGEST, POINTS_NAME, Arrow, Box, Frame, Scene, make_box, within
from .dataflow import DataFlow
from .edges import Drawn, walked
from .plain import line


def scene(flow: Flow) -> Scene:
    """The boxes, frames and arrows of ``flow``."""
    drawing = _Drawing(flow)
    placed = drawing.body(flow)
    parts = placed.parts
    flowing: dict[tuple[str, str], dict[str, None]] = {}
    for source, dest, name in drawing.flowing():
        flowing.setdefault((source, dest), {})[name] = None
    inputs = {
        name.split(" → ")[0]: None
        for (source, _), names in flowing.items()
        if source == INPUT
        for name in names
    }
    if len(inputs) > 1:  # a step that reads the whole input adds no name to its fields
        inputs.pop("".join(flow.stores[-1:]), None)
    if inputs:
        name = look.fitted(line(", ".join(inputs), 60), POINTS_NAME, LONGEST)
        parts = (
            Box(id=INPUT, word="input", kicker="→ input", name=name, tooltip=", ".join(inputs)),
            *parts,
        )
        if (INPUT, placed.entry) not in flowing:
            drawing.arrows.append(Arrow(INPUT, placed.entry, "below"))
    for (source, dest), names in flowing.items():
        # A field is not shown next to its whole value: rivers, and not rivers, rivers → name.
        shown = [
            name for name in names if (whole := name.split(" → ")[0]) == name or whole not in names
        ]
        drawing.add_data(source, dest, line(", ".join(shown), 32))
    return Scene(name=flow.name, parts=parts, arrows=tuple(drawing.arrows))


class _Placed(NamedTuple):
    parts: tuple[Box | Frame, ...]
    entry: str
    exits: tuple[str, ...]
    leaves: str | None = None


class _Drawing:
    def __init__(self, flow: Flow) -> None:
        self.facts = DataFlow(flow)
        self.arrows: list[Arrow] = []
        self.ends: dict[str, tuple[str, str | None]] = {}
        """Of each step: the box that an arrow from it begins at, and the frame that it leaves."""
        self.inside: dict[str, frozenset[str]] = {}
        """Of each frame, inner ones first: the ids of its boxes."""
        self.carried: set[Wire] = set()
        """Wires that a fold's arrow to its next element shows."""
        self.judged: dict[str, set[str]] = {}
        """Of each loop, the ids of its boxes: its head shows the condition that reads them."""
        self.wired: set[str] = set()
        """Steps of a plan: only values place them."""

    def body(self, flow: Flow) -> _Placed:
        match flow.body.steps:
            case (Dag() | Walk() as only,) if children(only):
                inner, exits = self.free(only, False, None)
                return _Placed(inner, next(within(inner)).id, exits)
        return self.sequence(flow.body, False)

    def flowing(self) -> Iterator[tuple[str, str, str]]:
        """Source, destination and name of each value that is drawn as an arrow."""
        for wire in self.facts.wires:
            judged = wire.source in self.judged.get(wire.dest, ())
            if not judged and wire not in self.carried and wire.dest not in self.facts.nodes:
                yield wire.source or INPUT, wire.dest, wire.name

    def add_data(self, source: str, dest: str, names: str) -> None:
        tail, leaves = self.ends.get(source, (source, None))
        if (
            leaves is not None and dest in self.inside[leaves]
        ):  # a frame gives its element to the steps in it
            tail, leaves = source, None
        if dest in self.wired and (source in self.wired or source == INPUT):
            self.arrows.append(Arrow(tail, dest, "wire", names, leaves))
            return
        place = self.controls.get((tail, dest))
        if place is not None:
            self.arrows[place] = self.arrows[place]._replace(carries=names, label="")
        else:
            self.arrows.append(Arrow(tail, dest, "data", names, leaves))

    @cached_property
    def controls(self) -> dict[tuple[str, str], int]:
        """The places of the arrows from step to step, when all of them are known."""
        found: dict[tuple[str, str], int] = {}
        for place, arrow in enumerate(self.arrows):
            if arrow.line == "control":
                found.setdefault((arrow.tail, arrow.head), place)
        return found

    def step(
        self, step: Step, many: bool, part: str = "", note: str = "", name: str = ""
    ) -> _Placed:
        """``part``, ``note``, ``name``: see `make_box`."""
        match step:
            case Sequence():
                return self.sequence(step, many)
            case Branches() | Each() | Fold() | Choose() | Repeat() | Dag() | Walk():
                head = make_box(step, self.facts, many, part=part, head=True, note=note, name=name)
                placed = self.framed(step, head, many)
            case _:
                one = make_box(step, self.facts, many, part=part, note=note, name=name)
                placed = _Placed((one,), step.id, (step.id,))
        self.ends[step.id] = (_middle(placed.exits), placed.leaves)
        return placed

    def sequence(self, sequence: Sequence, many: bool) -> _Placed:
        placed = [self.step(step, many) for step in sequence.steps]
        for before, after in pairwise(placed):
            self.join(before, after.entry)
        parts = tuple(part for one in placed for part in one.parts)
        return _Placed(parts, placed[0].entry, placed[-1].exits, placed[-1].leaves)

    def framed(self, step: Step, head: Box, many: bool) -> _Placed:
        match step:
            case Branches(branches=branches):
                inner, exits = self.in_parallel(head, [*branches.items()], many, step.collect)
            case Choose(cases=cases, default=default):
                ways = [
                    (step.conditions.get(label, f"= {label}"), case)
                    for label, case in cases.items()
                ]
                inner, exits = self.in_parallel(
                    head, [*ways, *([("otherwise", default)] if default else [])], many
                )
            case Each():
                inner, exits = self.each(step, head, many)
            case Fold() | Repeat():
                inner, exits = self.again(step, head)
            case _:
                assert isinstance(step, (Dag, Walk)), "every other step is a box"
                inner, exits = self.free(step, many, head)
        frame = Frame(id=step.id, word=step.word, parts=(head, *inner))
        self.inside[frame.id] = frozenset(found.id for found in within(frame.parts))
        return _Placed(
            (frame,), head.id, exits or (head.id,), frame.id
        )  # an empty plan is only its head

    def each(
        self, step: Each, head: Box, many: bool
    ) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        one = self.step(step.body, True)
        self.arrows.append(Arrow(head.id, one.entry, label="each"))
        if step.collect is None:
            return one.parts, one.exits
        last = self.step(step.collect, many, "collect")
        self.join(one, last.entry)
        return (*one.parts, *last.parts), last.exits

    def again(
        self, step: Fold | Repeat, head: Box
    ) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        one = self.step(step.body, True)
        inside = {found.id for found in within(one.parts)}
        label = ""
        if isinstance(step, Fold):
            names = [ref.path[-1] for ref in step.acc.writes()]
            self.carried |= {
                Wire(source, id, n)
                for source in (step.id, step.body.id)
                for id in inside
                for n in names
            }
            label = line(", ".join(names), 24)
        else:
            self.judged[step.id] = inside
        self.arrows.append(
            Arrow(head.id, one.entry, label="each" if isinstance(step, Fold) else "")
        )
        self.arrows.append(Arrow(_middle(one.exits), head.id, "again", label, one.leaves))
        return one.parts, one.exits

    def free(
        self, step: Dag | Walk, many: bool, head: Box | None
    ) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        """The steps of a plan or a graph. Without ``head`` they are the whole flow."""
        if isinstance(step, Walk):

            def draw(name: str, note: str) -> Drawn:
                node = step.nodes[name]
                placed = self.step(node, many, note=note, name=name)
                return Drawn(
                    placed.parts,
                    placed.entry,
                    *self.ends.get(node.id, (placed.exits[-1], placed.leaves)),
                )

            parts, arrows, exits = walked(step, head, draw)
            self.arrows += arrows
            return parts, exits
        placed = {inner.id: self.step(inner, many) for inner in step.steps}
        self.wired |= {inner.entry for inner in placed.values()}
        fed = {dest for _, dest, _ in step.feeds if dest in placed}
        self.arrows += (
            [Arrow(head.id, one.entry) for id, one in placed.items() if id not in fed]
            if head
            else []
        )
        feeding = {source for source, _, _ in step.feeds}
        last = tuple(exit for id, one in placed.items() if id not in feeding for exit in one.exits)
        return tuple(part for one in placed.values() for part in one.parts), last

    def in_parallel(
        self, head: Box, steps: list[tuple[str, Step]], many: bool, collect: Step | None = None
    ) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        placed = [self.step(step, many) for _, step in steps]
        for (label, _), one in zip(steps, placed, strict=True):
            self.arrows.append(Arrow(head.id, one.entry, label=line(label, LABEL)))
        self.arrows += [Arrow(a.entry, b.entry, "right") for a, b in pairwise(placed)]
        parts = tuple(part for one in placed for part in one.parts)
        if collect is None:
            return parts, tuple(one.exits[0] for one in placed)
        last = self.step(collect, many, "collect")
        for one in placed:
            self.join(one, last.entry)
        return (*parts, *last.parts), last.exits

    def join(self, before: _Placed, entry: str) -> None:
        seen = _middle(before.exits)
        self.arrows.append(Arrow(seen, entry, leaves=before.leaves))
        self.arrows += [Arrow(other, entry, "below") for other in before.exits if other != seen]


def _middle(exits: tuple[str, ...]) -> str:
    return exits[len(exits) // 2]
