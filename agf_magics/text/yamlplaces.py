"""The place in the source of each character of a YAML scalar, through quotes, escapes, folds and
indentation.

The C parser gives only the text of a scalar and the places of its beginning and end. This module
parses the scalar's source again by the same rules and records the place of every character. Only
errors need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


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
