"""Splits both kinds of expressions into tokens: paths, literals, quoted and unquoted texts.

``{state.x + 1}`` and ``x < 0.8`` share one tokenizer, so that a quoted text may hold commas,
braces, operators and ``and`` in both (decision Y3). There are no escapes. A quote ends a text only
if another token can follow, so ``'it's'`` and ``'it''s'`` are texts, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any

from ....text.names import same_name
from ...descend import MISSING
from .lookup import find

LONGEST = 10_000
"""Characters of an expression; a text around placeholders may be longer."""
LONGEST_TEXT = 1_000 * LONGEST
"""Characters of a text with its placeholders filled."""

MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u06d6-\u06ed\u0900-\u0dff"
    r"\u0e31-\u0e4e\u0eb1-\u0ece\u0f71-\u0fbc\u102b-\u109d\u17b4-\u17d3\u3099\u309a"
)
"""The marks of letters in scripts that write them apart, for a class of a regular expression, which
does not count them among ``\\w``."""
LETTER = r"[^\W\d]"
"""The first character of a name: a letter of any script, or _."""
LETTERS = rf"[\w{MARKS}]"
"""A further character of a name."""
DOTTED = rf"[\w.{MARKS}]"
"""A further character of a path of names."""

KEY_NAME = re.compile(rf"[\w{MARKS}-]+(?: [\w{MARKS}-]+)*")
"""A key that an expression can name without looking like something else."""

QUOTES = "'\""
_FOLLOWS = frozenset(",:]}+-*/<>=!)")
_KEYWORDS = {"true": True, "false": False, "null": None, "none": None}


@dataclass(frozen=True, slots=True)
class Path:
    """A path into the state: ``critique.score``. Two paths are equal wherever they are written."""

    names: tuple[str, ...]
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    prefixed: bool = field(default=False, compare=False)
    """Whether the path is written with ``state.``."""

    def __post_init__(self) -> None:
        # A frozen dataclass of slots has no other way.
        object.__setattr__(self, "names", tuple(map(same_name, self.names)))

    def of(self, state: Any) -> Any:
        """The value at the path in the state; None if the state has no value there."""
        value = find(state, self.names)
        return None if value is MISSING else value


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, true, false, null, or a quoted text."""

    value: Any

    def of(self, state: Any) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Bare:
    """Text without quotes: a text, or (on the right of a condition) the value of the key with that
    name."""

    text: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    def of(self, state: Any) -> str:
        return self.text


def quoted_end(source: str, start: int, end: int) -> int:
    """The position after the closing quote of the text that begins at ``start``; -1 if there is
    none before ``end``."""
    mark = source[start]
    index = start
    while (index := source.find(mark, index + 1, end)) >= 0:
        after = source[index + 1 : index + 2]
        if not after or after.isspace() or after in _FOLLOWS:
            return index + 1
    return -1


def parse_literal(text: str, start: int = 0) -> Literal | Bare:
    """The value of a text without quotes.

    >>> parse_literal("-0.5").value, parse_literal("TRUE").value, parse_literal("None").value, parse_literal("1e3").text
    (-0.5, True, None, '1e3')
    """
    lowered = text.lower()
    if lowered in _KEYWORDS:
        return Literal(_KEYWORDS[lowered])
    try:
        return Literal(float(text) if "." in text else int(text))
    except ValueError:  # a text, or a number with too many digits for Python
        return Bare(text, start, start + len(text))


def format_literal(value: Any) -> str:
    """A literal in the syntax of an expression.

    >>> format_literal("it is"), format_literal(True), format_literal(0.5)
    ("'it is'", 'true', '0.5')
    >>> format_literal(1e-07), format_literal(1e22)
    ('0.0000001', '10000000000000000000000.0')
    """
    if isinstance(value, str):
        return f'"{value}"' if "'" in value else f"'{value}'"
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float) and isfinite(value):  # no expression has an exponent
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    return repr(value)
