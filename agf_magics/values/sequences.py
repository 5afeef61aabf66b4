"""Decides which opaque values a fan-out reads element by element, and explains why it refuses
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from ..compat.imports import module_if_loaded
from .value import Value, type_name

_TEXTS = (str, bytes, bytearray, memoryview)
"""Classes whose elements are only letters or bytes."""


_QUICK = frozenset({range, tuple})
"""Classes of Python whose elements are read at once."""


@final
class Numbered:
    """The elements of ``source`` as a graph's ``map`` passes them: ``{name: element, "_map_index":
    number}``."""

    __slots__ = ("name", "source")

    def __init__(self, source: Value, name: str) -> None:
        self.source = source
        self.name = name

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> dict[str, Value]:
        return {self.name: self.source[number], "_map_index": number}


def is_sequence(value: Value) -> bool:
    """Whether ``value`` has ``__len__`` and ``__getitem__`` by number. None of its methods is
    called.

    >>> is_sequence(range(3)), is_sequence((1, 2)), is_sequence("text"), is_sequence(iter([]))
    (True, True, False, False)
    """
    kind = type(value)
    if not _has(kind, "__len__") or not _has(kind, "__getitem__"):
        return False
    if issubclass(kind, _TEXTS) or is_mapping(kind) or is_table(kind):
        return False
    return not is_array(value) or bool(value.shape)


def is_mapping(kind: type) -> bool:
    """Whether objects of this class have keys."""
    return issubclass(kind, Mapping) or _has(kind, "keys")


def is_table(kind: type) -> bool:
    """Whether objects of this class have columns that ``[…]`` reads, as a DataFrame or a table of
    pyarrow has."""
    is_of_pyarrow = kind.__module__.startswith("pyarrow") and _has(kind, "num_columns")
    return is_of_pyarrow or _has(kind, "columns")


def why_no_sequence(value: Value) -> str | None:
    """The hint for a value over which Python can iterate but a fan-out cannot; None for any other
    value."""
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
    """Whether an element can be read at once and without a user's code: in a range, a tuple, an
    array."""
    kind = type(value)
    return kind in _QUICK or is_array(value) or (kind is Numbered and is_quick(value.source))


def source_of(value: Value) -> Value:
    """The sequence as the author of the definition knows it, without the wrapper `Numbered`."""
    return value.source if type(value) is Numbered else value


def sequence_name(value: Value) -> str:
    """The words for a sequence in a message.

    >>> sequence_name(range(3))
    'the range'
    """
    return f"the {type_name(source_of(value)).removeprefix('an opaque ')}"


def is_array(value: Value) -> bool:
    """Whether ``value`` is an array of NumPy, in memory or in a file."""
    numpy = module_if_loaded("numpy")
    return numpy is not None and type(value) in (numpy.ndarray, numpy.memmap)


def _has(kind: type, name: str) -> bool:
    """Whether a class has a method or an attribute, without running code of the class."""
    # `getattr` would run the `__getattr__` of a metaclass. None means that the class removes the
    # method of its base.
    return any(vars(base).get(name) is not None for base in _MRO.__get__(kind))


_MRO: Any = type.__dict__["__mro__"]
