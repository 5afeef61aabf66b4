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
from .body import Read, ReadContext, Reader, is_null
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


def _arguments(reader: Reader, node: Node, key: Key, context: ReadContext) -> Arguments | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    # shell: {command: …} is sugar for tool: {name: shell, args: {command: …}}
    tool = context.given.get("name")
    is_command = "command" if tool is not None and tool.text == SHELL else None
    given = []
    for name, value in node.fields.items():
        argument = Key(name, "arguments", "")
        expr: Expr | None
        if name == is_command:
            expr = _command(reader, value, Key(name, "command", ""), context)
        elif isinstance(value, Scalar) and value.is_expr:
            expr = reader.r1(value, context.scope)
        else:
            expr = reader.literal(value, argument, context.scope)
        if expr is not None:
            given.append((name, node.keys[name].span, expr))
    return Arguments(tuple(given))


def _command(reader: Reader, node: Node, key: Key, context: ReadContext) -> Expr | None:
    # P8: a text is split once, here; no shell ever sees it.
    words: list[str] = []
    if isinstance(node, Scalar) and node.is_expr:
        expr = reader.r1(node, context.scope)
        return Command(expr.span, expr) if expr else None
    if isinstance(node, Scalar) and type(node.value) is str:
        try:
            words = shlex.split(node.text)
        except ValueError as error:
            reader.error("command", f"the command cannot be split: {str(error).lower()}", node.span)
            return None
    elif isinstance(node, Items):
        words = plain(node)
        for item in node.items:
            if not isinstance(item, Scalar) or item.is_expr or type(item.value) is not str:
                hint = f'quote it: "{item.text}"' if isinstance(item, Scalar) else None
                if isinstance(item, Scalar) and item.is_expr:
                    hint = "the whole command can be one: !expr \"['ls', ctx.folder]\""
                reader.error("command", f"a command is a list of texts, not {shown(item)}", item.span, hint)
    else:
        reader.mistyped(node, key)
        return None
    if not words:
        reader.error("command", "the command is empty", node.span)
    _check_words(reader, words, node, key, context)
    return Constant(node.span, words)


def _check_words(reader: Reader, words: list[str], node: Node, key: Key, context: ReadContext) -> None:
    """Warn of words of a command that look like expressions (decision P21)."""
    found = [lookalikes.lookalike(word, context.scope) if type(word) is str else None for word in words]
    first = next((index for index, one in enumerate(found) if one is not None), None)
    if first is not None:
        parts = ", ".join(one.expression if one else literal(word) for word, one in zip(words, found, strict=True))
        message = f"{key.name!r} has the text {words[first]!r}: no expression is replaced in a command"
        hint = f"write: {key.name}: {lookalikes.tagged(f'[{parts}]')}"
        reader.problems.warn(lookalikes.CODE, message, node.span, hint)


def _tools(reader: Reader, node: Node, key: Key, context: ReadContext) -> tuple[Name, ...] | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    others = [name for name in node.fields if name != "tools"]
    for name in others:
        hint = suggest(name, ["tools"]) or f"{key.name} limits the tools and nothing else"
        reader.error("unknown-key", f"{key.name!r} has no key {name!r}", node.keys[name].span, hint)
    listed = node.fields.get("tools")
    if isinstance(listed, Items):
        return _names(reader, listed, Key("tools", "name", ""))
    if listed is not None:
        reader.error("wrong-type", f"'tools' takes a list of names, not {shown(listed)}", listed.span)
    elif not others:
        reader.error("missing-key", f"{key.name!r} needs 'tools'", node.span, key.example)
    return None


def _pass(reader: Reader, node: Node, key: Key, context: ReadContext) -> Arguments | None:
    if isinstance(node, Fields):  # P4: the newer form
        given = []
        for name, value in node.fields.items():
            text = reader.text(value, Key(name, "expression", ""))
            expr = reader.r1(text, context.scope) if text else None
            if expr is not None:
                given.append((name, node.keys[name].span, expr))
        return Arguments(tuple(given))
    if not isinstance(node, Items):
        reader.mistyped(node, key)
        return None
    names = _names(reader, node, Key("pass", "name", ""))
    return Arguments(tuple((name.text, name.span or context.span, _listed(reader, name, context)) for name in names))


def _listed(reader: Reader, name: Name, context: ReadContext) -> Named:
    """A name in the list form of ``pass``: it is looked up as in an expression."""
    span = name.span or context.span
    if name.text in context.scope.names.hidden:
        reader.hidden_name(name.text, span, context.scope)
    elif "." in name.text and name.text not in context.scope.stores:
        last = name.text.rpartition(".")[2]
        hint = f"pass a field with the mapping form: {{{last}: {name.text}}}"
        reader.error("pass", f"'pass' lists names, and {name.text!r} is a path", span, hint)
    return Named(span, context.scope.path(name.text))


def _names(reader: Reader, node: Items, key: Key) -> tuple[Name, ...]:
    names: dict[str, Name] = {}
    for item in node.items:
        name = reader.name(item, key)
        if name is not None and name.text in names:
            reader.problems.warn("pipeline.listed-twice", f"{name.text!r} is listed twice", name.span)
        elif name is not None:
            names[name.text] = name
    return tuple(names.values())


def _target(reader: Reader, node: Node, key: Key, context: ReadContext) -> Target | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    span = node.keys["pipeline"].span if "pipeline" in node.keys else node.span
    given = reader.fields(TARGET, node, ReadContext(context.id, span, context.scope, {}))
    name = given.get("pipeline")
    return Target(span, name, given.get("pass") or Arguments(())) if name else None


def _cases(reader: Reader, node: Node, key: Key, context: ReadContext) -> dict[str, Target] | None:
    if not isinstance(node, Fields) or not node.fields:
        reader.mistyped(node, key)
        return None
    cases = {}
    for label, value in node.fields.items():
        case = Key(label, "target", "")
        if is_null(value):
            reader.empty(value, node.keys[label], case)
        elif target := _target(reader, value, case, context):
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
