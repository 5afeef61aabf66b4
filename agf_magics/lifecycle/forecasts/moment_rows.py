"""The steps and the edges of a run at each of its moments, as its picture shows them."""

from __future__ import annotations

from typing import Any

from ...flow.progress import events as ev
from ...flow.progress.progress import EDGES_KEPT, Progress
from ...pictures.corners import numbers_of, taken_edges
from ...pictures.pages.updates import Updates

ENDS = (ev.StepFinished, ev.StepFailed, ev.StepCancelled, ev.StepSkipped, ev.ElementDropped)
"""The events before which the steps of a moment have begun, and none of them has ended."""

UNTOLD = (ev.StepReplayed, ev.RunEnded)
"""The events of an evaluation that the run did not have: each call is replayed, and its end is no end."""


class MomentRows:
    """What the rows of a run were at each moment. A moment has the rows that changed since the one before,
    so that 10,000 rounds of a graph need little memory."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._updates = Updates(progress)
        self._is_due = False
        """Whether a moment has come, and the steps after it have not begun yet."""
        self._changes: list[list[list[Any]]] = []
        self._edges: list[tuple[Any, str, str]] = []
        self._counts: list[int] = []
        """The number of edges that were taken until each moment."""

    def apply(self, event: ev.Event) -> None:
        if self._is_due and isinstance(event, ENDS):
            self._take()
        if isinstance(event, ev.EdgeTaken):
            self._edges.append((event.at, event.source, event.target))
        if not isinstance(event, UNTOLD):
            self._progress.apply(event)

    def note_moment(self) -> None:
        if self._is_due:
            self._take()
        self._is_due = True

    def _take(self) -> None:
        self._is_due = False
        self._changes.append(self._updates.rows(0.0))
        self._counts.append(len(self._edges))

    def rows(self, number: int) -> list[list[Any]]:
        """The rows of the page at a moment, without the times and the words that belong to them."""
        rows: dict[int, list[Any]] = {}
        for changes in self._changes[: number + 1]:
            rows |= {row[0]: row for row in changes}
        return [[*row[:4], "", None, None, "", *row[8:10]] for row in rows.values()]

    def edges(self, number: int) -> dict[str, str]:
        """The numbers on the edges at a moment, by the key of the edge."""
        count = self._counts[number] if number < len(self._counts) else len(self._edges)
        return {
            f"{walk}: {source} → {target}": numbers_of(numbers).words
            for (walk, source, target), numbers in taken_edges(
                self._edges[:count][-EDGES_KEPT:]
            ).items()
        }
