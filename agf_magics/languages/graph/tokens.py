"""What both expression languages are made of: quoted texts, literals, texts without quotes, and how one is refused.

One tokenizer for ``{state.x + 1}`` and ``x < 0.8``, so that a quoted text may hold commas, braces, operators and
``and`` in both (decision Y3). There are no escapes: a quote ends a text where something else can follow it, so
``'it's'`` and ``'it''s'`` are texts too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, TypeVar

from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.source import Text

LONGEST = 10_000
"""Characters of an expression; a text around placeholders may be longer."""

QUOTES = "'\""
_FOLLOWS = frozenset(",:]}+-*/<>=!)")
_KEYWORDS = {"true": True, "false": False, "null": None, "none": None}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Path:
    """A way into the state: ``critique.score``. Equal to one that stands elsewhere."""

    names: tuple[str, ...]
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    prefixed: bool = field(default=False, compare=False)
    """Whether ``state.`` stands before it."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, true, false, null, or a quoted text."""

    value: Any


@dataclass(frozen=True, slots=True)
class Bare:
    """Text without quotes: a text, or (on the right of a condition) what a path of that name leads to."""

    text: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


class Wrong(NamedTuple):
    """What an expression cannot say, and where in its text."""

    code: str
    message: str
    start: int
    end: int
    hint: str | None = None


class Refused(Exception):
    """Raised inside a parser; `located` makes it a DefinitionError with a place."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__(wrong.message)
        self.wrong = wrong


def wrong(what: str, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
    raise Refused(Wrong(f"graph.{what}", message, start, end, hint))


def located(text: Text, parse: Callable[[str], T]) -> T:
    """What ``parse`` makes of the text; what it refuses is a DefinitionError at the very letter."""
    try:
        return parse(text.text)
    except Refused as refused:
        told = refused.wrong
        place = text.locate(told.start, told.end)
        raise DefinitionError(Diagnostic(told.code, told.message, place, told.hint)) from None


def quoted_end(source: str, start: int, end: int) -> int:
    """Where the text that begins with the quote at ``start`` ends, behind its quote; -1: nowhere before ``end``."""
    mark, at = source[start], start
    while (at := source.find(mark, at + 1, end)) >= 0:
        after = source[at + 1 : at + 2]
        if not after or after.isspace() or after in _FOLLOWS:
            return at + 1
    return -1


def literal(text: str, start: int = 0) -> Literal | Bare:
    """What a text without quotes stands for.

    >>> literal("-0.5").value, literal("TRUE").value, literal("None").value, literal("1e3").text
    (-0.5, True, None, '1e3')
    """
    lowered = text.lower()
    if lowered in _KEYWORDS:
        return Literal(_KEYWORDS[lowered])
    try:
        return Literal(float(text) if "." in text else int(text))
    except ValueError:  # a text, or a number too long for Python
        return Bare(text, start, start + len(text))


def skip(source: str, at: int, end: int) -> int:
    """The first place from ``at`` on where no blank stands."""
    while at < end and source[at].isspace():
        at += 1
    return at


def show_literal(value: Any) -> str:
    """A literal as an expression writes it.

    >>> show_literal("it is"), show_literal(True), show_literal(0.5)
    ("'it is'", 'true', '0.5')
    """
    if isinstance(value, str):
        return f'"{value}"' if "'" in value else f"'{value}'"
    return (
        {True: "true", False: "false", None: "null"}[value]
        if value is None or value is True or value is False
        else repr(value)
    )
