"""An index from paths to the numbers of the writings at them; finds those that overlap a path."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from ....text.names import same_name


class PathIndex:
    """One place and everything below it, each with the numbers of the writings there. Names that
    look the same are one place (decision D150)."""

    __slots__ = ("below", "numbers")

    def __init__(self) -> None:
        self.below: defaultdict[str, PathIndex] = defaultdict(PathIndex)
        self.numbers: list[int] = []

    def add(self, path: tuple[str, ...], number: int) -> None:
        """Note the writing ``number`` at ``path``."""
        place = self
        for segment in map(_same_segment, path):
            place = place.below[segment]
        place.numbers.append(number)

    def overlapping(self, path: tuple[str, ...]) -> list[int]:
        """Every number at ``path``, above and below it, in increasing order."""
        place = self
        numbers = [*self.numbers]
        for segment in map(_same_segment, path):
            if segment not in place.below:
                return sorted(numbers)
            place = place.below[segment]
            numbers += place.numbers
        inside = [*place.below.values()]
        for place in inside:  # the loop also visits what it appends
            numbers += place.numbers
            inside += place.below.values()
        return sorted(numbers)


def _same_segment(segment: str) -> str:
    # The context is not checked, so that a mapping of Python may have numbers as its keys.
    return same_name(segment) if isinstance(segment, str) else segment


NO_PATHS: Final = PathIndex()
"""The paths of a kind of message that writes nothing. They are only read."""
