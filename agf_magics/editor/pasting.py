"""Lists the edits by which a person may apply a hint at the place of a problem.

The caret of a problem points at a wrong name, value or key, or at a mapping that lacks a key.
Likely edits come first, and `repairs` tries them in this order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..text.diagnostics import Diagnostics
from ..text.source import Source
from ..text.yaml.nodes import Fields, Items, Node, every_node, is_text
from ..text.yaml.reader import Bounds, documents

_KEY = re.compile(r"(?P<key>[\w.]++): ")
"""The pattern of a piece that begins with a key and a value."""
_VALUE = re.compile(r": *+(?:\"[^\"\n]*\"|'[^'\n]*'|\[[^\]\n]*\]|[^,}\n]*)")
_WORD = re.compile(r"\w++")
_QUOTES = "\"'"


class Edit(NamedTuple):
    """An edit: ``text`` replaces the part of another text from ``start`` to ``end``."""

    start: int
    end: int
    text: str

    def applied(self, to: str) -> str:
        return to[: self.start] + self.text + to[self.end :]


class Caret(NamedTuple):
    """The place of a problem's caret in a text, and the piece to be written there."""

    text: str
    start: int
    end: int
    piece: str

    @property
    def key(self) -> str:
        """The key with which the piece begins; empty: it begins with no key."""
        key = _KEY.match(self.piece)
        return key["key"] if key else ""

    @property
    def line(self) -> int:
        """The offset where the line of the caret begins."""
        return self.text.rfind("\n", 0, self.start) + 1

    def put(self, start: int, end: int, piece: str | None = None) -> Edit:
        """An edit that writes a piece in place of the text from ``start`` to ``end``. ``piece``:
        default None: the caret's piece."""
        return Edit(start, end, self.piece if piece is None else piece)


def pasted(text: str, start: int, end: int, piece: str) -> Iterator[Edit]:
    """The edits that write ``piece`` where a reader would, given a caret below ``text[start:end]``,
    without duplicates."""
    yield from dict.fromkeys(_places(Caret(text, start, end, piece)))


def _places(caret: Caret) -> Iterator[Edit]:
    """The edits in the order in which they are tried; a place may come twice."""
    text, start, end, piece = caret
    yield from _as_a_pair(caret)
    if (
        _WORD.fullmatch(piece)
        and end - start > 2
        and text[start] == text[end - 1]
        and text[start] in _QUOTES
    ):
        yield caret.put(start + 1, end - 1)  # a name stays in its quotes
    yield caret.put(start, end)
    yield from _in_what_is_marked(caret)
    nodes = _nodes(text)
    yield from _in_a_node(caret, nodes)
    yield from (
        caret.put(start + word.start(), start + word.end())
        for word in _WORD.finditer(text[start:end])  # the words of a path
    )
    if piece.startswith("{") and text[start - 1 : start] == "{":
        yield caret.put(start - 1, text.find("}", end) + 1)
    yield from _as_a_missing_key(caret)
    yield from _in_a_mapping(caret, nodes)
    if piece.startswith("--"):
        yield from _in_a_line(caret)


def _as_a_pair(caret: Caret) -> Iterator[Edit]:
    """The edits that replace the key and the value at the caret."""
    if not caret.key:
        return
    text, start, end, _ = caret
    before = text.rfind(f"{caret.key}:", caret.line, start)
    if before >= 0:
        yield caret.put(before, end)
    if text[end : end + 1] == ":":
        value = _VALUE.match(text, end)
        yield caret.put(start, value.end() if value else end)


def _in_what_is_marked(caret: Caret) -> Iterator[Edit]:
    """The edits that replace the text in quotes, in braces, or behind a dash."""
    text, start, end, piece = caret
    if piece.startswith("- "):
        yield caret.put(start, end, f"{{{piece[2:]}}}")
    before = text[caret.line : start].rstrip()
    if caret.key and before.endswith(":"):  # the value of a key
        name = before[:-1]
        while name and (name[-1].isalnum() or name[-1] in "_."):
            name = name[:-1]
        yield caret.put(caret.line + len(name), end)
    if piece.endswith(":"):
        yield caret.put(start, end, piece[:-1])
    for inner in dict.fromkeys((text[start:end].strip(_QUOTES), text[start:end].strip("\"'{} "))):
        if inner != text[start:end]:
            inside = text.index(inner, start)
            yield caret.put(inside, inside + len(inner))
    if len(piece) > 2 and piece[0] in _QUOTES and piece[0] == piece[-1]:  # a text that needs quotes
        colon = text.find(": ", caret.line, end)
        for stop in re.finditer(r"[,}\n]|\Z", text[end:]) if colon >= 0 else ():
            yield caret.put(colon + 2, end + stop.start())
            if stop[0] in ("\n", ""):
                break
        bare = piece.strip(_QUOTES)
        place = text.find(bare, max(0, start - len(bare))) if bare else -1
        while 0 <= place <= end:
            yield caret.put(place, place + len(bare))
            place = text.find(bare, place + 1)


def _in_a_node(caret: Caret, nodes: list[Node]) -> Iterator[Edit]:
    """The edits that replace each value around the caret, or insert a key or an element into it."""
    _, start, end, piece = caret
    for node in nodes:
        first, last = _whole(node)
        if not (first <= start and end <= last):
            continue
        if isinstance(node, Fields):
            yield caret.put(first, last)
            if caret.key and caret.key in node.fields:
                yield caret.put(node.keys[caret.key].span.start, _whole(node.fields[caret.key])[1])
        elif isinstance(node, Items):
            yield caret.put(first, last)
            yield caret.put(first + 1, first + 1, f"{piece}, ")
        elif is_text(node):
            is_written = piece.startswith(("!expr", '"'))
            yield caret.put(
                first, last, piece if is_written else json.dumps(piece, ensure_ascii=False)
            )
            yield caret.put(first, last)


def _as_a_missing_key(caret: Caret) -> Iterator[Edit]:
    """The edits that insert a key before, above, behind and below the caret, and at the end of the
    text."""
    if not caret.key:
        return
    text, start, end, piece = caret
    yield caret.put(start, start, f"{piece}, ")
    before = text[caret.line : start]
    indent = before[: len(before) - len(before.lstrip())]
    yield caret.put(caret.line, caret.line, f"{indent}{piece}\n")
    yield caret.put(end, end, f", {piece}")
    brace = text.find("{", end)
    if brace >= 0 and text[end:brace].strip(" ") == ":":
        yield caret.put(brace + 1, brace + 1, f"{piece}, ")
    yield caret.put(len(text.rstrip()), len(text), f"\n{piece}\n")


def _in_a_mapping(caret: Caret, nodes: list[Node]) -> Iterator[Edit]:
    """The edits that add a key to a mapping. The nearest mapping comes first, and of nested ones
    the innermost."""
    if not caret.key:
        return

    def distance(node: Node) -> tuple[int, int]:
        first, last = _whole(node)
        return max(first - caret.start, caret.end - last, 0), last - first

    mappings = (node for node in nodes if isinstance(node, Fields) and node.fields)
    for node in sorted(mappings, key=distance):
        first = _whole(node)[0]
        if caret.text[first] == "{":
            yield caret.put(first + 1, first + 1, f"{caret.piece}, ")
        else:
            blanks = " " * (first - caret.text.rfind("\n", 0, first) - 1)
            yield caret.put(first, first, f"{caret.piece}\n{blanks}")


def _in_a_line(caret: Caret) -> Iterator[Edit]:
    """The edits that write an option of a magic: at the end of its line, or in place of the word or
    the option at the caret."""
    text, start, end, piece = caret
    first = text.find("\n") if text.startswith("%%") else -1
    stop = text.find("\n", start)
    stop = stop if stop >= 0 else len(text)
    for line_end in dict.fromkeys((first, stop) if first >= 0 else (stop,)):
        yield caret.put(line_end, line_end, f" {piece}")
    option = text.find("--", caret.line, end)
    while option >= 0:
        yield caret.put(option, end)
        yield caret.put(option, stop)
        option = text.find("--", option + 2, end)
    yield caret.put(start, stop)


def _whole(node: Node) -> tuple[int, int]:
    span = node.whole if isinstance(node, Fields | Items) else node.span
    return span.start, span.end


def _nodes(text: str) -> list[Node]:
    """All values of a text. Inner values come after the values around them."""
    # the line of a magic is no YAML, so a comment of equal length replaces it
    if text.startswith("%%"):
        end = text.find("\n")
        text = "#" * end + text[end:] if end > 0 else ""
    read = documents(Source("", text), Diagnostics(), Bounds())
    return [node for document in read for node in every_node(document)]
