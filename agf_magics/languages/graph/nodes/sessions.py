"""Builds the nodes that ask an agent: ``llm``, ``agent``, ``router``, and ``interrupt`` with a
prompt.

A node is one call. ``on_error: fallback``, ``parse_json`` and ``skip_if_exists`` add steps around
the call, which are drawn, journaled and shown like any other step.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from ....flow.expressions import Computed, NamedArguments, Stored
from ....flow.protocols import Frame, Name, Ref
from ....flow.sessions.found_json import NoJson, find_json
from ....flow.step import Step
from ....flow.step_options import Asking, Lookup
from ....flow.steps import Choose, Compute, Invoke, Sequence
from ....text.diagnostics import Diagnostic
from ....text.shorten import shorten
from ....text.source import Span
from ....text.yaml.nodes import Fields
from ....values.value import Value
from ...documents import name_at, text_at
from ..expressions.reading import ROOT, Reader
from ..expressions.resolve import resolve_node_variables
from ..expressions.written_text import format_value
from ..prompts.answer_schema import read_output_schema
from ..prompts.prompts import NodePrompt, read_prompt
from ..state import Note, State, Write
from ..words import FALLBACK
from .builder_contract import BuiltNode, FieldValues, NodeSite, WrittenKey
from .call_arguments import (
    Values,
    Wanted,
    check_required,
    check_slots,
    question_args,
    read_message,
    state_ref,
)
from .declared_tools import Tools
from .on_error import Failed, on_error
from .step_fields import at, common, state_key

CALLED = Ref(("called",))
"""The place of the result of a call, outside the state."""

keep = Stored(lambda frame, value: {**frame, "called": value}, (CALLED,))
"""Keeps the result of a step for the next one."""


ROUTE_FIELDS = ("route", "tone", "intent")
"""The field of a router's answer that has the label, unless the node names one."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """The prompt of an agent, and its variables as the input object."""

    prompts: NodePrompt
    values: Values | None
    """The variables; None: the node has none, and the keys of the state are the variables."""
    requires: tuple[Name, ...] = ()
    """The keys without which the call fails."""
    declared: frozenset[str] = frozenset()
    """The keys of the state. Any other name in braces may be text."""
    names: tuple[tuple[str, Span | None], ...] = ()

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        check_required(self.requires, state)
        if self.values is None:
            variables = resolve_node_variables(None, state)
        else:
            variables = NamedArguments(self.values).build(frame)
        prompts = {"prompt": self.prompts.user.fill(state, variables), "input": variables}
        if self.prompts.system is not None:
            prompts["system"] = self.prompts.system.fill(state, variables)
        return prompts

    def reads(self) -> tuple[Ref, ...]:
        slots = self.prompts.slots
        in_state = (
            *(state_ref((name.text,), name.span) for name in self.requires),
            *(state_ref(slot.names, slot.span, slot.certain) for slot in slots if slot.in_state),
        )
        if self.values is not None:
            return (*in_state, *NamedArguments(self.values).reads())
        return (
            *in_state,
            *(
                state_ref(slot.names, slot.span, slot.certain and slot.names[0] in self.declared)
                for slot in slots
                if not slot.in_state
            ),
        )


def build_session(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    """An ``llm``, ``agent`` or ``router`` node."""
    skips = bool(fields.get("skip_if_exists"))
    inner = site._replace(id=f"{site.id}.ask") if skips else site
    request_site = inner._replace(id=f"{inner.id}.answer") if fields.get("parse_json") else inner
    step = build_request(reader, fields, request_site)
    fields = {**site.defaults, **fields}
    write, key = state_key(fields, site)
    results: Name | None = fields.get("tool_results_key")
    keys: tuple[WrittenKey, ...] = (key,)
    note = _not_json(site) if fields.get("parse_json") else None
    if results is not None:
        step = replace(step, asking=step.asking._replace(calls=True))
        keys = (key, WrittenKey(results.text, results.span, type="list", sure=False))
        write = _with_calls(write, results.text)
    whole = _around(reader, fields, inner, step)
    collects = site.inside and results is not None
    built = on_error(fields, inner, BuiltNode(whole, write, keys, collects=collects, note=note))
    return _skipping(site, key.name, built) if skips else built


def build_request(reader: Reader, fields: FieldValues, site: NodeSite) -> Invoke:
    """The call of the agent."""
    prompts = read_prompt(reader, fields["prompt"], site.folders, site.kind)
    asking = read_asking(reader, {**site.defaults, **prompts.model, **fields})
    fields = {**site.defaults, **fields}
    values: Values | None = fields.get("variables")
    check_slots(reader, "graph.prompt-variable", prompts.slots, values)
    identity: Name | None = fields.get("identity")
    tools: tuple[Name, ...] | None = fields.get("tools")
    declared_tools = site.tools.spans.keys() & {tool.text for tool in tools or ()}
    site.tools.used.update(declared_tools)
    named_schema: Name | None = fields.get("schema")
    schema = prompts.schema if named_schema is None else None
    if "output_schema" in fields:
        schema = read_output_schema(reader, fields["output_schema"])
        if named_schema is not None:
            hint = "keep one of them: schema names a registered schema, output_schema is one"
            message = "a node cannot have both schema and output_schema"
            reader.error("graph.same-key", message, fields["output_schema"].span, hint)
    if fields.get("parse_json"):
        named_schema = schema = None
    return Invoke(
        **common(site, fields, identity.text if identity else prompts.span.text.strip("\"'")),
        kind="agent",
        name=identity or Name(""),
        args=Prompted(
            prompts, values, fields.get("requires") or (), reader.declared or frozenset()
        ),
        gives=named_schema,
        asking=asking._replace(schema=schema, no_tools=site.kind != "agent"),
        tools=tools,
        lookup=_lookup(site.tools, declared_tools),
    )


def _lookup(tools: Tools, names: Set[str]) -> Lookup:
    """The origins of the tools ``names`` that the graph declares."""
    files = {name: tools.files[name] for name in names & tools.files.keys()}
    commands = sorted(names & tools.commands.keys())
    return Lookup(files=files, derived=tuple(tools.commands[name].derived() for name in commands))


def read_asking(reader: Reader, fields: Mapping[str, Any]) -> Asking:
    """The model and the settings that a node, its prompt or the defaults name."""
    provider = fields.get("provider")
    model = fields.get("model")
    name = text_at(fields, "model")
    if provider is not None and model is not None:
        name = f"{provider.text}:{name.removeprefix(f'{provider.text}:')}"
    elif provider is not None and provider.span not in reader.warned:
        reader.warned.add(provider.span)
        hint = (
            f"write model: NAME too, or configure one: %config AgfMagics.model = "
            f"'{provider.text}:NAME'"
        )
        message = "'provider' without 'model' selects no model: the configured one answers"
        reader.warn("graph.model-ignored", message, provider.span, hint)
    settings = {
        "temperature": fields.get("temperature"),
        "max_output_tokens": fields.get("max_tokens"),
    }
    return Asking(
        model=name,
        settings={key: value for key, value in settings.items() if value is not None},
        steps=fields.get("max_iterations"),
        span=name_at(fields, "model", provider or Name("")).span,
    )


def _around(reader: Reader, fields: FieldValues, site: NodeSite, request: Invoke) -> Step:
    """``on_error: fallback`` and ``parse_json``."""
    step: Step = request
    fallback: Fields | None = fields.get("fallback")
    falls_back = fields.get("on_error") == "fallback"
    if fallback is None:
        if falls_back:
            message = "on_error: fallback needs 'fallback'"
            hint = "fallback: {provider: openai, model: gpt-4o}"
            reader.refuse("graph.missing-key", message, site.span, hint)
    elif falls_back:
        other = read_asking(reader, reader.fields(FALLBACK, fallback, fallback.span))
        step = _with_fallback(site, request, other)
    else:
        message = "'fallback' is not used without on_error: fallback"
        reader.warn("graph.fallback", message, fallback.span, "add on_error: fallback")
    return _parse_json_step(site, step) if fields.get("parse_json") else step


def _with_fallback(site: NodeSite, step: Invoke, other: Asking) -> Step:
    """``on_error: fallback``: the same request to another model if the first one fails."""
    label = shorten(other.model or "once more")
    first = replace(step, id=f"{step.id}.call", rescue=Failed, target=keep)
    asking = step.asking._replace(
        model=other.model or step.asking.model,
        settings={**step.asking.settings, **other.settings},
        span=other.span,
    )
    again = replace(step, id=f"{step.id}.fallback.call", label=label, asking=asking)
    called = Computed(site.span, lambda frame: frame["called"], (CALLED,))
    chosen = Choose(
        id=f"{step.id}.fallback",
        word="fallback",
        label=label,
        span=site.span,
        pick=Computed(site.span, lambda frame: isinstance(frame["called"], Failed), (CALLED,)),
        labels=lambda failed: ("failed",) if failed else ("answered",),
        cases={
            "failed": again,
            "answered": Compute(
                id=f"{step.id}.fallback.answer", word="answer", span=site.span, value=called
            ),
        },
        conditions={"failed": "it failed", "answered": "it answered"},
    )
    return Sequence(
        id=step.id, word=step.word, label=step.label, span=step.span, steps=(first, chosen)
    )


def _parse_json_step(site: NodeSite, step: Step) -> Step:
    """``parse_json``: a step that reads the JSON in the answer."""
    value = Computed(site.span, lambda frame: parse_answer(frame["called"]), (CALLED,))
    read = Compute(id=f"{site.id}.parse_json", word="parse_json", span=site.span, value=value)
    steps = (replace(step, target=keep), read)
    return Sequence(id=site.id, word=step.word, label=step.label, span=step.span, steps=steps)


def parse_answer(answer: Value) -> Value:
    """The JSON in an answer: the whole answer, a code fence, or its first object or list; else the
    answer itself.

    >>> parse_answer('NodeSite it is: {"a": 1}.'), parse_answer("none")
    ({'a': 1}, 'none')
    """
    if not isinstance(answer, str):
        if _has_calls(answer):
            return {**answer, "answer": parse_answer(answer["answer"])}
        return answer
    try:
        return find_json(answer)
    except NoJson:
        return answer


def _has_calls(answer: Value) -> bool:
    """Whether ``answer`` is the value of a session that keeps its tool calls."""
    return type(answer) is dict and answer.keys() == {"answer", "calls"}


def _not_json(site: NodeSite) -> Note:
    """The warning that an answer has no JSON, once it is there."""

    def note(value: Value) -> Diagnostic | None:
        if not isinstance(value["answer"] if _has_calls(value) else value, str):
            return None
        message = f"the answer of {site.name!r} has no JSON: the key gets its text"
        hint = "ask for JSON in the prompt, or describe the answer with schema"
        return Diagnostic("graph.no-json", message, site.span, hint, "warning")

    return note


def _with_calls(write: Write, key: str) -> Write:
    """``write`` for the value of a session that keeps its tool calls, which go to ``key``."""

    def write_both(state: State, value: Value) -> Mapping[str, Value]:
        # None: the calls are not known, so the key keeps its value.
        calls = {} if value["calls"] is None else {key: value["calls"]}
        return {**write(state, value["answer"]), **calls}

    return write_both


def _unless_existing(site: NodeSite, key: str, step: Step) -> Choose:
    """``step`` if the key has no value, else its value."""
    ref = Ref((*ROOT, key), site.span, certain=False, optional=True)
    existing = Computed(site.span, lambda frame: frame["state"].get(key), (ref,))
    return Choose(
        id=site.id,
        word=site.kind,
        label=step.label,
        span=site.span,
        pick=Computed(site.span, lambda frame: frame["state"].get(key) is not None, (ref,)),
        labels=lambda exists: ("exists",) if exists else ("missing",),
        cases={
            "missing": step,
            "exists": Compute(
                id=f"{site.id}.existing", word="skip", label=key, span=site.span, value=existing
            ),
        },
        conditions={"missing": f"{key} has no value", "exists": f"{key} has a value"},
    )


def _skipping(site: NodeSite, key: str, built: BuiltNode) -> BuiltNode:
    """``skip_if_exists``: the node does nothing if its key has a value."""
    step = _unless_existing(site, key, built.step)

    def write(state: State, value: Value) -> Mapping[str, Value]:
        return {} if state.get(key) is not None else built.write(state, value)

    keys = tuple(key._replace(sure=False) for key in built.keys)
    return built._replace(step=step, write=write, keys=keys)


def build_router(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    """An agent whose answer chooses the next node."""
    routes: dict[str, Name] = fields["routes"]
    if not routes:
        hint = "routes: {good: publish, bad: revise}"
        reader.refuse("graph.missing-key", "routes is empty", site.span, hint)
    built = build_session(reader, fields, site)
    field: Name | None = fields.get("route_field")
    label_fields = ROUTE_FIELDS if field is None else (field.text,)
    default: Name = fields.get("default_route") or next(iter(routes.values()))
    inner = built.write
    answer = f"{built.keys[0].name}_answer"
    # Reversed: of labels that differ only in case the first one counts.
    by_label = {word.lower(): word for word in reversed(routes)}

    def write(state: State, value: Value) -> Mapping[str, Value]:
        if isinstance(value, Failed):
            return {**inner(state, value), "_route": default.text}
        label = value
        if isinstance(value, dict):
            label = next((value[name] for name in label_fields if name in value), None)
        answer_text = format_value(label).strip() if label is not None else ""
        label = by_label.get(answer_text.lower(), answer_text or None)
        chosen = {"_route": routes.get(label or "", default).text}
        if site.inside:  # in a map no edge follows: the choice is part of the collected value
            return {**(value if isinstance(value, dict) else {"value": value}), **chosen}
        # The label goes to the node's key. With skip_if_exists `inner` may write nothing, and then
        # the answer is not new.
        written = inner(state, label)
        return {**written, **({answer: value} if written else {}), **chosen}

    if site.inside:
        return built._replace(write=write, collects=True)
    answers: dict[str, str] = {}
    for word, name in routes.items():
        answers[name.text] = f"{answers[name.text]}, {word}" if name.text in answers else word
    answers.setdefault(default.text, "otherwise")
    first, *_ = built.keys
    keys = (*built.keys, WrittenKey(answer, first.span, sure=first.sure))
    return built._replace(
        write=write, keys=keys, routes=(*routes.values(), default), answers=answers
    )


def build_interrupt(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    """A question to a person, written in the text or by an agent."""
    question_key = name_at(fields, "state_key", Name("interrupt_message"))
    answer_key = name_at(fields, "resume_key", Name("user_input"))
    question = question_key.text
    answer = answer_key.text
    keys = (
        WrittenKey(question, question_key.span, option="state_key"),
        WrittenKey(answer, answer_key.span, option="resume_key"),
    )
    hint = 'message: "Publish {text}?" is the question; with prompt an agent writes it'
    if "prompt" in fields:
        if "message" in fields:
            message = "an interrupt has message or prompt"
            reader.refuse("graph.same-key", message, site.span, hint)
        return _build_written_question(reader, fields, site, keys)
    if "message" not in fields:
        reader.refuse("graph.missing-key", "an interrupt needs 'message'", site.span, hint)
    text = read_message(reader, fields["message"])
    if fields.get("idempotent"):
        text = key_or_message(question, text)
    step = Invoke(
        **common(site, fields, text.text),
        kind="question",
        name=Name(site.name, site.span),
        args=question_args(text, fields.get("choices")),
    )

    def write(state: State, value: Value) -> Mapping[str, Value]:
        return {question: text.evaluate({"state": state}), answer: value}

    return BuiltNode(step, write, keys)


def key_or_message(key: str, message: Computed) -> Computed:
    """The value of a key of the state if it has one, else ``message``."""

    def evaluate(frame: Frame) -> Value:
        existing = frame["state"].get(key)
        return message.evaluate(frame) if existing is None else format_value(existing)

    ref = state_ref((key,), None)
    return Computed(message.span, evaluate, (*message.reads(), ref), message.text)


def _build_written_question(
    reader: Reader, fields: FieldValues, site: NodeSite, keys: tuple[WrittenKey, WrittenKey]
) -> BuiltNode:
    """An ``interrupt`` with ``prompt``: an agent writes the question, then the person is asked."""
    question, answer = (key.name for key in keys)
    first = site._replace(id=f"{site.id}.prompt")
    ask = first._replace(id=f"{first.id}.ask") if fields.get("idempotent") else first
    request = build_request(reader, fields, ask)
    asking = _unless_existing(first, question, request) if fields.get("idempotent") else request
    answered = Stored(lambda frame, value: {**frame, "answered": value}, (Ref(("answered",)),))
    put = Invoke(
        **{**common(site, fields, "the answer"), "id": f"{site.id}.question"},
        kind="question",
        name=Name(site.name, site.span),
        args=question_args(
            Computed(site.span, lambda frame: format_value(frame["called"]), (CALLED,)),
            fields.get("choices"),
        ),
        target=answered,
    )
    both = Computed(
        site.span, lambda frame: [format_value(frame["called"]), frame["answered"]], (CALLED,)
    )
    last = Compute(id=f"{site.id}.answer", word="answer", span=site.span, value=both)
    step = Sequence(**at(site), label=asking.label, steps=(replace(asking, target=keep), put, last))

    def write(state: State, value: Value) -> Mapping[str, Value]:
        return {question: value[0], answer: value[1]}

    return BuiltNode(step, write, keys)
