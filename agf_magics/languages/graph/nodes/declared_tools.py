"""Reads ``tools:`` of a graph: the functions and commands that its nodes call by name.

If a tool with the same name is registered, the name means that tool (decision Y9). Otherwise it
means a function of a Python file, which is imported only if the person allows it, or a command for
the built-in shell tool (decision P8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....flow.expressions import NamedArguments
from ....flow.protocols import Frame, Name, Ref
from ....flow.step_options import DerivedTool
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Span
from ....text.yaml.nodes import Fields, Scalar, shown
from ....values.value import Value
from ...documents import name_at, text_at
from ..expressions.reading import Reader
from ..prompts.slots import SLOT, Prompt, Slot, split_slots
from ..words import TOOL
from .call_arguments import Values, Wanted, state_ref


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command. ``{name}`` in a word is a variable, and its value stays in that word
    (decision P8)."""

    words: tuple[Prompt, ...]
    values: Values | None
    """The variables; None: the keys of the state are the variables."""
    options: Mapping[str, Value]
    """The options ``timeout`` and ``success_codes``, as far as the text has them."""
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
        command_reads = tuple(
            state_ref(slot.names, slot.span)
            for slot in self.slots
            if slot.in_state or self.values is None
        )
        return (
            command_reads
            if self.values is None
            else (*command_reads, *NamedArguments(self.values).reads())
        )


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
            arguments=lambda arguments: command.filled(arguments, arguments),
            result=self.read_output,
        )


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a graph: functions, the files of some of them, commands."""

    functions: tuple[Name, ...] = ()
    files: Mapping[str, Name] = field(default_factory=dict)
    """The file or the module of a function, with the function: ``tools.py:add``."""
    commands: Mapping[str, ShellTool] = field(default_factory=dict)
    declared: bool = False
    """Whether the graph has ``tools:``."""
    spans: Mapping[str, Span] = field(default_factory=dict)
    """The places of the names of all tools, as they are written."""
    used: set[str] = field(default_factory=set)
    """The names that nodes use; the builders of nodes add to it."""


class _Words:
    """The words of a command, one after the other, as a Text: the name of a slot in a word is at its
    place in the command."""

    text: str
    """The word that is read."""

    def __init__(self, command: Scalar) -> None:
        self.command = command
        self.slots = SLOT.finditer(command.text)
        """The slots of the command that no word has had so far. The words have them in the same
        order, but a word has lost its quotes, so its own offsets are not those of the command."""

    def locate(self, start: int, end: int) -> Span:
        name = self.text[start:end]
        for slot in self.slots:
            if slot[1] == name:
                return self.command.locate(*slot.span(1))
        return self.command.span


def read_tools(reader: Reader, node: Fields | None) -> Tools:
    """The tools that a graph declares; errors go to ``reader``."""
    if node is None:
        return Tools()
    functions = list[Name]()
    files = dict[str, Name]()
    commands = dict[str, ShellTool]()
    spans = dict[str, Span]()
    for key, value in reader.named_entries(node):
        name = key.text
        span = key.span
        spans[name] = span
        if not isinstance(value, Fields):
            hint = f"{name}: {{type: python, path: tools.py, function: {name}}}"
            reader.error(
                "graph.wrong-type",
                f"a tool must be a mapping, got {shown(value)}",
                value.span,
                hint,
            )
            continue
        fields = reader.fields(TOOL, value, span)
        _check_kind(reader, name, fields, span)
        if fields.get("command") is not None:
            commands[name] = _read_command(name, fields, value.fields["command"])
            continue
        functions.append(Name(name, span))
        if (file := _file(name, fields)) is not None:
            files[name] = file
    return Tools(tuple(functions), files, commands, declared=True, spans=spans)


def _check_kind(reader: Reader, name: str, fields: Mapping[str, Any], span: Span) -> None:
    """Report keys of a command in a function, and of a function in a command."""
    if fields.get("command") is not None:
        if "path" in fields or "module" in fields or fields.get("type") == "python":
            hint = "a tool is a command or a function: keep one of them"
            reader.error("graph.tool-kind", f"{name!r} has a command and a function", span, hint)
        return
    if fields.get("type") == "shell":
        reader.error("graph.missing-key", "a shell tool needs 'command'", span, 'command: "ls -l"')
    if "timeout" in fields:
        hint = "write the timeout in the node that calls it, or in Python: @tool(timeout=30)"
        reader.error("graph.tool-kind", "a function has no 'timeout' here", span, hint)
    if "success_codes" in fields:
        hint = "only a command has exit codes: a function that fails raises an exception"
        reader.error("graph.tool-kind", "a function has no 'success_codes'", span, hint)


def _read_command(name: str, fields: Mapping[str, Any], command: Any) -> ShellTool:
    words = list[Prompt]()
    places = _Words(command)
    for word in fields["command"]:
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
        parse=fields.get("parse") or "text",
        span=command.span,
        description=text_at(fields, "description"),
        options={name: fields[name] for name in ("timeout", "success_codes") if name in fields},
    )


def _file(name: str, fields: Mapping[str, Any]) -> Name | None:
    """``tools.py:add`` or ``package.module:add``"""
    where: Name | None = fields.get("path") or fields.get("module")
    if where is None:
        return None
    return Name(f"{where.text}:{name_at(fields, 'function', Name(name))}", where.span)
