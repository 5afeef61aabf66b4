"""The base of the small grammars: a cursor over text, quoted texts, numbers, errors with a place.

A grammar uses offsets in its own text and raises `Refusal`, which `parse_at` turns into a
`DefinitionError` at the place of the text in the document. Every pattern is matched in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.source import Text

T = TypeVar("T")

QUOTED: Final = re.compile(r""""(?>(?:[^"\\]|\\.)*)"|'(?>(?:[^'\\]|\\.)*)'""", re.DOTALL)
"""A text in quotes in which a backslash escapes the next character."""
JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
"""A number as JSON writes it: without a sign ``+`` and without leading zeros."""
LONGEST_NUMBER: Final = 1_000
"""Characters of a number."""


class Refusal(Exception):
    """A parser refuses its text: the code, the message, the range of the text, and the hint."""

    def __init__(
        self, code: str, message: str, start: int, end: int, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint


def parse_at(text: Text, parse: Callable[[str], T]) -> T:
    """The result of ``parse``; a Refusal becomes a DefinitionError at its place in the document."""
    try:
        return parse(text.text)
    except Refusal as refusal:
        place = text.locate(refusal.start, refusal.end)
        raise DefinitionError(
            Diagnostic(refusal.code, refusal.message, place, refusal.hint)
        ) from None


class Scanner:
    """A cursor over ``source`` from ``at`` to ``end``."""

    def __init__(self, source: str, at: int = 0, end: int | None = None) -> None:
        self.source = source
        self.at = at
        self.end = len(source) if end is None else end

    def skip_blanks(self) -> int:
        """Move to the next character that is not blank; the new position."""
        self.at = skip_blanks(self.source, self.at, self.end)
        return self.at

    def skip(self, position: int) -> None:
        """Move to the first character from ``position`` that is not blank, or to the end."""
        self.at = skip_blanks(self.source, position, self.end)

    def peek(self) -> str:
        """Skip blanks; the character there, or an empty text at the end."""
        return self.source[self.at] if self.skip_blanks() < self.end else ""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The match of ``pattern`` at the cursor; the cursor stays."""
        return pattern.match(self.source, self.at, self.end)


def skip_blanks(source: str, position: int, end: int) -> int:
    """The first position from ``position`` on without a blank of any kind (decision Y13); ``end``
    if only blanks are before it."""
    while position < end and source[position].isspace():
        position += 1
    return position


def read_number(text: str) -> int | float | None:
    """The number that ``text`` is in JSON; None if ``text`` is no number, is too long, or is too
    large for a float.

    >>> read_number("-1.5e3"), read_number("12"), read_number("012"), read_number("1e999")
    (-1500.0, 12, None, None)
    """
    if len(text) > LONGEST_NUMBER or not JSON_NUMBER.fullmatch(text):
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    value = float(text)
    return value if value - value == 0 else None
