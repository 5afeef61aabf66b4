"""The order in which finished turns are stored.

`Arrivals`: in the order in which they finish. `Order` (``ordered: true``): turns that write to
overlapping places are stored as if they had run in the order of the list. A turn waits only for the
last earlier writer of each place, because that one waits for the others: a thousand calls that push
to one list are a thousand links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from .needs import Turn

Place = tuple[str | None, ...]
"""An instance, a kind and a path."""


class Arrivals:
    """First finished, first stored."""

    def __init__(self) -> None:
        self._finished: deque[int] = deque()
        self.come = self._finished.append

    def next(self) -> int | None:
        return self._finished.popleft() if self._finished else None

    def stored(self, number: int) -> None:
        """No turn waits for it."""


class Order:
    """A turn is next when all earlier turns are stored that write to the same place, above it or
    below it."""

    def __init__(self, turns: Sequence[Turn], ranks: Sequence[int]) -> None:
        """``ranks``: the rank of each turn in the order."""
        self._turns = turns
        self._waits: list[set[int]] = [set() for _ in turns]
        """The turns that each turn still waits for."""
        self._frees: list[list[int]] = [[] for _ in turns]
        """The turns that wait for each turn."""
        self._stored: set[int] = set()
        self._finished: dict[int, int] = {}
        """The position of each finished turn among the finished ones."""
        self._next: list[tuple[int, int]] = []
        """A heap of the finished turns that wait for no other."""
        last: dict[Place, int] = {}
        """The last turn that writes to each place."""
        since: dict[Place, list[int]] = {}
        """The turns after that one that write below the place."""
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
        """The turn has finished."""
        self._finished[number] = len(self._finished)
        if not self._waits[number]:
            heappush(self._next, (self._finished[number], number))

    def next(self) -> int | None:
        """The first finished turn that waits for no other; None: another one must finish first."""
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
            if (
                inherited is not None
            ):  # stored early: the turns after it wait for what it has not waited for
                for one in inherited.of(self._turns[other]) - waits:
                    waits.add(one)
                    self._frees[one].append(other)
            if not waits and other in self._finished:
                heappush(self._next, (self._finished[other], other))


class Overlaps:
    """Finds those of some turns that write to the places of another turn, above or below them."""

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
    """The places that a turn writes to."""
    for kind, path in turn.call.destinations:
        yield (turn.instance, kind, *path)


def above(place: Place) -> Iterator[Place]:
    """The places of the same kind that contain it, the whole kind first."""
    return (place[:end] for end in range(2, len(place)))
