"""The value of a plain YAML scalar by the core schema of YAML 1.2 (decision A7).

``on``, ``yes``, ``1:30``, ``1_000`` and dates are text; ``017`` is 17. Values are finite (decision
A1): ``.inf`` and ``.nan`` are errors, neither numbers nor silently text.
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
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class NotFinite(ValueError):
    """An infinite number or NaN."""


def number(text: str) -> int | float | str:
    """``text`` as a number if it is one, else ``text``; NotFinite for infinity, NaN and numbers
    that are too large.

    >>> number("017"), number("0o17"), number("1e3"), number("1:30")
    (17, 15, 1000.0, '1:30')
    """
    if _INT.fullmatch(text):
        try:
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        except ValueError:  # Python reads no more than some thousand digits
            raise NotFinite(text) from None
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isfinite(value):
            return value
        raise NotFinite(text)
    if _NOT_FINITE.fullmatch(text):
        raise NotFinite(text)
    return text
