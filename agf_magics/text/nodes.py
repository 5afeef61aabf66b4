"""The place in the source of each character of a YAML scalar, through quotes, escapes, folds and
indentation.

The C parser gives only the text of a scalar and the places of its beginning and end. This module
finds each character of the text again in the scalar's source. Only errors need it.

YAML nodes: values with their place in the source.

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

from .diagnostics import Source, Span

_Place = tuple[int, int]
"""Where a character begins and ends."""

_ESCAPES = {
    **dict(zip("0abt\tnvfre", "\0\a\b\t\t\n\v\f\r\x1b", strict=True)),
    **dict(zip("N_LP", "\x85\xa0\u2028\u2029", strict=True)),
}
# JSON writes 😀 as two escapes. An escaped end of a line is no letter.
_PIECE = re.compile(
    r"\\(?:x(..)|u([dD][89abAB]..)\\u(....)|u(....)|U(.{8})|(\r\n?|\n)|(.))|\r\n?|.", re.DOTALL
)
_PIECES = {"'": re.compile(r"''|\r\n?|.", re.DOTALL), '"': _PIECE}
_UNQUOTED_PIECE = re.compile(r"\r\n?|.", re.DOTALL)
_BLANK = " \t\n"


def letters(raw: str, style: str, expected: str) -> list[_Place] | None:
    """The place of each character of ``expected``, the text of the scalar ``raw`` written in
    ``style``, and the place of its end; None if it is not its text.

    Blanks between the lines of a text are folded, cut off or kept by many rules. Here the other
    characters show which blanks belong together: exact places of blanks are of no use to a reader.

    >>> letters("'it''s'", "'", "it's")
    [(1, 2), (2, 3), (3, 5), (5, 6), (6, 6)]
    """
    places, blanks, at = list[_Place](), list[_Place](), 0
    for letter, start, end in _pieces(raw, style):
        if raw[start] in " \t\r\n":
            blanks.append((start, end))
            continue
        if not letter:  # the end of a line that continues
            continue
        found = expected.find(letter, at)
        if found < 0 or expected[at:found].strip(_BLANK):
            return None
        places += [*_placed(found - at, blanks, start), (start, end)]
        blanks, at = [], found + 1
    places += _placed(len(expected) - at, blanks, len(raw))
    if expected[at:].strip(_BLANK):
        return None
    last = places[-1][1] if places else int(style in _PIECES)
    return [*places, (last, last)]


def _placed(count: int, blanks: list[_Place], end: int) -> list[_Place]:
    """The places of ``count`` blanks of a text, the last ones of ``blanks`` before ``end``: the
    indentation of a line is before its own blanks."""
    begin = blanks[0][0] if blanks else end
    return [(begin, begin)] * (count - len(blanks)) + blanks[max(0, len(blanks) - count) :]


def reread(raw: str, tamed: str, style: str, expected: str) -> str:
    """The text of ``raw``; its replacement ``tamed`` has the same length and lines and reads as
    ``expected``."""
    places = letters(tamed, style, expected)
    assert places is not None, "the parser has read this text"
    true = {start: letter for letter, start, _ in _pieces(raw, style)}
    return "".join(
        letter if raw[start:end] == tamed[start:end] else true.get(start, "")
        for letter, (start, end) in zip(expected, places, strict=False)
    )


def _pieces(raw: str, style: str) -> Iterator[tuple[str, int, int]]:
    """The characters of a scalar before its lines are folded, with their places."""
    begin = int(style in _PIECES)
    end = len(raw) - begin
    if style in ("|", ">"):  # its header is no text
        header = re.search(r"\r\n?|\n", raw)
        begin = header.end() if header else end
    for match in _PIECES.get(style, _UNQUOTED_PIECE).finditer(raw, begin, end):
        letter = match[0]
        if style == '"' and letter[0] == "\\":
            letter = _unescaped(match)
        elif letter[0] == "\r":
            letter = "\n"
        yield letter[:1], match.start(), match.end()


def _unescaped(match: re.Match[str]) -> str:
    short, high, low, four, eight, _, other = match.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if code := short or four or eight:
        return chr(int(code, 16))
    return _ESCAPES.get(other, other) if other else ""


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
        lead = int(self.style in _PIECES)
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
def _letters(source: Source, start: int, end: int, style: str, text: str) -> list[_Place] | None:
    return letters(source.text[start:end], style, text)


class _Compound:
    """What a reader can ask of a list and of a mapping as of a scalar."""

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
    items: tuple[Node, ...]
    whole: Span
    """All of it, without tag and anchor."""


class Items(_Items, _Compound):
    """A list."""

    __slots__ = ()


class _Fields(NamedTuple):
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
    return filter(is_expression, every_node(root))


def node_at(node: Node, path: Iterable[str | int]) -> tuple[Node, Span | None]:
    """The node at a path of keys and numbers in ``node``, or the nearest one around it, and the
    place of its key, if it has one."""
    key: Span | None = None
    for part in path:
        if isinstance(node, Fields) and isinstance(part, str) and part in node.fields:
            key, node = node.keys[part].span, node.fields[part]
        elif isinstance(node, Items) and isinstance(part, int):
            key, node = None, node.items[part]
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
    return (
        shorten(node.text) if isinstance(node.value, bool) else f"the number {shorten(node.text)}"
    )


def shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
