"""The warning about a function that is large because of what it uses."""

from __future__ import annotations

import pickle
from typing import Any

from ..text.diagnostics import Diagnostic
from .sending import name_of, used_values

HEAVY = 1_000_000
"""Bytes of a function from which on the run warns."""


def heavy_warning(function: Any, size: int) -> Diagnostic | None:
    """The warning about a function of ``size`` bytes; None if it is small."""
    if size <= HEAVY:
        return None
    sizes = sorted(((_size(value), name, value) for name, value in used_values(function)), key=lambda one: one[0])
    holder = f"; {sizes[-1][1]!r} has {sizes[-1][0] / 1e6:.1f} MB of it" if sizes and sizes[-1][0] > size / 4 else ""
    message = f"the function {name_of(function)!r} has {size / 1e6:.1f} MB with what it uses{holder}"
    hint = (
        "each worker gets it once: load it in a setup instead, agf.Workers(…, setup=…), or in the function from a file"
    )
    return Diagnostic("on.heavy", message, hint=hint, severity="warning")


def _size(value: Any) -> int:
    try:
        return len(pickle.dumps(value, 5))
    except Exception:
        return 0
