"""Writes a choice of another language, such as ``a if c else b`` or ``c ? a : b``, as R1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .tokens import Token, outer, part_around

_SIGNS = frozenset({"?", "if", "then", "else"})
"""The signs and words of a choice, beside the ``:``, which an object has, too."""
_FALSE = {"false", "null", "0", "0.0", "''", '""', "[]", "{}"}
"""Literals that are false: as the middle of ``a and b or c`` they are never the result."""
_CERTAIN = re.compile(r"'[^']+'|\"[^\"]+\"|true|[0-9.]*[1-9][0-9.]*")
"""Literals that are true."""


def choice_hint(tokens: Sequence[Token], index: int, source: str) -> str:
    """The hint for the choice that has the token ``index``: the whole expression with the choice in
    R1."""
    first, last = part_around(tokens, index, (",", "->", ":"), (",",))
    written = _Choices(tokens, source).as_r1(first, last)
    if written is None:
        return "a choice is written: condition and 'yes' or 'no'"
    text, caution = written
    if not text:
        return caution
    start = tokens[first].offset
    end = start + len(source[start : tokens[last].offset].rstrip())
    return f"write: {source[:start].lstrip()}{text}{source[end:].rstrip()}{caution}"


class _Written(NamedTuple):
    text: str
    """The choice in R1; empty: it cannot be written."""
    caution: str


class _Choices(NamedTuple):
    """The choices of an expression. A range of its tokens is the number of the first and of the one
    behind the last."""

    tokens: Sequence[Token]
    source: str

    def text(self, first: int, last: int) -> str:
        return self.source[self.tokens[first].offset : self.tokens[last].offset].strip()

    def as_r1(self, first: int, last: int) -> _Written | None:
        """The choice of a range; None: it is none that is complete."""
        ranges = self.ranges(first, last)
        if ranges is None or not all(self.text(*part) for part in ranges):
            return None
        condition, value, other = (self.text(*part) for part in ranges)
        if any(self.signs(*part) for part in ranges[:2]):
            return None
        if self.signs(*ranges[2]):
            inner = self.as_r1(*ranges[2])
            if inner is None or not inner.text:
                return inner
            written = _written(condition, value, inner.text)
            return written._replace(caution=written.caution or inner.caution)
        return _written(condition, value, other)

    def signs(self, first: int, last: int) -> list[int]:
        """The signs of choices in a range that are in no inner brackets."""
        numbers = (number for number in outer(self.tokens, first, 1) if number < last)
        return [number for number in numbers if self.tokens[number].text in _SIGNS]

    def ranges(self, first: int, last: int) -> tuple[tuple[int, int], ...] | None:
        """The ranges of the condition, the value and the other value."""
        signs = self.signs(first, last)
        words = [self.tokens[number].text for number in signs]
        if words[:1] == ["?"]:
            colon = self.colon(signs[0] + 1, last)
            if colon is None:
                return None
            return (first, signs[0]), (signs[0] + 1, colon), (colon + 1, last)
        if words[:3] == ["if", "then", "else"] and signs[0] == first:
            _, then, other = signs[:3]
            return (first + 1, then), (then + 1, other), (other + 1, last)
        if words[:2] == ["if", "else"]:
            condition, other = signs[:2]
            return (condition + 1, other), (first, condition), (other + 1, last)
        return None

    def colon(self, first: int, last: int) -> int | None:
        """The colon of the ``?`` before a range."""
        open_signs = 1
        for number in outer(self.tokens, first, 1):
            if number < last:
                open_signs += {"?": 1, ":": -1}.get(self.tokens[number].text, 0)
                if not open_signs:
                    return number
        return None


def _written(condition: str, value: str, other: str) -> _Written:
    """A choice by ``and`` and ``or``, whose middle must be true."""
    if value not in _FALSE:
        caution = "" if _CERTAIN.fullmatch(value) else "; if its middle may be false: a match step"
        return _Written(f"{_operand(condition)} and {_operand(value)} or {other}", caution)
    if other in _FALSE:
        return _Written("", "its middle would be false: write a match step, with on: and cases:")
    return _Written(f"not ({condition}) and {_operand(other)} or {value}", "")


def _operand(text: str) -> str:
    """A text as the operand of ``and``."""
    is_whole = text.startswith("(") and text.endswith(")") and "(" not in text[1:]
    return f"({text})" if re.search(r"\bor\b", text) and not is_whole else text
