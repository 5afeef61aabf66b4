"""JSON Schemas as annotations of Python, for the signatures of flows that are tools."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from agf_magics.schemas.python_types import DEEPEST, type_of

TYPES: list[tuple[Any, Any]] = [
    ({"type": "string"}, str),
    ({"type": "integer"}, int),
    ({"type": "number"}, float),
    ({"type": "boolean"}, bool),
    ({"type": "object"}, dict[str, Any]),
    ({"type": "null"}, None),
    ({"type": "array"}, list[Any]),
    ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, list[list[str]]),
    ({"type": ["string", "null"]}, str | None),
    ({"type": ["array", "null"], "items": {"type": "integer"}}, list[int] | None),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, str | int),
    ({"oneOf": [{"type": "string"}]}, str),
    ({"anyOf": [{"type": "string"}, {}]}, Any),
    ({"const": "a"}, Literal["a"]),
    ({"const": None}, Literal[None]),
    ({"enum": ["a", 1, True, None]}, Literal["a", 1, True, None]),
    ({"enum": ["a", 1.5]}, Any),
    ({"enum": [["a"]]}, Any),
    ({"enum": []}, Any),
    ({"type": "string", "enum": ["a", "b"]}, Literal["a", "b"]),
    ({"$ref": "#/$defs/name"}, str),
    ({"type": "array", "items": {"$ref": "#/$defs/name"}}, list[str]),
    ({"$ref": "#/$defs/other"}, Any),
    ({"type": "text"}, Any),
    ({"type": 3}, Any),
    ({"anyOf": []}, Any),
    ("text", Any),
    ({}, Any),
    (True, Any),
]


@pytest.mark.parametrize(
    ("schema", "expected"), TYPES, ids=lambda value: repr(value) if isinstance(value, dict) else ""
)
def test_a_schema_has_this_type(schema: Any, expected: Any) -> None:
    assert type_of(schema, {"$defs": {"name": {"type": "string"}}}) == expected


@pytest.mark.parametrize("inner", [{"anyOf": [{"type": "string"}]}, {"type": ["string"]}, {"type": "string"}])
def test_a_bounded_number_of_levels_of_a_schema_becomes_a_type(inner: dict[str, Any]) -> None:
    schema = inner
    expected: Any = str
    for _ in range(DEEPEST - ("anyOf" in inner or isinstance(inner["type"], list))):
        schema, expected = {"type": "array", "items": schema}, list[expected]
    assert type_of(schema, {}) == expected
    assert "Any" in str(type_of({"type": "array", "items": schema}, {}))


def test_a_schema_that_refers_to_itself_ends_in_any() -> None:
    whole = {"$defs": {"a": {"$ref": "#/$defs/a"}, "b": {"type": "array", "items": {"$ref": "#/$defs/b"}}}}
    assert type_of({"$ref": "#/$defs/a"}, whole) is Any
    assert str(type_of({"$ref": "#/$defs/b"}, whole)).count("list[") == DEEPEST // 2
