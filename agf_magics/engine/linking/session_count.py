"""Counts the agent sessions that a step opens at least, if it completes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...catalog import Agent
from ...flow.step import Step
from ...flow.steps import Branches, Choose, Each, Invoke, Repeat, Sequence, children
from .linked import Linked


def sessions(step: Step, callees: Mapping[str, Any]) -> int:
    """The number of agent sessions that ``step`` opens at least. ``callees``: the callees by the id
    of the step."""
    match step:
        case Invoke():
            callee = callees.get(step.id)
            if isinstance(callee, Linked):
                inside = sessions(callee.flow.body, callee.callees)
                return max(inside, int(step.kind == "agent" and step.asking.counts_as_session))
            return int(isinstance(callee, Agent) and step.asking.counts_as_session)
        case Branches() | Sequence():
            return sum(sessions(inner, callees) for inner in children(step))
        case Repeat():
            return max(sessions(step.body, callees), int(step.session))
        case Each():  # the list may be empty
            return sessions(step.collect, callees) if step.collect else 0
        case Choose():
            # The smallest number, because a budget refuses only a certain excess.
            return min(sessions(target, callees) for target in children(step))
    return 0
