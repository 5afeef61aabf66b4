"""Opaque values that have an obvious text or obvious fields (decision A1), for pages and for the
journal's previews.

A value is recognized by its exact class, and a record by its base class. No method of a class of
the user is called: ``repr`` and properties may run any code.
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
from collections.abc import Mapping
from typing import Any, final

from ..compat.imports import loaded
from .value import Value, type_name

LONGEST_BYTES = 60
"""Bytes of a bytes value that are shown."""

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
        return (
            repr(value)
            if len(value) <= LONGEST_BYTES
            else f"{value[:LONGEST_BYTES]!r}… {len(value):,} bytes"
        )
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
    if value.dtype.kind not in "biufcSU":  # objects and records may contain anything
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
        # Past the properties of the class, which may run any code.
        held = object.__getattribute__(value, "__dict__")
        return {name: held[name] for name in names if name in held}
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.repr]
        with contextlib.suppress(Exception):  # a field that was never set
            return {name: object.__getattribute__(value, name) for name in names}
    return None


_TEXTS = (str, bytes, bytearray, memoryview)

_QUICK = frozenset({range, tuple})


@final
class Numbered:
    """A sequence as the elements of a graph's ``map``: ``{name: element, "_map_index":
    number}``."""

    __slots__ = ("name", "source")

    def __init__(self, source: Value, name: str) -> None:
        self.source, self.name = source, name

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> dict[str, Value]:
        return {self.name: self.source[number], "_map_index": number}


def is_sequence(value: Value) -> bool:
    """Whether it has ``__len__`` and ``__getitem__`` by number. No method of it is called.

    >>> is_sequence(range(3)), is_sequence((1, 2)), is_sequence("text"), is_sequence(iter([]))
    (True, True, False, False)
    """
    kind = type(value)
    return (
        _has(kind, "__len__")
        and _has(kind, "__getitem__")
        and not issubclass(kind, _TEXTS)
        and not (is_array(value) and not value.shape)
        and not is_mapping(kind)
        and not is_table(kind)
    )


def is_mapping(kind: type) -> bool:
    return issubclass(kind, Mapping) or _has(kind, "keys")


def is_table(kind: type) -> bool:
    """Whether objects of this class have columns, which ``[…]`` reads: a DataFrame, a table of
    pyarrow."""
    return _has(kind, "columns") or (
        kind.__module__.startswith("pyarrow") and _has(kind, "num_columns")
    )


def why_no_sequence(value: Value) -> str | None:
    """A hint for a value that a fan-out cannot iterate over although Python can; None for any
    other."""
    kind = type(value)
    if kind in (str, dict):
        return None
    if is_table(kind):
        return (
            "let a tool return its rows, frame.to_dict('records'), or the numbers or paths of "
            "its parts"
        )
    if is_mapping(kind):
        return "let a tool return the list of its keys or values"
    if _has(kind, "__next__"):
        return (
            "it can be read only once: let a tool return a list, or an object with __len__ and "
            "__getitem__"
        )
    if _has(kind, "__iter__") and not _has(kind, "__getitem__"):
        return "its elements have no numbers: let a tool return a list of them"
    return None


def is_quick(value: Value) -> bool:
    """Whether an element takes no time and no code of a user to read: of a range, a tuple or an
    array."""
    kind = type(value)
    return kind in _QUICK or is_array(value) or (kind is Numbered and is_quick(value.source))


def source_of(value: Value) -> Value:
    """The sequence that the author of the definition knows."""
    return value.source if type(value) is Numbered else value


def sequence_name(value: Value) -> str:
    """A sequence in a message.

    >>> sequence_name(range(3))
    'the range'
    """
    return f"the {type_name(source_of(value)).removeprefix('an opaque ')}"


def is_array(value: Value) -> bool:
    """Whether it is an array of NumPy, perhaps in a file."""
    numpy = loaded("numpy")
    return numpy is not None and type(value) in (numpy.ndarray, numpy.memmap)


def _has(kind: type, name: str) -> bool:
    # Without `getattr`, which would run the `__getattr__` of a metaclass; None means that the class has
    # taken the method away.
    return any(vars(base).get(name) is not None for base in _MRO.__get__(kind))


_MRO: Any = type.__dict__["__mro__"]
