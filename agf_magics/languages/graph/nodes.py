"""Nodes to steps: what each kind of node becomes in the one representation, and what it writes to the state.

One builder per kind, by table. A step gives a value, its `Write` says which keys of the state that is: what ran in one
round is put in together (state.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ...flow.frame import Expr, Frame, Ref
from ...flow.steps import Branches, Compute, Invoke, Name, Step, part
from ...flow.values import Value
from ...text.diagnostics import suggest
from ...text.nodes import shorten
from ...text.source import Span
from .calls import Asked, Command, Named, Passed, Prompted, Values, WithState, evaluated, reads_of, said
from .lookup import written
from .prompt import Prompt, holes, read_prompt
from .reading import Reader, Templated
from .state import Failed, State, Write
from .tools import Tools
from .words import Key
from .writes import came_back, comes_back, keeps, merges, printed, tolerant

Given = dict[str, Any]


class Written(NamedTuple):
    """A key that a node writes, as far as its text says."""

    name: str
    span: Span | None
    declares: bool = True
    """Whether writing it declares it; a key of `output`, and a node's name in place of a key, does not."""
    type: str = "any"
    reducer: str | None = None


class Built(NamedTuple):
    """A node: its step, what it writes, which of its texts read what."""

    step: Step
    write: Write
    keys: tuple[Written, ...] = ()
    collects: bool = False
    """Whether in a map its `Write` makes what is collected, not its step alone."""
    routes: tuple[Name, ...] = ()
    """The nodes that a router names."""
    answers: Mapping[str, str] = MappingProxyType({})
    """Of a router: what it is answered where it leads to each of them."""


class Here(NamedTuple):
    """A node being built."""

    name: str
    id: str
    kind: str
    span: Span
    defaults: Given
    tools: Tools
    limits: Mapping[str, Any]
    inside: bool = False
    """Whether it is a map's own node."""


class Outputs:
    """The new values of a passthrough. An Expr that gives what is written."""

    __slots__ = ("evaluate", "span", "values")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, values: Values) -> None:
        self.span, self.values = span, values
        self.evaluate = self._written

    def _written(self, frame: Frame) -> Value:
        state = frame["state"]
        made = evaluated(self.values, frame)
        # What gives nothing leaves a key that is there as it is.
        return {name: state[name] if value is None and name in state else value for name, value in made.items()}

    def reads(self) -> tuple[Ref, ...]:
        return reads_of(self.values)


def build_passthrough(reader: Reader, given: Given, here: Here) -> Built:
    values: Values = given.get("output") or ()
    step = Compute(
        **at(here), label=shorten(", ".join(str(name) for name, _ in values)), value=Outputs(here.span, values)
    )
    keys = tuple(Written(name.text, name.span, declares=False) for name, _ in values)
    return Built(step, lambda state, value: value, keys)


def build_tool(reader: Reader, given: Given, here: Here) -> Built:
    name: Name = given["tool"]
    command = here.tools.commands.get(name.text)
    values: Values | None = given.get("variables")
    write, written_key = _state_key(given, here)
    common = {**at(here), "label": shorten(name.text), "kind": "tool", "timeout": given.get("timeout")}
    if command is None:
        step = Invoke(**common, name=name, args=Named(values or ()), file=here.tools.files.get(name.text))
        return _on_error(given, here, Built(step, write, (written_key,)))
    words = tuple(holes(word, _Word(word, command.span)) for word in command.words)
    args = Command(words, values, command.span, command.timeout)
    step = Invoke(**common, name=Name("shell", name.span), args=args)
    shown = printed(write, command.parse, command.span)
    return _on_error(given, here, Built(step, shown, (written_key,), collects=here.inside))


class _Word(NamedTuple):
    """A word of a command as a Text; what is wrong with one is told at the whole command."""

    text: str
    span: Span

    def locate(self, start: int, end: int) -> Span:
        return self.span


def build_python(reader: Reader, given: Given, here: Here) -> Built | None:
    name: Name | None = given.get("tool") or given.get("function")
    if name is None:
        reader.wrong("missing-key", "python needs 'tool'", here.span, "tool: name of a function")
        return None
    if name.text in here.tools.commands:
        hint = f"write type: tool to run the command {name.text!r}"
        reader.wrong("tool-kind", f"{name.text!r} is a command, and python calls a function", name.span, hint)
        return None
    write, key = _state_key(given, here, merges)
    step = Invoke(
        **at(here),
        label=shorten(name.text),
        kind="tool",
        name=name,
        args=WithState(given.get("variables") or ()),
        file=here.tools.files.get(name.text),
        wants=True,
        timeout=given.get("timeout"),
    )
    if given.get("on_error") == "retry":
        return _tried_again(given, Built(step, write, (key,)))
    return _on_error(given, here, Built(step, write, (key,)))


def build_session(reader: Reader, given: Given, here: Here) -> Built | None:
    prompt = read_prompt(reader, given["prompt"], Key("prompt", "prompt", ""))
    if prompt is None:
        return None
    given = {**here.defaults, **given}
    values: Values | None = given.get("variables")
    _unknown_variables(reader, prompt, values)
    identity: Name | None = given.get("identity")
    step = Invoke(
        **at(here),
        label=shorten(identity.text if identity else prompt.span.text.strip("\"'")),
        kind="agent",
        name=identity or Name(""),
        args=Prompted(prompt, values, given.get("requires") or ()),
        gives=given.get("schema"),
        tools=given.get("tools"),
        timeout=given.get("timeout"),
    )
    write, key = _state_key(given, here)
    built = Built(step, write, (key,))
    if given.get("on_error") == "retry":
        return _tried_again(given, built)
    return _on_error(given, here, built)


def build_router(reader: Reader, given: Given, here: Here) -> Built | None:
    routes: dict[str, Name] = given["routes"]
    if not routes:
        reader.wrong("missing-key", "routes is empty", here.span, "routes: {label: node}")
        return None
    built = build_session(reader, given, here)
    if built is None:
        return None
    field: Name | None = given.get("route_field")
    default: Name = given.get("default_route") or next(iter(routes.values()))
    inner = built.write

    def write(state: State, value: Value) -> Mapping[str, Value]:
        label = value.get(field.text if field else "route") if isinstance(value, dict) else value
        found = written(label).strip() if label is not None else ""
        chosen = routes.get(found) or next((n for w, n in routes.items() if w.lower() == found.lower()), default)
        if here.inside:
            return {**(value if isinstance(value, dict) else {"value": value}), "_route": chosen.text}
        return {**inner(state, value), "_route": chosen.text}

    if here.inside:
        return built._replace(write=write, collects=True)
    answers: dict[str, str] = {}
    for word, name in routes.items():
        answers[name.text] = f"{answers[name.text]}, {word}" if name.text in answers else word
    answers.setdefault(default.text, "otherwise")
    return built._replace(write=write, routes=(*routes.values(), default), answers=answers)


def build_subgraph(reader: Reader, given: Given, here: Here) -> Built:
    name: Name = given["graph"]
    direct = given.get("mode") == "direct"
    into, out = given.get("input_mapping"), given.get("output_mapping")
    if not direct and not into and not out:
        hint = "write input_mapping: {own: other} and output_mapping: {own: other}, or mode: direct"
        reader.warn("subgraph-mapping", "nothing is handed to the other graph and nothing comes back", name.span, hint)
    everything = direct or into == "auto"
    is_file = "/" in name.text or name.text.endswith((".yaml", ".yml", ".json"))
    step = Invoke(
        **at(here),
        label=shorten(name.text),
        kind="flow",
        name=name,
        args=Passed(None if everything else into or ()),
        file=name if is_file else None,
        wants=True,
    )
    if direct or out == "auto":
        return _on_error(given, here, Built(step, came_back if here.inside else comes_back, collects=here.inside))
    mapping: tuple[tuple[Name, Name], ...] = out or ()

    def write(state: State, value: Value) -> Mapping[str, Value]:
        found = value if isinstance(value, dict) else {"output": value}
        return {own.text: found[other.text] for own, other in mapping if other.text in found}

    keys = tuple(Written(own.text, own.span) for own, _ in mapping)
    return _on_error(given, here, Built(step, write, keys, collects=here.inside))


def build_interrupt(reader: Reader, given: Given, here: Here) -> Built:
    message: Expr = given["message"]
    asked: Name | None = given.get("state_key")
    answered: Name | None = given.get("resume_key")
    question, answer = asked.text if asked else "interrupt_message", answered.text if answered else "user_input"
    args = Asked(message, given.get("choices") or ())
    step = Invoke(
        **at(here),
        label=shorten(message.text if isinstance(message, Templated) else ""),
        kind="question",
        name=Name(here.name, here.span),
        args=args,
    )

    def write(state: State, value: Value) -> Mapping[str, Value]:
        return {question: said(message, {"state": state}), answer: value}

    keys = (Written(question, asked.span if asked else None), Written(answer, answered.span if answered else None))
    return Built(step, write, keys)


# --- what several kinds have ---


def at(here: Here) -> dict[str, Any]:
    return {"id": here.id, "word": here.kind, "span": here.span}


def node_id(name: str) -> str:
    return f"nodes{part(name)}"


def _state_key(given: Given, here: Here, how: Callable[[str], Write] = keeps) -> tuple[Write, Written]:
    name: Name | None = given.get("state_key")
    key = name.text if name else here.name
    return how(key), Written(key, name.span if name else here.span, declares=name is not None or how is merges)


def _on_error(given: Given, here: Here, built: Built) -> Built:
    if given.get("on_error") != "skip" or here.inside:  # a map keeps the failures of its items itself
        return built
    key = built.keys[0].name if built.keys else None
    return built._replace(step=replace(built.step, rescue=Failed), write=tolerant(here.name, key, built.write))


def _tried_again(given: Given, built: Built) -> Built:
    """``on_error: retry``: the call as the one branch of a step that tries a branch again."""
    step = built.step
    inner = replace(step, id=f"{step.id}.call")
    again = Branches(
        id=step.id,
        word=step.word,
        label=step.label,
        span=step.span,
        branches={"call": inner},
        gather=lambda ran: ran.values[0],
        retries=given.get("max_retries") or 3,
    )
    return built._replace(step=again)


def _unknown_variables(reader: Reader, prompt: Prompt, values: Values | None) -> None:
    if values is None:
        return
    known = [name.text for name, _ in values]
    for hole in prompt.holes:
        if not hole.in_state and hole.names[0] not in known:
            near = suggest(hole.names[0], known, "variables") or f"write {{state.{'.'.join(hole.names)}}}"
            reader.warn("prompt-variable", f"{hole.written} stays as it is: there is no such variable", hole.span, near)
