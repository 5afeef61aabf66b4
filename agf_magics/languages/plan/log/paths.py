"""Lists the paths at which a log has values."""

from __future__ import annotations

from collections import defaultdict
from typing import Final


class Paths:
    """One place and everything below it, each with the numbers of what is written there."""

    __slots__ = ("below", "numbers")

    def __init__(self) -> None:
        self.below: defaultdict[str, Paths] = defaultdict(Paths)
        self.numbers: list[int] = []

    def add(self, path: tuple[str, ...], number: int) -> None:
        place = self
        for segment in path:
            place = place.below[segment]
        place.numbers.append(number)

    def overlapping(self, path: tuple[str, ...]) -> list[int]:
        """Every number at ``path``, above and below it, in increasing order."""
        place = self
        numbers = [*self.numbers]
        for segment in path:
            if segment not in place.below:
                return sorted(numbers)
            place = place.below[segment]
            numbers += place.numbers
        inside = [*place.below.values()]
        for place in inside:  # grows
            numbers += place.numbers
            inside += place.below.values()
        return sorted(numbers)


NO_PATHS: Final = Paths()
"""The paths of a kind of message that writes nothing. They are only read."""
