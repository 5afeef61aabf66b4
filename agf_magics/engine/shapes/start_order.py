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
        self, count: int, width: int, ended: Sequence[int] = (), first: Sequence[int] = ()
    ) -> None:
        """``ended``: the parts that an earlier session has ended, in the order of their ends, then
        those that ended in a failure. ``first``: the parts that start before the others."""
        self.count = count
        self.width = min(width, count)
        """The number of parts that run at the same time."""
        self.ended = ended
        """The parts that start one by one before all others."""
        first_parts = {*ended, *first}
        others = (i for i in range(count) if i not in first_parts)
        self.rest: Iterator[int] = chain((i for i in first if i not in {*ended}), others)
        """The other parts, in order. All tasks of the fan-out take their parts from this
        iterator."""

    def begin(self, count: int) -> StartOrder:
        """Split off the order of the first ``count`` parts of `rest`, and of the ended ones. This
        order goes on with the others."""
        first = StartOrder(count, self.width, self.ended)
        first.rest = islice(self.rest, count)
        self.ended = ()
        return first
