"""Makes the texts of a server safe to show: cleaned, shortened, and without the secrets it was
given.

A server is not trusted: its names, descriptions, errors and logs may contain escape sequences that
rewrite a terminal, marks that reverse a line, and the token that it was started with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

LONGEST_ERROR = 2_000
LONGEST_DESCRIPTION = 4_000
LONGEST_LINE = 500
"""Characters of the text of an error, of a description, and of any other text."""

_UNSEEN = re.compile(
    "\x1b\\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
"""Escape sequences of a terminal, and characters that are not seen or that reverse a line."""


def clean(text: str, most: int = LONGEST_LINE, masked: Callable[[str], str] = str) -> str:
    """``text`` without escape sequences, control and bidi characters, at most ``most`` characters.
    ``masked`` masks secrets between the two: it would not find one that such a character or the cut
    divides.

    >>> clean("\\x1b[31mred\\x1b[0m and \\u202eback")
    'red and back'
    """
    # Cut before the pattern runs, because the text may have millions of characters. Four times the
    # length leaves room for the characters that the pattern removes.
    short = masked(_UNSEEN.sub("", text[: 4 * most]))
    return short if len(short) <= most else f"{short[: most - 1]}…"


def first_line(text: str, masked: Callable[[str], str] = str) -> str:
    """The first line of a description that is not blank."""
    lines = clean(text, LONGEST_DESCRIPTION, masked).splitlines()
    return next(filter(None, map(str.strip, lines)), "")


class Masked:
    """Replaces the values that a server was given as secrets."""

    SHORTEST = 4
    """Characters of a secret that is masked; a shorter one occurs inside ordinary words."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest value first, because one value may be a part of another.
        kept = {value for value in values if len(value) >= self.SHORTEST}
        self._values = sorted(kept, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "•••")
        return text


def describe(error: BaseException, masked: Masked) -> str:
    """An exception of the SDK or the system as one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = clean(str(error), masked=masked)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
