"""Finds out whether the body of a fan-out is a single call that workers make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...catalog import Tool, Transform
from ...flow.step import Step
from ...flow.steps import Each, Invoke, calls
from ..host.placement import choose_place, has_effect, runs_on_workers
from ..linking.linked import Linked
from ..runner import CallSite, Runner, Scope


class OneCall(NamedTuple):
    """A fan-out whose whole body is one call of a tool that runs on workers."""

    step: Invoke
    tool: Tool
    is_secret: bool
    """Whether the value of the call feeds a secret argument."""


def one_call(site: CallSite[Each], inside: Scope) -> OneCall | None:
    """The call that is the whole body of a fan-out, if workers make it; None: each element runs as
    a step. ``inside``: the scope of the elements."""
    run = site.run
    body = site.step.body
    # A wait before another attempt needs the tasks of a `TaskFanOut`, which can sleep.
    if type(body) is not Invoke or run.options.dry or site.step.failing.wait:
        return None
    if body.permit is not None or not body.awaited:
        return None
    tool = inside.linked.callees.get(body.id)
    if type(tool) is not Tool or choose_place(tool, inside.concurrent, run.host) != "worker":
        return None
    if _runs_one_by_one(tool, run) or _may_be_replayed(run):
        return None
    return OneCall(body, tool, (id(inside.linked.flow), body.id) in run.secrets.steps)


def _runs_one_by_one(tool: Tool, run: Runner) -> bool:
    """Whether each call of ``tool`` needs a turn of its own."""
    # The start of a call with an effect must be on disk before the call.
    if run.journal is not None and has_effect(tool):
        return True
    return tool.throttle is not None or bool(tool.context)


def _may_be_replayed(run: Runner) -> bool:
    """Whether calls of tools may come from a recording, and need no worker then."""
    recording = run.options.recording
    return recording is not None and recording.replays_tools


def body_runs_on_workers(body: Step, linked: Linked) -> bool:
    """Whether all calls of a body run on workers. Transforms, and flows of such calls, are allowed,
    too."""
    callees = [callee for _, callee, _ in calls_of(body, linked)]
    if any(isinstance(callee, Tool) and callee.throttle for callee in callees):
        return False  # the gate of the tool is in the kernel, so each call is sent alone
    return any(map(runs_on_workers, callees)) and all(map(_needs_no_kernel, callees))


def _needs_no_kernel(callee: object) -> bool:
    # An agent makes its calls in its session, which runs in the kernel.
    is_plain_flow = isinstance(callee, Linked) and callee.agent is None
    return is_plain_flow or isinstance(callee, Transform) or runs_on_workers(callee)


def calls_of(
    body: Step, linked: Linked, before: tuple[str, ...] = ()
) -> Iterator[tuple[Invoke, Any, tuple[str, ...]]]:
    """The calls of ``body`` and of the flows that it calls: each step with its callee, and the ids
    of its path, which begins with ``before``."""
    for step in calls(body):
        callee = linked.callees.get(step.id)
        path = (*before, step.id)
        yield step, callee, path
        if isinstance(callee, Linked):
            yield from calls_of(callee.flow.body, callee, path)
