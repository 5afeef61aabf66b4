"""When two spellings are one name."""

from __future__ import annotations

import unicodedata


def same_name(name: str) -> str:
    """The spelling that all names which look the same share: the one that Python gives an
    identifier of its own source (NFKC), so that `def µ_mean` and the text ``µ_mean`` of a
    definition mean one tool (decision D150).

    >>> same_name("cafe\\u0301"), same_name("\\N{MICRO SIGN}") == "\\N{GREEK SMALL LETTER MU}"
    ('café', True)
    """
    return name if name.isascii() else unicodedata.normalize("NFKC", name)
