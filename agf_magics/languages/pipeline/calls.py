"""What a call is given: arguments, commands, capabilities, and what ``pass`` hands to another pipeline."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from ...flow.frame import Expr
from ...flow.steps import Name
from ...text.diagnostics import suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from .body import Here, Read, Reader, is_null
from .values import Arguments, Command, Constant, Named
from .words import EXAMPLES, TARGET, Key

_PATH = re.compile(r"(?:(?=\w+\.)|\{ *)([A-Za-z_]\w*)(?:\.\w+)*(?: *\})?")
"""``ctx.doc``, ``{item}``: as a word, ``item`` may well be a text."""


class Target(NamedTuple):
    """What stands under a label of a match, read."""

    span: Span
    """What an error about all of it points at: its label."""
    pipeline: Name
    args: Arguments


def _arguments(reader: Reader, node: Node, key: Key, here: Here) -> Arguments | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    given = []
    for name, value in node.fields.items():
        tagged = isinstance(value, Scalar) and value.is_expr
        if isinstance(value, Scalar) and not tagged:
            _doubted(reader, value, here)
        expr: Expr | None = reader.r1(value, here.scope) if tagged else reader.literal(value)  # type: ignore[arg-type]
        if expr is not None:
            given.append((name, node.keys[name].span, expr))
    return Arguments(tuple(given))


def _doubted(reader: Reader, value: Scalar, here: Here) -> None:
    """A text that reads like a path is most likely meant to be one: only ``!expr`` makes it so."""
    path = _PATH.fullmatch(value.text)
    if path and path[1] in here.scope.names.roots:
        message = f"this is the text {value.text!r}, not what it names"
        hint = f"write: !expr {value.text.strip('{} ')}"
        reader.problems.warn("pipeline.literal-path", message, value.span, hint)


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
    return Constant(node.span, words)


def _tools(reader: Reader, node: Node, key: Key, here: Here) -> tuple[Name, ...] | None:
    if not isinstance(node, Fields):
        reader.mistyped(node, key)
        return None
    listed = node.fields.get("tools")
    others = [name for name in node.fields if name != "tools"]
    for name in others:
        hint = suggest(name, ["tools"]) or f"{key.name} limits the tools and nothing else"
        reader.wrong("unknown-key", f"{key.name!r} has no key {name!r}", node.keys[name].span, hint)
    if listed is None and not others:
        reader.wrong("missing-key", f"{key.name!r} needs 'tools'", node.span, f"{key.name}: {EXAMPLES['tools']}")
    elif listed is None:
        pass
    elif not isinstance(listed, Items):
        reader.wrong("wrong-type", f"'tools' takes a list of names, not {shown(listed)}", listed.span)
    else:
        return _names(reader, listed, Key("tools", "name", ""))
    return None


def _pass(reader: Reader, node: Node, key: Key, here: Here) -> Arguments | None:
    if isinstance(node, Fields):  # P4: the newer form
        given = []
        for name, value in node.fields.items():
            expr = None
            if reader.is_text(value, Key(name, "expression", "")) and isinstance(value, Scalar):
                expr = reader.r1(value, here.scope)
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
        reader.hidden(name.text, span, here.scope)
    elif "." in name.text and name.text not in here.scope.stores:
        last = name.text.rpartition(".")[2]
        hint = f"a field is passed with the mapping form: {{{last}: {name.text}}}"
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
