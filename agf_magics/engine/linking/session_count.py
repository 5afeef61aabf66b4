"""Counts the agent sessions that a step opens at least."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...catalog import Agent
from ...flow.step import Step
from ...flow.steps import Branches, Choose, Each, Invoke, Repeat, Sequence, children
from .linked import Linked


def sessions(step: Step, callees: Mapping[str, Any], may_fail: bool = False) -> int:
    """The number of agent sessions that ``step`` opens at least, if it completes. ``callees``: the
    callees by the id of the step. ``may_fail``: whether that must hold for a step that fails, too:
    then only the sessions count that nothing comes before; default False."""
    may_fail = may_fail or step.rescue is not None
    match step:
        case Invoke():
            callee = callees.get(step.id)
            if isinstance(callee, Linked):
                inside = sessions(callee.flow.body, callee.callees, may_fail)
                return max(inside, int(step.kind == "agent" and step.asking.counts_as_session))
            return int(isinstance(callee, Agent) and step.asking.counts_as_session)
        case Branches() if may_fail:  # the first failure may stop the other branches
            return max((sessions(inner, callees, True) for inner in children(step)), default=0)
        case Branches():
            dropped = step.failing.on_error != "abort"
            collecting = sessions(step.collect, callees) if step.collect else 0
            branches = step.branches.values()
            return collecting + sum(sessions(branch, callees, dropped) for branch in branches)
        case Sequence() if may_fail:
            first = next(iter(children(step)), None)
            return sessions(first, callees, True) if first is not None else 0
        case Sequence():
            return sum(sessions(inner, callees) for inner in children(step))
        case Repeat() if may_fail:
            return int(step.session)
        case Repeat():
            return max(sessions(step.body, callees), int(step.session))
        case Each():  # the list may be empty
            return sessions(step.collect, callees) if step.collect and not may_fail else 0
        case Choose() if not may_fail:
            # The smallest number, because a budget refuses only a certain excess.
            return min(sessions(target, callees) for target in children(step))
    return 0
