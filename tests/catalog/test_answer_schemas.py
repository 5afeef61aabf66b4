"""Tests of the schema of a structured answer in an object: each reference means what it meant before."""

from __future__ import annotations

from typing import Any

import pytest

from agf_magics.catalog.models.answer_schemas import wrap_schema
from agf_magics.schemas.json_schema import judge

A = {"type": "integer"}
TREE = {"type": "array", "items": {"$ref": "#"}}
LEAF = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}

SCHEMAS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "no reference": ({"type": "integer"}, [1], ["x"]),
    "$defs": ({"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": A}}, [[1]], [["x"], 1]),
    "definitions": ({"type": "array", "items": {"$ref": "#/definitions/A"}, "definitions": {"A": A}}, [[1]], [["x"]]),
    "only a reference": ({"$ref": "#/definitions/A", "definitions": {"A": A}}, [1], ["x"]),
    "definitions of each other": (
        {"$ref": "#/$defs/A", "definitions": {"B": A}, "$defs": {"A": {"not": {"$ref": "#/definitions/B"}}}},
        ["x"],
        [1],
    ),
    "itself": (TREE, [[], [[]], [[[], []]]], [1, [1]]),
    "itself in a part": (LEAF, [1, [1], [[2], 3]], ["x", [["x"]]]),
    "itself in a definition": (
        {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}],
         "$defs": {"A": {"type": "object", "properties": {"next": {"$ref": "#"}}}}},
        [None, {"next": None}, {"next": {"next": {}}}],
        [1, {"next": 1}],
    ),
    "another part": (
        {"type": "array", "prefixItems": [A, {"$ref": "#/prefixItems/0"}]}, [[1, 2]], [[1, "x"]]
    ),
    "a definition named answer": (
        {"anyOf": [{"$ref": "#/$defs/answer"}, {"type": "array", "items": {"$ref": "#"}}], "$defs": {"answer": A}},
        [1, [1]],
        ["x", ["x"]],
    ),
    "a field named $ref": (
        {"anyOf": [{"type": "object", "properties": {"$ref": {"type": "integer"}}}]}, [{"$ref": 1}], [{"$ref": "#"}]
    ),
    "a value that looks like a reference": ({"enum": [{"$ref": "#"}]}, [{"$ref": "#"}], [{"$ref": "#/$defs/answer"}]),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "right", "wrong"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_reference_means_what_it_meant(schema: dict[str, Any], right: list[Any], wrong: list[Any]) -> None:
    wrapped = wrap_schema(schema)
    assert wrapped["type"] == "object"
    assert "definitions" not in str(wrapped).replace("'definitions'", "")
    alone, around = judge(schema), judge(wrapped)
    for value in right:
        assert (list(alone(value)), list(around({"answer": value}))) == ([], [])
    for value in wrong:
        assert alone(value)
        assert around({"answer": value})


def test_the_schema_of_an_object_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}, "definitions": {"A": A}}
    assert wrap_schema({"$schema": "x", **schema}) == schema
