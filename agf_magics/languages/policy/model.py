"""``agf.react``: a session of a model as steps, from its configuration.

Instructions reach the model verbatim (AGF-61); ``max_steps`` is a hard bound (AGF-59); all other
settings are preferences that are passed to the model unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ...flow.frame import Frame, Ref
from ...flow.react import react as session_steps
from ...flow.session import STEPS, Offer, Session, format_for_model, format_prompt, unfenced
from ...flow.steps import Name, Step
from ...flow.values import TooDeep, Value, is_json, isolate
from ...text.diagnostics import Diagnostic, StepError, suggest
from ...text.source import Span
from ...text.yamlnodes import Scalar, plain
from .agents import Delegate
from .literals import input_field, warn_of_braces
from .path import PARENT
from .reading import Policy
from .safety import Permit
from .values import RESULT, Interface

SETTINGS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences")

_PLACEHOLDER = re.compile(r"\{\{\{?\s*+([^{}]*+)\}?\}\}")


def react(policy: Policy) -> tuple[Step, ...]:
    """Reason and act until the model answers (AGF-58)."""
    config, space = policy.config.fields, policy.space
    values = {key: plain(node) for key, node in config.items()}
    model = config.get("model")
    if not isinstance(model, Scalar):
        return ()
    _check_texts(policy)
    choice: Literal["auto", "required", "none"] = values.get("tool_choice") or "auto"
    bound = policy.span("max_steps")
    answer, agents = Answer(policy.gives), _agents(policy)
    permits = {
        **space.permits,
        **{name: agent.permit for name, agent in agents.items() if agent.permit},
    }
    session = Session(
        model=Name(
            f"{values['provider']}:{model.text}" if values.get("provider") else model.text,
            model.span,
        ),
        prompt=Prompt(config.get("user_prompt_template"), model.span),
        instructions=str(values.get("instructions", "")),
        tools=()
        if choice == "none"
        else (*space.tools.values(), *(Offer(one.alias) for one in agents.values())),
        tool_choice=choice,
        settings={key: values[key] for key in SETTINGS if values.get(key) is not None},
        schema=answer.asked,
        read=answer.read,
        steps=policy.number("max_steps", STEPS),
        over=lambda limit: Diagnostic(
            "policy.max-steps",
            f"the model did not answer within max_steps: it called tools in step {limit}",
            bound,
            "raise max_steps, or say in the instructions when to answer",
        ),
        permit=_permit(permits) if permits else None,
    )
    word, span = policy.id.text, policy.id.span
    return (
        session_steps(session, id="react", word=word, label=model.text, span=span, target=RESULT),
    )


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


def _permit(
    permits: Mapping[str, Permit],
) -> Callable[[str, Mapping[str, Value], Mapping[str, Value]], str | None]:
    def permit(tool: str, given: Mapping[str, Value], shown: Mapping[str, Value]) -> str | None:
        return permits[tool]({}, given, shown) if tool in permits else None

    return permit


def _check_texts(policy: Policy) -> None:
    def field(path: str) -> str | None:
        return input_field(path, policy.takes.schema)

    for key, hint in (
        ("instructions", "instructions are sent as written; write {{%s}} in user_prompt_template"),
        ("user_prompt_template", "write {{%s}}"),
    ):
        node = policy.config.fields.get(key)
        if isinstance(node, Scalar):
            warn_of_braces(node, field, policy.problems, hint, filled=key != "instructions")


class Prompt:
    """The first message: the template filled with fields of the input, or the input as text."""

    __slots__ = ("evaluate", "span", "template")

    evaluate: Callable[[Frame], Value]

    def __init__(self, template: object, otherwise: Span) -> None:
        self.template = template if isinstance(template, Scalar) else None
        self.span = self.template.span if self.template else otherwise
        self.evaluate = (
            self._filled if self.template else lambda frame: format_prompt(frame[PARENT]["input"])
        )

    def _filled(self, frame: Frame) -> str:
        assert self.template is not None
        given = frame[PARENT]["input"]
        parts, end = [], 0
        for found in _PLACEHOLDER.finditer(self.template.text):
            parts += [self.template.text[end : found.start()], self._field(found, given)]
            end = found.end()
        return "".join((*parts, self.template.text[end:]))

    def _field(self, found: re.Match[str], given: Value) -> str:
        assert self.template is not None
        value = given
        path = found[1].rstrip()
        for name in path.split("."):
            if type(value) is not dict or name not in value:
                hint = suggest(name, value, "its fields") if type(value) is dict else None
                span = self.template.locate(found.start(1), found.start(1) + len(path))
                message = f"the input has no field {path!r} for this prompt"
                raise StepError(Diagnostic("policy.unresolved-path", message, span, hint))
            value = value[name]
        return format_for_model(value)

    def reads(self) -> tuple[Ref, ...]:
        return (Ref((PARENT, "input"), self.span),)


class Answer:
    """The value of a model's answer under ``interface.output`` (AMB-31).

    It is JSON, or plain text if the schema wants a text or an object with exactly one property, a
    text. An empty schema accepts both: text that is a JSON object or list becomes that.
    """

    def __init__(self, interface: Interface) -> None:
        self.interface = interface
        self.schema: Mapping[str, Any] = interface.schema or {}
        self.alone = _one_text(self.schema)

    @property
    def asked(self) -> Mapping[str, Any] | None:
        """The schema that the model is asked for; None: any text."""
        return None if not self.schema or self.schema.get("type") == "string" else self.schema

    def read(self, answer: Value) -> Value:
        """Raises StepError if it does not conform; the model is then asked again."""
        value = answer
        if isinstance(answer, str) and not self._takes(answer):
            value = self._parsed(answer)
        self.interface.check(value)
        return value

    def _takes(self, text: str) -> bool:
        """Whether a text conforms as it is."""
        try:
            self.interface.check(text)
        except StepError:
            return False
        return bool(self.schema)

    def _parsed(self, text: str) -> Value:
        try:
            value = isolate(json.loads(unfenced(text)))
        except (ValueError, RecursionError, TooDeep):
            value = None
        if not self.schema:
            return value if isinstance(value, (dict, list)) and is_json(value) else text
        if isinstance(value, dict) or self.alone is None:
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
