"""Secrets that a model says: its reply is shown and kept without them, and the tool that is called gets them back.

An argument that its tool calls secret is exchanged for a mark before the reply becomes a value of the run; the mark
means it for this run alone. One that an earlier session of the run kept means nothing any more: the call fails, the
model hears of it and calls again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..flow.values import Value
from ..registry import MASK, Tool
from ..text.diagnostics import Diagnostic, StepError


def withhold(reply: dict[str, Value], tools: Mapping[str, Any], withheld: dict[str, Value]) -> None:
    """Put marks into ``reply`` where its calls hold secrets."""
    for call in reply["calls"]:
        tool, given = tools.get(call["tool"]), call["arguments"]
        if not isinstance(tool, Tool) or not tool.secret:
            continue
        if not isinstance(given, dict):  # it could not be read: nobody knows what is secret in it
            call["arguments"] = MASK
        else:
            marks = {name: _mark(value, withheld) for name, value in given.items() if name in tool.secret}
            call["arguments"] = {**given, **marks}
        for part in reply.get("kept", {}).get("parts", ()):
            if part.get("tool_call_id") == call["id"]:
                part["args"] = call["arguments"]


def revealed(tool: Tool, given: dict[str, Value], withheld: Mapping[str, Value]) -> dict[str, Value]:
    """``given`` with the secrets that its marks mean."""
    found = {}
    for name in tool.secret & given.keys():
        value = given[name]
        if isinstance(value, str) and value in withheld:
            found[name] = withheld[value]
        elif isinstance(value, str) and value.startswith(f"{MASK} #"):
            message = f"tool {tool.name!r} needs {name!r} again: it is a secret, and secrets are not kept"
            raise StepError(Diagnostic("tool.arguments", message))
    return {**given, **found} if found else given


def _mark(value: Value, withheld: dict[str, Value]) -> str:
    mark = f"{MASK} #{len(withheld) + 1}"
    withheld[mark] = value
    return mark
