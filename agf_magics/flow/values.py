"""Values (decision A1).

Dicts with text keys, lists, text, ints, floats, bools and None are JSON. All others (a DataFrame,
an array, a date, a model, a connection) are opaque: they are passed by reference from step to step;
expressions may pass them on and compare them by identity, but not look inside.
"""

from __future__ import annotations

from typing import Any

Value = Any
"""Any value: an opaque one may have any type."""

ATOMS = frozenset({str, int, float, bool, type(None)})
"""The exact types of values without parts; `settle` converts their subclasses."""

TEXT = frozenset({str})

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
    kind = type(value)
    if kind is not dict:
        return _copied(value, DEEPEST, [LARGEST]) if kind is list else value
    for part in value.values():
        if type(part) not in ATOMS:
            return _copied(value, DEEPEST, [LARGEST])
    return value.copy()  # most arguments are flat


def isolate_parts(value: Value) -> Value:
    """The same for a mapping that is only read: itself, if it has no containers."""
    if type(value) is dict:
        for part in value.values():
            if type(part) not in ATOMS:
                return _copied(value, DEEPEST, [LARGEST])
    return value


def _copied(value: Value, room: int, left: list[int]) -> Value:
    kind = type(value)
    if kind is not dict and kind is not list:
        return value
    left[0] -= len(value)
    if left[0] < 0 or not room:
        raise _too_deep(room)
    if kind is dict:
        return {
            k: (v if type(v) in ATOMS else _copied(v, room - 1, left)) for k, v in value.items()
        }
    return [v if type(v) in ATOMS else _copied(v, room - 1, left) for v in value]


def _too_deep(room: int) -> TooDeep:
    if not room:
        return TooDeep(f"it nests deeper than {DEEPEST} levels, or contains itself")
    return TooDeep(f"it has more than {LARGEST:,} parts")


def settle(value: Value) -> Value:
    """The result of a tool or an agent as a value: a copy, with similar types converted to JSON.

    A tuple becomes a list, a numpy scalar a Python number, a subclass of dict or str (Counter, a
    text enum) the base type. A dict with a key that is not a text remains opaque. Raises TooDeep.

    >>> settle(((1, 2), {"a": (3,)}))
    [[1, 2], {'a': [3]}]
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is not dict:
        return _settled(value, DEEPEST, [LARGEST])
    for name, part in value.items():
        if type(part) not in ATOMS or type(name) is not str:
            return _settled(value, DEEPEST, [LARGEST])
    return value.copy()  # most results are flat


def _settled(value: Value, room: int, left: list[int]) -> Value:
    kind = type(value)
    if isinstance(value, (dict, list, tuple)):
        left[0] -= len(value)
        if left[0] < 0 or not room:
            raise _too_deep(room)
        if isinstance(value, dict):
            if not all(isinstance(k, str) for k in value):
                return value
            return {
                str.__str__(k): (v if type(v) in ATOMS else _settled(v, room - 1, left))
                for k, v in value.items()
            }
        parts = [v if type(v) in ATOMS else _settled(v, room - 1, left) for v in value]
        names = getattr(kind, "_fields", None)  # a named tuple's
        return (
            dict(zip(names, parts, strict=True))
            if names is not None and isinstance(value, tuple)
            else parts
        )
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return value if kind is bool else int(value)
    if isinstance(value, float):
        return float(value)
    if (
        kind.__module__ == "numpy"
        and getattr(value, "shape", None) == ()
        and hasattr(value, "item")
    ):
        plain = value.item()  # a numpy scalar; numpy may not be installed
        return plain if type(plain) in ATOMS else value
    return value


def is_json(value: Value) -> bool:
    """Whether ``value`` and all its parts are JSON."""
    kind = type(value)
    if kind in ATOMS:
        return kind is not float or value - value == 0  # neither infinite nor NaN
    if kind is list:
        return all(map(is_json, value))
    return kind is dict and all(type(k) is str and is_json(v) for k, v in value.items())


NAMES = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


def type_name(value: Value) -> str:
    """The type of a value in an error: the language's word for a JSON type, the class of an opaque
    value.

    >>> type_name([1]), type_name(None), type_name(object())
    ('a list', 'null', 'an opaque object')
    """
    return NAMES.get(type(value)) or f"an opaque {type(value).__name__}"


def is_true(value: Value) -> bool:
    """Python's truth for JSON; opaque values are true (an array or a DataFrame would raise)."""
    kind = type(value)
    return bool(value) if kind in ATOMS or kind is list or kind is dict else True


def equal(a: Value, b: Value) -> bool:
    """Python's equality for JSON (``true == 1``, decision P17), identity for opaque values, also
    nested ones."""
    if a is b:
        return True
    kind, other = type(a), type(b)
    if kind in ATOMS and other in ATOMS:
        return bool(a == b)
    if kind is list and other is list:
        return len(a) == len(b) and all(map(equal, a, b))
    if kind is dict and other is dict:
        return a.keys() == b.keys() and all(equal(v, b[k]) for k, v in a.items())
    return False
