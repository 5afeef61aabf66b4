"""Brings the different spellings of a name into one form."""

from __future__ import annotations

import unicodedata


def same_name(name: str) -> str:
    r"""The common spelling of all names that look like ``name``. Python normalizes the identifiers
    of its source in the same way (NFKC), so `def µ_mean` and the text ``µ_mean`` of a definition
    mean one tool (decision D150). A character that would become a sign stays: ``½`` is not ``1/2``.

    >>> same_name("cafe\u0301"), same_name("\N{MICRO SIGN}") == "\N{GREEK SMALL LETTER MU}"
    ('café', True)
    >>> same_name("½"), same_name("a…")
    ('½', 'a…')
    """
    if name.isascii():
        return name
    normal = unicodedata.normalize("NFKC", name)
    return normal if all(map(_is_of_word, set(normal) - set(name))) else name


MOST_IN_ID = 60
"""The most characters of the name of a flow in the ids of its runs."""


def word_of(name: str) -> str:
    """``name`` as a word of a line without quotes, with the letters and digits of all scripts and
    their marks: ids of runs begin with it.

    >>> word_of("orders over rows"), word_of("größe.2")
    ('orders_over_rows', 'größe.2')
    """
    return "".join(char if _is_of_word(char) or char in ".-" else "_" for char in same_name(name))


def _is_of_word(char: str) -> bool:
    return char.isalnum() or char == "_" or unicodedata.category(char).startswith("M")
