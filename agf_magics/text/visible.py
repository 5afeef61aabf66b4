"""Writes JSON texts in which a person sees every character.

Characters in the data must not change how a question about a call, or JSON in a terminal, looks: an
escape sequence rewrites the screen, a bidi mark reverses a word, a character without a shape is
invisible. JSON has escapes for all of them, so the text stays the same JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHAPELESS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Characters that Unicode counts as letters or signs, but that show nothing."""


def visible(text: str) -> str:
    """The JSON ``text``, which has no line breaks, with an escape for each invisible character.

    >>> visible('"to\\u202edo\\x9b2J"')
    '"to\\\\u202edo\\\\u009b2J"'
    """
    if text.isascii():
        return _CONTROL.sub(lambda match: _escape(match[0]), text)
    seen = str.isprintable
    return "".join(
        letter
        if seen(letter) and letter not in _SHAPELESS and not _selects(letter)
        else _escape(letter)
        for letter in text
    )


def visible_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """``value`` as JSON on one line. ``default``: converts a part that is not JSON; None: such a
    part raises TypeError."""
    return visible(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=default))


def _selects(letter: str) -> bool:
    """Whether ``letter`` is a variation selector, which changes the character before it or shows
    nothing."""
    return "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"


def _escape(letter: str) -> str:
    return json.dumps(letter)[1:-1] if letter != "\x7f" else "\\u007f"
