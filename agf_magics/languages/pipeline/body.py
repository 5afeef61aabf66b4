"""Reads the mappings of the language by their table: every key with its own reader, everything wrong told at once.

A reader returns what it could make of a node; what it could not, it has told. Whether all went well is seen from the
number of faults, so no reader needs a second channel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...flow.frame import Expr
from ...flow.steps import Name, OnError
from ...text.diagnostics import DefinitionError, Diagnostics, meant, suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from .r1 import R1, parse
from .r1.nodes import Node as R1Node
from .r1.nodes import Path, nested
from .scope import Scope
from .template import parse_template
from .values import Constant
from .words import EXAMPLES, TAKES, Key, Kind

_RETRY = re.compile(r"retry\(([0-9]{1,9})\)", re.ASCII)
_QUOTED = ("name", "text", "expression", "template")


class Policy(NamedTuple):
    """``on_error``, read."""

    on_error: OnError = "abort"
    retries: int = 0


_ON_ERROR = {"abort": Policy("abort"), "continue": Policy("continue")}


class Here(NamedTuple):
    """A mapping being read: where it stands and what its keys have given so far."""

    id: str
    span: Span
    scope: Scope
    given: dict[str, Any]


class Reader:
    """One loading: how each kind of value is read, and what is wrong so far."""

    def __init__(self, problems: Diagnostics, readers: Mapping[str, Read]) -> None:
        self.problems = problems
        self.readers = readers
        self.faults = 0

    def wrong(self, what: str, message: str, span: Span | None, hint: str | None = None) -> None:
        self.faults += 1
        self.problems.error(f"pipeline.{what}", message, span, hint)

    def fields(self, kind: Kind, node: Fields, here: Here) -> dict[str, Any]:
        """Every key of ``node`` read as the table says; unknown and missing ones told."""
        fields, readers = node.fields, self.readers
        slips = set[str]() if fields.keys() <= kind.keys.keys() else self.unknown(kind, node)
        for name, key in kind.keys.items():
            if name not in fields:
                if key.required and name not in slips:
                    self.wrong("missing-key", f"{kind.name} needs {name!r}", here.span, _example(key))
            elif not is_null(value := fields[name]):
                here.given[name] = readers[key.takes](self, value, key, here)
            elif not key.null or key.required:
                self.empty(value, node.keys[name], key)
        return here.given

    def unknown(self, kind: Kind, node: Fields) -> set[str]:
        """Every key that ``kind`` does not have is told; those that they seem to be meant for."""
        unknown = node.keys.keys() - kind.keys.keys()
        for name in unknown:
            hint = suggest(name, kind.keys, f"the keys of {kind.name}")
            self.wrong("unknown-key", f"{kind.name} has no key {name!r}", node.keys[name].span, hint)
        return meant(unknown, kind.keys)

    def empty(self, node: Node, written: Scalar, key: Key) -> None:
        """The key ``written`` has null for its value, or nothing."""
        span = node.span if isinstance(node, Scalar) and node.text else written.span
        self.wrong("wrong-type", f"{key.name!r} is empty: it takes {TAKES[key.takes]}", span, _example(key))

    def mistyped(self, node: Node, key: Key) -> None:
        """``node`` is not what its key takes."""
        if isinstance(node, Scalar) and node.is_expr:
            hint = "it is an expression already" if key.takes == "expression" else f"it takes {TAKES[key.takes]}"
            self.wrong("misplaced-expr", f"!expr does not belong in {key.name!r}", node.span, hint)
            return
        hint = f'quote it: "{node.text}"' if isinstance(node, Scalar) and key.takes in _QUOTED else _example(key)
        self.wrong("wrong-type", f"{key.name!r} takes {TAKES[key.takes]}, not {shown(node)}", node.span, hint)

    def is_text(self, node: Node, key: Key) -> bool:
        """Whether ``node`` is a text; told if not."""
        if isinstance(node, Scalar) and not node.is_expr and type(node.value) is str:
            return True
        self.mistyped(node, key)
        return False

    def name(self, node: Node, key: Key) -> Name | None:
        """A text that names something."""
        if not self.is_text(node, key):
            return None
        assert isinstance(node, Scalar)
        if not node.text.strip():
            self.wrong("blank-name", f"{key.name!r} is blank", node.span, "give it a name")
        return Name(node.text, node.span)

    def r1(self, node: Scalar, scope: Scope) -> R1 | None:
        """An expression, whatever is around it."""
        try:
            expr = parse(node, scope.names)
        except DefinitionError as error:
            self.faults += 1
            self.problems.extend(error.diagnostics)
            return None
        if scope.names.hidden:
            for path in _unseen(expr.node):
                self.hidden(path.parts[0], node.locate(path.at, path.at + len(path.parts[0])), scope)
        return expr

    def hidden(self, name: str, span: Span, scope: Scope) -> None:
        # No error: the input may bring a store of that name (P1 looks there last).
        if name not in scope.stores:
            message = f"{name!r} is not visible here: this reads a store of that name"
            self.problems.warn("pipeline.hidden-name", message, span, scope.names.hidden[name])

    def literal(self, node: Node) -> Constant:
        """A value as it is written."""
        for inner in _expressions(node):
            hint = "only a whole argument can be an !expr; build the value there: !expr \"[ctx.a, 'b']\""
            self.wrong("nested-expr", "!expr inside a list or mapping", inner.span, hint)
        return Constant(node.span, plain(node))


Read = Callable[[Reader, Node, Key, Here], Any]
"""How what a key takes is read."""


def _name(reader: Reader, node: Node, key: Key, here: Here) -> Name | None:
    return reader.name(node, key)


def _text(reader: Reader, node: Node, key: Key, here: Here) -> Name | None:
    return Name(node.text, node.span) if reader.is_text(node, key) and isinstance(node, Scalar) else None


def _expression(reader: Reader, node: Node, key: Key, here: Here) -> Expr | None:
    return reader.r1(node, here.scope) if reader.is_text(node, key) and isinstance(node, Scalar) else None


def _template(reader: Reader, node: Node, key: Key, here: Here) -> Expr | None:
    if not reader.is_text(node, key) or not isinstance(node, Scalar):
        return None
    if not node.text.strip():
        reader.problems.warn("pipeline.empty-prompt", "the prompt is empty", node.span)
    template = parse_template(node, here.scope.names, here.scope.stores)
    reader.problems.extend(template.warnings)
    for part in template.parts if here.scope.names.hidden else ():
        for path in () if isinstance(part, str) else _unseen(part.path.node):
            reader.hidden(path.parts[0], part.path.span, here.scope)  # type: ignore[union-attr]
    return template


def _literals(reader: Reader, node: Node, key: Key, here: Here) -> Constant | None:
    if isinstance(node, Items):
        return reader.literal(node)
    reader.mistyped(node, key)
    return None


def _count(reader: Reader, node: Node, key: Key, here: Here) -> int | None:
    if not isinstance(node, Scalar) or type(node.value) is not int:
        reader.mistyped(node, key)
    elif node.value < 1:
        reader.wrong("count", f"{key.name!r} is 1 or more, not {node.text}", node.span)
    else:
        return node.value
    return None


def _on_error(reader: Reader, node: Node, key: Key, here: Here) -> Policy | None:
    if isinstance(node, Scalar) and not node.is_expr:
        if node.text in _ON_ERROR:
            return _ON_ERROR[node.text]
        if retry := _RETRY.fullmatch(node.text):
            return Policy("abort", int(retry[1]))
    hint = suggest(node.text, (*_ON_ERROR, "retry(1)")) if isinstance(node, Scalar) else None
    if isinstance(node, Fields) and "retry" in node.fields:
        times = node.fields["retry"]
        hint = f"as one text: retry({times.text if isinstance(times, Scalar) else 'N'})"
    reader.wrong("on-error", f"'on_error' takes {TAKES['on_error']}, not {shown(node)}", node.span, hint)
    return None


VALUES: Mapping[str, Read] = {
    "name": _name,
    "text": _text,
    "expression": _expression,
    "template": _template,
    "literals": _literals,
    "count": _count,
    "on_error": _on_error,
}


def is_null(node: Node) -> bool:
    return type(node) is Scalar and node.value is None


def _expressions(node: Node) -> Iterator[Scalar]:
    """Every !expr in or under ``node``."""
    if isinstance(node, Scalar):
        if node.is_expr:
            yield node
        return
    for child in node.items if isinstance(node, Items) else node.fields.values():
        yield from _expressions(child)


def _unseen(node: R1Node) -> Iterator[Path]:
    """Every path of an expression whose first name is hidden there."""
    return (path for path in nested(node) if isinstance(path, Path) and path.hidden is not None)


def _example(key: Key) -> str:
    return f"{key.name}: {EXAMPLES[key.takes]}"
