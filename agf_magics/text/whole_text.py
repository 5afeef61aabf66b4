"""Texts as they can leave the process: U+FFFD for each half of a surrogate pair, which UTF-8 does not have.

Such a half is in the name of a file that is not UTF-8, and in a text that was cut in a character. No
message to a model, to a server or to a client can have it.
"""

from __future__ import annotations

from typing import Any


def whole_text(text: str) -> str:
    """``text`` with U+FFFD for each half of a surrogate pair; two halves are the character.

    >>> whole_text("a\\udcff"), whole_text("\\ud83c\\udf50")
    ('a\ufffd', '\U0001f350')
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def with_whole_texts(value: Any) -> Any:
    """``value`` with such texts in its lists and objects, also as keys.

    >>> with_whole_texts({"\\udcff": ["a\\ud800", 1]})
    {'\ufffd': ['a\ufffd', 1]}
    """
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [with_whole_texts(part) for part in value]
    if isinstance(value, dict):
        return {with_whole_texts(key): with_whole_texts(part) for key, part in value.items()}
    return value
