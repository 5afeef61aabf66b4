"""``tools:`` of a graph: functions and commands that its nodes call by name.

A name there is a registered tool first (decision Y9). Otherwise it is a function of a Python file,
which is imported only if the person allows it, or a command for the built-in shell tool (decision
P8).

How the value of a node is written: to one key, key by key, as a note about a failure, as changes
of a subgraph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...flow.step import DerivedTool, Name
from ...flow.values import TEXT, Value, equal
from ...text.diagnostics import Diagnostic, StepError
from ...text.nodes import Fields, Scalar, shown
from ...text.source import Span
from ..documents import said
from .calls import Command, Values
from .reading import Reader, Slot, split_slots
from .state import Failed, State, SubgraphState, Write
from .words import TOOL


class ShellTool(NamedTuple):
    """A command of the graph."""

    name: str
    words: tuple[tuple[str | Slot, ...], ...]
    parse: str
    timeout: float | None
    span: Span
    description: str = ""
    codes: tuple[int, ...] | None = None

    def call(self, values: Values | None) -> Command:
        return Command(self.words, values, self.span, self.timeout, self.codes)

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
    for (name, span), value in reader.entries(node):
        assert span is not None, "a key has a place"
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
    words, places = [], _Words(command)
    for word in given["command"]:
        places.text = word
        parts = split_slots(word, places)
        # Doubled braces are how a command writes a brace.
        words.append(
            tuple(
                p.replace("{{", "{").replace("}}", "}") if isinstance(p, str) else p for p in parts
            )
        )
    return ShellTool(
        name=name,
        words=tuple(words),
        parse=given.get("parse") or "text",
        timeout=given.get("timeout"),
        span=command.span,
        description=said(given, "description"),
        codes=given.get("success_codes"),
    )


def _file(name: str, given: Mapping[str, Any]) -> Name | None:
    """``tools.py:add`` or ``package.module:add``"""
    where: Name | None = given.get("path") or given.get("module")
    if where is None:
        return None
    return Name(f"{where.text}:{said(given, 'function', name)}", where.span)


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
        note = {"node": name, "error_type": value.kind, "message": value.message, "tolerated": True}
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
