"""Follows a dotted path into a value, for the expressions of all languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ..text.names import same_name
from ..values.value import Value


class Missing:
    """The value of a path that leads nowhere."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


def key_of(value: dict[str, Value], name: str) -> str:
    """The key of ``value`` that looks like ``name``; ``name`` if there is none. The names of
    expressions are normalized, the keys of data are not (decision D150)."""
    if name in value or not isinstance(name, str) or name.isascii():
        return name
    normal_name = same_name(name)
    if normal_name in value:
        return normal_name
    keys = (key for key in value if type(key) is str and not key.isascii())
    return next((key for key in keys if same_name(key) == normal_name), name)


def descend(
    value: Value, names: Iterable[str], read: Callable[[Value, str], Value] | None = None
) -> Value:
    """The value at a dotted path, or MISSING. ``read(value, name)``: the value at a name, where
    ``value`` is not an object.

    >>> descend({"a": {"b": 1}}, ("a", "b")), descend({"a": 1}, ("a", "b"))
    (1, MISSING)
    """
    for name in names:
        if type(value) is dict:  # any other class is opaque (decision A1)
            value = value[name] if name in value else value.get(key_of(value, name), MISSING)
        elif read is not None:
            value = read(value, name)
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value
