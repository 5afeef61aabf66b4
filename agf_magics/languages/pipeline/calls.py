"""Readers of what a call gets: arguments, commands, capabilities, and ``pass`` for another
pipeline."""

from __future__ import annotations

import shlex

from ...flow.frame import Expr
from ...flow.steps import Name
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from ..documents import NAME, S_NAME, S_NAMES, Key, Takes, kind, read_text
from . import lookalikes
from .body import Reader
from .r1.nodes import literal
from .values import Arguments, Attached, Command, Constant, Named

EXPRESSION_ITEM = Takes("a list of expressions", "[\"'figure.png'\"]", S_NAME, read_text)

SHELL = "shell"
"""The tool of a shell step, and the kind of the step."""


def read_arguments(reader: Reader, node: Node, key: Key) -> Arguments | None:
    if not isinstance(node, Fields):
        reader.wrong_type(node, key)
        return None
    # shell: {command: …} is sugar for tool: {name: shell, args: {command: …}}
    tool = reader.given.get("name")
    is_command = "command" if tool is not None and tool.text == SHELL else None
    given = []
    for name, value in node.fields.items():
        argument = Key(name, key.takes)
        expr: Expr | None
        if name == is_command:
            expr = read_command(reader, value, Key(name, key.takes))
        elif isinstance(value, Scalar) and value.is_expr:
            expr = reader.r1(value)
        else:
            expr = reader.literal(value, argument)
        if expr is not None:
            given.append((name, node.keys[name].span, expr))
    return Arguments(tuple(given))


def read_attach(reader: Reader, node: Node, key: Key) -> Attached | None:
    if not isinstance(node, Items):
        own = isinstance(node, Scalar) and type(node.value) is str and not node.is_expr
        reader.wrong_type(
            node,
            key,
            f'write: attach: ["{node.text}"]' if own and isinstance(node, Scalar) else None,
        )
        return None
    exprs = []
    for item in node.items:
        if (
            isinstance(item, Scalar)
            and type(item.value) is str
            and not item.is_expr
            and lookalikes.is_file_name(item.text, reader.scope)
            and not reader.scope.knows(item.text.partition(".")[0])
        ):
            message = f"{item.text!r} is an expression here, not a path"
            reader.error(
                "pipeline.attach-path", message, item.span, f"quote the path: \"'{item.text}'\""
            )
            continue
        text = reader.text(item, Key("attach", EXPRESSION_ITEM))
        expr = reader.r1(text) if text else None
        if expr is not None:
            exprs.append(expr)
    return Attached(node.span, tuple(exprs))


def read_command(reader: Reader, node: Node, key: Key) -> Expr | None:
    # P8: a text is split once, here; no shell ever sees it.
    words: list[str] = []
    if isinstance(node, Scalar) and node.is_expr:
        expr = reader.r1(node)
        return Command(expr.span, expr) if expr else None
    if isinstance(node, Scalar) and type(node.value) is str:
        try:
            words = shlex.split(node.text)
        except ValueError as error:
            reader.error(
                "pipeline.command", f"the command cannot be split: {str(error).lower()}", node.span
            )
            return None
    elif isinstance(node, Items):
        words = plain(node)
        for item in node.items:
            if not isinstance(item, Scalar) or item.is_expr or type(item.value) is not str:
                hint = f'quote it: "{item.text}"' if isinstance(item, Scalar) else None
                if isinstance(item, Scalar) and item.is_expr:
                    hint = "the whole command can be one: !expr \"['ls', ctx.folder]\""
                message = f"a command must be a list of texts, got {shown(item)}"
                reader.error("pipeline.command", message, item.span, hint)
    else:
        reader.wrong_type(node, key)
        return None
    if not words:
        reader.error("pipeline.command", "the command is empty", node.span)
    _check_words(reader, words, node, key)
    return Constant(node.span, words)


def _check_words(reader: Reader, words: list[str], node: Node, key: Key) -> None:
    """Warn of words of a command that look like expressions (decision P21)."""
    found = [
        lookalikes.lookalike(word, reader.scope) if type(word) is str else None for word in words
    ]
    first = next((index for index, one in enumerate(found) if one is not None), None)
    if first is not None:
        parts = ", ".join(
            one.expression if one else literal(word) for word, one in zip(words, found, strict=True)
        )
        message = (
            f"{key.name!r} has the text {words[first]!r}: no expression is replaced in a command"
        )
        hint = f"write: {key.name}: {lookalikes.tagged(f'[{parts}]')}"
        reader.warn(lookalikes.CODE, message, node.span, hint)


def _read_listed(reader: Reader, node: Node, key: Key) -> tuple[Name, ...] | None:
    listed = reader.items(node, key)
    return None if listed is None else _names(reader, listed, key)


CAPABILITIES = kind(
    "capabilities",
    "What an agent may use.",
    Key(
        "tools",
        Takes("a list of names", "[file__read]", S_NAMES, _read_listed, word="names"),
        "The tools.",
        required=True,
    ),
)


def read_tools(reader: Reader, node: Node, key: Key) -> tuple[Name, ...] | None:
    limits = reader.mapping(node, key)
    if limits is None:
        return None
    tools: tuple[Name, ...] | None = reader.fields(CAPABILITIES, limits, node.span).get("tools")
    return tools


def read_pass(reader: Reader, node: Node, key: Key) -> Arguments | None:
    if isinstance(node, Fields):  # P4: the newer form
        given = []
        for name, value in node.fields.items():
            text = reader.text(value, Key(name, NAME))
            expr = reader.r1(text) if text else None
            if expr is not None:
                given.append((name, node.keys[name].span, expr))
        return Arguments(tuple(given))
    if not isinstance(node, Items):
        reader.wrong_type(node, key)
        return None
    names = _names(reader, node, Key("pass", NAME))
    return Arguments(
        tuple((name.text, name.span or reader.span, _listed(reader, name)) for name in names)
    )


def _listed(reader: Reader, name: Name) -> Named:
    """A name in the list form of ``pass``: it is looked up as in an expression."""
    span = name.span or reader.span
    if name.text in reader.scope.names.hidden:
        reader.hidden_name(name.text, span)
    elif "." in name.text and name.text not in reader.scope.stores:
        last = name.text.rpartition(".")[2]
        hint = f"pass a field with the mapping form: {{{last}: {name.text}}}"
        reader.error(
            "pipeline.pass", f"'pass' lists names, and {name.text!r} is a path", span, hint
        )
    return Named(span, reader.scope.path(name.text))


def _names(reader: Reader, node: Items, key: Key) -> tuple[Name, ...]:
    names: dict[str, Name] = {}
    for item in node.items:
        name = reader.name(item, key)
        if name is not None and name.text in names:
            reader.warn("pipeline.listed-twice", f"{name.text!r} is listed twice", name.span)
        elif name is not None:
            names[name.text] = name
    return tuple(names.values())
