"""Texts of the journal as a person searches them: JSON escapes characters that a view shows."""

from __future__ import annotations

import json
import re

_ESCAPED = re.compile(r"\\\\|(?:\\u[0-9a-fA-F]{4})+")
"""A backslash, which is no begin of another escape, or characters, in JSON."""


def with_letters(text: str) -> str:
    """JSON with the characters outside ASCII as they are, and not as ``\\u00fc``.

    >>> with_letters('["Z\\\\u00fcrich", "C:\\\\\\\\u0041"]')
    '["Zürich", "C:\\\\\\\\u0041"]'
    """
    return _ESCAPED.sub(_unescaped, text) if "\\u" in text else text


def searched(text: str) -> str:
    """A text as it is searched: without case, spaces and quotes, because a table shows ``n: 5`` for
    what the journal has as ``{"n":5}``, and with all letters.

    >>> searched('{"To": "\\\\u00c4pfel GmbH"}'), searched("STRASSE") == searched("Straße")
    ('{to:äpfelgmbh}', True)
    """
    return with_letters(text).casefold().replace(" ", "").replace('"', "")


def _unescaped(escape: re.Match[str]) -> str:
    codes = escape.group()
    return codes if codes == r"\\" else str(json.loads(f'"{codes}"'))
