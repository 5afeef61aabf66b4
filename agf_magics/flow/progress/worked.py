"""`Worked`, when a step ran: from its first begin to its last end, without the gaps between its runs.

A node of a loop that ran three times for 0.2 s within 10 s took 0.6 s. Runs at the same time, such as
the elements of a fan-out, count once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Worked(NamedTuple):
    """The time in which a step ran, in seconds of one clock."""

    begin: float
    """The first begin."""
    end: float
    """The last end."""
    idle: float = 0.0
    """The seconds between them in which the step did not run."""

    @property
    def seconds(self) -> float:
        """How long it ran; 0 if the clock was set back meanwhile."""
        return max(0.0, self.end - self.begin - self.idle)


def union(times: Iterable[tuple[float, float]]) -> Worked | None:
    """The time in which at least one of several runs went on; None without a run. ``times``: the
    begin and the end of each, in any order.

    >>> union([(4, 5), (0, 1), (0.5, 2)]), union([(4, 5), (0, 1), (0.5, 2)]).seconds
    (Worked(begin=0, end=5, idle=2.0), 3.0)
    """
    worked: Worked | None = None
    for begin, end in sorted(times):
        if worked is None:
            worked = Worked(begin, end)
        gap = max(0.0, begin - worked.end)
        worked = Worked(worked.begin, max(worked.end, end), worked.idle + gap)
    return worked
