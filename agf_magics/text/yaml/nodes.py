"""YAML nodes: values with their place in the source, and functions that walk and write them.

A node has its text as well as its value: a key is the text that its author wrote. An error inside a
quoted, escaped or folded text points at the exact character.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeGuard

from ..shorten import shorten
from ..source import Source, Span
from .places import PIECES, Place, letters

EXPR: Final = "!expr"
"""The only tag that definitions may use."""


class Scalar(NamedTuple):
    """A text, a number, true, false or null. It is a NamedTuple for speed (loading makes
    thousands), and it conforms to the protocol `text.source.Text`."""

    value: Any
    """The value by YAML 1.2's core schema; for a key or a tagged scalar always the text."""
    text: str
    """The text without quotes and escapes."""
    span: Span
    """The place of the scalar without tag and anchor, but with quotes."""
    tag: str | None = None
    style: str = ""
    """The first character of a quoted or block scalar; empty for a plain one."""

    @property
    def is_expr(self) -> bool:
        return self.tag == EXPR

    def locate(self, start: int, end: int) -> Span:
        """The place of the characters ``start`` to ``end`` of ``text`` in the source."""
        source, first, last = self.span
        lead = int(self.style in PIECES)
        # Escapes, folds and indentation make a text shorter than its source. A text of equal length
        # is its source, character by character.
        if len(self.text) == last - first - 2 * lead:
            return Span(source, first + lead + start, first + lead + end)
        places = _letters(source, first, last, self.style, self.text)
        if places is None:
            return self.span
        size = len(self.text)
        begin = places[min(start, size)][0]
        stop = places[min(end, size) - 1][1] if end > start else begin
        return Span(source, first + begin, first + stop)


# Cached: the tokens of a long text ask for the same scalar again and again.
@lru_cache(maxsize=16)
def _letters(source: Source, start: int, end: int, style: str, text: str) -> list[Place] | None:
    return letters(source.text[start:end], style, text)


class _Compound:
    """The base of lists and mappings. It has the attributes of a scalar, so that a reader can ask
    any node for them."""

    __slots__ = ()

    value: Any = object()
    """A value that equals no value of YAML."""
    text = ""
    is_expr = False
    whole: Span

    @property
    def span(self) -> Span:
        """The first line of the node."""
        return _first_line(self.whole)


class _Items(NamedTuple):
    """The fields of `Items`."""

    items: tuple[Node, ...]
    whole: Span
    """The place of the whole list, without tag and anchor."""


class Items(_Items, _Compound):
    """A list."""

    __slots__ = ()


class _Fields(NamedTuple):
    """The fields of `Fields`."""

    fields: dict[str, Node]
    keys: dict[str, Scalar]
    """The keys with their places, by their text."""
    whole: Span
    """The place of the whole mapping, without tag and anchor."""


class Fields(_Fields, _Compound):
    """A mapping. Both dicts have the same keys, in the order of the text."""

    __slots__ = ()

    @property
    def head(self) -> Span:
        """The first key, as the place of an error about the whole mapping; the first line if it is
        empty."""
        return next((key.span for key in self.keys.values()), self.span)

    def scalar(self, key: str) -> Scalar | None:
        """The scalar at ``key``; None if the key is absent or has a list or a mapping."""
        node = self.fields.get(key)
        return node if isinstance(node, Scalar) else None

    def value_at(self, key: str) -> Any:
        """The value of the scalar at ``key``; None if there is no scalar."""
        node = self.scalar(key)
        return node.value if node else None

    def text_at(self, key: str) -> str:
        """The text of the scalar at ``key``; empty if there is no scalar."""
        node = self.scalar(key)
        return node.text if node else ""

    def renamed(self, slip: str, name: str) -> Fields:
        """The mapping with ``name`` in place of the key ``slip``, which keeps its place."""
        return Fields(
            {name if key == slip else key: value for key, value in self.fields.items()},
            {name if key == slip else key: written for key, written in self.keys.items()},
            self.whole,
        )

    def gathered(self, names: Collection[str], key: str) -> Fields:
        """The mapping with the entries ``names`` in a mapping of their own at ``key``."""
        outer = Fields({}, {}, self.whole)
        inner = Fields({}, {}, self.whole)
        for name, value in self.fields.items():
            into = inner if name in names else outer
            into.fields[name], into.keys[name] = value, self.keys[name]
        outer.fields[key] = inner
        outer.keys[key] = inner.keys[next(iter(inner.keys))]
        return outer

    def replace_by(self, other: Fields) -> None:
        """Take over the entries of ``other``. Whoever looks into a node that was read as another
        one must find what was read."""
        self.fields.clear()
        self.fields.update(other.fields)
        self.keys.clear()
        self.keys.update(other.keys)

    def inner(self, key: str) -> Fields:
        """The mapping at ``key``; an empty mapping if there is none."""
        node = self.fields.get(key)
        return node if isinstance(node, Fields) else NOTHING

    def entries(self, key: str) -> list[Fields]:
        """The mappings in the list at ``key``."""
        node = self.fields.get(key)
        items = node.items if isinstance(node, Items) else ()
        return [item for item in items if isinstance(item, Fields)]


NOTHING: Final = Fields({}, {}, Source("", "").span(0, 0))
"""An empty mapping, in place of a mapping that the text does not have."""


def _first_line(span: Span) -> Span:
    line = span.text.partition("\n")[0].rstrip()
    return Span(span.source, span.start, span.start + len(line))


Node = Scalar | Items | Fields


def is_text(node: Node | None) -> TypeGuard[Scalar]:
    """Whether ``node`` is a text or an expression."""
    return node is not None and type(node.value) is str


def braced(node: Node) -> str:
    """The text in braces without quotes, ``{ctx.name}``, which YAML reads as a mapping without a
    value; empty: it is anything else."""
    if not isinstance(node, Fields) or len(node.fields) != 1:
        return ""
    ((name, value),) = node.fields.items()
    return name if value.value is None and not value.text else ""


def is_expression(node: Node) -> TypeGuard[Scalar]:
    """Whether ``node`` has the tag !expr."""
    return node.is_expr


def every_node(node: Node) -> Iterator[Node]:
    """``node`` and all nodes in it, without recursion."""
    waiting = [node]
    for inner in waiting:  # the list grows while it is read
        yield inner
        if isinstance(inner, Fields):
            waiting += inner.fields.values()
        elif isinstance(inner, Items):
            waiting += inner.items


def expr_tags(root: Node) -> Iterator[Scalar]:
    """The scalars in ``root`` with the tag !expr, for the errors of a language without
    expressions."""
    return filter(is_expression, every_node(root))


def node_at(node: Node, path: Iterable[str | int]) -> tuple[Node, Span | None]:
    """The node at ``path`` (keys and numbers) in ``node``, or the nearest node around that place;
    and the place of its key, or None if it has no key."""
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
    """The JSON value of ``node``, in which ``read`` converts each scalar."""
    if isinstance(node, Scalar):
        return read(node)
    if isinstance(node, Items):
        return [read_scalars(item, read) for item in node.items]
    return {key: read_scalars(value, read) for key, value in node.fields.items()}


def plain(node: Node) -> Any:
    """The JSON value of ``node``."""
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
"""The source of a scalar that may stand between brackets as it is."""


def shown(node: Node) -> str:
    """``node`` in the words of an error: ``text 'yes'``, ``the number 3``, ``a list``, ``null``."""
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
