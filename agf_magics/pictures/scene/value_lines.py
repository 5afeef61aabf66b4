"""Which values are drawn as lines: the values between near steps.

A value that comes from far away is a tag: a line that runs past many boxes says little and costs
much room; the name at the reader says it at once (``◂ raw``). Where a value flows from a step to
the next, the line of their order is not drawn: one line for one fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..plain import line
from .boxes import INPUT
from .cycles import Ends, longest_ways
from .scene import Box, Frame, LineKind, Link, Scene, Tags, first_boxes, last_boxes, within

NEAR = 2
"""The most ranks between a step and a reader that gets a line; a farther reader gets a tag."""
FAN = 6
"""The most readers of one value in one frame that get lines, and the most values of one reader that
get long lines; the others get tags."""
MOST_OF_NAMES = 32
"""The most characters of the names at a line."""


def wired(scene: Scene, chunks: Sequence[Sequence[Box]]) -> tuple[list[Link], Mapping[str, Tags]]:
    """The lines that are drawn, and the tags of each box by its id. ``chunks``: the parts of the
    scene, cut where the picture begins a new row or column."""
    return _Wiring(scene, chunks).result()


class _Wiring:
    """Decides for each value of a scene whether it is a line or a tag."""

    def __init__(self, scene: Scene, chunks: Sequence[Sequence[Box]]) -> None:
        self.scene = scene
        self.boxes = {box.id: box for box in scene.every}
        self.frame_of = {inner.id: frame for frame in scene.frames for inner in frame.parts}
        self.chunk_of = {
            box.id: number for number, parts in enumerate(chunks) for box in within(parts)
        }
        self.order = {(link.tail, link.head) for link in scene.links if link.kind == "then"}
        self.tags: dict[str, dict[str, str]] = {}
        self.near: dict[Ends, list[str]] = {}
        """The names of the values that are lines, by the ends of the line."""
        self.late = set[Ends]()
        """Far values that are lines all the same: see `of_dead_ends`."""

    def result(self) -> tuple[list[Link], Mapping[str, Tags]]:
        """The lines and the tags."""
        rank = ranks(self.scene)
        fans = Counter((tail, self.frame_id(head)) for tail, head in self.scene.values)
        self.near = {
            ends: list(names)
            for ends, names in self.scene.values.items()
            if self.is_near(ends, rank, fans)
        }
        self.late = set(self.of_dead_ends())
        for ends, names in self.scene.values.items():
            if ends in self.late:
                self.near[ends] = list(names)
            elif ends not in self.near:
                self.tag(*ends, names)
        self.enter_frames()
        lines = [self.line_of(ends, names) for ends, names in self.near.items() if names]
        drawn = {(link.tail, link.head) for link in lines}
        return [*lines, *self.links_beside(drawn)], self.tags

    def of_dead_ends(self) -> Iterable[Ends]:
        """The far values of a plan whose writer would otherwise have no line leading away."""
        leading = {INPUT, *(tail for tail, _ in self.near)}
        # In a free scene (a plan or a graph) no order of steps leads from each box to the next.
        values = self.scene.values if self.scene.is_free else ()
        far = [(tail, head) for tail, head in values if tail not in leading]
        counts = Counter(head for _, head in far)
        return [(tail, head) for tail, head in far if counts[head] <= FAN]

    def is_near(self, ends: Ends, rank: Mapping[str, int], fans: Counter[tuple[str, str]]) -> bool:
        """Whether a value gets a line: its reader is near, and no frame is between."""
        tail, head = ends
        end = max(rank[box.id] for box in last_boxes(self.boxes[tail]))
        begin = min(rank[box.id] for box in first_boxes(self.boxes[head]))
        distance = begin - end
        if not 1 <= distance <= NEAR or self.passes_a_frame(tail, head):
            return False
        if self.frame_id(tail) != self.frame_id(head):
            return (
                distance == 1 and fans[tail, self.frame_id(head)] <= FAN and self.is_together(ends)
            )
        return self.is_together(ends)

    def is_together(self, ends: Ends) -> bool:
        """Whether both ends are in one row or column of the picture, or follow each other in the order
        of the steps."""
        tail, head = ends
        return self.chunk_of[tail] == self.chunk_of[head] or ends in self.order

    def passes_a_frame(self, tail: str, head: str) -> bool:
        """Whether a frame stands between two boxes beside each other."""
        frame = self.frame_of.get(tail)
        level = [box.id for box in (frame.parts if frame else self.scene.parts)]
        if head not in level or self.scene.is_free:
            return False
        between = level[level.index(tail) + 1 : level.index(head)]
        return any(isinstance(self.boxes[id], Frame) for id in between)

    def enter_frames(self) -> None:
        """A value that every first box of a frame reads gets one line to the frame. Other readers inside
        the frame get a tag."""
        for tail, head in list(self.near):
            frame = self.frame_of.get(head)
            if frame is None or any(inner.id == tail for inner in within([frame])):
                continue
            readers = [(tail, box.id) for box in frame.first]
            shared = [
                name
                for name in self.near[tail, head]
                if all(name in self.near.get(ends, ()) for ends in readers)
            ]
            entered = self.near.setdefault((tail, frame.id), [])
            entered += [name for name in shared if name not in entered]
            for ends in readers if shared else ():
                self.near[ends] = [name for name in self.near[ends] if name not in shared]
        for (tail, head), names in self.near.items():
            frame = self.frame_of.get(head)
            inside = self.near.get((tail, frame.id), ()) if frame else ()
            self.tag(tail, head, [name for name in names if name in inside])
            names[:] = [name for name in names if name not in inside]

    def tag(self, tail: str, head: str, names: Iterable[str]) -> None:
        """Give the box ``head`` tags of these values of the box ``tail``."""
        tags = self.tags.setdefault(head, {})
        for name in (name.split(" → ")[0] for name in names):
            # Two values of one name: toxicity.score and spam.score.
            is_taken = tags.get(name, tail) != tail
            tags[f"{self.boxes[tail].name}.{name}" if is_taken else name] = tail

    def line_of(self, ends: Ends, names: Sequence[str]) -> Link:
        """The line of these values; the label is empty where a box already says the names."""
        tail, head = ends
        source = self.boxes[tail]
        text = ", ".join(names)
        is_said = text in ("pipe", source.output, source.name)
        is_said = is_said or (source.id == INPUT and text == source.does)
        kind: LineKind = "late" if ends in self.late else "value"
        kind = "flow" if ends in self.order else kind
        return Link(tail, head, kind, "" if is_said else line(text, MOST_OF_NAMES))

    def links_beside(self, drawn: Iterable[Ends]) -> Iterable[Link]:
        """The order of steps and the edges of a graph. Where a value flows, the order only keeps the
        boxes in their places."""
        drawn = set(drawn)
        for link in self.scene.links:
            ends = link.tail, link.head
            if link.kind == "then" and not link.label and not link.way and self.flows(ends, drawn):
                if ends not in drawn:
                    yield link._replace(kind="hold")
            else:
                yield link

    def flows(self, ends: Ends, drawn: set[Ends]) -> bool:
        """Whether a line of values leads from one box, or a box in it, to the other."""
        sources, readers = ({box.id for box in within([self.boxes[id]])} for id in ends)
        return any(tail in sources and head in readers for tail, head in drawn)

    def frame_id(self, id: str) -> str:
        frame = self.frame_of.get(id)
        return frame.id if frame else ""


def ranks(scene: Scene) -> Mapping[str, int]:
    """The length of the longest way to each box, over the order of steps. Where only values decide, as
    between the calls of a plan, it is over the values."""
    boxes = {box.id: box for box in scene.every}
    frame_of = {inner.id: frame.id for frame in scene.frames for inner in frame.parts}
    pairs = [(link.tail, link.head) for link in scene.links if link.kind != "back"]
    ordered = {frame_of.get(link.tail) for link in scene.links if link.kind == "then"}
    pairs += [
        (tail, head)
        for tail, head in scene.values
        if frame_of.get(tail) == frame_of.get(head) and frame_of.get(tail) not in ordered
    ]
    between = [
        (before.id, after.id)
        for tail, head in pairs
        for before in last_boxes(boxes[tail])
        for after in first_boxes(boxes[head])
    ]
    return dict.fromkeys(boxes, 0) | longest_ways(between)
