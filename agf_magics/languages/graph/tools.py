"""``tools:`` of a graph: functions and commands that its nodes call by name.

A name there is a registered tool first (decision Y9). Else a function of a Python file, imported only where the person
has switched that on, or a command for the built-in shell (P8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...flow.steps import Name
from ...text.source import Span
from ...text.yamlnodes import Fields, shown
from .reading import Reader
from .words import TOOL


class Shell(NamedTuple):
    """A command of the graph."""

    words: tuple[str, ...]
    parse: str
    timeout: float | None
    span: Span


class Tools(NamedTuple):
    """What a graph declares: functions, the files that some of them are in, commands."""

    functions: tuple[Name, ...] = ()
    files: Mapping[str, Name] = {}
    commands: Mapping[str, Shell] = {}
    declared: bool = False


def read_tools(reader: Reader, node: Fields | None) -> Tools:
    functions, files, commands = list[Name](), dict[str, Name](), dict[str, Shell]()
    for name, value in node.fields.items() if node else ():
        span = node.keys[name].span if node else None
        assert span is not None, "a key has a place"
        if not isinstance(value, Fields):
            hint = f"{name}: {{type: python, path: tools.py, function: {name}}}"
            reader.wrong("wrong-type", f"a tool is a mapping, not {shown(value)}", value.span, hint)
            continue
        given = reader.fields(TOOL, value, span)
        if given.get("command") is not None:
            place = value.fields["command"].span
            parse = given.get("parse") or "text"
            commands[name] = Shell(given["command"], parse, given.get("timeout"), place)
            if "path" in given or "module" in given or given.get("type") == "python":
                hint = "a tool is a command, or a function of a file: keep one"
                reader.wrong("tool-kind", f"{name!r} has a command and a function", span, hint)
            continue
        if given.get("type") == "shell":
            reader.wrong("missing-key", "a shell tool needs 'command'", span, 'command: "ls -l"')
        if "timeout" in given:
            hint = "write it there, or in Python: @tool(timeout=…)"
            reader.wrong("tool-kind", "the timeout of a function stands at the node that calls it", span, hint)
        functions.append(Name(name, span))
        if (file := _file(name, given, value)) is not None:
            files[name] = file
    return Tools(tuple(functions), files, commands, node is not None)


def _file(name: str, given: Mapping[str, Any], node: Fields) -> Name | None:
    """``tools.py:add`` or ``package.module:add``"""
    where: Name | None = given.get("path") or given.get("module")
    if where is None:
        return None
    function: Name | None = given.get("function")
    return Name(f"{where.text}:{function.text if function else name}", where.span)
