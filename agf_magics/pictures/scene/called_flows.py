"""Which flows that a flow calls are drawn open, as frames, and which are boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...flow.flow import Flow
from ...flow.progress.rows import flows_of
from ...flow.steps import calls
from .builder import scene
from .scene import Scene


class Called(NamedTuple):
    """The calls of a flow and of the flows that it calls, by the path of each: the ids of the calls
    that lead to it and its own."""

    opened: Mapping[str, Flow]
    """Those that are drawn as frames with the steps of their flows."""
    closed: frozenset[str]
    """Those that are boxes."""


def called_flows(flow: Flow, callees: Mapping[str, Any], most: int) -> Called:
    """The calls of written flows, outer ones first, opened as long as the picture has at most
    ``most`` boxes. A flow of one step says no more than its call. ``callees``: `Linked.callees`."""
    count = _count(scene(flow))
    opened = dict[str, Flow]()
    closed = set[str]()
    waiting = [(flow, callees, "")]
    for caller, linked, before in waiting:  # it grows
        for call in calls(caller.body):
            path = f"{before}{call.id}"
            inner = [
                inner_flow
                for inner_flow in flows_of(linked.get(call.id))
                if not inner_flow.flow.origin.is_built
            ]
            more = _count(scene(inner[0].flow), within_a_call=True) - 1 if len(inner) == 1 else 0
            if more and count + more <= most:
                count += more
                opened[path] = inner[0].flow
                waiting.append((inner[0].flow, inner[0].callees, f"{path}/"))
            elif inner:
                closed.add(path)
    return Called(opened, frozenset(closed))


def _count(drawn: Scene, within_a_call: bool = False) -> int:
    """The boxes of a scene; in a call its flow has no input and no terminals of its own."""
    return sum(not within_a_call or box.step is not None for box in drawn.boxes)
