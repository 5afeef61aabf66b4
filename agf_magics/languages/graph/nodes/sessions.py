"""Nodes that ask an agent: ``llm``, ``agent``, ``router``, and an ``interrupt`` with a prompt.

A node is one call. ``on_error: fallback``, ``parse_json`` and ``skip_if_exists`` add steps around
it, so that each of them is drawn, journaled and shown like any other step.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from ...documents import named, said
from ..expressions.reading import ROOT, Reader
from ..expressions.resolve import resolve_node_variables
from ..expressions.written_text import format_value
from ..prompts.answer_schema import read_output_schema
from ..prompts.prompts import NodePrompt, read_prompt
from ..state import Failed, State, Write
from ..words import FALLBACK
from .builder_contract import Built, Given, Here, Written
from .call_arguments import (
    Values,
    Wanted,
    check_required,
    check_slots,
    question_args,
    read_message,
    state_ref,
)
from .on_error import on_error
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
    requires: tuple[Name, ...] = ()
    declared: frozenset[str] = frozenset()
    """The keys of the state: any other name in braces may be a text."""
    names: tuple[tuple[str, Span | None], ...] = ()

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        check_required(self.requires, state)
        variables = (
            resolve_node_variables(None, state)
            if self.values is None
            else NamedArguments(self.values).build(frame)
        )
        given = {"prompt": self.prompts.user.fill(state, variables), "input": variables}
        if self.prompts.system is not None:
            given["system"] = self.prompts.system.fill(state, variables)
        return given

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


def build_session(reader: Reader, given: Given, here: Here) -> Built:
    """An ``llm``, ``agent`` or ``router`` node."""
    skips = bool(given.get("skip_if_exists"))
    inner = here._replace(id=f"{here.id}.ask") if skips else here
    asked = inner._replace(id=f"{inner.id}.answer") if given.get("parse_json") else inner
    step = build_request(reader, given, asked)
    given = {**here.defaults, **given}
    write, key = state_key(given, here)
    results: Name | None = given.get("tool_results_key")
    keys: tuple[Written, ...] = (key,)
    note = _not_json(here) if given.get("parse_json") else None
    if results is not None:
        step = replace(step, asking=step.asking._replace(calls=True))
        keys, write = (
            (key, Written(results.text, results.span, type="list", sure=False)),
            _with_calls(write, results.text),
        )
    whole, collects = _around(reader, given, inner, step), here.inside and results is not None
    built = on_error(given, inner, Built(whole, write, keys, collects=collects, note=note))
    return _skipping(here, key.name, built) if skips else built


def build_request(reader: Reader, given: Given, here: Here) -> Invoke:
    """The call of the agent."""
    prompts = read_prompt(reader, given["prompt"], here.folders, here.kind)
    asking = read_asking(reader, {**here.defaults, **prompts.model, **given})
    given = {**here.defaults, **given}
    values: Values | None = given.get("variables")
    check_slots(reader, "graph.prompt-variable", prompts.slots, values)
    identity: Name | None = given.get("identity")
    tools: tuple[Name, ...] | None = given.get("tools")
    own = here.tools.spans.keys() & {tool.text for tool in tools or ()}
    here.tools.used.update(own)
    label = identity.text if identity else prompts.span.text.strip("\"'")
    named_schema: Name | None = given.get("schema")
    schema = prompts.schema if named_schema is None else None
    if "output_schema" in given:
        schema = read_output_schema(reader, given["output_schema"])
        if named_schema is not None:
            hint = "keep one of them: schema names a registered schema, output_schema is one"
            message = "a node cannot have both schema and output_schema"
            reader.error("graph.same-key", message, given["output_schema"].span, hint)
    if given.get("parse_json"):
        named_schema = schema = None
    return Invoke(
        **common(here, given, label),
        kind="agent",
        name=identity or Name(""),
        args=Prompted(prompts, values, given.get("requires") or (), reader.declared or frozenset()),
        gives=named_schema,
        asking=asking._replace(schema=schema, no_tools=here.kind != "agent"),
        tools=tools,
        lookup=Lookup(
            files={name: here.tools.files[name] for name in own & here.tools.files.keys()},
            derived=tuple(
                here.tools.commands[name].derived()
                for name in sorted(own & here.tools.commands.keys())
            ),
        ),
    )


def read_asking(reader: Reader, given: Mapping[str, Any]) -> Asking:
    """The model and the settings that a node, its prompt or the defaults name."""
    provider, model = given.get("provider"), given.get("model")
    name = said(given, "model")
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
        "temperature": given.get("temperature"),
        "max_output_tokens": given.get("max_tokens"),
    }
    return Asking(
        model=name,
        settings={key: value for key, value in settings.items() if value is not None},
        steps=given.get("max_iterations"),
        span=named(given, "model", provider or Name("")).span,
    )


def _around(reader: Reader, given: Given, here: Here, request: Invoke) -> Step:
    """``on_error: fallback`` and ``parse_json``."""
    step: Step = request
    fallback: Fields | None = given.get("fallback")
    falls_back = given.get("on_error") == "fallback"
    if fallback is None:
        if falls_back:
            message = "on_error: fallback needs 'fallback'"
            hint = "fallback: {provider: openai, model: gpt-4o}"
            reader.refuse("graph.missing-key", message, here.span, hint)
    elif falls_back:
        other = read_asking(reader, reader.fields(FALLBACK, fallback, fallback.span))
        step = _with_fallback(here, request, other)
    else:
        message = "'fallback' is not used without on_error: fallback"
        reader.warn("graph.fallback", message, fallback.span, "add on_error: fallback")
    return _parsed(here, step) if given.get("parse_json") else step


def _with_fallback(here: Here, step: Invoke, other: Asking) -> Step:
    """``on_error: fallback``: the same request to another model if the first one fails."""
    label = shorten(other.model or "once more")
    first = replace(step, id=f"{step.id}.call", rescue=Failed, target=keep)
    asking = step.asking._replace(
        model=other.model or step.asking.model,
        settings={**step.asking.settings, **other.settings},
        span=other.span,
    )
    again = replace(step, id=f"{step.id}.fallback.call", label=label, asking=asking)
    called = Computed(here.span, lambda frame: frame["called"], (CALLED,))
    chosen = Choose(
        id=f"{step.id}.fallback",
        word="fallback",
        label=label,
        span=here.span,
        pick=Computed(here.span, lambda frame: isinstance(frame["called"], Failed), (CALLED,)),
        labels=lambda failed: ("failed",) if failed else ("answered",),
        cases={
            "failed": again,
            "answered": Compute(
                id=f"{step.id}.fallback.answer", word="answer", span=here.span, value=called
            ),
        },
        conditions={"failed": "it failed", "answered": "it answered"},
    )
    return Sequence(
        id=step.id, word=step.word, label=step.label, span=step.span, steps=(first, chosen)
    )


def _parsed(here: Here, step: Step) -> Step:
    """``parse_json``: a step that reads the JSON in the answer."""
    value = Computed(here.span, lambda frame: parse_answer(frame["called"]), (CALLED,))
    read = Compute(id=f"{here.id}.parse_json", word="parse_json", span=here.span, value=value)
    steps = (replace(step, target=keep), read)
    return Sequence(id=here.id, word=step.word, label=step.label, span=step.span, steps=steps)


def parse_answer(answer: Value) -> Value:
    """The JSON in an answer: all of it, in a code fence, or its first object or list; else the
    answer itself.

    >>> parse_answer('Here it is: {"a": 1}.'), parse_answer("none")
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
    """Whether it is the value of a session that keeps its tool calls."""
    return type(answer) is dict and answer.keys() == {"answer", "calls"}


def _not_json(here: Here) -> Any:
    def note(value: Value) -> Diagnostic | None:
        if not isinstance(value["answer"] if _has_calls(value) else value, str):
            return None
        message = f"the answer of {here.name!r} has no JSON: the key gets its text"
        hint = "ask for JSON in the prompt, or describe the answer with schema"
        return Diagnostic("graph.no-json", message, here.span, hint, "warning")

    return note


def _with_calls(write: Write, key: str) -> Write:
    def write_both(state: State, value: Value) -> Mapping[str, Value]:
        calls = {} if value["calls"] is None else {key: value["calls"]}
        return {**write(state, value["answer"]), **calls}

    return write_both


def _unless_held(here: Here, key: str, step: Step) -> Choose:
    """``step`` if the key has no value, else its value."""
    held = Ref((*ROOT, key), here.span, False, optional=True)
    existing = Computed(here.span, lambda frame: frame["state"].get(key), (held,))
    return Choose(
        id=here.id,
        word=here.kind,
        label=step.label,
        span=here.span,
        pick=Computed(here.span, lambda frame: frame["state"].get(key) is not None, (held,)),
        labels=lambda exists: ("exists",) if exists else ("missing",),
        cases={
            "missing": step,
            "exists": Compute(
                id=f"{here.id}.existing", word="skip", label=key, span=here.span, value=existing
            ),
        },
        conditions={"missing": f"{key} has no value", "exists": f"{key} has a value"},
    )


def _skipping(here: Here, key: str, built: Built) -> Built:
    """``skip_if_exists``: the node does nothing if its key has a value."""
    step = _unless_held(here, key, built.step)

    def write(state: State, value: Value) -> Mapping[str, Value]:
        return {} if state.get(key) is not None else built.write(state, value)

    keys = tuple(key._replace(sure=False) for key in built.keys)
    return built._replace(step=step, write=write, keys=keys)


def build_router(reader: Reader, given: Given, here: Here) -> Built:
    routes: dict[str, Name] = given["routes"]
    if not routes:
        hint = "routes: {good: publish, bad: revise}"
        reader.refuse("graph.missing-key", "routes is empty", here.span, hint)
    built = build_session(reader, given, here)
    field: Name | None = given.get("route_field")
    fields = ROUTE_FIELDS if field is None else (field.text,)
    default: Name = given.get("default_route") or next(iter(routes.values()))
    inner, answer = built.write, f"{built.keys[0].name}_answer"
    by_label = {word.lower(): word for word in reversed(routes)}

    def write(state: State, value: Value) -> Mapping[str, Value]:
        if isinstance(value, Failed):
            return {**inner(state, value), "_route": default.text}
        label = value
        if isinstance(value, dict):
            label = next((value[name] for name in fields if name in value), None)
        said = format_value(label).strip() if label is not None else ""
        label = by_label.get(said.lower(), said or None)
        chosen = {"_route": routes.get(label or "", default).text}
        if here.inside:
            return {**(value if isinstance(value, dict) else {"value": value}), **chosen}
        written = inner(state, label)
        return {**written, **({answer: value} if written else {}), **chosen}

    if here.inside:
        return built._replace(write=write, collects=True)
    answers: dict[str, str] = {}
    for word, name in routes.items():
        answers[name.text] = f"{answers[name.text]}, {word}" if name.text in answers else word
    answers.setdefault(default.text, "otherwise")
    first = built.keys[0]
    keys = (*built.keys, Written(answer, first.span, sure=first.sure))
    return built._replace(
        write=write, keys=keys, routes=(*routes.values(), default), answers=answers
    )


def build_interrupt(reader: Reader, given: Given, here: Here) -> Built:
    """A question to a person, written in the text or by an agent."""
    asked = named(given, "state_key", Name("interrupt_message"))
    answered = named(given, "resume_key", Name("user_input"))
    question, answer = asked.text, answered.text
    keys = (
        Written(question, asked.span, option="state_key"),
        Written(answer, answered.span, option="resume_key"),
    )
    hint = 'message: "Publish {text}?" is the question; with prompt an agent writes it'
    if "prompt" in given:
        if "message" in given:
            message = "an interrupt has message or prompt"
            reader.refuse("graph.same-key", message, here.span, hint)
        return _build_written_question(reader, given, here, keys)
    if "message" not in given:
        reader.refuse("graph.missing-key", "an interrupt needs 'message'", here.span, hint)
    text = read_message(reader, given["message"])
    if given.get("idempotent"):
        text = held_or(question, text)
    step = Invoke(
        **common(here, given, text.text),
        kind="question",
        name=Name(here.name, here.span),
        args=question_args(text, given.get("choices")),
    )

    def write(state: State, value: Value) -> Mapping[str, Value]:
        return {question: text.evaluate({"state": state}), answer: value}

    return Built(step, write, keys)


def held_or(key: str, message: Computed) -> Computed:
    """The value of a key of the state if it has one, else ``message``."""

    def evaluate(frame: Frame) -> Value:
        held = frame["state"].get(key)
        return message.evaluate(frame) if held is None else format_value(held)

    ref = state_ref((key,), None)
    return Computed(message.span, evaluate, (*message.reads(), ref), message.text)


def _build_written_question(
    reader: Reader, given: Given, here: Here, keys: tuple[Written, Written]
) -> Built:
    """An ``interrupt`` with ``prompt``: an agent writes the question, then the person is asked."""
    question, answer = (key.name for key in keys)
    first = here._replace(id=f"{here.id}.prompt")
    ask = first._replace(id=f"{first.id}.ask") if given.get("idempotent") else first
    request = build_request(reader, given, ask)
    asking = _unless_held(first, question, request) if given.get("idempotent") else request
    answered = Stored(lambda frame, value: {**frame, "answered": value}, (Ref(("answered",)),))
    put = Invoke(
        **{**common(here, given, "the answer"), "id": f"{here.id}.question"},
        kind="question",
        name=Name(here.name, here.span),
        args=question_args(
            Computed(here.span, lambda frame: format_value(frame["called"]), (CALLED,)),
            given.get("choices"),
        ),
        target=answered,
    )
    both = Computed(
        here.span, lambda frame: [format_value(frame["called"]), frame["answered"]], (CALLED,)
    )
    last = Compute(id=f"{here.id}.answer", word="answer", span=here.span, value=both)
    step = Sequence(**at(here), label=asking.label, steps=(replace(asking, target=keep), put, last))

    def write(state: State, value: Value) -> Mapping[str, Value]:
        return {question: value[0], answer: value[1]}

    return Built(step, write, keys)
