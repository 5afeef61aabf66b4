"""What is drawn of a flow: its steps as boxes and frames, what follows what, what flows where.

An arrow leaves a frame at its border (the whole of it is done), and what flows to steps in a frame ends at its head:
which of them reads it stands in the outline, and no line runs past their siblings. A plan's calls and a graph's nodes
are placed by their wires and edges alone; where such a step is the whole flow it needs no frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ..flow.steps import Branches, Choose, Dag, Each, Flow, Fold, Repeat, Sequence, Step, Walk, children, every
from ..flow.wiring import Wire, wires
from . import theme as look
from .boxes import INPUT, LABEL, LONGEST, POINTS_NAME, Arrow, Box, Frame, Scene, box, within
from .edges import Drawn, walked
from .plain import line


def scene(flow: Flow) -> Scene:
    """What is drawn of ``flow``."""
    drawing = _Drawing()
    placed = drawing.body(flow)
    parts = placed.parts
    wanted: dict[tuple[str, str], list[str]] = {}
    for source, dest, wire in drawing.flows(flow):
        names = wanted.setdefault((source, dest), [])
        names += [] if wire in names else [wire]
    given = dict.fromkeys(
        name.split(" → ")[0] for (source, _), names in wanted.items() if source == INPUT for name in names
    )
    if len(given) > 1:  # who reads all of it names none of its fields
        given.pop("".join(flow.stores[-1:]), None)
    if given:
        name = look.fitted(line(", ".join(given), 60), POINTS_NAME, LONGEST)
        parts = (Box(id=INPUT, word="input", kicker="→ input", name=name), *parts)
        if (INPUT, placed.entry) not in wanted:
            drawing.arrows.append(Arrow(INPUT, placed.entry, "below"))
    for (source, dest), names in wanted.items():
        # Part of what comes as a whole is not said beside it: rivers, and not rivers, rivers → name.
        told = [name for name in names if (whole := name.split(" → ")[0]) == name or whole not in names]
        drawing.data(source, dest, line(", ".join(told), 32))
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
        self.judged: dict[str, set[str]] = {}
        """Of each loop, the boxes in it: what its condition reads of them is seen in its head."""
        self.wired: set[str] = set()
        """Steps of a Dag: where they stand is told by what flows, and by nothing else."""
        self.shared: set[str] = set()
        """Steps in a Walk: what they read is the state, which all of them share."""

    def body(self, flow: Flow) -> _Placed:
        match flow.body.steps:
            case (Dag() | Walk() as only,) if children(only):
                inner, exits = self.free(only, False, None)
                return _Placed(inner, next(within(inner)).id, exits)
        return self.sequence(flow.body, False)

    def data(self, source: str, dest: str, names: str) -> None:
        tail, leaves = self.ends.get(source, (source, None))
        if leaves is not None and dest in self.inside[leaves]:  # what a frame hands to the steps in it: its element
            tail, leaves = source, None
        if dest in self.wired and (source in self.wired or source == INPUT):
            self.arrows.append(Arrow(tail, dest, "wire", names, leaves))
            return
        for place, arrow in enumerate(self.arrows):
            if (arrow.tail, arrow.head, arrow.line) == (tail, dest, "control"):
                self.arrows[place] = arrow._replace(carries=names, label="")
                return
        self.arrows.append(Arrow(tail, dest, "data", names, leaves))

    def flows(self, flow: Flow) -> Iterator[tuple[str, str, str]]:
        """Source, destination and name of what flows. What flows into a frame ends at its head."""
        for wire in wires(flow):
            if wire.source in self.judged.get(wire.dest, ()):
                continue
            if wire not in self.shown and wire.dest not in self.shared:
                source = wire.source or INPUT
                # Outer frames first: they are made after the ones in them.
                into = (frame for frame, ids in reversed(self.inside.items()) if wire.dest in ids and source not in ids)
                yield source, next(into, wire.dest), wire.name

    def step(self, step: Step, many: bool, part: str = "", note: str = "", name: str = "") -> _Placed:
        """``part``, ``note``, ``name``: see `box`."""
        match step:
            case Sequence():
                return self.sequence(step, many)
            case Branches() | Each() | Fold() | Choose() | Repeat() | Dag() | Walk():
                placed = self.framed(step, box(step, many, part, True, note, name), many)
            case _:
                placed = _Placed((box(step, many, part, False, note, name),), step.id, (step.id,))
        self.ends[step.id] = (placed.exits[len(placed.exits) // 2], placed.leaves)
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
                inner, exits = self.side_by_side(head, [*branches.items()], many, step.collect)
            case Choose(cases=cases, default=default):
                told = [(step.said.get(label, f"= {label}"), case) for label, case in cases.items()]
                inner, exits = self.side_by_side(head, [*told, *([("otherwise", default)] if default else [])], many)
            case Each():
                inner, exits = self.each(step, head, many)
            case Fold() | Repeat():
                inner, exits = self.again(step, head)
            case _:
                assert isinstance(step, (Dag, Walk)), "every other step is a box"
                inner, exits = self.free(step, many, head)
        frame = Frame(id=step.id, word=step.word, parts=(head, *inner))
        self.inside[frame.id] = frozenset(found.id for found in within(frame.parts))
        return _Placed((frame,), head.id, exits or (head.id,), frame.id)  # an empty plan is its head alone

    def each(self, step: Each, head: Box, many: bool) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        one = self.step(step.body, True)
        self.arrows.append(Arrow(head.id, one.entry, label="each"))
        if step.collect is None:
            return one.parts, one.exits
        last = self.step(step.collect, many, "collect")
        self.join(one, last.entry)
        return (*one.parts, *last.parts), last.exits

    def again(self, step: Fold | Repeat, head: Box) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        one = self.step(step.body, True)
        inside = {found.id for found in within(one.parts)}
        label = ""
        if isinstance(step, Fold):
            names = [ref.path[-1] for ref in step.acc.writes()]
            self.shown |= {Wire(source, id, n) for source in (step.id, step.body.id) for id in inside for n in names}
            label = line(", ".join(names), 24)
        else:
            self.judged[step.id] = inside
        self.arrows.append(Arrow(head.id, one.entry, label="each" if isinstance(step, Fold) else ""))
        self.arrows.append(Arrow(one.exits[len(one.exits) // 2], head.id, "again", label, one.leaves))
        return one.parts, one.exits

    def free(self, step: Dag | Walk, many: bool, head: Box | None) -> tuple[tuple[Box | Frame, ...], tuple[str, ...]]:
        """Steps that are placed by what flows or leads between them. Without ``head`` they are the whole flow."""
        if isinstance(step, Walk):
            self.shared |= {inner.id for inner in every(step)}

            def drawn(name: str, note: str) -> Drawn:
                node = step.nodes[name]
                placed = self.step(node, many, note=note, name=name)
                return Drawn(placed.parts, placed.entry, *self.ends.get(node.id, (placed.exits[-1], placed.leaves)))

            parts, arrows, exits = walked(step, head, drawn)
            self.arrows += arrows
            return parts, exits
        placed = {inner.id: self.step(inner, many) for inner in step.steps}
        self.wired |= {inner.entry for inner in placed.values()}
        fed = {dest for _, dest, _ in step.feeds if dest in placed}
        self.arrows += [Arrow(head.id, one.entry) for id, one in placed.items() if id not in fed] if head else []
        feeding = {source for source, _, _ in step.feeds}
        last = tuple(exit for id, one in placed.items() if id not in feeding for exit in one.exits)
        return tuple(part for one in placed.values() for part in one.parts), last

    def side_by_side(
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
        for (label, step), one in zip(steps, placed, strict=True):
            self.join(one, last.entry)
            self.shown.add(Wire(step.id, collect.id, label))
        return (*parts, *last.parts), last.exits

    def join(self, before: _Placed, entry: str) -> None:
        seen = before.exits[len(before.exits) // 2]
        self.arrows.append(Arrow(seen, entry, leaves=before.leaves))
        self.arrows += [Arrow(other, entry, "below") for other in before.exits if other != seen]
