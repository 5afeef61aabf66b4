"""YAML nodes: values with their place in the source; how to walk them and write them as text.

A node has its text as well as its value: a key is the text that its author wrote, and an error
inside a quoted, escaped or folded text points at the exact character.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeGuard

from ..shorten import shorten
from ..source import Source, Span
from .places import PIECES, Place, letters

EXPR: Final = "!expr"
"""The only tag."""


class Scalar(NamedTuple):
    """A text, a number, true, false or null. A NamedTuple: loading makes thousands. It is a
    `text.diagnostics.Text`."""

    value: Any
    """By YAML 1.2's core schema; for a key and a tagged scalar always the text."""
    text: str
    """Without quotes and escapes."""
    span: Span
    """Without tag and anchor, with quotes."""
    tag: str | None = None
    style: str = ""
    """Its first character if it is quoted or a block, else empty."""

    @property
    def is_expr(self) -> bool:
        return self.tag == EXPR

    def locate(self, start: int, end: int) -> Span:
        """The place of the characters ``start`` to ``end`` of ``text`` in the source."""
        source, first, last = self.span
        lead = int(self.style in PIECES)
        # Escapes, folds and indentation make a text shorter: one of equal length is the source
        # character by character.
        if len(self.text) == last - first - 2 * lead:
            return Span(source, first + lead + start, first + lead + end)
        places = _letters(source, first, last, self.style, self.text)
        if places is None:
            return self.span
        size = len(self.text)
        begin = places[min(start, size)][0]
        stop = places[min(end, size) - 1][1] if end > start else begin
        return Span(source, first + begin, first + stop)


# Cached: the tokens of a long text are located one after the other.
@lru_cache(maxsize=16)
def _letters(source: Source, start: int, end: int, style: str, text: str) -> list[Place] | None:
    return letters(source.text[start:end], style, text)


class _Compound:
    """A list or a mapping: a reader can ask both for the same things as a scalar."""

    __slots__ = ()

    value: Any = object()
    """No value of YAML."""
    text = ""
    is_expr = False
    whole: Span

    @property
    def span(self) -> Span:
        """Its first line."""
        return _first_line(self.whole)


class _Items(NamedTuple):
    """The fields of `Items`."""

    items: tuple[Node, ...]
    whole: Span
    """All of it, without tag and anchor."""


class Items(_Items, _Compound):
    """A list."""

    __slots__ = ()


class _Fields(NamedTuple):
    """The fields of `Fields`."""

    fields: dict[str, Node]
    keys: dict[str, Scalar]
    """Each key with its place."""
    whole: Span
    """All of it, without tag and anchor."""


class Fields(_Fields, _Compound):
    """A mapping. Both dicts have the same keys, in the order of the text."""

    __slots__ = ()

    @property
    def head(self) -> Span:
        """Its first key, for an error about all of it; of an empty mapping the first line."""
        return next((key.span for key in self.keys.values()), self.span)

    def scalar(self, key: str) -> Scalar | None:
        """What ``key`` has, if that is neither a list nor a mapping."""
        node = self.fields.get(key)
        return node if isinstance(node, Scalar) else None

    def value_at(self, key: str) -> Any:
        """The value of `scalar`; None: there is none."""
        node = self.scalar(key)
        return node.value if node else None

    def text_at(self, key: str) -> str:
        """The text of `scalar`; empty: there is none."""
        node = self.scalar(key)
        return node.text if node else ""

    def inner(self, key: str) -> Fields:
        """The mapping that ``key`` has; an empty one: it has none."""
        node = self.fields.get(key)
        return node if isinstance(node, Fields) else NOTHING

    def entries(self, key: str) -> list[Fields]:
        """The mappings in the list that ``key`` has."""
        node = self.fields.get(key)
        items = node.items if isinstance(node, Items) else ()
        return [item for item in items if isinstance(item, Fields)]


NOTHING: Final = Fields({}, {}, Source("", "").span(0, 0))
"""A mapping that a text does not have."""


def _first_line(span: Span) -> Span:
    line = span.text.partition("\n")[0].rstrip()
    return Span(span.source, span.start, span.start + len(line))


Node = Scalar | Items | Fields


def is_text(node: Node | None) -> TypeGuard[Scalar]:
    """Whether it is a text, or an expression."""
    return node is not None and type(node.value) is str


def is_expression(node: Node) -> TypeGuard[Scalar]:
    """Whether it has the tag !expr."""
    return node.is_expr


def every_node(node: Node) -> Iterator[Node]:
    """A node and all nodes in it, without recursion."""
    waiting = [node]
    for inner in waiting:  # grows
        yield inner
        if isinstance(inner, Fields):
            waiting += inner.fields.values()
        elif isinstance(inner, Items):
            waiting += inner.items


def expr_tags(root: Node) -> Iterator[Scalar]:
    """The scalars in ``root`` with the tag !expr, for a language that does not have it."""
    return filter(is_expression, every_node(root))


def node_at(node: Node, path: Iterable[str | int]) -> tuple[Node, Span | None]:
    """The node at a path of keys and numbers in ``node``, or the nearest one around it, and the
    place of its key, if it has one."""
    key: Span | None = None
    for part in path:
        if isinstance(node, Fields) and isinstance(part, str) and part in node.fields:
            key = node.keys[part].span
            node = node.fields[part]
        elif isinstance(node, Items) and isinstance(part, int):
            key = None
            node = node.items[part]
    return node, key


def read_scalars(node: Node, read: Callable[[Scalar], Any]) -> Any:
    """The JSON value of a node, with what ``read`` makes of each scalar."""
    if isinstance(node, Scalar):
        return read(node)
    if isinstance(node, Items):
        return [read_scalars(item, read) for item in node.items]
    return {key: read_scalars(value, read) for key, value in node.fields.items()}


def plain(node: Node) -> Any:
    """The JSON value."""
    return read_scalars(node, _value)


_value = operator.attrgetter("value")


def flow_text(node: Node) -> str:
    """A node as its author wrote it, on one line."""
    if isinstance(node, Items):
        return f"[{', '.join(map(flow_text, node.items))}]"
    if isinstance(node, Fields):
        pairs = map("{}: {}".format, node.fields, map(flow_text, node.fields.values()))
        return f"{{{', '.join(pairs)}}}"
    text = node.span.text if _IN_FLOW.fullmatch(node.span.text) else json.dumps(node.text)
    return f"{node.tag or ''} {text}".lstrip()


_IN_FLOW = re.compile(r"""[^\n,{}\[\]'"]*|'[^\n]*'|"[^\n]*\"""")
"""A scalar that may stand in a list between brackets as it is."""


def shown(node: Node) -> str:
    """A node in an error: ``text 'yes'``, ``the number 3``, ``a list``, ``null``."""
    if isinstance(node, Items):
        return "a list" if node.items else "an empty list"
    if isinstance(node, Fields):
        return "a mapping" if node.fields else "an empty mapping"
    if node.is_expr:
        return "an expression"
    if isinstance(node.value, str):
        return f"text {shorten(node.text)!r}" if node.text else "empty text"
    if node.value is None:
        return "null" if node.text else "nothing"
    if isinstance(node.value, bool):
        return shorten(node.text)
    return f"the number {shorten(node.text)}"
