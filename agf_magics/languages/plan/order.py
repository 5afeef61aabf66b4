"""Which of the ends that have come is stored next.

`Arrivals`: in the order in which they came. `Order` (``ordered: true``): where several calls write one over the other,
as if they had run in their order. Of all who write at a place only the last one before a turn is waited for, because it
has waited for the others itself: so a thousand calls that push to one list are a thousand links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from .needs import Turn

Place = tuple[str | None, ...]
"""An instance, a kind and a path of it."""


class Arrivals:
    """First come, first stored."""

    def __init__(self) -> None:
        self._come: deque[int] = deque()
        self.come = self._come.append

    def next(self) -> int | None:
        return self._come.popleft() if self._come else None

    def stored(self, number: int) -> None:
        """Nobody waits for it."""


class Order:
    """A turn is next when everybody is stored who comes before it and writes where it does, above that or below."""

    def __init__(self, turns: Sequence[Turn], ranks: Sequence[int]) -> None:
        """``ranks``: by number, their order."""
        self._turns = turns
        self._waits: list[set[int]] = [set() for _ in turns]
        """For whom each one still waits."""
        self._frees: list[list[int]] = [[] for _ in turns]
        """Who waits for each one."""
        self._stored: set[int] = set()
        self._came: dict[int, int] = {}
        """The place of each end among the ends."""
        self._next: list[tuple[int, int]] = []
        """A heap of those that have come and wait for nobody."""
        last: dict[Place, int] = {}
        """The last turn at each place."""
        since: dict[Place, list[int]] = {}
        """Who wrote below it after that one."""
        for number in sorted(range(len(turns)), key=ranks.__getitem__):
            before: set[int] = set()
            for place in places(turns[number]):
                outer = tuple(above(place))
                before.update(last[each] for each in (*outer, place) if each in last)
                before.update(since.pop(place, ()))
                last[place] = number
                for each in outer:
                    since.setdefault(each, []).append(number)
            before.discard(number)
            self._waits[number] = before
            for one in before:
                self._frees[one].append(number)

    def is_next(self, number: int) -> bool:
        return not self._waits[number]

    def come(self, number: int) -> None:
        """Its end has come."""
        self._came[number] = len(self._came)
        if not self._waits[number]:
            heappush(self._next, (self._came[number], number))

    def next(self) -> int | None:
        """The first of those that have come and are next; None: another one must come before."""
        while self._next:
            _, number = heappop(self._next)
            if number not in self._stored:
                return number
        return None

    def stored(self, number: int) -> None:
        self._stored.add(number)
        ahead, self._waits[number] = self._waits[number], set()
        inherited = Overlaps(self._turns, ahead) if ahead else None
        for other in self._frees[number]:
            waits = self._waits[other]
            if number not in waits:
                continue
            waits.remove(number)
            if inherited is not None:  # out of its turn: whom it has not waited for those behind it wait for themselves
                for one in inherited.of(self._turns[other]) - waits:
                    waits.add(one)
                    self._frees[one].append(other)
            if not waits and other in self._came:
                heappush(self._next, (self._came[other], other))


class Overlaps:
    """Who of some turns writes where another one does, above that or below."""

    def __init__(self, turns: Sequence[Turn], some: Iterable[int]) -> None:
        self._at: dict[Place, set[int]] = {}
        self._inside: dict[Place, set[int]] = {}
        for number in some:
            for place in places(turns[number]):
                self._at.setdefault(place, set()).add(number)
                for outer in above(place):
                    self._inside.setdefault(outer, set()).add(number)

    def of(self, turn: Turn) -> set[int]:
        found: set[int] = set()
        for place in places(turn):
            found |= self._inside.get(place, set())
            for each in (*above(place), place):
                found |= self._at.get(each, set())
        return found


def places(turn: Turn) -> Iterator[Place]:
    """Where it writes."""
    for kind, path in turn.call.destinations:
        yield (turn.instance, kind, *path)


def above(place: Place) -> Iterator[Place]:
    """The places of the same kind that hold it, the whole kind first."""
    return (place[:end] for end in range(2, len(place)))
