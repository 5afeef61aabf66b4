"""`StartOrder`, the order in which the parts of a fan-out start, and how many run at the same
time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice


class StartOrder:
    """The order in which a fan-out starts its parts.

    A resumed run starts with the parts that have ended, so that a failure that stopped the other
    parts is known before they start.
    """

    def __init__(
        self, count: int, width: int, done: Sequence[int] = (), first: Sequence[int] = ()
    ) -> None:
        self.count, self.width = count, min(width, count)
        self.done = done
        """The parts that have ended, in the order of their ends."""
        ahead = {*done, *first}
        self.rest: Iterator[int] = chain(first, (i for i in range(count) if i not in ahead))
        """The number of parts that run at the same time."""

    def begin(self, count: int) -> StartOrder:
        """Split off the order of the first ``count`` parts."""
        first = StartOrder(count, self.width, self.done)
        first.rest = islice(self.rest, count)
        self.done = ()
        return first
