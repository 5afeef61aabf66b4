"""The arguments of calls: of a tool, of a function that gets the state, of an agent, of a person,
of another flow.

``tools:`` of a graph: functions and commands that its nodes call by name.

A name there is a registered tool first (decision Y9). Otherwise it is a function of a Python file,
which is imported only if the person allows it, or a command for the built-in shell tool (decision
P8).

How the value of a node is written: to one key, key by key, as a note about a failure, as changes
of a subgraph.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...flow.step import DerivedTool, Expr, Frame, Ref
from ...flow.steps import Computed, Name, NamedArguments
from ...flow.values import TEXT, Value, equal
from ...text.diagnostics import Diagnostic, Span, StepError, suggest
from ...text.nodes import Fields, Scalar, shown
from ..documents import MISSING, Refusal, named, said
from .reading import ROOT, NotBuilt, Prompt, Reader, Slot, no_value, read_text, split_slots
from .state import Failed, State, SubgraphState, Write
from .value import describe, find, format_value
from .value_grammar import Evaluated, Expression, Sentence, parse_template
from .words import TOOL

Values = tuple[tuple[Name, Expr], ...]
Wanted = Mapping[str, Any] | None


def state_ref(names: tuple[str, ...], span: Span | None) -> Ref:
    return Ref((*ROOT, *names), span, False)


def complete_text(
    text: str, span: Span, reads: tuple[Ref, ...], fill: Callable[[Frame], Value]
) -> Computed:
    """A text for a tool or a person: each placeholder must have a value (decision Y13)."""

    def evaluate(frame: Frame) -> Value:
        state = frame["state"]
        for ref in reads:
            if find(state, ref.path[1:]) in (MISSING, None):
                raise no_value(ref.path[1:], ref.span or span, state, state)
        return fill(frame)

    return Computed(span, evaluate, reads, text)


def complete(values: Values) -> Values:
    """The arguments of a tool: a text with placeholders must be complete; a single placeholder may
    be null."""
    return tuple((name, _complete(expr)) for name, expr in values)


def _complete(expr: Expr) -> Expr:
    if isinstance(expr, Expression) and isinstance(expr.node, Sentence):
        return complete_text(expr.text, expr.span, expr.reads(), expr.evaluate)
    return expr


def read_message(reader: Reader, node: Scalar) -> Computed:
    """The question for a person: one value expression, or a text with slots."""
    try:
        sentence = isinstance(parse_template(node.text), Sentence)
    except Refusal:
        sentence = False
    if not sentence:
        whole = reader.template(node)
        if not isinstance(whole, Expression):
            raise NotBuilt
        value = whole.node
        text = Evaluated(node, lambda state: format_value(value.of(state)), (), ROOT)
        return complete_text(node.text, node.span, whole.reads(), text.evaluate)
    prompt = read_text(reader, node)
    refs = tuple(state_ref(slot.names, slot.span) for slot in prompt.slots)
    return complete_text(
        node.text, node.span, refs, lambda frame: prompt.fill(frame["state"], frame["state"])
    )


def whole(expr: Expr) -> Computed:
    """All arguments as the value of one placeholder."""

    def build(frame: Frame) -> Value:
        value = expr.evaluate(frame)
        if type(value) is not dict:
            message = f"arguments must be a mapping of names to values, got {describe(value)}"
            raise StepError(Diagnostic("graph.arguments", message, expr.span))
        return value

    return Computed(expr.span, build, expr.reads())


def check_required(requires: Sequence[Name], state: Mapping[str, Value]) -> None:
    """Raise StepError ``graph.requires`` for the first key without a value."""
    for name in requires:
        if state.get(name.text) is None:
            hint = suggest(name.text, state, "keys of the state")
            message = f"the node requires {name.text!r}, which has no value"
            raise StepError(Diagnostic("graph.requires", message, name.span, hint))


@dataclass(frozen=True, slots=True)
class WithState:
    """The arguments of the function of a python node.

    A parameter ``state``, or the only one, gets the state with the variables over it; any other
    gets the variable or the key of its name. A flow gets all of it.
    """

    values: Values
    requires: tuple[Name, ...] = ()
    names: None = None

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        check_required(self.requires, state)
        variables = NamedArguments(self.values).build(frame)
        state = {**state, **variables}
        if wanted is None:
            return state
        takes = wanted.get("properties") or {}
        given = {name: state[name] for name in takes if name in state}
        if "state" in takes:
            return {**given, "state": state}
        if len(takes) == 1 and not given:
            return dict.fromkeys(takes, state)
        if not takes and wanted.get("additionalProperties"):
            return state
        return {**given, **{name: value for name, value in variables.items() if name not in takes}}

    def hint_for(self, name: str, frame: Frame) -> str | None:
        """The hint for a parameter that got the whole state."""
        keys = ", ".join(key for key in frame["state"] if key[:1] != "_")
        if name in frame["state"] or self.values:
            return None
        return (
            f'it got the whole state: write variables: {{{name}: "{{state.KEY}}"}}; keys are {keys}'
        )

    def reads(self) -> tuple[Ref, ...]:
        requires = tuple(state_ref((name.text,), name.span) for name in self.requires)
        return requires + (NamedArguments(self.values).reads() or (Ref(ROOT, certain=False),))


def question_args(message: Expr, choices: Sequence[Name] | None) -> Computed:
    """The arguments of a question for a person: the text, and the possible answers."""
    answers = [choice.text for choice in choices or ()]
    return Computed(
        message.span,
        lambda frame: {"text": message.evaluate(frame), "choices": answers},
        message.reads(),
        names=(),
    )


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command. ``{name}`` in a word is a variable, and its value stays in that word
    (decision P8)."""

    words: tuple[Prompt, ...]
    values: Values | None
    options: Mapping[str, Value]
    """Of these ``timeout`` and ``success_codes``, what the text has."""
    names: tuple[tuple[str, Span | None], ...]

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        return self.filled(
            state, state if self.values is None else NamedArguments(self.values).build(frame)
        )

    def filled(
        self, state: Mapping[str, Value], variables: Mapping[str, Value]
    ) -> dict[str, Value]:
        command = [word.fill(state, variables, complete=True) for word in self.words]
        return {"command": command, **self.options}

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for word in self.words for slot in word.slots)

    def reads(self) -> tuple[Ref, ...]:
        own = tuple(
            state_ref(slot.names, slot.span)
            for slot in self.slots
            if slot.in_state or self.values is None
        )
        return own if self.values is None else (*own, *NamedArguments(self.values).reads())


def passed(span: Span, mapping: Sequence[tuple[Name, Name]] | None) -> Computed:
    """The input of another flow: some keys of this graph under other names, or (None) all keys."""

    if mapping is None:

        def everything(frame: Frame) -> Value:
            hidden = ("current_step", "_route")
            return {name: value for name, value in frame["state"].items() if name not in hidden}

        return Computed(span, everything, (Ref(ROOT, certain=False),))

    def renamed(frame: Frame) -> Value:
        state = frame["state"]
        return {other.text: state[own.text] for own, other in mapping if own.text in state}

    reads = tuple(state_ref((own.text,), own.span) for own, _ in mapping)
    names = tuple((other.text, other.span) for _, other in mapping)
    return Computed(span, renamed, reads, names=names)


class ShellTool(NamedTuple):
    """A command of the graph."""

    name: str
    words: tuple[Prompt, ...]
    parse: str
    span: Span
    description: str
    options: Mapping[str, Value]

    def call(self, values: Values | None) -> Command:
        return Command(self.words, values, self.options, (("command", self.span),))

    def read_output(self, result: Value) -> Value:
        """The output of the command in the form that ``parse`` names."""
        text = result["stdout"] if isinstance(result, dict) else result
        if self.parse == "none":
            return None
        if self.parse == "json":
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                message = f"the output of the command is not JSON: {error}"
                raise StepError(Diagnostic("graph.command-json", message, self.span)) from error
        return text

    def derived(self) -> DerivedTool:
        """The command as a tool for an agent: each slot is an argument."""
        command = self.call(None)
        return DerivedTool(
            name=self.name,
            base="shell",
            description=self.description,
            parameters=tuple(dict.fromkeys(slot.names[0] for slot in command.slots)),
            arguments=lambda given: command.filled(given, given),
            result=self.read_output,
        )


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a graph: functions, the files of some of them, commands."""

    functions: tuple[Name, ...] = ()
    files: Mapping[str, Name] = field(default_factory=dict)
    commands: Mapping[str, ShellTool] = field(default_factory=dict)
    declared: bool = False
    spans: Mapping[str, Span] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """The names that nodes use; the builders of nodes add to it."""


class _Words:
    """The words of a command, one after the other, as a Text: an error in a word is at its place in
    the command."""

    def __init__(self, command: Scalar) -> None:
        self.command, self.whole, self.text, self.reached = command, command.text, "", 0

    def locate(self, start: int, end: int) -> Span:
        # From the last place on: a command may have thousands of slots.
        self.reached = max(self.reached, self.whole.find(self.text[start:end], self.reached))
        return self.command.locate(self.reached, self.reached + end - start)


def read_tools(reader: Reader, node: Fields | None) -> Tools:
    if node is None:
        return Tools()
    functions, files, commands = list[Name](), dict[str, Name](), dict[str, ShellTool]()
    for key, value in reader.entries(node):
        name, span = key.text, key.span
        if not isinstance(value, Fields):
            hint = f"{name}: {{type: python, path: tools.py, function: {name}}}"
            reader.error(
                "graph.wrong-type",
                f"a tool must be a mapping, got {shown(value)}",
                value.span,
                hint,
            )
            continue
        given = reader.fields(TOOL, value, span)
        if given.get("command") is not None:
            commands[name] = _read_command(name, given, value.fields["command"])
            if "path" in given or "module" in given or given.get("type") == "python":
                hint = "a tool is a command or a function: keep one of them"
                reader.error(
                    "graph.tool-kind", f"{name!r} has a command and a function", span, hint
                )
            continue
        if given.get("type") == "shell":
            reader.error(
                "graph.missing-key", "a shell tool needs 'command'", span, 'command: "ls -l"'
            )
        if "timeout" in given:
            hint = "write the timeout in the node that calls it, or in Python: @tool(timeout=30)"
            reader.error("graph.tool-kind", "a function has no 'timeout' here", span, hint)
        if "success_codes" in given:
            hint = "only a command has exit codes: a function that fails raises an exception"
            reader.error("graph.tool-kind", "a function has no 'success_codes'", span, hint)
        functions.append(Name(name, span))
        if (file := _file(name, given)) is not None:
            files[name] = file
    spans = {name: key.span for name, key in node.keys.items()}
    return Tools(tuple(functions), files, commands, True, spans)


def _read_command(name: str, given: Mapping[str, Any], command: Any) -> ShellTool:
    words, places = list[Prompt](), _Words(command)
    for word in given["command"]:
        places.text = word
        parts = split_slots(word, places)
        # Doubled braces are how a command writes a brace.
        single = (
            part.replace("{{", "{").replace("}}", "}") if isinstance(part, str) else part
            for part in parts
        )
        words.append(Prompt(tuple(single), command.span))
    return ShellTool(
        name=name,
        words=tuple(words),
        parse=given.get("parse") or "text",
        span=command.span,
        description=said(given, "description"),
        options={name: given[name] for name in ("timeout", "success_codes") if name in given},
    )


def _file(name: str, given: Mapping[str, Any]) -> Name | None:
    """``tools.py:add`` or ``package.module:add``"""
    where: Name | None = given.get("path") or given.get("module")
    if where is None:
        return None
    return Name(f"{where.text}:{named(given, 'function', Name(name))}", where.span)


def write_key(key: str) -> Write:
    """The value to one key."""
    return lambda state, value: {key: value}


def write_object(key: str) -> Write:
    """An object key by key, any other value to one key."""

    def write(state: State, value: Value) -> Mapping[str, Value]:
        if type(value) is not dict or not TEXT.issuperset(map(type, value)):
            return {key: value}
        if "current_step" not in value:
            return value
        return {name: inner for name, inner in value.items() if name != "current_step"}

    return write


def write_or_note_failure(name: str, key: str | None, write: Write) -> Write:
    """``on_error: skip``: a failure is added to ``errors``, and the key of the node is null."""

    def write_or_note(state: State, value: Value) -> Mapping[str, Value]:
        if not isinstance(value, Failed):
            return write(state, value)
        note = {
            "node": name,
            "error_type": value.error.kind,
            "message": value.error.text,
            "tolerated": True,
        }
        return {**({} if key is None else {key: None}), "errors": [note]}

    return write_or_note


def write_output(write: Write, command: ShellTool) -> Write:
    """The output of a command; nothing with ``parse: none``."""

    def write_parsed(state: State, value: Value) -> Mapping[str, Value]:
        output = command.read_output(value)
        return {} if command.parse == "none" else write(state, output)

    return write_parsed


def write_as_subgraph(state: State, value: Value) -> Mapping[str, SubgraphState]:
    """The keys that another flow changed."""
    return {name: SubgraphState(inner) for name, inner in write_changed(state, value).items()}


def write_changed(state: State, value: Value) -> Mapping[str, Value]:
    """The same as plain values, for a map that collects them."""
    found = value if isinstance(value, dict) else {"output": value}
    return {
        name: inner
        for name, inner in found.items()
        if name not in state or not equal(state[name], inner)
    }
