"""Which flows that a flow calls are drawn open, as frames, and which are boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...flow.flow import Flow
from ...flow.progress.rows import flows_of
from ...flow.session_tools import answering, offered_tools
from ...flow.steps import Invoke, calls
from .builder import scene
from .scene import Scene


class Called(NamedTuple):
    """The calls of a flow and of the flows that it calls. The path of a call has the ids of the calls
    that lead to it, and its own id."""

    opened: Mapping[str, Flow]
    """The called flows that are drawn as frames with their steps, by the path of the call."""
    closed: frozenset[str]
    """The paths of the calls that are drawn as boxes."""
    offered: Mapping[str, Sequence[str]]
    """The names of the tools that models may call, by the path of the step that calls them."""
    answering: Mapping[str, str]
    """The models that answer in place of those that steps name, by the paths of the steps."""
    enterable: frozenset[str]
    """The paths of the calls of a flow which a page can show by itself, also of one that nobody wrote, such as
    the session of an agent."""


def called_flows(flow: Flow, callees: Mapping[str, Any], most: int) -> Called:
    """The calls of written flows, outer ones first, opened as long as the picture has at most
    ``most`` boxes. A flow of one step stays closed: it says no more than its call. ``callees``: what
    each step of the flow calls, as `Linked.callees` has it."""
    count = _count(scene(flow))
    opened = dict[str, Flow]()
    closed = set[str]()
    enterable = set[str]()
    offered = dict[str, Sequence[str]]()
    answering = dict[str, str]()
    waiting = [(flow, callees, "")]
    for caller, linked, before in waiting:  # the list grows: calls in an opened flow follow
        for call in calls(caller.body):
            path = f"{before}{call.id}"
            offered |= tools_of(call, linked, before)
            answering |= answering_of(call, linked, before)
            called = flows_of(linked.get(call.id))
            if called and called[0] is linked.get(call.id):
                enterable.add(path)
            inner = [one for one in called if not one.flow.origin.is_built]
            more = _count(scene(inner[0].flow), within_a_call=True) - 1 if len(inner) == 1 else 0
            if more and count + more <= most:
                count += more
                opened[path] = inner[0].flow
                waiting.append((inner[0].flow, inner[0].callees, f"{path}/"))
            elif inner:
                closed.add(path)
    return Called(opened, frozenset(closed), offered, answering, frozenset(enterable))


def tools_of(
    call: Invoke, callees: Mapping[str, Any], before: str = ""
) -> Mapping[str, Sequence[str]]:
    """The names of the tools from which ``call`` chooses, by its path; empty for other calls."""
    names = offered_tools(call, callees.get(call.id)) if call.pick is not None else None
    return {} if names is None else {f"{before}{call.id}": names}


def answering_of(call: Invoke, callees: Mapping[str, Any], before: str = "") -> Mapping[str, str]:
    """The model that answers ``call`` in place of the one that it names, by its path; else empty."""
    models = answering(call, callees)
    return {} if models is None else {f"{before}{call.id}": models[1]}


def _count(drawn: Scene, within_a_call: bool = False) -> int:
    """The number of boxes of a scene. The frame of a called flow has no box of the input and no
    terminals (``within_a_call``)."""
    return sum(not within_a_call or box.step is not None for box in drawn.boxes)
