"""Reads the mappings of the language by their table: every key with its own reader, everything wrong told at once.

A reader returns what it could make of a node of the text, or None; what it could not, it has told. Whether all went
well is seen from the number of faults.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ...flow.frame import Expr, Frame, Ref
from ...flow.steps import Name
from ...flow.values import Value
from ...text.diagnostics import DefinitionError, Diagnostics, meant, suggest
from ...text.nodes import shorten
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from .tokens import located
from .value import Expression, expression
from .value_grammar import Arithmetic, Sentence, Template, parse_template, unquoted
from .words import EXAMPLES, TAKES, Key, Kind

_BRACES = re.compile(r"\{\s*+([^{}]*+)\}")
_WORD = re.compile(r"[A-Za-z_]\w*")
_STATE = re.compile(r"(?<!^)\bstate\.[A-Za-z_]")

AT_FIRST = "{state.n + 1}: it begins with a path, has one operator, and neither parentheses nor functions"
"""What an expression looks like, for braces that hold something like one."""

ROOT = ("state",)
"""Where in a frame the state is."""


class Constant:
    """A value as the text has it. An Expr."""

    __slots__ = ("evaluate", "span", "value")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, value: Value) -> None:
        self.span, self.value = span, value
        self.evaluate = lambda frame: value

    def reads(self) -> tuple[Ref, ...]:
        return ()


class Templated(Expression):
    """A value expression of a graph, with what it was parsed to."""

    __slots__ = ("node",)

    def __init__(self, text: Scalar, node: Template) -> None:
        made = expression(text, node, ROOT)
        self.node, self.text, self.span, self._reads = node, made.text, made.span, made._reads
        self.evaluate = made.evaluate


class Reader:
    """One loading: how each kind of value is read, and what is wrong so far."""

    def __init__(self, problems: Diagnostics) -> None:
        self.problems, self.faults = problems, 0
        self.known: set[str] = set()
        """The keys that expressions may name."""

    def wrong(self, what: str, message: str, span: Span | None, hint: str | None = None) -> None:
        self.faults += 1
        self.problems.error(f"graph.{what}", message, span, hint)

    def warn(self, what: str, message: str, span: Span | None, hint: str | None = None) -> None:
        self.problems.warn(f"graph.{what}", message, span, hint)

    def fields(self, kind: Kind, node: Fields, span: Span) -> dict[str, Any]:
        """Every key of ``node`` read as the table says; unknown and missing ones told."""
        given: dict[str, Any] = {}
        unknown = node.keys.keys() - kind.keys.keys()
        slips = meant(unknown, kind.keys)
        for name in unknown:
            hint = suggest(name, kind.keys, f"the keys of {kind.name}")
            self.wrong("unknown-key", f"{name!r} is not supported in {kind.name}", node.keys[name].span, hint)
        for name, key in kind.keys.items():
            value = node.fields.get(name)
            if value is None:
                if key.required and name not in slips:
                    self.wrong("missing-key", f"{kind.name} needs {name!r}", span, _example(key))
            elif isinstance(value, Scalar) and value.value is None and key.takes != "anything":
                message = f"{name!r} is empty: it takes {TAKES[key.takes]}"
                self.wrong("wrong-type", message, value.span if value.text else node.keys[name].span, _example(key))
            else:
                given[name] = READERS[key.takes](self, value, key)
        return given

    def mistyped(self, node: Node, key: Key) -> None:
        """``node`` is not what its key takes."""
        self.wrong("wrong-type", f"{key.name!r} takes {TAKES[key.takes]}, not {shown(node)}", node.span, _example(key))

    def mapping(self, node: Node, key: Key) -> Fields | None:
        if isinstance(node, Fields):
            return node
        self.mistyped(node, key)
        return None

    def template(self, node: Scalar) -> Expr:
        """A text with what it reads; a Constant where that is nothing."""
        try:
            parsed = located(node, parse_template)
        except DefinitionError as error:
            self.faults += 1
            self.problems.extend(error.diagnostics)
            return Constant(node.span, node.text)
        if isinstance(parsed, Sentence):
            last = node.text.rfind("}")
            for start, end in parsed.kept:
                message = "this stays as it is: inside a text only a path is replaced"
                hint = "compute it first, into a key of its own; then use {state.key} here"
                if last < start:
                    message, hint = "this '{' is never closed, so it stays as it is", "close it with }"
                self.warn("text-arithmetic", message, node.locate(start, end), hint)
            self.literal_braces(node, parsed)
        elif isinstance(parsed, Arithmetic):
            for bare in unquoted(parsed.right):
                name, place = bare.text, node.locate(bare.start, bare.end)
                hint = f"write state.{name}" if name.split(".")[0] in self.known else f"quote it: '{shorten(name)}'"
                self.warn("unquoted-text", f"{shorten(name)!r} is taken as text", place, hint)
        return Templated(node, parsed)

    def literal_braces(self, node: Scalar, parsed: Sentence) -> None:
        """Braces with a key's name in them that stay as they are: the seed wants ``state.`` at their beginning."""
        at = 0
        for part in parsed.parts:
            begin, at = at, at + len(part if isinstance(part, str) else part.written)
            for found in _BRACES.finditer(part) if isinstance(part, str) else ():
                word, computed = _WORD.match(found[1]), _STATE.search(found[1])
                if computed or (word and word[0] in self.known):
                    place = node.locate(begin + found.start(), begin + found.end())
                    hint = AT_FIRST if computed else f"write {{state.{found[1]}}}"
                    self.warn("literal-braces", f"{shorten(found[0])} stays as it is", place, hint)

    def value(self, node: Node) -> Expr:
        """Any value; a text with its placeholders."""
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return self.template(node)
        return Constant(node.span, plain(node))


Read = Callable[[Reader, Node, Key], Any]
"""How what a key takes is read."""


def _name(reader: Reader, node: Node, key: Key) -> Name | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        reader.mistyped(node, key)
    elif not node.text.strip():
        reader.wrong("blank-name", f"{key.name!r} is blank", node.span, "give it a name")
    else:
        return Name(node.text, node.span)
    return None


def _text(reader: Reader, node: Node, key: Key) -> Name | None:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return Name(node.text, node.span)
    reader.mistyped(node, key)
    return None


def _of(*types: type) -> Read:
    def read(reader: Reader, node: Node, key: Key) -> Any:
        if isinstance(node, Scalar) and type(node.value) in types:
            return node.value
        reader.mistyped(node, key)
        return None

    return read


def _above(least: float, *types: type) -> Read:
    plain_read = _of(*types)

    def read(reader: Reader, node: Node, key: Key) -> Any:
        value = plain_read(reader, node, key)
        if value is not None and not value >= least:
            reader.wrong("count", f"{key.name!r} is {TAKES[key.takes]}, not {shown(node)}", node.span)
            return None
        return value

    return read


def _choice(*words: str) -> Read:
    def read(reader: Reader, node: Node, key: Key) -> str | None:
        if isinstance(node, Scalar) and node.text in words:
            return node.text
        hint = suggest(node.text, words) if isinstance(node, Scalar) else None
        message = f"{key.name!r} takes {TAKES[key.takes]}, not {shown(node)}"
        reader.wrong("wrong-type", message, node.span, hint or _example(key))
        return None

    return read


def _names(reader: Reader, node: Node, key: Key) -> tuple[Name, ...]:
    if not isinstance(node, Items):
        reader.mistyped(node, key)
        return ()
    found = [_name(reader, item, key) for item in node.items]
    return tuple({name.text: name for name in found if name is not None}.values())


def _values(reader: Reader, node: Node, key: Key) -> tuple[tuple[Name, Expr], ...]:
    fields = reader.mapping(node, key)
    if fields is None:
        return ()
    return tuple((Name(name, fields.keys[name].span), reader.value(value)) for name, value in fields.fields.items())


def _arguments(reader: Reader, node: Node, key: Key) -> Any:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        whole = reader.template(node)
        if isinstance(whole, Templated) and not isinstance(whole.node, Sentence):
            return whole
    if isinstance(node, Fields):
        return _values(reader, node, key)
    reader.mistyped(node, key)
    return None


def _template(reader: Reader, node: Node, key: Key) -> Expr | None:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.text.strip():
        return reader.template(node)
    reader.mistyped(node, key)
    return None


def _share(reader: Reader, node: Node, key: Key) -> int | float | None:
    value = node.value if isinstance(node, Scalar) else None
    if (type(value) is int and value >= 0) or (type(value) is float and 0 <= value <= 1):
        return value
    reader.mistyped(node, key)
    return None


def _name_map(reader: Reader, node: Node, key: Key) -> dict[str, Name]:
    """Texts by name; each value with its place."""
    fields, found = reader.mapping(node, key), {}
    for name, value in fields.fields.items() if fields else ():
        read = _name(reader, value, Key(name, "name", ""))
        if read is not None:
            found[name] = read
    return found


def _mapping(reader: Reader, node: Node, key: Key) -> Any:
    if isinstance(node, Scalar) and node.text in ("auto", "*"):
        return "auto"
    named = _name_map(reader, node, key)
    return tuple((Name(own, node.keys[own].span), other) for own, other in named.items() if isinstance(node, Fields))


def _counts(reader: Reader, node: Node, key: Key) -> dict[str, tuple[Span, int]]:
    fields, found = reader.mapping(node, key), {}
    for name, value in fields.fields.items() if fields else ():
        count = READERS["count"](reader, value, Key(name, "count", ""))
        if count is not None and fields:
            found[name] = fields.keys[name].span, count
    return found


def _command(reader: Reader, node: Node, key: Key) -> Any:
    """The words of a command, each a text; P8: it is split once, here."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        try:
            words = shlex.split(node.text)
        except ValueError as error:
            reader.wrong("command", f"the command cannot be split: {str(error).lower()}", node.span)
            return None
        if words:
            return tuple(words)
        reader.wrong("command", "the command is empty", node.span)
        return None
    reader.mistyped(node, key)
    return None


def _node_itself(reader: Reader, node: Node, key: Key) -> Node:
    return node


def _mapping_itself(reader: Reader, node: Node, key: Key) -> Fields | None:
    return reader.mapping(node, key)


def _list_itself(reader: Reader, node: Node, key: Key) -> Items | None:
    if isinstance(node, Items):
        return node
    reader.mistyped(node, key)
    return None


READERS: Mapping[str, Read] = {
    "name": _name,
    "text": _text,
    "anything": lambda reader, node, key: plain(node),
    "flag": _of(bool),
    "count": _above(1, int),
    "seconds": _above(1e-9, int, float),
    "number": _of(int, float),
    "names": _names,
    "values": _values,
    "arguments": _arguments,
    "template": _template,
    "prompt": _node_itself,
    "over": _node_itself,
    "share": _share,
    "overflow": _choice("error", "truncate"),
    "on_error": _choice("fail", "skip"),
    "retries": _choice("fail", "skip", "retry"),
    "routes": _name_map,
    "mapping": _mapping,
    "mode": _choice("invoke", "direct"),
    "node": _mapping_itself,
    "nodes": _mapping_itself,
    "edges": _list_itself,
    "state": _mapping_itself,
    "tools": _mapping_itself,
    "config": _mapping_itself,
    "defaults": _mapping_itself,
    "limits": _counts,
    "exits": _name_map,
    "command": _command,
    "parse": _choice("text", "json", "none"),
    "tool_type": _choice("python", "shell"),
    "edge_type": _choice("conditional"),
    "source": _node_itself,
    "targets": _node_itself,
    "condition": _node_itself,
}


def _example(key: Key) -> str:
    return f"{key.name}: {EXAMPLES[key.takes]}"
