"""A tree of paths, each with the numbers of what stands there, in the order in which they were given."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class Paths:
    """One place, and all below it. Numbers only grow."""

    __slots__ = ("below", "covering", "first", "last", "numbers")

    def __init__(self) -> None:
        self.below: dict[str, Paths] = {}
        self.numbers: list[int] = []
        self.covering: list[int] = []
        """Those of them that nothing older counts beside."""
        self.first = -1
        self.last = -1
        """The lowest and the highest number here and below."""

    def add(self, path: tuple[str, ...], number: int, covers: bool = False) -> None:
        place = self
        place._reach(number)
        for segment in path:
            place = place.below.setdefault(segment, Paths())
            place._reach(number)
        place.numbers.append(number)
        if covers:
            place.covering.append(number)

    def newest(self, path: tuple[str, ...], limit: int, below: bool) -> tuple[list[int], bool]:
        """The numbers under ``limit`` that concern ``path``, from the last that covers it on, and whether one does.

        ``below``: those that stand below it too.
        """
        above = list(self._along(path))
        stop = -1
        for place in above:
            if place.covering and (at := bisect_left(place.covering, limit)):
                stop = max(stop, place.covering[at - 1])
        found: list[int] = []
        for place in above:
            if place.numbers and place.numbers[-1] >= stop:
                found += place.between(stop, limit)
        if below and len(above) > len(path):
            for place in above[-1].inside(stop):
                found += place.between(stop, limit)
        return sorted(found), stop >= 0

    def overlapping(self, path: tuple[str, ...]) -> list[int]:
        """Every number at ``path``, above and below it."""
        above = list(self._along(path))
        found = [number for place in above for number in place.numbers]
        if len(above) > len(path):
            found += [number for place in above[-1].inside(-1) for number in place.numbers]
        return sorted(set(found))

    def between(self, first: int, limit: int) -> list[int]:
        """Its own numbers from ``first`` on, under ``limit``."""
        numbers = self.numbers
        return numbers[bisect_left(numbers, first) : bisect_left(numbers, limit)]

    def inside(self, after: int) -> Iterator[Paths]:
        """Every place below that has, or has below it, a number above ``after``."""
        waiting = [self] if self.below else []
        while waiting:
            for place in waiting.pop().below.values():
                if place.last > after:
                    yield place
                    waiting.append(place)

    def _along(self, path: tuple[str, ...]) -> Iterator[Paths]:
        place = self
        yield place
        for segment in path:
            if segment not in place.below:
                return
            place = place.below[segment]
            yield place

    def _reach(self, number: int) -> None:
        self.last = number
        if self.first < 0:
            self.first = number
