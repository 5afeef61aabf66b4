"""What a value is (decision A1): copied at the boundary of user code, compared, named, told from
what must be awaited.

Dicts with text keys, lists, text, ints, floats, bools and None are JSON. All others (a DataFrame,
an array, a date, a model, a connection) are opaque: they are passed by reference from step to step;
expressions may pass them on and compare them by identity, but not look inside.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from itertools import chain
from typing import Any

Value = Any
"""Any value: an opaque one may have any type."""

ATOMS = frozenset({str, int, float, bool, type(None)})
"""The exact types of values without parts; `settle` converts their subclasses."""

TEXT = frozenset({str})
ROW = frozenset({dict})
CONTAINERS = frozenset({dict, list})

DEEPEST = 200
"""The deepest nesting of a value."""
LARGEST = 5_000_000
"""The most parts of a copied value: a small value with shared parts may be huge when it is
copied."""


class TooDeep(ValueError):
    """A value nests deeper than DEEPEST, or contains itself, or has more than LARGEST parts."""


def isolate(value: Value) -> Value:
    """A copy of the JSON containers in ``value``, with opaque values by reference (decision P6).

    Only for calls of user code: frames share values. Raises TooDeep.
    """
    return copy_parts(value, DEEPEST, [LARGEST])


def copy_parts(value: Value, room: int, left: list[int]) -> Value:
    """`isolate` for a value that is part of another: at most ``room`` levels and ``left[0]`` parts,
    which it counts."""
    if type(value) not in CONTAINERS:
        return value
    left[0] -= len(value)
    if left[0] < 0 or not room:
        raise _too_deep(room)
    if type(value) is dict:
        return _with_parts(value, copy_parts, room, left)
    return _list_of(value, copy_parts, room, left)


def _with_parts(
    value: dict[str, Value],
    copy: Callable[[Value, int, list[int]], Value],
    room: int,
    left: list[int],
) -> dict[str, Value]:
    if ATOMS.issuperset(map(type, value.values())):
        return value.copy()
    return {k: (v if type(v) in ATOMS else copy(v, room - 1, left)) for k, v in value.items()}


def _list_of(
    value: Any, copy: Callable[[Value, int, list[int]], Value], room: int, left: list[int]
) -> list[Value]:
    # A large list is nearly always one of objects without containers: rows. C looks through all of
    # them and copies them in half of the time that a call for each takes.
    if type(value) is list and room > 1 and are_rows(value):
        left[0] -= sum(map(len, value))
        if left[0] < 0:
            raise _too_deep(room)
        return list(map(dict.copy, value))
    return [v if type(v) in ATOMS else copy(v, room - 1, left) for v in value]


def are_rows(value: list[Any]) -> bool:
    """Whether all parts are objects without containers and opaque values."""
    return (
        ROW.issuperset(map(type, value))
        and TEXT.issuperset(map(type, chain.from_iterable(value)))
        and ATOMS.issuperset(map(type, chain.from_iterable(map(dict.values, value))))
    )


def _too_deep(room: int) -> TooDeep:
    if not room:
        return TooDeep(f"it nests deeper than {DEEPEST} levels, or contains itself")
    return TooDeep(f"it has more than {LARGEST:,} parts")


def settle(value: Value) -> Value:
    """The result of a tool or an agent as a value: a copy, with similar types converted to JSON.

    A tuple becomes a list, a numpy scalar a Python number (but a date or a duration stays), a
    subclass of dict or str (Counter, a text enum) the base type. A dict with a key that is not
    a text remains opaque. Raises TooDeep.

    >>> settle(((1, 2), {"a": (3,)}))
    [[1, 2], {'a': [3]}]
    """
    return _settled(value, DEEPEST, [LARGEST])


def _settled(value: Value, room: int, left: list[int]) -> Value:
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, (dict, list, tuple)):
        left[0] -= len(value)
        if left[0] < 0 or not room:
            raise _too_deep(room)
        if isinstance(value, dict):
            if kind is dict and TEXT.issuperset(map(type, value)):
                return _with_parts(value, _settled, room, left)
            # Not JSON, and nothing is looked for inside: it stays one opaque value.
            if not all(isinstance(k, str) for k in value):
                return value
            return {str.__str__(k): _settled(v, room - 1, left) for k, v in value.items()}
        parts = _list_of(value, _settled, room, left)
        names = getattr(kind, "_fields", None)  # a named tuple's
        return (
            dict(zip(names, parts, strict=True))
            if names is not None and isinstance(value, tuple)
            else parts
        )
    # The exact type: a subclass has methods of its own, which expressions would call.
    for base, plain in _PLAIN:
        if isinstance(value, base):
            return plain(value)
    return _of_numpy(value) if kind.__module__ == "numpy" else value


def _of_numpy(value: Any) -> Value:
    """A scalar of numpy, or an array without dimensions, as JSON. A date or a duration stays an
    object of its own (decision A1″): in some units numpy would make a whole number of it, and None
    of NaT. numpy may not be installed."""
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    if value.dtype.kind in "mM":
        return value[()] if hasattr(type(value), "__setitem__") else value
    plain = value.item()
    return plain if type(plain) in ATOMS else value


_PLAIN: tuple[tuple[type, Callable[[Any], Value]], ...] = (
    (str, str.__str__),
    (int, int),
    (float, float),
)


def is_json(value: Value) -> bool:
    """Whether ``value`` and all its parts are JSON."""
    kind = type(value)
    if kind in ATOMS:
        return kind is not float or value - value == 0  # neither infinite nor NaN
    if kind is list:
        return all(map(is_json, value))
    return kind is dict and TEXT.issuperset(map(type, value)) and all(map(is_json, value.values()))


NAMES = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


OTHER_KEYS = "an opaque dict with keys that are not text"


def type_name(value: Value) -> str:
    """The type of a value in an error: the language's word for a JSON type, the class of an opaque
    value.

    >>> type_name([1]), type_name(None), type_name(object())
    ('a list', 'null', 'an opaque object')
    """
    if type(value) is dict and not TEXT.issuperset(map(type, value)):
        return OTHER_KEYS
    return NAMES.get(type(value)) or f"an opaque {type(value).__name__}"


def is_true(value: Value) -> bool:
    """Python's truth for JSON; opaque values are true (an array or a DataFrame would raise)."""
    return bool(value) if type(value) in NAMES else True


def equal(a: Value, b: Value) -> bool:
    """Python's equality for JSON (``true == 1``, decision P17), identity for opaque values, also
    nested ones."""
    return equal_within(a, b, math.inf) is True


def equal_within(a: Value, b: Value, room: float) -> bool | None:
    """`equal`, but None when more than ``room`` parts would have to be looked at.

    Parts can be shared, so two small values may be equal only after 2 ** 100 comparisons.
    """
    left, right = [a], [b]
    while left:
        first, second = left.pop(), right.pop()
        if first is second:
            continue
        kind = type(first)
        if kind in ATOMS and type(second) in ATOMS:
            # Atoms only: the `==` of a user may run any code, or return an array.
            if first != second:
                return False
        elif kind is not type(second) or kind not in (list, dict) or len(first) != len(second):
            return False
        elif kind is list:
            left += first
            right += second
            room -= len(first)
        elif first.keys() != second.keys():
            return False
        else:
            left += first.values()
            right += map(second.__getitem__, first)
            room -= len(first)
        if room < 0:
            return None
    return True


def is_awaitable(value: Any) -> bool:
    try:
        # It asks the class for `__await__`, which runs code of a metaclass.
        return type(value) not in ATOMS and inspect.isawaitable(value)
    except Exception:  # a class of a user
        return False
