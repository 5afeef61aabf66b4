"""The shortest of several time limits, of which each may be absent."""

from __future__ import annotations


def shortest(*seconds: float | None) -> float | None:
    """The shortest of several time limits; None: there is none."""
    return min(filter(None, seconds), default=None)  # none is 0
