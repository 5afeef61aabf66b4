"""Shows opaque values with an obvious text or obvious fields, in pages and the journal's previews.

A scalar is recognized by its exact class, a record by its base class (decision A1). No method of a
user's class is called: ``repr`` and properties may run any code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import fractions
import pathlib
import sys
import uuid
from typing import Any

LONGEST_BYTES = 60
"""The number of bytes of a bytes value that are shown."""

_PRINTABLE = frozenset(
    {
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        fractions.Fraction,
        complex,
        uuid.UUID,
        pathlib.PosixPath,
        pathlib.WindowsPath,
        range,
    }
)
"""Classes whose ``str`` is the value as a person writes it."""


def describe_scalar(value: Any) -> str | None:
    """``value`` as text if it is a date, a Decimal, bytes or similar; otherwise None.

    >>> describe_scalar(decimal.Decimal("1.50"))
    '1.50'
    >>> describe_scalar(object())
    """
    kind = type(value)
    if kind in _PRINTABLE:
        return str(value)
    if kind is bytes:
        if len(value) <= LONGEST_BYTES:
            return repr(value)
        return f"{value[:LONGEST_BYTES]!r}… {len(value):,} bytes"
    timestamp = getattr(sys.modules.get("pandas"), "Timestamp", None)
    return str(value) if kind is timestamp else None


def describe_array(value: Any) -> str | None:
    """The shape, the dtype and the first values of a numpy array; None for anything else.

    >>> describe_array([1, 2])
    """
    if type(value) is not getattr(sys.modules.get("numpy"), "ndarray", None):
        return None
    shape = " × ".join(f"{size:,}" for size in value.shape) or "scalar"
    head = f"ndarray · {shape} · {value.dtype}"
    if value.dtype.kind not in "biufcSU":  # arrays of objects or records may contain anything
        return head
    first = ", ".join(str(number) for number in value.flat[:8].tolist())
    return f"{head} · [{first}{', …' if value.size > 8 else ''}]"


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or a pydantic model, without those that its ``repr`` omits; None
    for anything else."""
    kind = type(value)
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    if model in kind.__mro__:
        names = [name for name, field in kind.model_fields.items() if field.repr]
        # Read without the properties of the class, which may run any code.
        values = object.__getattribute__(value, "__dict__")
        return {name: values[name] for name in names if name in values}
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.repr]
        with contextlib.suppress(Exception):  # the field was never set
            return {name: object.__getattribute__(value, name) for name in names}
    return None
