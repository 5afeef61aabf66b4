"""The pauses of a run: the times between its sessions, in which its clock stands still.

Durations of runs and steps are measured on this clock. So a run that failed in the evening and was
resumed in the morning did not take a night.
"""

from __future__ import annotations

Pauses = tuple[tuple[float, float], ...]
"""The end of each session and the begin of the next one, in seconds since 1970."""


def paused(pauses: Pauses, at: float) -> float:
    """The seconds before ``at`` in which the run paused.

    >>> paused(((10, 15), (20, 21)), 12), paused(((10, 15), (20, 21)), 30)
    (2, 6)
    """
    return sum(max(0, min(at, end) - begin) for begin, end in pauses)
