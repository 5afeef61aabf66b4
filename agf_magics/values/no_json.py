"""Recognizes numbers, times and missing values that JSON cannot express."""

from __future__ import annotations

from decimal import Decimal

from ..text.length import ATOMS
from .times import is_nat
from .value import Value


def is_nan(value: Value) -> bool:
    """Whether ``value`` is a NaN of Python, also one that signals.

    >>> is_nan(float("nan")), is_nan(Decimal("sNaN")), is_nan(float("inf")), is_nan("nan")
    (True, True, False, False)
    """
    kind = type(value)
    return bool(value != value) if kind is float else kind is Decimal and bool(value.is_nan())


def has_no_json(value: Value) -> bool:
    """Whether ``value`` is NaN, an infinity, NaT or NA.

    >>> has_no_json(float("inf")), has_no_json(0.0), has_no_json(None), has_no_json(Decimal("NaN"))
    (True, False, False, True)
    """
    kind = type(value)
    if kind is float:
        return bool(value - value != 0)
    if kind is Decimal:
        return not value.is_finite()
    return kind not in ATOMS and (kind.__name__ == "NAType" or is_nat(value))
