"""Texts that a server sends, before anybody sees them: cleaned, cut, and without the secrets it got.

A server is a stranger: its names, descriptions, errors and logs may have escape sequences that
rewrite a terminal, marks that turn a line around, and the token that it was started with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_ERROR = 2_000
LONGEST_DESCRIPTION = 4_000
LONGEST_LINE = 500

_UNSEEN = re.compile(
    "\x1b\\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


def clean(text: str, most: int = LONGEST_LINE) -> str:
    """``text`` without escape sequences, control and bidi characters, at most ``most`` characters.

    >>> clean("\\x1b[31mred\\x1b[0m and \\u202eback")
    'red and back'
    """
    # Cut first, with room for what is removed: the text may have millions of characters.
    short = _UNSEEN.sub("", text[: 4 * most])
    return short if len(short) <= most else f"{short[: most - 1]}…"


def first_line(text: str, most: int = LONGEST_DESCRIPTION) -> str:
    """The first line of a text that says something."""
    return next(filter(None, map(str.strip, clean(text, most).splitlines())), "")


class Masked:
    """Replaces the values that a server was given as secrets."""

    SHORTEST = 4
    """A shorter value is in too many words to be replaced."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest first: one may be a part of another.
        kept = {value for value in values if len(value) >= self.SHORTEST}
        self._values = sorted(kept, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "•••")
        return text


def describe(error: BaseException) -> str:
    """An exception of the SDK or the system, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = clean(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
