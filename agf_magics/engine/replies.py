"""Answers of agents that must conform to a JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..catalog import parse_json_reply
from ..flow.json_schema import judge
from ..flow.session import format_for_model
from ..flow.values import Value
from ..flow.violations import describe_all
from ..text.diagnostics import Diagnostic, StepError


def judged(schema: Mapping[str, Any], owner: str) -> Callable[[Value], Value]:
    """A function that returns the value of an answer, the JSON in a text. It raises StepError ``agent.reply-schema``.

    ``owner``: the name of the agent, for the message.
    """
    violations = judge(schema)

    def conforming(answer: Value) -> Value:
        value = parse_json_reply(answer) if isinstance(answer, str) else answer
        if wrong := violations(value):
            message = f"the reply does not conform to the schema of {owner!r}: {describe_all(wrong)}"
            hint = f"the reply was: {format_for_model(answer)[:300]}"
            raise StepError(Diagnostic("agent.reply-schema", message, hint=hint))
        return value

    return conforming
