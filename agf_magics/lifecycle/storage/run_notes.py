"""Writes the notes of a journaled run: calls that the journal lost, and how often it was
resumed."""

from __future__ import annotations

from ...pictures.amounts import counted


def describe_lost(calls: int) -> str:
    """The note of a run some of whose calls are not in the journal; empty if all are."""
    was = "were" if calls > 1 else "was"
    return f"{counted(calls, 'call')} {was} not written to the journal" if calls else ""


def describe_resumed(times: int) -> str:
    """The note how often a run was resumed; empty: never."""
    return "" if not times else f"resumed {'once' if times == 1 else f'{times} times'}"
