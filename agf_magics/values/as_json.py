"""Converts a value to JSON, with a text in place of each part that is not JSON."""

from __future__ import annotations

from decimal import Decimal

from ..text.length import TEXT, can_write
from .extent import TooDeep, count_parts
from .no_json import has_no_json
from .times import iso_text
from .value import Value, is_json


def as_json(value: Value) -> Value:
    """``value`` as JSON. NaN and infinities become null; any other part that is not JSON becomes a
    text, and so does the whole value if it has too many parts."""
    try:
        count_parts(value)
    except TooDeep as error:
        return f"⟨{type(value).__name__}: {error}⟩"
    return _as_json(value, {})


def _as_json(value: Value, visited: dict[int, Value]) -> Value:
    kind = type(value)
    if kind is not list and not (kind is dict and TEXT.issuperset(map(type, value))):
        return _atom_as_json(value)
    if id(value) not in visited:
        visited[id(value)] = (
            [_as_json(part, visited) for part in value]
            if kind is list
            else {key: _as_json(part, visited) for key, part in value.items()}
        )
    return visited[id(value)]


def _atom_as_json(value: Value) -> Value:
    kind = type(value)
    if has_no_json(value):
        return None
    if kind is not int and is_json(value):
        return value
    if (text := iso_text(value)) is not None:
        return text
    try:
        text = repr(value) if can_write(value) else f"⟨{kind.__name__}⟩"
    except Exception:  # a user's class, or a number with more digits than Python writes
        return str(Decimal(value)) if kind is int else f"⟨{kind.__name__}⟩"
    return value if kind is int else text
