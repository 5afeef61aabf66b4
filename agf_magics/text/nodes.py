"""YAML nodes: values with their place in the source.

A node has its text as well as its value: a key is the text that its author wrote, and an error
inside a quoted, escaped or folded text points at the exact character.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from .source import Source, Span
from .yamlplaces import Letters, letters

EXPR: Final = "!expr"
"""The only tag."""


class Scalar(NamedTuple):
    """A text, a number, true, false or null. A NamedTuple: loading makes thousands. It is a
    `text.source.Text`."""

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
        lead = 1 if self.style in ("'", '"') else 0
        # Escapes, folds and indentation make a text shorter: one of equal length is the source
        # character by character.
        if len(self.text) == last - first - 2 * lead:
            return Span(source, first + lead + start, first + lead + end)
        found = _letters(source, first, last, self.style, self.text)
        if found is None:
            return self.span
        size = len(found.text)
        begin = found.starts[start] if start < size else (found.ends[-1] if size else lead)
        return Span(
            source,
            first + begin,
            first + (found.ends[min(end, size) - 1] if end > start and size else begin),
        )


# Cached: the tokens of a long text are located one after the other.
@lru_cache(maxsize=16)
def _letters(source: Source, start: int, end: int, style: str, text: str) -> Letters | None:
    return letters(source.text[start:end], style, text)


class Items(NamedTuple):
    """A list."""

    items: tuple[Node, ...]
    whole: Span
    """All of it, without tag and anchor."""

    @property
    def span(self) -> Span:
        """Its first line."""
        return _first_line(self.whole)


class Fields(NamedTuple):
    """A mapping. Both dicts have the same keys, in the order of the text."""

    fields: dict[str, Node]
    keys: dict[str, Scalar]
    """Each key with its place."""
    whole: Span
    """All of it, without tag and anchor."""

    @property
    def span(self) -> Span:
        """Its first line."""
        return _first_line(self.whole)


def _first_line(span: Span) -> Span:
    end = span.source.text.find("\n", span.start, span.end)
    line = span.source.text[span.start : span.end if end < 0 else end].rstrip()
    return Span(span.source, span.start, span.start + len(line))


Node = Scalar | Items | Fields


def every_node(node: Node) -> Iterator[Node]:
    """A node and all nodes in it, without recursion."""
    waiting = [node]
    for one in waiting:  # grows
        yield one
        waiting += (
            one.fields.values()
            if isinstance(one, Fields)
            else one.items
            if isinstance(one, Items)
            else ()
        )


def expr_tags(root: Node) -> Iterator[Scalar]:
    """The scalars in ``root`` with the tag !expr, for a language that does not have it."""
    return (node for node in every_node(root) if isinstance(node, Scalar) and node.is_expr)


def plain(node: Node) -> Any:
    """The JSON value."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.fields.items()}


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
    return (
        shorten(node.text) if isinstance(node.value, bool) else f"the number {shorten(node.text)}"
    )


def shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
