"""Puts placeholders in place of secrets in the replies of models, and gives tools the values.

A placeholder has a value in one session of one run. If a resumed run uses a placeholder of an
earlier session, the call fails, and the model reads why and calls again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...catalog import MASK, Reply, Tool
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from .masking import Secrets

PLACEHOLDER = f"{MASK} #"
"""The beginning of a placeholder: ``••• #1``."""


def substitute_secrets(
    tool: Tool, arguments: dict[str, Value], values: Mapping[str, Value]
) -> dict[str, Value]:
    """``arguments``, the arguments of a call, with values in place of placeholders."""
    secrets = {}
    for name in tool.secret & arguments.keys():
        value = arguments[name]
        if isinstance(value, str) and value in values:
            secrets[name] = values[value]
    return {**arguments, **secrets}


def refuse_placeholders(tool: Tool, arguments: Mapping[str, Value]) -> None:
    """Raise StepError if an argument of a call is a placeholder that has no value."""
    for name in tool.secret & arguments.keys():
        if is_placeholder(arguments[name]):
            message = (
                f"tool {tool.name!r} needs {name!r} again: it is a secret, and secrets are "
                f"not stored"
            )
            error = StepError(Diagnostic("tool.arguments", message))
            error.arguments = frozenset({name})
            raise error


def is_placeholder(value: Value) -> bool:
    """Whether ``value`` stands for a secret that a model has passed to a tool."""
    return isinstance(value, str) and value.startswith(PLACEHOLDER)


def replace_secrets(
    reply: Reply, tools: Mapping[str, Any], values: dict[str, Value], secrets: Secrets
) -> None:
    """Replace the secrets in the calls of ``reply`` by placeholders, and add their values to
    ``values``."""
    for call in reply["calls"]:
        tool, arguments = tools.get(call["tool"]), call["arguments"]
        if not isinstance(tool, Tool) or not tool.secret:
            continue
        # The arguments could not be parsed, so any part may be the secret.
        if not isinstance(arguments, dict):
            call["arguments"] = MASK
        else:
            secrets.receive(tool, arguments)
            marks = {
                name: _placeholder(value, values)
                for name, value in arguments.items()
                if name in tool.secret
            }
            call["arguments"] = {**arguments, **marks}
        for part in reply.get("kept", {}).get("parts", ()):
            if part.get("tool_call_id") == call["id"]:
                part["args"] = call["arguments"]


def _placeholder(value: Value, values: dict[str, Value]) -> str:
    placeholder = f"{PLACEHOLDER}{len(values) + 1}"
    values[placeholder] = value
    return placeholder


def hide(value: Value, names: Collection[str]) -> Value:
    """``value``, the arguments of a call, with a mask for each of ``names``."""
    if not isinstance(value, dict):
        return value
    return value | dict.fromkeys(value.keys() & names, MASK)
