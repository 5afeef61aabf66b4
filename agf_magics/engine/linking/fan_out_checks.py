"""Warns about fan-outs that ask too many agents at the same time, or whose retries repeat an
effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...catalog import Tool
from ...flow.flow import Flow
from ...flow.steps import WIDTH, Branches, Each, Invoke, calls, every
from ...text.diagnostics import Diagnostic
from ...text.source import Span
from .linked import Linked
from .session_count import sessions


def warn_unlimited(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Warnings about branches that ask many agents at the same time. Other fan-outs have a limit of
    their own."""
    for step in every(flow.body):
        if not isinstance(step, Branches):
            continue
        asking = sum(sessions(branch, callees) > 0 for branch in step.branches.values())
        if asking > WIDTH:
            message = f"{asking} branches ask agents at the same time, and nothing limits them"
            hint = (
                "a service may refuse so many requests at once: a for_each over the prompts asks "
                f"{WIDTH} at a time, or max_parallel"
            )
            yield Diagnostic("flow.unlimited", message, step.span, hint, "warning")


def warn_repeated_effects(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Warnings about retries of calls with an effect, which the author of the tool does not
    allow."""
    for step in every(flow.body):
        if not isinstance(step, Branches | Each) or not step.failing.retries:
            continue
        parts = step.branches.values() if isinstance(step, Branches) else (step.body,)
        for call in (inner for part in parts for inner in calls(part)):
            for name, related in _effects(call, callees):
                message = f"retry repeats {name!r}, which has an effect (reuse=False)"
                hint = "@tool(retry=agf.Retry(…)) says that it may be repeated; else on_error: continue"
                span = call.name.span
                yield Diagnostic("flow.repeated-effect", message, span, hint, "warning", related)


def _effects(
    call: Invoke, callees: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[tuple[str, Span], ...]]]:
    """The tools with an effect that ``call`` calls, itself or by its flows, and whose authors do not
    allow a repetition: the name of each, and its place if it is in a flow. What a model picks is not
    known."""
    callee = callees.get(call.id)
    if isinstance(callee, Tool) and _must_not_repeat(callee):
        yield callee.name, ()
    told = set[str]()
    # Not `Linked.every_callee`: it has also what a model may pick, and a warning must be certain.
    # The linker makes one object for a flow that is called many times.
    flows = {id(callee): callee} if isinstance(callee, Linked) else {}
    queue = list(flows.values())
    for flow in queue:  # the queue grows while it is read
        for inner in calls(flow.flow.body):
            called = flow.callees.get(inner.id)
            if isinstance(called, Linked) and id(called) not in flows:
                flows[id(called)] = called
                queue.append(called)
            elif isinstance(called, Tool) and _must_not_repeat(called) and called.name not in told:
                told.add(called.name)
                span = inner.name.span
                yield called.name, (("called here", span),) if span is not None else ()


def _must_not_repeat(tool: Tool) -> bool:
    return not (tool.reuse or (tool.throttle and tool.throttle.retry))
