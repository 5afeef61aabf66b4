"""Converts places of a text to positions of the language server protocol: lines and units of a
line."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal, NamedTuple

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""The unit in which characters are counted: the codec, and the number of bytes of a unit."""


_LINE_END = re.compile(r"\r\n|\n|\r")


class Position(NamedTuple):
    line: int
    unit: int


class Positions:
    """Offsets of one text as positions, and back. A position after the end is at the end."""

    def __init__(self, text: str, encoding: Encoding = "utf-16") -> None:
        self.text = text
        self._codec, self._width = _CODECS[encoding]
        self._is_ascii = text.isascii()
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        """The position of an offset.

        >>> Positions("a\\n🍐b").position(3)
        Position(line=1, unit=2)
        """
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        return Position(line, len(before) if self._is_ascii else self._units(before))

    def offset(self, line: int, unit: int) -> int:
        """The offset of a position.

        >>> Positions("a\\n🍐b").offset(1, 2)
        3
        """
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        while end > start and self.text[end - 1] in "\r\n":
            end -= 1
        if self._is_ascii:
            return min(start + unit, end)
        units = self.text[start:end].encode(self._codec, "surrogatepass")[: unit * self._width]
        return start + len(units.decode(self._codec, "ignore"))

    def _units(self, text: str) -> int:
        return len(text.encode(self._codec, "surrogatepass")) // self._width
