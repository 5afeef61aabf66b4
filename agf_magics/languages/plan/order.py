"""``ordered``: who may be stored, where several calls write one over the other: as if they had run in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence

from .needs import Turn

Place = tuple[str | None, ...]
"""An instance, a kind and a path of it."""


class Order:
    """For every place the turns that write there, the next one first: who has been stored is only ever passed over."""

    def __init__(self, turns: Sequence[Turn], ranks: Sequence[int], stored: Collection[int]) -> None:
        """``ranks``: by number, their order. ``stored``: the numbers of those that are, kept by the caller."""
        self.stored = stored
        self.places = [tuple(_places(turn)) for turn in turns]
        self.at: dict[Place, deque[int]] = {}
        self.inside: dict[Place, deque[int]] = {}
        """At a place and below it."""
        for number in sorted(range(len(turns)), key=ranks.__getitem__):
            for place in self.places[number]:
                self.at.setdefault(place, deque()).append(number)
                for above in (*_above(place), place):
                    self.inside.setdefault(above, deque()).append(number)
        self.ranks = ranks

    def is_next(self, number: int) -> bool:
        """Whether everybody before it who writes where it does, above that or below, is stored."""
        rank = self.ranks[number]
        firsts = (self._first(turns) for place in self.places[number] for turns in self._overlapping(place))
        return all(first is None or self.ranks[first] >= rank for first in firsts)

    def _overlapping(self, place: Place) -> Iterator[deque[int] | None]:
        yield self.inside[place]
        yield from map(self.at.get, _above(place))

    def _first(self, turns: deque[int] | None) -> int | None:
        while turns and turns[0] in self.stored:
            turns.popleft()
        return turns[0] if turns else None


def _places(turn: Turn) -> Iterator[Place]:
    for kind, path in turn.call.destinations:
        yield (turn.instance, kind, *path)


def _above(place: Place) -> Iterator[Place]:
    """The places of the same kind that hold it, the whole kind first."""
    return (place[:end] for end in range(2, len(place)))
