"""Tests of the arguments of a tool that a JSON Schema describes: which names it accepts beyond those that it lists."""

from __future__ import annotations

from typing import Any

import pytest

from agf_magics.catalog.tools.schema_arguments import SchemaArguments

MORE: dict[str, dict[str, Any]] = {
    "anything": {"additionalProperties": {}},
    "true": {"additionalProperties": True},
    "numbers": {"additionalProperties": {"type": "integer"}},
    "unevaluated": {"unevaluatedProperties": {"type": "integer"}},
    "unevaluated true": {"unevaluatedProperties": True},
    "patterns": {"patternProperties": {"^b$": {}}},
    "names": {"propertyNames": {"maxLength": 1}},
    "dependent schemas": {"dependentSchemas": {"a": {"properties": {"b": {}}}}},
    "dependent names": {"dependentRequired": {"a": ["b"]}},
    "if": {"if": {"required": ["a"]}, "then": {"properties": {"b": {}}}},
    "one of": {"oneOf": [{"properties": {"b": {}}}]},
}

NO_MORE: dict[str, dict[str, Any]] = {
    "only fields": {},
    "false": {"additionalProperties": False},
    "unevaluated false": {"unevaluatedProperties": False},
    "patterns of others": {"patternProperties": {"^c$": {}}, "additionalProperties": False},
    "names of others": {"propertyNames": {"enum": ["a"]}},
    "texts": {"additionalProperties": {"type": "string"}},
}


def arguments(more: dict[str, Any]) -> SchemaArguments:
    return SchemaArguments({"type": "object", "properties": {"a": {}}, **more}, None, ())


@pytest.mark.parametrize("more", MORE.values(), ids=MORE.keys())
def test_arguments_that_the_schema_allows_are_passed_on(more: dict[str, Any]) -> None:
    assert arguments(more).validate({"a": 1, "b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize("more", NO_MORE.values(), ids=NO_MORE.keys())
def test_arguments_that_the_schema_does_not_allow_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="b"):
        arguments(more).validate({"a": 1, "b": 2})
    assert arguments(more).validate({"a": 1}) == {"a": 1}
