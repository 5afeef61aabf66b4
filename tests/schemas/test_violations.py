"""Violations of any JSON Schema: the same that jsonschema finds, in the words of this package."""

from __future__ import annotations

import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.schemas.json_schema import judge, schema_violations
from agf_magics.schemas.violations import describe_all

SENTENCES: list[tuple[Any, Any, str]] = [
    ({"type": "string"}, 3, "needs text, not the number 3"),
    ({"type": ["string", "null"]}, 3, "needs text or null, not the number 3"),
    ({"type": "integer"}, 1.5, "needs a whole number, not the number 1.5"),
    ({"type": "boolean"}, 1, "needs true or false, not the number 1"),
    ({"type": "number"}, True, "needs a number, not true"),
    ({"required": ["a", "b"]}, {"b": 1}, "'a' is missing"),
    ({"required": ["a", "b"]}, {}, "'a', 'b' are missing"),
    ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "a[1]: needs text, not the number 1"),
    ({"enum": ["a", 1]}, "b", "needs one of 'a', 1, not text 'b'"),
    ({"const": True}, 1, "needs true, not the number 1"),
    ({"minimum": 2}, 1, "needs at least 2, not the number 1"),
    ({"maximum": 2}, 3, "needs at most 2, not the number 3"),
    ({"exclusiveMinimum": 2}, 2, "needs more than 2, not the number 2"),
    ({"exclusiveMaximum": 2}, 2, "needs less than 2, not the number 2"),
    ({"minLength": 1}, "", "needs text, not empty text"),
    ({"minLength": 3}, "a", "needs text of at least 3 letters, not text 'a'"),
    ({"maxLength": 1}, "ab", "needs text of at most 1 letter, not text 'ab'"),
    ({"pattern": "^a"}, "b", "needs text that matches ^a, not text 'b'"),
    ({"minItems": 1}, [], "needs at least 1 element and has 0"),
    ({"maxItems": 2}, [1, 2, 3], "needs at most 2 elements and has 3"),
    ({"uniqueItems": True}, [1, 1], "has an element twice"),
    ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1, "b": 2}, "has unknown fields: 'b'"),
    ({"multipleOf": 2}, 3, "does not satisfy multipleOf: 2"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "needs text or null, not the number 1"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 2, "matches more than one of the 2 alternatives"),
    ({"anyOf": [{"type": "string"}, {"required": ["a"]}]}, {}, "'a' is missing"),
    ({"anyOf": [{"properties": {"k": {"const": 1}}}, {"properties": {"k": {"properties": {"d": {"type": "null"}}}}}]},
     {"k": {"d": 1}}, "k.d: needs null, not the number 1"),
    ({"$ref": "#/$defs/none"}, 1, "cannot be checked: its schema refers to '#/$defs/none', which does not exist"),
    ({"$ref": "http://x.org/x"}, 1, "cannot be checked: its schema refers to 'http://x.org/x', which does not exist"),
    ({"$ref": "#"}, 1, "cannot be checked: its schema refers to itself"),
    ({"pattern": "("}, "x",
     "cannot be checked: its schema is not valid: missing )"),
    ({"items": {"type": "null"}}, [1] * 7, "; ".join(f"[{i}]: needs null, not the number 1" for i in range(5))
     + "; and 2 more"),
    ({"items": {"type": "null"}}, [1] * 12, "; ".join(f"[{i}]: needs null, not the number 1" for i in range(5))
     + "; and 7 more"),
]  # fmt: skip
"""A schema, a value that violates it, and the sentence of the violation."""


@pytest.mark.parametrize(("schema", "value", "sentence"), SENTENCES, ids=[case[2] for case in SENTENCES])
def test_a_violation_is_reported_in_our_words(schema: Any, value: Any, sentence: str) -> None:
    assert describe_all(judge(schema)(value)) == sentence


@pytest.mark.parametrize(
    "dialect", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
@pytest.mark.parametrize(
    "around",
    [
        lambda part: part,
        lambda part: {"allOf": [part]},
        lambda part: {"$defs": {"x": part}, "$ref": "#/$defs/x"},
        lambda part: {"$ref": "#/$defs/x", "$defs": {"x": {"not": {"not": part}}}},
    ],
    ids=["whole", "part", "reference", "twice"],
)
def test_a_part_that_names_its_dialect_has_our_keywords(around: Any, dialect: str) -> None:
    """The patterns of the library are Python's. There this pattern takes 2 ** 60 steps, and `$` also matches before a
    newline."""
    pattern = {"$schema": dialect, "pattern": "^(a+)+$"}
    assert judge(around(pattern))("a" * 60 + "!") != []
    assert judge(around(pattern))("a\n") != []
    assert judge(around(pattern))("aa") == []


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1: "a"}, (1, 2), {"a"}, b"a"])
def test_an_opaque_value_has_no_type_and_conforms_where_no_type_is_required(value: Any) -> None:
    types = ["string", "number", "integer", "boolean", "null", "array", "object"]
    assert [violation.keyword for violation in judge({"type": types})(value)] == ["type"]
    assert judge({})(value) == []


def test_references_of_a_part_are_those_of_the_whole() -> None:
    whole = {"properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    assert judge(whole["properties"]["n"], whole)(1) == []
    assert describe_all(judge(whole["properties"]["n"], whole)("1")) == "needs a whole number, not text '1'"


def test_a_value_with_the_most_levels_is_judged() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]
    tree = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "integer"}]}
    assert describe_all(judge(tree)(value)) in ("", "cannot be checked: its schema refers to itself")


def test_a_wrong_schema_is_reported() -> None:
    assert schema_violations({"type": "object", "properties": {"a": {"type": "string"}}}) == []
    assert {violation.path for violation in schema_violations({"properties": {"a": 5}, "required": True})} == {
        ("properties", "a"),
        ("required",),
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 2.0]) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "minimum": st.integers(-1, 1),
            "minLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "required": st.lists(st.sampled_from("ab"), unique=True),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "pattern": st.sampled_from(["a", "^b"]),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "if": inner,
            "then": inner,
        },
    ),
    max_leaves=4,
)


@given(SCHEMAS, VALUES)
def test_a_violation_is_found_wherever_jsonschema_finds_one(schema: Any, value: Any) -> None:
    violations = judge(schema)(value)
    assert (not violations) == jsonschema.Draft202012Validator(schema).is_valid(value)
    assert bool(describe_all(violations)) == bool(violations)
