"""Builds the policy ``agf.react``, a session with a model, from its configuration.

Instructions reach the model verbatim (AGF-61), and ``max_steps`` is a hard bound (AGF-59). All
other settings are preferences, which are passed to the model unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from ...flow.expressions import Computed
from ...flow.protocols import Frame, Name, Ref
from ...flow.sessions.react import react as session_steps
from ...flow.sessions.session import (
    STEPS,
    Offer,
    RequestOptions,
    Session,
    format_for_model,
    format_prompt,
    strip_fence,
)
from ...flow.step import Step
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Scalar, plain
from ...values.extent import TooDeep
from ...values.value import Value, is_json, isolate
from .action_space import Delegate
from .frame import RESULT
from .interface import Interface
from .lookalikes import input_field, warn_of_braces
from .path import PARENT
from .reading import Policy

SETTINGS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences")
"""The settings of the requests to the model."""
_WHOLE = frozenset({"top_k", "max_output_tokens"})
"""The settings that are whole numbers: 5.0 is given as 5."""

# Also the three braces of Mustache, which writes `{{{field}}}` for a text that HTML does not escape.
_PLACEHOLDER = re.compile(r"\{\{\{?\s*+([^{}]*+)\}?\}\}")


def react(policy: Policy) -> tuple[Step, ...]:
    """Reason and act until the model answers (AGF-58)."""
    _check_texts(policy)
    model = policy.config.scalar("model")
    if model is None:
        return ()
    session = _session(policy, model)
    word = policy.id.text
    span = policy.id.span
    return (
        session_steps(session, id="react", word=word, label=model.text, span=span, target=RESULT),
    )


def _session(policy: Policy, model: Scalar) -> Session:
    """The session that the configuration describes."""
    space = policy.space
    values = plain(policy.config)
    provider = values.get("provider")
    choice: Literal["auto", "required", "none"] = values.get("tool_choice") or "auto"
    answer = Answer(policy.gives)
    agents = _agents(policy)
    permits_of_agents = {name: agent.permit for name, agent in agents.items() if agent.permit}
    offers = (*space.tools.values(), *(Offer(agent.alias) for agent in agents.values()))
    settings = {key: values[key] for key in SETTINGS if values.get(key) is not None}
    settings.update((key, policy.number(key, 0)) for key in _WHOLE & settings.keys())
    instructions = str(values.get("instructions", ""))
    return Session(
        model=Name(f"{provider}:{model.text}" if provider else model.text, model.span),
        prompt=prompt(policy.config.scalar("user_prompt_template"), model.span),
        options=RequestOptions(instructions, choice, settings, answer.asked),
        tools=() if choice == "none" else offers,
        read_answer=answer.read,
        steps=policy.number("max_steps", STEPS),
        too_many_steps=partial(_too_many_steps, policy.span("max_steps")),
        permits={**space.permits, **permits_of_agents},
    )


def _too_many_steps(span: Span, limit: int) -> Diagnostic:
    message = f"the model did not answer within max_steps: it called tools in step {limit}"
    hint = "raise max_steps, or say in the instructions when to answer"
    return Diagnostic("policy.max-steps", message, span, hint)


def _agents(policy: Policy) -> Mapping[str, Delegate]:
    """The local agents that the model may call, like tools: those that are registered in the
    kernel. A tool of the same alias is offered instead."""
    offered: dict[str, Delegate] = {}
    for alias, agent in policy.space.agents.items():
        if agent.file is None and alias not in policy.space.tools:
            offered[alias] = agent
            continue
        reason = "it is in a file" if agent.file is not None else "a tool has its alias"
        message = f"agent {alias!r} is not offered to the model: {reason}"
        hint = (
            "define the file's agent in the notebook and write source_type: kernel, or run it "
            "in an agf.sequential"
        )
        policy.problems.warn("policy.not-offered", message, agent.alias.span, hint)
    return offered


def _check_texts(policy: Policy) -> None:
    """Warn of braces in the texts that look like fields and are not filled."""
    for key, hint in (
        ("instructions", "instructions are sent as written; write {{%s}} in user_prompt_template"),
        ("user_prompt_template", "write {{%s}}"),
    ):
        if node := policy.config.scalar(key):
            filled = key != "instructions"
            field = partial(input_field, schema=policy.takes.schema, undeclared=filled)
            warn_of_braces(node, field, policy.problems, hint, filled)


def prompt(template: Scalar | None, otherwise: Span) -> Computed:
    """The first message: the template filled with fields of the input, or the input as text."""
    if template is None:
        span = otherwise
        return Computed(
            span,
            lambda frame: format_prompt(frame[PARENT]["input"]),
            (Ref((PARENT, "input"), span),),
        )

    def field(match: re.Match[str], value: Value) -> str:
        path = match[1].rstrip()
        for name in path.split("."):
            if type(value) is not dict or name not in value:
                hint = suggest(name, value, "its fields") if type(value) is dict else None
                span = template.locate(match.start(1), match.start(1) + len(path))
                message = f"the input has no field {path!r} for this prompt"
                raise StepError(Diagnostic("policy.unresolved-path", message, span, hint))
            value = value[name]
        return format_for_model(value)

    def filled(frame: Frame) -> str:
        input = frame[PARENT]["input"]
        return _PLACEHOLDER.sub(lambda match: field(match, input), template.text)

    return Computed(template.span, filled, (Ref((PARENT, "input"), template.span),))


class Answer:
    """The value of a model's answer under ``interface.output`` (AMB-31).

    It is JSON, or plain text if the schema wants a text or an object with exactly one property, a
    text. An empty schema accepts both: text that is a JSON object or list becomes that.
    """

    def __init__(self, interface: Interface) -> None:
        self.interface = interface
        self.schema: Mapping[str, Any] = interface.schema or {}
        self.alone = _one_text(self.schema)
        """The only property, which plain text becomes; None: the schema wants another form."""

    @property
    def asked(self) -> Mapping[str, Any] | None:
        """The schema that the model is asked for; None: any text."""
        return None if not self.schema or self.schema.get("type") == "string" else self.schema

    def read(self, answer: Value) -> Value:
        """Raises StepError if it does not conform; the model is then asked again."""
        value = answer
        if isinstance(answer, str) and not self._takes(answer):
            value = self._parse_answer(answer)
        self.interface.check(value)
        return value

    def _takes(self, text: str) -> bool:
        """Whether a text conforms as it is. An empty schema says False: the text may be JSON, which
        must be parsed first."""
        try:
            self.interface.check(text)
        except StepError:
            return False
        return bool(self.schema)

    def _parse_answer(self, text: str) -> Value:
        """The value that a text stands for: the JSON in it, or the only property of the object."""
        try:
            value = isolate(json.loads(strip_fence(text)))
        except (ValueError, RecursionError, TooDeep):
            value = None
        if not self.schema:
            return value if isinstance(value, (dict, list)) and is_json(value) else text
        if isinstance(value, dict) or self.alone is None:
            # None means text that is not JSON, rather than the JSON null.
            return text if value is None and text.strip() != "null" else value
        return {self.alone: text}


def _one_text(schema: Mapping[str, Any]) -> str | None:
    """The name of an object's only property, if that is a text."""
    properties = schema.get("properties")
    if (
        schema.get("type") != "object"
        or not isinstance(properties, Mapping)
        or len(properties) != 1
    ):
        return None
    name, rule = next(iter(properties.items()))
    return name if isinstance(rule, Mapping) and rule.get("type") == "string" else None
