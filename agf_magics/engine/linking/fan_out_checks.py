"""Warns about fan-outs that ask too many agents at the same time, or whose retries repeat an
effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...catalog import Tool
from ...flow.flow import Flow
from ...flow.steps import WIDTH, Branches, Each, calls, every
from ...text.diagnostics import Diagnostic
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
            tool = callees.get(call.id)
            if not isinstance(tool, Tool) or tool.reuse or (tool.throttle and tool.throttle.retry):
                continue
            message = f"retry repeats {tool.name!r}, which has an effect (reuse=False)"
            hint = "@tool(retry=agf.Retry(…)) says that it may be repeated; else on_error: continue"
            yield Diagnostic("flow.repeated-effect", message, call.name.span, hint, "warning")
