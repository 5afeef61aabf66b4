"""Reads the configuration of a policy: agents, mappings and conditions. All problems are reported
at once.

Values of a wrong shape are skipped, because the schema of the document reports them.

``agf.react``: a session of a model as steps, from its configuration.

Instructions reach the model verbatim (AGF-61); ``max_steps`` is a hard bound (AGF-59); all other
settings are preferences that are passed to the model unchanged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from ...flow.json_schema import lacking
from ...flow.session import (
    STEPS,
    Offer,
    RequestOptions,
    Session,
    format_for_model,
    format_prompt,
    unfenced,
)
from ...flow.session import react as session_steps
from ...flow.step import Asking, Exchange, Frame, Lookup, Name, Permit, Ref, Step, Taken, Target
from ...flow.steps import Computed, Invoke
from ...flow.values import TooDeep, Value, is_json, isolate
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, Span, StepError, suggest
from ...text.nodes import Fields, Node, Scalar, is_text, plain
from .agents import ActionSpace, Choice, Delegate, read_choice
from .matchers import Condition, condition, input_field, warn_of_braces
from .path import PARENT, Path, Where, parse_path, source_problem
from .values import RESULT, AgentInput, Delivery, Interface

EARLIER: Mapping[str, str] = {
    # AMB-1: the seed's order of steps has no exception for a loop; suggest another way.
    "agf.loop": "a round does not see the previous one; the fold of a pipeline passes a value from "
    "round to round",
    "agf.parallel": "the agents of an agf.parallel run at once, so none reads another: write "
    "agf.sequential and steps:",
}
"""By policy: the hint for a path that reads the output of an agent that has not run."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An execution policy that is being read."""

    id: Scalar
    config: Fields
    space: ActionSpace
    takes: Interface
    gives: Interface
    problems: Diagnostics
    taken: list[tuple[str, Taken]] = field(default_factory=list)
    """The fields that paths read of each alias's output."""
    refuses: list[Diagnostic] = field(default_factory=list)
    """Requirements of the definition that cannot be met: a run is refused."""
    aliases: Collection[str] = field(init=False)
    """The local agents; without an action space those that a step names."""
    has_unread_step: bool = field(init=False)
    """Whether the steps declare the agents and one of them names none."""

    def __post_init__(self) -> None:
        entries = (*self.config.entries("steps"), *self.config.entries("agents"))
        named = [alias_of(entry) for entry in entries]
        own = self.space.agents if self.space.declared else dict.fromkeys(filter(None, named))
        object.__setattr__(self, "aliases", own)
        object.__setattr__(self, "has_unread_step", None in named and not self.space.declared)

    def number(self, key: str, otherwise: int) -> int:
        """A whole number; in JSON Schema 5.0 is one."""
        number = self.config.value_at(key)
        return int(number) if type(number) in (int, float) else otherwise

    def span(self, key: str) -> Span:
        return self.config.keys[key].span if key in self.config.keys else self.id.span

    def step(
        self, entry: Fields, id: str, where: Where, ran: Collection[str], target: Target | None
    ) -> Invoke | None:
        """The call of a PolicyStep or a route."""
        alias = entry.scalar("agent")
        mapping = entry.fields.get("input_mapping")
        paths = self.paths(mapping, where, ran, id)
        if alias is None:
            return None
        return self.call(alias, id, paths, mapping, target, tuple(ran))

    def call(
        self,
        alias: Scalar,
        id: str,
        paths: Mapping[str, Path],
        mapping: Node | None,
        target: Target | None,
        ran: tuple[str, ...] = (),
    ) -> Invoke:
        agent = self.space.find(alias)
        delivery = None
        if isinstance(mapping, Fields):
            delivery = Delivery(
                f"agent {alias.text!r}",
                paths,
                {name: key.span for name, key in mapping.keys.items()},
            )
        return Invoke(
            id=id,
            word="agent",
            label=alias.text,
            span=alias.span,
            kind="agent",
            name=Name(alias.text, alias.span),
            args=AgentInput(delivery, ran),
            lookup=Lookup(agent.file),
            permit=agent.permit,
            exchange=Exchange(keeps=True, wants=True),
            asking=Asking(spawns=False),
            target=target,
        )

    def paths(
        self, mapping: Node | None, where: Where, ran: Collection[str], id: str
    ) -> dict[str, Path]:
        """The paths of a mapping, by the fields of the call ``id`` that they fill."""
        found = {}
        for name, text in mapping.fields.items() if isinstance(mapping, Fields) else ():
            if not is_text(text):
                continue
            try:
                found[name] = parse_path(text, where)
            except DefinitionError as error:
                self.problems.extend(error.diagnostics)
            else:
                self.check_source(found[name], ran, (id, name))
        return found

    def check_source(
        self, path: Path, ran: Collection[str], into: tuple[str, str] | None = None
    ) -> None:
        """Check the source of a path (AGF-8, AGF-9) and its fields against the schema (AGF-10)."""
        problem = source_problem(path, self.aliases, ran)
        if problem is None:
            if path.source == PARENT:
                self.problems.extend(_lacking(self.takes.schema, path))
            elif path.direction == "output":
                taken = Taken("", f"{path.source}.output", _fields(path), into)
                self.taken.append((path.source, taken))
        elif path.source in self.aliases:
            hint = EARLIER.get(self.id.text, problem.hint)
            self.problems.add(replace(problem, hint=hint))
        # Else the step with the misspelt key is reported.
        elif problem.code != "policy.unknown-alias" or not self.has_unread_step:
            self.problems.add(problem)

    def condition(self, node: Node, ran: Collection[str]) -> Condition:
        found = condition(node, "condition", self.problems, (*self.aliases, PARENT))
        for path in found.paths:
            self.check_source(path, ran)
        return found

    def output(self, default: Choice, aliases: Listed[str]) -> Choice:
        """``output_from``; a merge has one key for each alias (AGF-45, AGF-48)."""
        choice = read_choice(self.config.fields.get("output_from"), default, aliases, self.problems)
        if choice.kind == "merge":
            self.check_unique("merge has one key for each alias", "steps")
        return choice

    def check_unique(self, why: str, key: str) -> None:
        """Report each alias that is used more than once."""
        seen: Counter[str | None] = Counter()
        for alias in (entry.scalar("agent") for entry in self.config.entries(key)):
            seen[alias and alias.text] += 1
            if alias and seen[alias.text] == 2:
                hint = "declare a second alias with the same source"
                message = f"{alias.text!r} is used twice, but {why}"
                self.problems.error("policy.duplicate-alias", message, alias.span, hint)


def _fields(path: Path) -> tuple[tuple[str, Span], ...]:
    return tuple(
        (part.name, path.part_span(index)) for index, part in enumerate(path.parts) if index > 1
    )


def _lacking(schema: Mapping[str, Any] | None, path: Path) -> Iterator[Diagnostic]:
    """The finding that the interface lacks a field that a path reads (AGF-10)."""
    fields = _fields(path)
    if found := lacking(schema, [name for name, _ in fields]):
        name, span = fields[found[0]]
        message = f"interface.input has no field {name!r}"
        hint = suggest(name, found[1], "its fields")
        yield Diagnostic("flow.unknown-field-read", message, span, hint, "warning")


def alias_of(entry: Fields) -> str | None:
    alias = entry.scalar("agent")
    return alias and alias.text


SETTINGS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences")
_WHOLE = frozenset({"top_k", "max_output_tokens"})

_PLACEHOLDER = re.compile(r"\{\{\{?\s*+([^{}]*+)\}?\}\}")


def react(policy: Policy) -> tuple[Step, ...]:
    """Reason and act until the model answers (AGF-58)."""
    space, values = policy.space, plain(policy.config)
    model = policy.config.scalar("model")
    if model is None:
        return ()
    _check_texts(policy)
    choice: Literal["auto", "required", "none"] = values.get("tool_choice") or "auto"
    bound = policy.span("max_steps")
    answer, agents = Answer(policy.gives), _agents(policy)
    permits = {
        **space.permits,
        **{name: agent.permit for name, agent in agents.items() if agent.permit},
    }
    settings = {key: values[key] for key in SETTINGS if values.get(key) is not None}
    settings.update((key, policy.number(key, 0)) for key in _WHOLE & settings.keys())
    session = Session(
        model=Name(
            f"{values['provider']}:{model.text}" if values.get("provider") else model.text,
            model.span,
        ),
        prompt=prompt(policy.config.scalar("user_prompt_template"), model.span),
        options=RequestOptions(
            str(values.get("instructions", "")),
            choice,
            settings,
            answer.asked,
        ),
        tools=()
        if choice == "none"
        else (*space.tools.values(), *(Offer(one.alias) for one in agents.values())),
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
        return permits[tool].ask({}, given, shown) if tool in permits else None

    return permit


def _check_texts(policy: Policy) -> None:
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

    def field(found: re.Match[str], value: Value) -> str:
        path = found[1].rstrip()
        for name in path.split("."):
            if type(value) is not dict or name not in value:
                hint = suggest(name, value, "its fields") if type(value) is dict else None
                span = template.locate(found.start(1), found.start(1) + len(path))
                message = f"the input has no field {path!r} for this prompt"
                raise StepError(Diagnostic("policy.unresolved-path", message, span, hint))
            value = value[name]
        return format_for_model(value)

    def filled(frame: Frame) -> str:
        given = frame[PARENT]["input"]
        return _PLACEHOLDER.sub(lambda found: field(found, given), template.text)

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
