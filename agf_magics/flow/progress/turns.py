"""The turns of a model's session as they come: its requests, and the tools that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from ..step_path import StepPath

KEPT = 100
"""Turns of a session that are kept: the last ones."""


class Turn(NamedTuple):
    """A request, or calls of one tool that follow each other."""

    tool: str
    """The name of the tool; empty: a request."""
    number: int
    """Of the request, counted from 1; for a tool how often it was called."""
    failed: int
    """How many of these calls failed."""


class Turns:
    """The turns of all sessions of a step. Those of several sessions are counted by the tool."""

    def __init__(self, is_one: bool = True) -> None:
        """``is_one``: whether the step has one session, and not one for each element."""
        self.is_one = is_one
        self.changes = 0
        """Grows with every turn, so that a view knows whether it is up to date."""
        self.requests = 0
        self.tools: dict[str, list[int]] = {}
        """How often each tool was called and how often that failed, by its name."""
        self._calls: dict[StepPath, tuple[str, int, bool]] = {}
        """The last calls: the tool, the number of the request, whether it failed."""

    def begin(self, at: StepPath, kind: str, name: str) -> None:
        """A request (``kind`` ``model``) or a call of a tool begins. A retry is no new one."""
        if at in self._calls:
            return
        self.changes += 1
        if kind == "model":
            self.requests += 1
            self._calls[at] = "", self.requests, False
        else:
            self.tools.setdefault(name, [0, 0])[0] += 1
            self._calls[at] = name, 1, False
        if len(self._calls) > KEPT:
            del self._calls[next(iter(self._calls))]

    def fail(self, at: StepPath) -> None:
        """The call at this place failed; a later attempt may still succeed."""
        name, number, has_failed = self._calls.get(at, ("", 0, True))
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
