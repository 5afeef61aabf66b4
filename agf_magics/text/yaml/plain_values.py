"""Computes the value of a plain YAML scalar by the core schema of YAML 1.2 (decision A7).

``on``, ``yes``, ``1:30``, ``1_000`` and dates are text; ``017`` is 17. Values are finite (decision
A1), so ``.inf`` and ``.nan`` are errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

CONSTANTS: Mapping[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(
    rf"{_INT.pattern}|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class NotFinite(ValueError):
    """An infinite number or NaN."""


def number(text: str) -> int | float | str:
    """``text`` as a number, or ``text`` itself if it is no number. Raises NotFinite for infinity,
    NaN and a number that is too large.

    >>> number("017"), number("0o17"), number("1e3"), number("1:30")
    (17, 15, 1000.0, '1:30')
    """
    if not _NUMBER.fullmatch(text):
        return text
    try:
        if _INT.fullmatch(text):
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        value = float(text)
    except ValueError:  # .inf, .nan, or more digits than Python reads
        raise NotFinite(text) from None
    if math.isinf(value):
        raise NotFinite(text)
    return value
