"""The place in the source of each character of a YAML scalar, through quotes, escapes, folds and
indentation.

The C parser gives only the text of a scalar and the places of its beginning and end. This module
parses the scalar's source again by the same rules and records the place of every character. Only
errors need it.

YAML nodes: values with their place in the source.

A node has its text as well as its value: a key is the text that its author wrote, and an error
inside a quoted, escaped or folded text points at the exact character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from .source import Source, Span


class Letters(NamedTuple):
    """A scalar's text; character ``i`` comes from ``starts[i]:ends[i]`` of its source."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


_Letter = tuple[str, int, int]

_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_HEX = {"x": 2, "u": 4, "U": 8}


def letters(raw: str, style: str, expected: str) -> Letters | None:
    """Read the scalar ``raw`` written in ``style``; None if the result is not ``expected``.

    >>> letters("'it''s'", "'", "it's").starts
    (1, 2, 3, 5)
    """
    for read in _readings(raw, style):
        text = "".join(letter for letter, _, _ in read)
        if text == expected:
            return Letters(
                text, tuple(start for _, start, _ in read), tuple(end for _, _, end in read)
            )
    return None


def reread(raw: str, tamed: str, style: str, expected: str) -> str:
    """The text of ``raw``; its replacement ``tamed`` has the same length and lines and reads as
    ``expected``."""
    pairs = zip(_readings(raw, style), _readings(tamed, style), strict=True)
    true = next(
        true for true, tame in pairs if "".join(letter for letter, _, _ in tame) == expected
    )
    return "".join(letter for letter, _, _ in true)


def _readings(raw: str, style: str) -> Iterator[list[_Letter]]:
    if style in ("|", ">"):
        return (_block(raw, style == "|", indent) for indent in _indents(raw))
    if style == "'":
        return iter([_flow(list(_single(raw)))])
    if style == '"':
        return iter([_flow(list(_double(raw)))])
    return iter([_flow([(letter, i, i + 1) for i, letter in enumerate(raw)])])


def _single(raw: str) -> Iterator[_Letter]:
    i = 1
    while i < len(raw) - 1:
        width = 2 if raw.startswith("''", i) else 1
        yield raw[i], i, i + width
        i += width


def _double(raw: str) -> Iterator[_Letter]:
    """An escape is longer than one character, which is how `_flow` distinguishes ``\\n`` from the
    end of a line."""
    i = 1
    while i < len(raw) - 1:
        if raw[i] != "\\":
            yield raw[i], i, i + 1
            i += 1
            continue
        kind = raw[i + 1]
        if kind in "\r\n":  # the text continues on the next line
            width = 3 if raw.startswith("\r\n", i + 1) else 2
            yield "", i, i + width
        elif kind in _HEX:
            width = 2 + _HEX[kind]
            code = int(raw[i + 2 : i + width], 16)
            if 0xD800 <= code < 0xDC00 and raw.startswith(
                "\\u", i + width
            ):  # JSON writes 😀 as two escapes
                low = int(raw[i + width + 2 : i + width + 6], 16)
                code, width = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), width + 6
            yield chr(code), i, i + width
        else:
            width = 2
            yield _ESCAPES.get(kind, kind), i, i + width
        i += width


def _flow(found: list[_Letter]) -> list[_Letter]:
    """Fold the lines of a plain or quoted text: a line break with its blanks becomes a blank, n
    breaks become n - 1."""
    read: list[_Letter] = []
    i = 0
    while i < len(found):
        j = i
        while j < len(found) and _is(found[j], " \t"):
            j += 1
        if j == len(found) or not (_is(found[j], "\r\n") or found[j][0] == ""):
            read += found[i : j + 1]  # blanks inside a line, and the letter after them
            i = j + 1
            continue
        escaped = found[j][0] == ""
        if escaped:
            read += found[i:j]
        breaks: list[tuple[int, int]] = []
        k = j + 1 if escaped else i
        while k < len(found) and _is(found[k], " \t\r\n"):
            if _is(found[k], "\r\n"):
                crlf = found[k][0] == "\r" and k + 1 < len(found) and _is(found[k + 1], "\n")
                breaks.append((found[k][1], found[k + 1 if crlf else k][2]))
                k += crlf
            k += 1
        if escaped:
            read += [("\n", *place) for place in breaks]
        elif len(breaks) == 1:
            read.append((" ", found[i][1], found[k - 1][2]))
        else:
            read += [("\n", *place) for place in breaks[1:]]
        i = k
    return read


def _is(letter: _Letter, among: str) -> bool:
    """Whether an unescaped letter is one of these."""
    return letter[0] != "" and letter[0] in among and letter[2] - letter[1] == 1


def _indents(raw: str) -> Iterator[int]:
    """Possible indentations of a block scalar: that of its first line with text, then (``|2``) any
    smaller one."""
    lines = [line.rstrip("\r") for line in raw.replace("\r", "\n").split("\n")[1:]]
    full = [line for line in lines if line.strip(" ")]
    first = len(full[0]) - len(full[0].lstrip(" ")) if full else max(map(len, lines), default=0)
    return iter(range(first, -1, -1))


def _block(raw: str, literal: bool, indent: int) -> list[_Letter]:
    """The rules of `|` and `>`; ``pending`` is the last line's end, ``empty`` the ends of blank
    lines after it."""
    raw = re.sub("\r(?!\n)", "\n", raw)
    header = raw.find("\n") + 1 or len(raw)
    chomp = next((c for c in raw[:header].split("#")[0] if c in "+-"), "")
    read: list[_Letter] = []
    pending: list[_Letter] = []
    empty: list[_Letter] = []
    indented = False
    at = header
    while at < len(raw):
        stop = raw.find("\n", at)
        after = len(raw) if stop < 0 else stop + 1
        stop = len(raw) if stop < 0 else stop
        end = [("\n", stop - raw.startswith("\r", stop - 1), after)] if after > stop else []
        line_end = end[0][1] if end else stop
        begin = at + indent
        if raw[at:line_end].strip(" ") == "" and line_end <= begin:
            empty += end
        else:
            more = raw[begin : begin + 1] in (" ", "\t")
            if not literal and pending and not indented and not more:
                read += [(" ", *pending[0][1:])] if not empty else []
            else:
                read += pending
            read += empty
            read += [(raw[i], i, i + 1) for i in range(begin, line_end)]
            pending, empty, indented = end, [], more
        at = after
    return read + (pending if chomp != "-" else []) + (empty if chomp == "+" else [])


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

    @property
    def head(self) -> Span:
        """Its first key, for an error about all of it; of an empty mapping the first line."""
        return next((key.span for key in self.keys.values()), self.span)


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
