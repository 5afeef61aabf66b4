"""Schemas in a document: how they are read, which values conform, their JSON Schema and their sample."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.languages.pipeline.schema_documents import read_schema
from agf_magics.schemas.json_schema import judge
from agf_magics.schemas.pattern_text import text_of_pattern
from agf_magics.schemas.sample import sample
from agf_magics.schemas.schema import (
    Field,
    Schema,
    check_schemas,
    conform,
    cycle,
    json_schema,
    references,
    shown_value,
)
from agf_magics.text.yaml.nodes import Fields
from tests.languages.loading import nodes

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "pipeline_schemas.json").read_text("utf-8"))
CASES = [(group, case) for group in VECTORS["conform"] for case in group["cases"]]


def declared(text: str) -> tuple[dict[str, Schema], list[agf.Diagnostic]]:
    schemas: dict[str, Schema] = {}
    documents, problems = nodes(text)
    for node in documents:
        assert isinstance(node, Fields)
        schema = read_schema(node, problems, schemas)
        if schema is not None:
            schemas[schema.name] = schema
    check_schemas(schemas, problems)
    return schemas, list(problems)


def problems_of(diagnostics: list[agf.Diagnostic], severity: str) -> list[dict[str, str]]:
    return [{"code": d.code, "at": d.span.text} for d in diagnostics if d.severity == severity and d.span]


@pytest.mark.parametrize("row", VECTORS["declare"], ids=[row["title"] for row in VECTORS["declare"]])
def test_a_schema_document_is_read_as_its_row_says(row: dict[str, Any]) -> None:
    _, diagnostics = declared(row["text"])
    assert problems_of(diagnostics, "error") == row.get("errors", [])
    assert problems_of(diagnostics, "warning") == row.get("warnings", [])
    if diagnostics:
        assert row.get("hint") in (None, diagnostics[0].hint)
        assert row.get("says") in (None, diagnostics[0].message)
        assert row.get("line") in (None, diagnostics[0].span and diagnostics[0].span.place[0])


@pytest.mark.parametrize(("group", "case"), CASES, ids=lambda part: json.dumps(part.get("value", part.get("name"))))
def test_a_value_conforms_as_its_row_says(group: dict[str, Any], case: dict[str, Any]) -> None:
    schemas, diagnostics = declared(group["text"])
    assert not diagnostics
    faults = conform(schemas[group["name"]], case["value"], schemas)
    assert [{"path": fault.path, "kind": fault.kind} for fault in faults] == case["faults"]
    if "says" in case:
        assert faults[0].message == case["says"]


@pytest.mark.parametrize(("group", "case"), CASES, ids=lambda part: json.dumps(part.get("value", part.get("name"))))
def test_the_json_schema_says_the_same_of_every_row(group: dict[str, Any], case: dict[str, Any]) -> None:
    schemas, _ = declared(group["text"])
    schema = json_schema(schemas[group["name"]], schemas)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema.Draft202012Validator(schema).is_valid(case["value"]) == (not case["faults"])


def test_a_circle_is_reported_with_every_ref_of_it() -> None:
    text = "schema: A\nfields: {b: {type: ref, schema: B}}\n---\nschema: B\nfields: {a: {type: ref, schema: A}}\n"
    schemas, [diagnostic] = declared(text)
    assert cycle(schemas) == ["A", "B", "A"]
    assert [(label, span.text, span.place) for label, span in diagnostic.related] == [("refers to 'A'", "A", (5, 33))]


def test_a_name_declared_twice_shows_the_first() -> None:
    text = "schema: A\nfields: {a: {type: bool}}\n---\nschema: A\nfields: {b: {type: bool}}\n"
    schemas, [diagnostic] = declared(text)
    assert list(schemas["A"].fields) == ["a"]
    assert diagnostic.related[0][1].place == (1, 9)


def test_fields_that_are_wrong_are_left_out_and_the_others_kept() -> None:
    schemas, diagnostics = declared("schema: A\nfields: {a: {type: bool}, b: {type: nope}, c: {type: number, x: 1}}\n")
    assert list(schemas["A"].fields) == ["a"]
    assert len(diagnostics) == 2


def test_every_field_knows_its_place() -> None:
    schemas, _ = declared("schema: A\nfields: {a: {type: list, of: {type: ref, schema: B}}}\n")
    listed = schemas["A"].fields["a"]
    assert listed.of
    assert [span and span.text for span in (schemas["A"].span, listed.span, listed.of.span)] == ["A", "list", "B"]


class Odd(dict[str, Any]):
    pass


OPAQUE = {
    "nan": float("nan"),
    "-inf": float("-inf"),
    "an opaque float64": np.float64(1.5),
    "an opaque DataFrame": pd.DataFrame({"a": [1]}),
    "an opaque tuple": (1, 2),
    "a dict whose keys are not all text": {1: 2},
    "an opaque Odd": Odd(a=1),
}


@pytest.mark.parametrize("kind", ["bool", "string", "number", "object", "list", "enum"])
@pytest.mark.parametrize("name", OPAQUE)
def test_a_value_that_is_not_json_conforms_to_nothing(kind: Any, name: str) -> None:
    inner = Field(kind=kind, of=Field(kind="number"), fields={"a": Field(kind="number")}, values=(1, 1.5, "a", None))
    [fault] = conform(Schema("A", {"x": inner}), {"x": OPAQUE[name]}, {})
    assert fault.path == "x"
    assert fault.message.endswith(f", not {name}")


def test_a_value_too_deep_for_a_schema_that_contains_itself_is_a_fault() -> None:
    endless = Schema("A", {"a": Field(kind="ref", schema="A")})
    value: dict[str, Any] = {}
    value["a"] = value
    [fault] = conform(endless, value, {"A": endless})
    assert fault.kind == "too_deep"


def test_a_long_chain_of_schemas_is_no_circle() -> None:
    chain = {f"S{i}": Schema(f"S{i}", {"x": Field(kind="ref", schema=f"S{i + 1}")}) for i in range(20_000)}
    assert cycle(chain) is None
    assert len(json_schema(chain["S0"], chain)["$defs"]) == 20_000
    chain["S20000"] = Schema("S20000", {"x": Field(kind="ref", schema="S19999")})
    assert cycle(chain) == ["S19999", "S20000", "S19999"]


def test_a_model_is_asked_for_every_field() -> None:
    schemas, _ = declared(
        "schema: A\nfields: {a: {type: object, fields: {b: {type: bool}}}, c: {type: ref, schema: B}}\n---\n"
        "schema: B\nfields: {d: {type: string}}\n"
    )
    schema = json_schema(schemas["A"], schemas, all_required=True)
    assert schema["required"] == ["a", "c"]
    assert schema["properties"]["a"]["required"] == ["b"]
    assert schema["$defs"]["B"]["required"] == ["d"]
    assert "required" not in json_schema(schemas["A"], schemas)


def test_jsonschema_is_not_imported_for_schemas_of_documents() -> None:
    program = "import agf_magics.schemas.schema, sys; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


NAMES = st.sampled_from(["a", "b", "a b", "x.y", "c/d~e", "é"])
LITERALS = st.sampled_from(["a", "b", "", 0, 1, 1.5, True, False, None])


ENUMS = st.lists(LITERALS, min_size=1, max_size=3, unique_by=lambda value: (type(value), value)).map(tuple)


def fields_of(refs: list[str], depth: int) -> st.SearchStrategy[Field]:
    """Random fields that refer only to schemas in ``refs``."""
    bounds = st.none() | st.integers(-2, 2)
    kinds = [
        st.builds(Field, kind=st.just("bool"), required=st.booleans()),
        st.builds(Field, kind=st.just("string"), required=st.booleans()),
        st.builds(Field, kind=st.just("number"), required=st.booleans(), minimum=bounds, maximum=bounds),
        st.builds(Field, kind=st.just("enum"), values=ENUMS),
    ]
    if refs:
        kinds.append(st.builds(Field, kind=st.just("ref"), required=st.booleans(), schema=st.sampled_from(refs)))
    if depth:
        inner = fields_of(refs, depth - 1)
        objects = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
        kinds.append(st.builds(Field, kind=st.just("object"), required=st.booleans(), fields=objects))
        kinds.append(st.builds(Field, kind=st.just("list"), of=inner.filter(lambda field: field.kind != "list")))
    return st.one_of(kinds)


@st.composite
def schema_sets(draw: st.DrawFn) -> dict[str, Schema]:
    """Random schemas. Each refers only to later ones, so there is no circle. The last name is not declared."""
    names = ["A", "B b", "C/c", "nowhere"]
    schemas = {}
    for i, name in enumerate(names[:-1]):
        fields = st.dictionaries(NAMES, fields_of(names[i + 1 :], 2), min_size=1, max_size=3)
        schemas[name] = Schema(name, draw(fields))
    return schemas


def values_like(schema: Any, schemas: Mapping[str, Schema]) -> st.SearchStrategy[Any]:
    """Random values that conform often enough to be useful."""
    wild = st.sampled_from([None, True, 0, 1, 2.5, -3, "a", "", [], {}, [1], {"a": 1}])
    if isinstance(schema, Schema):
        entries = {name: values_like(field, schemas) for name, field in schema.fields.items()}
        return st.one_of(st.fixed_dictionaries({}, optional=entries), st.fixed_dictionaries(entries), wild)
    match schema.kind:
        case "object":
            return values_like(Schema("", schema.fields), schemas)
        case "ref":
            return values_like(schemas[schema.schema], schemas) if schema.schema in schemas else wild
        case "list":
            return st.lists(values_like(schema.of, schemas), max_size=2) | wild
        case "enum":
            return st.sampled_from(schema.values) | wild
    return wild


@given(st.data())
def test_conformance_is_that_of_the_json_schema(data: st.DataObject) -> None:
    schemas = data.draw(schema_sets())
    value = data.draw(values_like(schemas["A"], schemas))
    schema = json_schema(schemas["A"], schemas)
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (not conform(schemas["A"], value, schemas)) == valid


def as_written(field: Field) -> dict[str, Any]:
    """The field as a document writes it."""
    keys = {"type": field.kind, "minimum": field.minimum, "maximum": field.maximum, "schema": field.schema or None}
    more: dict[str, Any] = {"required": True} if field.required else {}
    if field.kind == "enum":
        more["values"] = list(field.values)
    if field.of:
        more["of"] = as_written(replace(field.of, required=False))
    if field.fields:
        more["fields"] = {name: as_written(inner) for name, inner in field.fields.items()}
    return {**{key: value for key, value in keys.items() if value is not None}, **more}


@settings(max_examples=40)
@given(schema_sets())
def test_a_schema_that_is_printed_reads_as_itself(schemas: dict[str, Schema]) -> None:
    assume(all(possible(field) for schema in schemas.values() for field in schema.fields.values()))
    pages = [
        {"schema": name, "fields": {key: as_written(field) for key, field in schema.fields.items()}}
        for name, schema in schemas.items()
    ]
    read, diagnostics = declared("\n---\n".join(map(json.dumps, pages)))
    assert not diagnostics
    for name in schemas:
        assert json_schema(read[name], read) == json_schema(schemas[name], schemas)


def possible(field: Field) -> bool:
    """Whether the bounds of the field allow any number."""
    if field.minimum is not None and field.maximum is not None and field.minimum > field.maximum:
        return False
    return all(map(possible, [*field.fields.values(), *([field.of] if field.of else [])]))


def declares_all(schemas: Mapping[str, Schema]) -> bool:
    return all(ref.schema in schemas for schema in schemas.values() for ref in references(schema.fields))


@settings(max_examples=40)
@given(schema_sets())
def test_a_sample_conforms(schemas: dict[str, Schema]) -> None:
    assume(declares_all(schemas))
    assume(all(possible(field) for schema in schemas.values() for field in schema.fields.values()))
    document = json_schema(schemas["A"], schemas)
    assert conform(schemas["A"], sample(document), schemas) == []


A_TEXT = {"type": "string"}
A_NUMBER = {"type": "integer"}
SAMPLES: list[tuple[dict[str, Any], Any]] = [
    ({}, "text"),
    ({"type": "string"}, "text"),
    ({"type": "string", "maxLength": 2}, "te"),
    ({"type": "string", "minLength": 6}, "textte"),
    ({"type": "integer", "minimum": 3}, 3),
    ({"type": "integer", "exclusiveMinimum": 3}, 4),
    ({"type": "number", "exclusiveMaximum": 1}, 0),
    ({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, 1.5),
    ({"type": "integer", "multipleOf": 5, "minimum": 12}, 15),
    ({"type": "number", "maximum": -0.5}, -0.5),
    ({"type": "integer", "minimum": 1.5}, 2),
    ({"type": "integer", "multipleOf": 5}, 5),
    ({"type": "boolean"}, True),
    ({"type": "null"}, None),
    ({"const": 7}, 7),
    ({"enum": ["low", "high"]}, "low"),
    ({"type": "string", "default": "x"}, "x"),
    ({"type": "string", "examples": ["Ada"]}, "Ada"),
    ({"type": ["null", "integer"]}, 1),
    ({"type": "array", "items": {"type": "integer"}}, [1]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
    ({"type": "array", "maxItems": 0}, []),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, [1, "text"]),
    ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
    ({"type": "object", "required": ["a"]}, {"a": "text"}),
    ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, 1),
    ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, 5),
    ({"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "integer"}}}, 1),
    ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "integer"}}}, 1),
    ({"type": "array", "items": True}, ["text"]),
    ({"type": "string", "format": "date"}, "2024-01-31"),
    ({"type": "string", "minLength": 6.0}, "textte"),
    ({"type": "string", "maxLength": 2.0}, "te"),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2.0}, [1, 1]),
    # schemas of several parts: the sample conforms to all of them
    (
        {"allOf": [{"properties": {"a": A_TEXT}, "required": ["a"]}, {"properties": {"b": A_NUMBER}}]},
        {"a": "text", "b": 1},
    ),
    ({"allOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}, {"b": "text", "a": "text"}),
    ({"allOf": [{"properties": {"a": {"minimum": 3}}}], "properties": {"a": A_NUMBER}}, {"a": 3}),
    ({"allOf": [{"minimum": 5}, {"type": "integer", "minimum": 2}]}, 5),
    ({"allOf": [{"type": ["integer", "null"]}, {"type": "number"}]}, 1),
    ({"allOf": [{"anyOf": [A_TEXT, A_NUMBER]}, {"anyOf": [A_NUMBER, A_TEXT]}]}, 1),
    (
        {"type": "object", "properties": {"a": A_TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": "text"},
    ),
    (
        {"properties": {"a": A_TEXT}, "oneOf": [{"properties": {"b": A_NUMBER}, "required": ["b"]}]},
        {"a": "text", "b": 1},
    ),
    ({"$ref": "#/$defs/B", "required": ["b"], "$defs": {"B": {"type": "object"}}}, {"b": "text"}),
    ({"$ref": "#b", "$defs": {"B": {"$anchor": "b", **A_NUMBER}}}, 1),
    ({"$id": "https://x.example/a", "$ref": "https://x.example/a#/$defs/B", "$defs": {"B": A_NUMBER}}, 1),
    ({"$ref": "#/prefixItems/0", "prefixItems": [A_NUMBER]}, 1),
    ({"type": "array", "contains": {"const": 7}}, [7]),
    ({"type": "object", "properties": {"a": False, "b": A_NUMBER}}, {"b": 1}),
]


@pytest.mark.parametrize(("schema", "expected"), SAMPLES, ids=lambda part: json.dumps(part)[:60])
def test_a_sample_reads_well_and_conforms(schema: dict[str, Any], expected: Any) -> None:
    value = sample(schema)
    assert value == expected
    jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer", "multipleOf": 0}, 1),
        ({"type": "number", "multipleOf": 0, "minimum": 3}, 3),
        ({"type": "integer", "minimum": 3, "maximum": 2}, 1),
        ({"type": "number", "minimum": None}, 1),
    ],
)
def test_bounds_that_no_number_has_give_some_number(schema: dict[str, Any], expected: Any) -> None:
    assert sample(schema) == expected


def test_a_sample_is_a_multiple_of_a_decimal() -> None:  # the library computes with binary floats
    assert sample({"type": "number", "multipleOf": 0.01, "minimum": 19.99, "maximum": 19.99}) == 19.99


TREE = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                "right": {"$ref": "#/$defs/Tree"},
                "more": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["name", "left", "more"],
        }
    },
}


def test_the_sample_of_a_schema_that_contains_itself_ends() -> None:
    assert sample(TREE) == {"name": "text", "left": None, "more": []}
    jsonschema.Draft202012Validator(TREE).validate(sample(TREE))


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, {"$ref": "x.json"}])
def test_a_schema_that_says_nothing_gives_null(schema: dict[str, Any]) -> None:
    assert sample(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": r"^[A-Z]{3}-\d+$"},
        {"type": "string", "pattern": "^(?:draft|final)$"},
        {"type": "string", "pattern": "^[a-z]+$", "minLength": 12},
        {"type": "string", "pattern": r"\.csv$"},
        {"type": "string", "pattern": r"^[^\s@]+@[^\s@]+\.[a-z]{2,}$"},
        {"type": "string", "pattern": r"^#(?:[0-9a-fA-F]{3}){1,2}$"},
        {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "minItems": 2},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3},
        {"type": "array", "items": {"type": "integer", "minimum": 5}, "uniqueItems": True, "minItems": 3},
        {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2},
        {
            "type": "array",
            "items": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
            "uniqueItems": True,
            "minItems": 3,
        },
        {"not": {"type": "string"}},
        {"type": "string", "not": {"const": "text"}},
        {"type": "string", "not": {"enum": ["text", "tex2"]}},
        {"type": "integer", "not": {"multipleOf": 1, "minimum": 1}},
        {"type": "object", "properties": {"code": {"$ref": "#/$defs/code"}}, "$defs": {"code": {"pattern": "^x+$"}}},
        {"allOf": [{"type": "string"}, {"pattern": "^ab"}]},
    ],
)
def test_a_sample_has_what_no_type_tells(schema: dict[str, Any]) -> None:
    assert judge(schema)(sample(schema)) == []


@given(st.text(alphabet=r"ab01^$.*+?{},[]()|\-dw", max_size=30))
def test_any_pattern_has_a_guess_of_bounded_length(pattern: str) -> None:
    assert len(text_of_pattern(pattern, 3) or "") <= 10_000


@pytest.mark.parametrize(
    "pattern", ["(?:a{9999}){9999}", "(?:(?:ab){5000}c){9999}", "a{9999}b{9999}", "(?:a{5001}){2}"]
)
def test_a_pattern_of_few_characters_makes_no_text_of_megabytes(pattern: str) -> None:
    tracemalloc.start()
    try:
        text = text_of_pattern(pattern)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 5_000 < len(text) <= 10_000
    assert most < 1_000_000


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "empty text"),
        ("x" * 40, f"text '{'x' * 40}'"),
        ("x" * 41, f"text '{'x' * 39}…'"),
        (True, "true"),
        (False, "false"),
        (3, "the number 3"),
        (2**199 - 1, f"the number {2**199 - 1}"),
        (2**199, "a very large number"),
        (-1.5, "the number -1.5"),
        (0.0, "the number 0.0"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (None, "null"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
        ({1: 1}, "a dict whose keys are not all text"),
        (b"x", "an opaque bytes"),
    ],
)
def test_a_message_shows_the_value(value: Any, words: str) -> None:
    assert shown_value(value) == words
