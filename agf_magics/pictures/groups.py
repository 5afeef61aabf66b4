"""Long chains of a scene as groups, so that a picture of hundreds of steps in a row is not a thin
line.

A group is a frame that no step of the flow has: its head says how many steps it has, from which to
which. It folds like any frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil

from .boxes import Arrow, Box, Frame, Scene, within
from .plain import line

LONG = 30
"""Parts in a row above which they are grouped."""
GROUPS = 20
"""Groups of one row, at most; larger groups have groups."""
SMALL = 10
"""Parts of the smallest group."""

Part = Box | Frame


def group(drawn: Scene) -> tuple[Scene, dict[str, tuple[str, ...]]]:
    """``drawn`` with its long chains in groups, and the ids of the steps of each group."""
    grouping = _Grouping(drawn.arrows)
    parts = grouping.parts(drawn.parts)
    return Scene(name=drawn.name, parts=parts, arrows=tuple(grouping.arrows)), grouping.members


class _Grouping:
    def __init__(self, arrows: Sequence[Arrow]) -> None:
        self.arrows = list(arrows)
        self.members: dict[str, tuple[str, ...]] = {}

    def parts(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts of one level, and of all inner ones."""
        found: list[Part] = []
        for chain in self.chains(parts):
            found += self.grouped(chain) if len(chain) > LONG else map(self.inner, chain)
        return tuple(found)

    def inner(self, part: Part) -> Part:
        return (
            part
            if isinstance(part, Box)
            else Frame(id=part.id, word=part.word, parts=self.parts(part.parts))
        )

    def chains(self, parts: tuple[Part, ...]) -> Iterator[list[Part]]:
        """``parts`` cut where one does not simply follow the other."""
        place = {box.id: number for number, part in enumerate(parts) for box in within((part,))}
        after: dict[int, set[int]] = {}
        before: dict[int, set[int]] = {}
        for arrow in self.arrows:
            tail, head = place.get(arrow.tail), place.get(arrow.head)
            if arrow.line in ("control", "again", "back", "beside", "exit") and tail != head:
                if tail is not None:
                    after.setdefault(tail, set()).add(-1 if head is None else head)
                if head is not None:
                    before.setdefault(head, set()).add(-1 if tail is None else tail)
        chain = [*parts[:1]]
        for number, (_, part) in enumerate(pairwise(parts)):
            if after.get(number) != {number + 1} or before.get(number + 1) != {number}:
                yield chain
                chain = []
            chain.append(part)
        yield chain

    def grouped(self, chain: list[Part]) -> Iterator[Part]:
        size = max(SMALL, ceil(len(chain) / GROUPS))
        for start in range(0, len(chain), size):
            yield self.one(chain[start : start + size])

    def one(self, chain: list[Part]) -> Part:
        """A group of these parts. Arrows into it end at its head, and arrows out of it begin at its
        border."""
        boxes = list(within(tuple(chain)))
        first, last = boxes[0], next(within((chain[-1],)))
        id, names = f"{first.id} … {last.id}", f"{line(first.name, 40)} … {line(last.name, 40)}"
        self.members[id] = tuple(next(within((part,))).id for part in chain)
        inside = {box.id for box in boxes}
        for number, arrow in enumerate(self.arrows):
            if arrow.line == "data" or (arrow.tail in inside) == (arrow.head in inside):
                continue
            changed = arrow._replace(leaves=id) if arrow.tail in inside else arrow._replace(head=id)
            self.arrows[number] = changed
        self.arrows.append(Arrow(id, first.id))
        count = f"{len(chain)} steps"
        head = Box(
            id=id,
            word="group",
            kicker=count,
            name=names,
            note=line(id, 60),
            tooltip=f"{count}: {id}",
            head=True,
        )
        inner = self.grouped(chain) if len(chain) > LONG else map(self.inner, chain)
        return Frame(id=id, word="group", parts=(head, *inner))
