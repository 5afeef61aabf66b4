"""Finds the place in the source of each character of a YAML scalar, through quotes, escapes and
folds.

The C parser gives only the text of a scalar and the places of its beginning and end. This module
finds each character of the text in the scalar's source. Only errors need these places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Place = tuple[int, int]
"""The offsets where a character begins and ends."""

_ESCAPES = {
    **dict(zip("0abt\tnvfre", "\0\a\b\t\t\n\v\f\r\x1b", strict=True)),
    **dict(zip("N_LP", "\x85\xa0\u2028\u2029", strict=True)),
}
# JSON writes 😀 as two escapes. An escaped line end is not a character of the text.
_PIECE = re.compile(
    r"\\(?:x(..)|u([dD][89abAB]..)\\u(....)|u(....)|U(.{8})|(\r\n?|\n)|(.))|\r\n?|.", re.DOTALL
)
PIECES = {"'": re.compile(r"''|\r\n?|.", re.DOTALL), '"': _PIECE}
"""The pattern of a piece of a quoted scalar, by its quote."""
_UNQUOTED_PIECE = re.compile(r"\r\n?|.", re.DOTALL)
_BLANK = " \t\n"


def letters(raw: str, style: str, expected: str) -> list[Place] | None:
    """The place of each character of ``expected`` in ``raw``, the source of a scalar in ``style``,
    and the place of its end; None if ``expected`` is not the text of ``raw``.

    YAML has many rules for the blanks between the lines of a text. This function finds the other
    characters and takes the blanks between them as one group: no error needs their exact places.

    >>> letters("'it''s'", "'", "it's")
    [(1, 2), (2, 3), (3, 5), (5, 6), (6, 6)]
    """
    places = list[Place]()
    blanks = list[Place]()
    count_placed = 0  # the number of characters of `expected` that have places
    for letter, start, end in _pieces(raw, style):
        if raw[start] in " \t\r\n":
            blanks.append((start, end))
            continue
        if not letter:  # an escaped line end
            continue
        index = expected.find(letter, count_placed)
        if index < 0 or expected[count_placed:index].strip(_BLANK):
            return None
        places += [*_places_of_blanks(index - count_placed, blanks, start), (start, end)]
        blanks = []
        count_placed = index + 1
    places += _places_of_blanks(len(expected) - count_placed, blanks, len(raw))
    if expected[count_placed:].strip(_BLANK):
        return None
    _, last_end = places[-1] if places else (0, int(style in PIECES))
    return [*places, (last_end, last_end)]


def _places_of_blanks(count: int, blanks: list[Place], end: int) -> list[Place]:
    """The places of ``count`` blanks of a text: the last of ``blanks`` before ``end``, because the
    indentation of a line comes before its blanks."""
    begin, _ = blanks[0] if blanks else (end, end)
    return [(begin, begin)] * (count - len(blanks)) + blanks[max(0, len(blanks) - count) :]


def reread(raw: str, tamed: str, style: str, expected: str) -> str:
    """The text of the scalar ``raw`` in ``style``. The parser could only read ``tamed``, a
    replacement of the same length and lines, whose text is ``expected``."""
    places = letters(tamed, style, expected)
    assert places is not None, "the parser has read this text"
    true = {start: letter for letter, start, _ in _pieces(raw, style)}
    return "".join(
        letter if raw[start:end] == tamed[start:end] else true.get(start, "")
        for letter, (start, end) in zip(expected, places, strict=False)  # the last place is the end
    )


def _pieces(raw: str, style: str) -> Iterator[tuple[str, int, int]]:
    """The characters of a scalar before its lines are folded, with their places."""
    begin = int(style in PIECES)
    end = len(raw) - begin
    if style in ("|", ">"):  # the header of a block does not belong to its text
        header = re.search(r"\r\n?|\n", raw)
        begin = header.end() if header else end
    for match in PIECES.get(style, _UNQUOTED_PIECE).finditer(raw, begin, end):
        letter = match[0]
        if style == '"' and letter[0] == "\\":
            letter = _unescape(match)
        elif letter[0] == "\r":
            letter = "\n"
        yield letter[:1], match.start(), match.end()


def _unescape(match: re.Match[str]) -> str:
    """The character of an escape between double quotes; empty for an escaped line end."""
    two_digits, high, low, four_digits, eight_digits, _, letter = match.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if code := two_digits or four_digits or eight_digits:
        return chr(int(code, 16))
    return _ESCAPES.get(letter, letter) if letter else ""
