"""`judge` gives the verdict of jsonschema for any schema and any value, raises nothing, and always ends."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from referencing.exceptions import Unresolvable

from agf_magics.schemas.json_schema import judge
from agf_magics.schemas.violations import describe_all

NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "ab", 0.5, 1.0])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
REFS = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/$defs/none"])


def _mapping(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "array", "object", ["null", "number"]]),
            "anyOf": lists, "oneOf": lists, "allOf": lists, "prefixItems": lists,
            "not": inner, "if": inner, "then": inner, "else": inner, "items": inner, "contains": inner,
            "propertyNames": inner, "additionalProperties": inner, "unevaluatedProperties": inner,
            "unevaluatedItems": inner, "properties": named, "patternProperties": named, "dependentSchemas": named,
            "$defs": named, "pattern": NAMES, "required": st.lists(NAMES, max_size=2), "uniqueItems": st.booleans(),
            "enum": st.lists(VALUES, max_size=3), "const": VALUES, "minimum": st.integers(-1, 1), "$ref": REFS,
        },
    )  # fmt: skip


SCHEMAS: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), _mapping, max_leaves=8)
WORDS = ["type", "anyOf", "items", "not", "$ref", "properties", "pattern", "required", "multipleOf", "$id", "$anchor",
         "unevaluatedItems", "patternProperties", "dependentRequired", "minimum", "enum", "uniqueItems",
         "$dynamicRef"]  # fmt: skip
NOT_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.sampled_from(["(", "#/x", "http://[", "\ud800", "urn:x#y", 1e400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=8,
)


@given(SCHEMAS, VALUES)
@example({"anyOf": [False, {"type": "string"}]}, 3)
@example({"properties": {"a": False}}, {"a": 1})
@example({"oneOf": [{"$ref": "#/$defs/a"}, False], "$defs": {"a": False}}, 3)
@example({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, {"ab": 1, "b": 2})
@example({"allOf": [{"prefixItems": [True]}], "unevaluatedItems": False}, [1, 2])
def test_a_value_conforms_to_what_the_library_says_it_does(schema: Any, value: Any) -> None:
    try:
        fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    except (Unresolvable, RecursionError):
        assert [violation.keyword for violation in judge(schema)(value)] == ["$ref"]
    else:
        violations = judge(schema)(value)
        assert (not violations) is fits
        assert bool(describe_all(violations)) is not fits


@given(st.dictionaries(st.sampled_from(WORDS), NOT_SCHEMAS) | NOT_SCHEMAS, VALUES)
def test_a_wrong_schema_is_unusable_and_raises_nothing(schema: Any, value: Any) -> None:
    describe_all(judge(schema)(value))


@pytest.mark.parametrize(
    ("schema", "value", "path", "sentence"),
    [
        (False, 1, (), "is not allowed"),
        ({"properties": {"a": False}}, {"a": 1}, ("a",), "a: is not allowed"),
        ({"items": {"properties": {"a": False}}}, [{"a": 1}], (0, "a"), "[0].a: is not allowed"),
        ({"additionalProperties": {"properties": {"a": False}}}, {"x": {"a": 1}}, ("x", "a"), "x.a: is not allowed"),
        ({"prefixItems": [True, False]}, [1, 2], (1,), "[1]: is not allowed"),
        ({"prefixItems": [True], "items": False}, [1, 2], (), "has 2 elements; 1 are allowed"),
        ({"patternProperties": {"^a": False}}, {"ab": 1}, ("ab",), "ab: is not allowed"),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": False}}, [1], (0,), "[0]: is not allowed"),
        ({"dependentSchemas": {"a": False}}, {"a": 1}, (), "is not allowed"),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {"ab": 1, "c": 2}, (),
         "has unknown fields: 'c'"),
    ],
)  # fmt: skip
def test_a_value_that_false_refuses_is_reported_with_its_place(
    schema: Any, value: Any, path: tuple[str | int, ...], sentence: str
) -> None:
    violations = judge(schema)(value)
    assert [violation.path for violation in violations] == [path]
    assert describe_all(violations) == sentence


@pytest.mark.parametrize(
    ("step", "value", "fits"),
    [
        (0.01, 19.99, True),
        (0.1, 0.3, True),
        (0.1, 0.35, False),
        (1e-7, 3e-7, True),
        (0.5, 10**400, True),
        (3, 10, False),
    ],
)
def test_a_multiple_is_that_of_the_numbers_as_they_are_written(step: float, value: float, fits: bool) -> None:
    assert (judge({"multipleOf": step})(value) == []) is fits


class Anything:
    """An object that is equal to everything, by its own code."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("no code of a value runs")

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "value", [Decimal(1), Anything(), (1,), [Decimal(1)], {"a": Anything()}], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("schema", [{"enum": [1, [1]]}, {"const": 1}, {"const": [1]}, {"const": {"a": 1}}], ids=str)
def test_an_opaque_value_is_equal_to_no_json(schema: Any, value: Any) -> None:
    (violation,) = judge(schema)(value)
    assert (violation.keyword, violation.wanted) == next(iter(schema.items()))
    assert describe_all([violation])
    assert judge({"not": schema})(value) == []


def test_alternatives_that_refuse_everything_are_kept_apart() -> None:
    (fault,) = judge({"anyOf": [False, {"type": "string"}, False]})(3)
    assert [[violation.keyword for violation in way] for way in fault.within] == [["false"], ["type"], ["false"]]


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        ({"items": {"properties": {"x": False}}}, [{"x": 1}], (0, "x")),
        ({"additionalProperties": {"properties": {"x": False}}}, {"a": {"x": 1}}, ("a", "x")),
    ],
)
def test_a_forbidden_part_is_reported_at_its_place(schema: Any, value: Any, path: tuple[Any, ...]) -> None:
    (violation,) = judge(schema)(value)
    assert (violation.path, violation.keyword) == (path, "false")


EVIL = "^(a+)+$"
TEXT = "a" * 40 + "!"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": EVIL}, TEXT),
        ({"patternProperties": {EVIL: False}}, {TEXT: 1}),
        ({"patternProperties": {EVIL: False}, "additionalProperties": False}, {TEXT: 1}),
        ({"patternProperties": {EVIL: False}, "unevaluatedProperties": False}, {TEXT: 1}),
        ({"propertyNames": {"pattern": EVIL}}, {TEXT: 1}),
        ({"allOf": [{"patternProperties": {EVIL: False}}], "unevaluatedProperties": False}, {TEXT: 1}),
        ({"format": "regex", "contentMediaType": EVIL}, TEXT),
    ],
)  # fmt: skip
def test_python_never_matches_a_pattern_of_a_schema(schema: Any, value: Any) -> None:
    matched: list[str] = []

    def seen(frame: Any, event: str, argument: Any) -> None:
        owner = getattr(argument, "__self__", None)
        if event == "c_call" and isinstance(owner, re.Pattern):
            matched.append(owner.pattern)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        judge(schema)(value)
    finally:
        sys.setprofile(before)
    assert EVIL not in matched


def doubled(word: str, levels: int) -> dict[str, Any]:
    """A schema of definitions, each of which applies the next one twice."""
    defs = {f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "integer"}}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


@pytest.mark.parametrize("schema", [doubled("allOf", 40), doubled("oneOf", 40), nested(40)])
def test_a_schema_that_applies_itself_a_billion_times_ends(schema: Any) -> None:
    (violation,) = judge(schema)({"a": 1} if "$defs" not in schema else 1)
    assert violation.keyword == "unusable"


def test_a_large_value_may_have_many_schemas_applied() -> None:
    check = judge({"items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}, "$defs": {"a": {"type": "integer"}}})
    assert check(list(range(20_000))) == []
