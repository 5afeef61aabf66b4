"""Reads the value of an agent's answer: the JSON in it, if it conforms to the requested schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...catalog import ModelAgent, check_reply, parse_json_reply
from ...flow.sessions.session import format_for_model
from ...flow.steps import Invoke
from ...schemas.json_schema import judge
from ...schemas.schema import Schema
from ...schemas.violations import describe_all
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value


def reader_at_step(
    agent: ModelAgent, step: Invoke, named: Schema | None, schemas: Mapping[str, Schema]
) -> Callable[[Value], Value]:
    """`reader_of` for the model that answers ``step``, with errors at the place of the step's
    schema."""
    read_answer = reader_of(agent.name, named, step.asking.schema or agent.gives, schemas)
    span = (step.gives.span if step.gives is not None else None) or step.place

    def read(answer: Value) -> Value:
        try:
            return read_answer(answer)
        except StepError as error:
            diagnostic = error.diagnostic
        raise StepError(Diagnostic(diagnostic.code, diagnostic.message, span, diagnostic.hint))

    return read


def reader_of(
    owner: str,
    named: Schema | None,
    written: Mapping[str, Any] | None,
    schemas: Mapping[str, Schema],
) -> Callable[[Value], Value]:
    """A function that returns the value of an agent's answer. It raises StepError if the answer
    does not conform to ``named``, the schema that the step names, or to ``written``, a schema in
    the definition."""
    if named is None and written is not None:
        return _answer_judge(written, owner)
    return lambda answer: check_reply(answer, named, schemas)


def _answer_judge(schema: Mapping[str, Any], owner: str) -> Callable[[Value], Value]:
    """A function that returns the value of an answer, the JSON in a text. It raises StepError
    ``agent.reply-schema``.

    ``owner``: the name of the agent, for the message.
    """
    # Compiled once for an agent, because this takes longer than the check of an answer.
    violations = judge(schema)

    def read(answer: Value) -> Value:
        # Models write JSON in texts, and in fences.
        value = parse_json_reply(answer) if isinstance(answer, str) else answer
        if wrong := violations(value):
            message = (
                f"the reply does not conform to the schema of {owner!r}: {describe_all(wrong)}"
            )
            hint = f"the reply was: {format_for_model(answer)[:300]}"
            raise StepError(Diagnostic("agent.reply-schema", message, hint=hint))
        return value

    return read
