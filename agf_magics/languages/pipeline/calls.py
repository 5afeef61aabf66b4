"""Readers of what a call gets: arguments, commands, capabilities, and ``pass`` for another pipeline."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from ...flow.frame import Expr
from ...flow.steps import Name
from ...text.diagnostics import suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from . import lookalikes
from .body import Here, Read, Reader, is_null
from .r1.nodes import literal
from .values import Arguments, Command, Constant, Named
from .words import TARGET, Key

SHELL = "shell"
"""The tool of a shell step, and the kind of the step."""


class Target(NamedTuple):
    """The value of a label of a match."""

    span: Span
    """The place of an error about all of it: its label."""
    pipeline: Name
    args: Arguments


def _arguments(reader: Reader, node: Node, key: Key, here: Here) -> Arguments | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    # shell: {command: …} is sugar for tool: {name: shell, args: {command: …}}
    tool = here.given.get("name")
    is_command = "command" if tool is not None and tool.text == SHELL else None
    given = []
    for name, value in node.fields.items():
        argument = Key(name, "arguments", "")
        expr: Expr | None
        if name == is_command:
            expr = _command(reader, value, Key(name, "command", ""), here)
        elif isinstance(value, Scalar) and value.is_expr:
            expr = reader.r1(value, here.scope)
        else:
            expr = reader.literal(value, argument, here.scope)
        if expr is not None:
            given.append((name, node.keys[name].span, expr))
    return Arguments(tuple(given))


def _command(reader: Reader, node: Node, key: Key, here: Here) -> Expr | None:
    # P8: a text is split once, here; no shell ever sees it.
    words: list[str] = []
    if isinstance(node, Scalar) and node.is_expr:
        expr = reader.r1(node, here.scope)
        return Command(expr) if expr else None
    if isinstance(node, Scalar) and type(node.value) is str:
        try:
            words = shlex.split(node.text)
        except ValueError as error:
            reader.wrong("command", f"the command cannot be split: {str(error).lower()}", node.span)
            return None
    elif isinstance(node, Items):
        words = plain(node)
        for item in node.items:
            if not isinstance(item, Scalar) or item.is_expr or type(item.value) is not str:
                hint = f'quote it: "{item.text}"' if isinstance(item, Scalar) else None
                if isinstance(item, Scalar) and item.is_expr:
                    hint = "the whole command can be one: !expr \"['ls', ctx.folder]\""
                reader.wrong("command", f"a command is a list of texts, not {shown(item)}", item.span, hint)
    else:
        reader.mistyped(node, key)
        return None
    if not words:
        reader.wrong("command", "the command is empty", node.span)
    _check_words(reader, words, node, key, here)
    return Constant(node.span, words)


def _check_words(reader: Reader, words: list[str], node: Node, key: Key, here: Here) -> None:
    """Warn of words of a command that look like expressions (decision P21)."""
    found = [lookalikes.lookalike(word, here.scope) if type(word) is str else None for word in words]
    first = next((index for index, one in enumerate(found) if one is not None), None)
    if first is not None:
        parts = ", ".join(one.expression if one else literal(word) for word, one in zip(words, found, strict=True))
        message = f"{key.name!r} has the text {words[first]!r}: no expression is replaced in a command"
        hint = f"write: {key.name}: {lookalikes.tagged(f'[{parts}]')}"
        reader.problems.warn(lookalikes.CODE, message, node.span, hint)


def _tools(reader: Reader, node: Node, key: Key, here: Here) -> tuple[Name, ...] | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    others = [name for name in node.fields if name != "tools"]
    for name in others:
        hint = suggest(name, ["tools"]) or f"{key.name} limits the tools and nothing else"
        reader.wrong("unknown-key", f"{key.name!r} has no key {name!r}", node.keys[name].span, hint)
    listed = node.fields.get("tools")
    if isinstance(listed, Items):
        return _names(reader, listed, Key("tools", "name", ""))
    if listed is not None:
        reader.wrong("wrong-type", f"'tools' takes a list of names, not {shown(listed)}", listed.span)
    elif not others:
        reader.wrong("missing-key", f"{key.name!r} needs 'tools'", node.span, key.example)
    return None


def _pass(reader: Reader, node: Node, key: Key, here: Here) -> Arguments | None:
    if isinstance(node, Fields):  # P4: the newer form
        given = []
        for name, value in node.fields.items():
            text = reader.text(value, Key(name, "expression", ""))
            expr = reader.r1(text, here.scope) if text else None
            if expr is not None:
                given.append((name, node.keys[name].span, expr))
        return Arguments(tuple(given))
    if not isinstance(node, Items):
        reader.mistyped(node, key)
        return None
    names = _names(reader, node, Key("pass", "name", ""))
    return Arguments(tuple((name.text, name.span or here.span, _listed(reader, name, here)) for name in names))


def _listed(reader: Reader, name: Name, here: Here) -> Named:
    """A name in the list form of ``pass``: it is looked up as in an expression."""
    span = name.span or here.span
    if name.text in here.scope.names.hidden:
        reader.hidden_name(name.text, span, here.scope)
    elif "." in name.text and name.text not in here.scope.stores:
        last = name.text.rpartition(".")[2]
        hint = f"pass a field with the mapping form: {{{last}: {name.text}}}"
        reader.wrong("pass", f"'pass' lists names, and {name.text!r} is a path", span, hint)
    return Named(span, here.scope.path(name.text))


def _names(reader: Reader, node: Items, key: Key) -> tuple[Name, ...]:
    names: dict[str, Name] = {}
    for item in node.items:
        name = reader.name(item, key)
        if name is not None and name.text in names:
            reader.problems.warn("pipeline.listed-twice", f"{name.text!r} is listed twice", name.span)
        elif name is not None:
            names[name.text] = name
    return tuple(names.values())


def _target(reader: Reader, node: Node, key: Key, here: Here) -> Target | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    span = node.keys["pipeline"].span if "pipeline" in node.keys else node.span
    given = reader.fields(TARGET, node, Here(here.id, span, here.scope, {}))
    name = given.get("pipeline")
    return Target(span, name, given.get("pass") or Arguments(())) if name else None


def _cases(reader: Reader, node: Node, key: Key, here: Here) -> dict[str, Target] | None:
    if not isinstance(node, Fields) or not node.fields:
        reader.mistyped(node, key)
        return None
    cases = {}
    for label, value in node.fields.items():
        case = Key(label, "target", "")
        if is_null(value):
            reader.empty(value, node.keys[label], case)
        elif target := _target(reader, value, case, here):
            cases[label] = target._replace(span=node.keys[label].span)
    return cases


CALLS: Mapping[str, Read] = {
    "arguments": _arguments,
    "command": _command,
    "tools": _tools,
    "pass": _pass,
    "target": _target,
    "cases": _cases,
}
