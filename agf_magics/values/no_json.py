"""Recognizes numbers, times and missing values that JSON cannot express."""

from __future__ import annotations

from ..text.length import ATOMS
from .times import is_nat
from .value import Value


def has_no_json(value: Value) -> bool:
    """Whether ``value`` is NaN, an infinity, NaT or NA.

    >>> has_no_json(float("inf")), has_no_json(0.0), has_no_json(None)
    (True, False, False)
    """
    kind = type(value)
    if kind is float:
        return bool(value - value != 0)
    return kind not in ATOMS and (kind.__name__ == "NAType" or is_nat(value))
