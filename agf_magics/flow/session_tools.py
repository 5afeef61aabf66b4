"""Names the tools that an agent or a model may call, and gives each tool of a session an id for views.

All tool calls of a session are one step, which chooses its callee while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .step import Step
from .steps import Invoke, Repeat, calls

MOST_TOOLS = 6
"""The number of tools that a row names."""
MANY_TOOLS = 12
"""The number of tools of a session above which pictures show only the first ones by name."""


def session_calls(session: Repeat) -> tuple[Invoke, Invoke]:
    """The two calls in the steps of a session: the request to the model, and the call of a tool."""
    request, call = calls(session.body)
    return request, call


def offered_tools(call: Invoke, callee: Any) -> tuple[str, ...] | None:
    """The names of the tools from which ``call`` chooses. None: they are not known. The session then
    names no tools, so that all registered ones are offered, and only a linked flow knows these.
    ``callee``: what the call is linked to."""
    linked: Mapping[str, Any] = getattr(callee, "callees", None) or {}
    among = call.pick.among if call.pick is not None else None
    if not linked:
        return None if among is None else tuple(name.text for name in among)
    return tuple(dict.fromkeys(getattr(tool, "name", alias) for alias, tool in linked.items()))


def offered_by(session: Repeat, callees: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tools that ``session`` offers; empty if they are not known."""
    _, call = session_calls(session)
    return offered_tools(call, callees.get(call.id)) or ()


def drawn_tools(names: Sequence[str]) -> Sequence[str]:
    """The tools that have a box of their own in a picture. One box of `MANY_TOOLS` is left for all
    others: ``3 more tools``."""
    return names if len(names) <= MANY_TOOLS else names[: MANY_TOOLS - 1]


def tool_id(call: str, tool: str) -> str:
    """The id of one tool of a session in views. ``call``: the id of the step that calls the tools.

    >>> tool_id("session.then.tools.call", "price")
    'session.then.tools.call[price]'
    """
    return f"{call}[{tool}]"


def answering(step: Step, callees: Mapping[str, Any]) -> tuple[str, str] | None:
    """The model that a request or a session names, and the one that answers in its place; None if no
    other one does. ``callees``: `Linked.callees`."""
    asked = session_calls(step)[0] if isinstance(step, Repeat) and step.session else step
    if not isinstance(asked, Invoke) or asked.kind != "model":
        return None
    answers: tuple[str, Any] | None = getattr(callees.get(asked.id), "answers", None)
    if answers is None or asked.name.text in ("", answers[0]):
        return None
    return asked.name.text, answers[0]


def asks_words(step: Step, callee: Any, in_session: bool) -> str:
    """``asks reviewer, tools: fetch, price, attach: 2 files``, without the tools if all may be used,
    without the name if it is the label. ``in_session``: the agent's row lists the tools."""
    # What the linker found (`engine.linking.linked`): who answers, and the tools of the agent.
    answers: tuple[str, tuple[str, ...] | None] | None = getattr(callee, "answers", None)
    if answers is None or not isinstance(step, Invoke):
        return ""
    who, tools = answers
    named_model = step.name.text if step.kind == "model" else ""
    allowed = None if step.tools is None else [name.text for name in step.tools]
    if tools is None:
        named = allowed
    elif allowed is None:
        named = list(tools)
    else:
        named = [name for name in tools if name in allowed]
    parts = [] if who == step.label else [f"asks {who}"]
    if parts and named_model and not step.title:  # the label of the row is who answers
        parts = [f"instead of {named_model}"]
    if named is not None and not in_session:
        more = f" and {len(named) - MOST_TOOLS} more" if len(named) > MOST_TOOLS else ""
        parts.append(f"tools: {', '.join(named[:MOST_TOOLS])}{more}" if named else "no tools")
    if files := len(step.asking.attach):
        parts.append(f"attach: {files} {'file' if files == 1 else 'files'}")
    return ", ".join(parts)
