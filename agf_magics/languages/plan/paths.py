"""A tree of paths, each with the numbers of the writes at it, in increasing order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class Paths:
    """One place and everything below it. Numbers only increase."""

    __slots__ = ("below", "covering", "first", "last", "numbers")

    def __init__(self, first: int) -> None:
        self.below: dict[str, Paths] = {}
        self.numbers: list[int] = []
        self.covering: list[int] = []
        """Those of them that replace everything older."""
        self.first = self.last = first
        """The lowest and the highest number at this place and below."""

    def add(self, path: tuple[str, ...], number: int, covers: bool = False) -> None:
        place = self
        place.last = number
        for segment in path:
            inner = place.below.get(segment)
            if inner is None:
                inner = place.below[segment] = Paths(number)
            place = inner
            place.last = number
        place.numbers.append(number)
        if covers:
            place.covering.append(number)

    def newest(self, path: tuple[str, ...], limit: int, below: bool) -> tuple[list[int], bool]:
        """The numbers under ``limit`` that affect ``path``, from the last that covers it, and
        whether one covers it.

        ``below``: whether to include those below it.
        """
        place, holding = self, [self] if self.numbers else []
        for segment in path:
            inner = place.below.get(segment)
            if inner is None:
                below = False
                break
            place = inner
            if place.numbers:
                holding.append(place)
        stop = -1
        for each in holding:
            covering = each.covering
            if covering and covering[-1] < limit:  # the usual case: the last one
                stop = max(stop, covering[-1])
            elif at := bisect_left(covering, limit):
                stop = max(stop, covering[at - 1])
        below = below and bool(place.below)
        if len(holding) == 1 and holding[0].numbers[-1] == stop and not below:  # the usual case
            return [stop], True
        found = [
            number
            for each in holding
            if each.numbers[-1] >= stop
            for number in each.between(stop, limit)
        ]
        if below:
            for each in place.inside(stop):
                found += each.between(stop, limit)
        if len(found) > 1:
            found.sort()
        return found, stop >= 0

    def overlapping(self, path: tuple[str, ...]) -> list[int]:
        """Every number at ``path``, above and below it."""
        place: Paths | None = self
        found = set(self.numbers)
        for segment in path:
            place = place.below.get(segment) if place is not None else None
            found.update(place.numbers if place is not None else ())
        if place is not None:
            found.update(number for inner in place.inside(-1) for number in inner.numbers)
        return sorted(found)

    def meets(self, path: tuple[str, ...]) -> bool:
        """Whether there is a number at ``path``, above or below it."""
        place = self
        for segment in path:
            if place.numbers:
                return True
            if segment not in place.below:
                return False
            place = place.below[segment]
        return True

    def between(self, first: int, limit: int) -> list[int]:
        """Its own numbers from ``first`` to ``limit``, exclusive."""
        numbers = self.numbers
        return numbers[bisect_left(numbers, first) : bisect_left(numbers, limit)]

    def inside(self, after: int) -> Iterator[Paths]:
        """Each place below with a number above ``after`` at it or below it."""
        waiting = [self] if self.below else []
        while waiting:
            for place in waiting.pop().below.values():
                if place.last > after:
                    yield place
                    waiting.append(place)
