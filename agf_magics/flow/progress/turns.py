"""Counts the turns of a model's session: its requests, and the tools that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from ..step_path import StepPath

KEPT = 100
"""The number of last turns of a session that are stored."""


class Turn(NamedTuple):
    """One request, or consecutive calls of one tool."""

    tool: str
    """The name of the tool; empty for a request."""
    number: int
    """The number of a request, counted from 1, or the number of calls of a tool."""
    failed: int
    """The number of these calls that failed."""


class Turns:
    """The turns of all sessions of a step. If there are several sessions, only totals by tool are
    kept."""

    def __init__(self, is_one: bool = True, offered: tuple[str, ...] = ()) -> None:
        """``is_one``: whether the step has a single session, not one for each element; default
        True. ``offered``: the names of the tools that the model may call; default empty: not
        known."""
        self.is_one = is_one
        self.changes = 0
        """Grows with every turn, so that a view knows whether it is up to date."""
        self.requests = 0
        self.offered = offered
        self.tools: dict[str, list[int]] = {}
        """The numbers of calls and of failed calls of each tool, by its name."""
        self.open: dict[str, int] = {}
        """The number of calls of each tool that have no outcome yet, by its name."""
        self._calls: dict[StepPath, tuple[str, int, bool]] = {}
        """The last `KEPT` calls: the tool (empty: a request), the number of the request (1 for a
        tool), whether the call failed."""

    def begin(self, at: StepPath, kind: str, name: str) -> None:
        """Note that a request (``kind`` ``model``) or a tool call begins. A retry is not a new
        turn."""
        if at in self._calls:
            return
        self.changes += 1
        if kind == "model":
            self.requests += 1
            self._calls[at] = "", self.requests, False
        else:
            self.tools.setdefault(name, [0, 0])[0] += 1
            self.open[name] = self.open.get(name, 0) + 1
            self._calls[at] = name, 1, False
        if len(self._calls) > KEPT:
            del self._calls[next(iter(self._calls))]

    def end(self, at: StepPath) -> None:
        """Note that the call at this path has an outcome."""
        name, *_ = self._calls.get(at, ("",))
        if self._close(name):
            self.changes += 1

    def _close(self, tool: str) -> bool:
        """Count an outcome of ``tool``. Returns whether a call of it had none."""
        is_open = self.open.get(tool, 0) > 0
        if is_open:
            self.open[tool] -= 1
        return is_open

    def fail(self, at: StepPath) -> None:
        """Note that the call at this path failed. A later attempt may still succeed."""
        name, number, has_failed = self._calls.get(at, ("", 0, True))
        self._close(name)
        if not has_failed:
            self.changes += 1
            self._calls[at] = name, number, True
            if name:
                self.tools[name][1] += 1

    def __iter__(self) -> Iterator[Turn]:
        """The last turns, in order."""
        for (tool, number), calls in groupby(
            list(self._calls.values()), lambda call: (call[0], call[1])
        ):
            turn_calls = list(calls)
            yield Turn(
                tool, len(turn_calls) if tool else number, sum(failed for *_, failed in turn_calls)
            )
