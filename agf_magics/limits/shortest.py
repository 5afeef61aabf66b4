"""Chooses the shortest of several time limits, each of which may be absent."""

from __future__ import annotations


def shortest(*seconds: float | None) -> float | None:
    """The shortest of the time limits ``seconds``, each in seconds or None; None if all are
    None."""
    return min(filter(None, seconds), default=None)  # no time limit is 0
