"""Path expressions of policies: their form, their value, and what an agent gets of it. The rows are the rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path as File
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.protocols import Frame
from agf_magics.languages.descend import MISSING
from agf_magics.languages.policy import parse_path
from agf_magics.languages.policy.input_mapping import Delivery
from agf_magics.languages.policy.path import (
    DIRECTIONS,
    ELEMENT,
    Absent,
    Path,
    Where,
    iteration_problem,
    source_problem,
)
from agf_magics.text.source import Source

VECTORS = File(__file__).parents[1] / "vectors"


def rows(name: str) -> Any:
    rows_of_file = json.loads((VECTORS / name).read_text("utf-8"))["rows"]
    return pytest.mark.parametrize("row", rows_of_file, ids=[row["id"] for row in rows_of_file])


def is_refused(act: Callable[[], object], row: dict[str, Any]) -> bool:
    """Whether the row is an error, which was then reported."""
    if "error" not in row:
        return False
    with pytest.raises(agf.AgfError) as caught:
        act()
    (diagnostic,) = caught.value.diagnostics
    assert {"code": diagnostic.code, "at": diagnostic.span.text if diagnostic.span else None} == row["error"]
    assert row.get("says", "") in diagnostic.message
    return True


def resolve_path(
    path: Path | str, context: Frame, schema: Mapping[str, Any] | None = None, field: str | None = None
) -> Any:
    """The value of a path. With the ``schema`` of an agent's input, the value that its ``field`` gets."""
    path = parse_path(path, "batch") if isinstance(path, str) else path
    if schema is None or field is None:
        return path.evaluate(context)
    only = {**schema, "required": [name for name in schema.get("required", ()) if name == field]}
    return Delivery("the agent", {field: path}).build(context, only).get(field, MISSING)


def batch_inputs(
    mapping: Mapping[str, Path | str], context: Frame, most: int = 0, schema: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The input of each call of a batch. ``most``: the largest number of calls; 0 means all."""
    paths = {name: parse_path(path, "batch") if isinstance(path, str) else path for name, path in mapping.items()}
    if wrong := iteration_problem(paths, None):
        raise agf.DefinitionError(wrong)
    over = next(path for path in paths.values() if path.elements is not None)
    elements, delivery = over.over(context), Delivery("the agent", paths)
    inputs = []
    for index, element in enumerate(elements[:most] if most else elements):
        try:
            inputs.append(delivery.build({**context, ELEMENT: element}, schema))
        except agf.StepError as error:
            diagnostic = error.diagnostic
            problem = replace(diagnostic, message=f"element {index} of {over.array}: {diagnostic.message}")
            break
    else:
        return inputs
    raise agf.StepError(problem)


@rows("path_grammar.json")
def test_a_text_is_a_path_or_gets_an_error(row: dict[str, Any]) -> None:
    def read() -> Path:
        path = parse_path(row["text"], row["where"])
        if problem := source_problem(path, row.get("agents", [path.source]), row.get("ran", [path.source])):
            raise agf.DefinitionError(problem)
        return path

    if is_refused(read, row):
        return
    path = read()
    elements = {} if path.elements is None else {"elements": list(path.elements)}
    assert row["ok"] == {"source": path.source, "direction": path.direction, "fields": list(path.fields), **elements}
    assert str(path) == row["text"]


@rows("path_resolution.json")
def test_a_path_has_its_value(row: dict[str, Any]) -> None:
    given_ = partial(resolve_path, row["path"], row["context"], row.get("schema"), row.get("field"))
    if not is_refused(given_, row):
        value, expected = given_(), MISSING if "absent" in row else row["value"]
        assert value == expected
        assert type(value) is type(expected)


@rows("path_batch.json")
def test_each_call_of_a_batch_gets_its_input(row: dict[str, Any]) -> None:
    context = {"parent": {"input": row["input"]}}
    given_ = partial(batch_inputs, row["mapping"], context, row.get("most", 0), row.get("schema"))
    assert is_refused(given_, row) or given_() == row["inputs"]


# --- laws ---

NAMES = st.from_regex("[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True)
PATHS = st.builds(
    lambda source, direction, fields: ".".join((source, direction, *fields)),
    NAMES,
    st.sampled_from(DIRECTIONS),
    st.lists(NAMES, min_size=1, max_size=5),
)
WHERES = st.sampled_from(get_args(Where))
PIECES = st.sampled_from(["parent", "a", "input", "output", "x", ".", "..", ".[]", "[]", " ", "-", "\n", "1", "é", "'"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 2.0]) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TYPES = ("string", "number", "integer", "boolean", "array", "object")
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "minimum": st.integers(-1, 1),
        "maxLength": st.integers(0, 2),
        "items": st.sampled_from([{"type": "string"}, {"$ref": "#/$defs/small"}]),
    },
)
SCHEMAS = st.builds(
    lambda properties, required: {
        "type": "object",
        "properties": properties,
        "required": required,
        "$defs": {"small": {"type": "integer", "maximum": 1}},
    },
    st.dictionaries(st.sampled_from("fgh"), FIELDS, max_size=3),
    st.lists(st.sampled_from("fgh"), max_size=3, unique=True),
)
SOURCES = st.sampled_from(["parent.input.a", "parent.input.b.c", "one.output.a", "one.input.c"])


@given(PATHS, WHERES)
def test_a_path_prints_back_to_itself(text: str, where: Where) -> None:
    path = parse_path(text, where)
    assert str(path) == text
    assert ".".join((path.source, path.direction, *path.fields)) == text


@given(st.lists(PIECES, max_size=9).map("".join), WHERES)
def test_any_text_is_a_path_or_gets_one_error_inside_of_it(text: str, where: Where) -> None:
    try:
        assert str(parse_path(text, where)) == text
    except agf.DefinitionError as error:
        diagnostics = error.diagnostics
    else:
        return
    assert [(diagnostic.span is not None, bool(diagnostic.hint)) for diagnostic in diagnostics] == [(True, True)]
    assert diagnostics[0].span
    assert 0 <= diagnostics[0].span.start <= diagnostics[0].span.end <= len(text)


@given(SCHEMAS, st.dictionaries(st.sampled_from("fgh"), SOURCES, max_size=3), st.tuples(VALUES, VALUES, VALUES))
def test_a_delivered_value_conforms_to_its_schema(
    schema: dict[str, Any], mapping: dict[str, str], values: tuple[Any, Any, Any]
) -> None:
    frame: Frame = {"parent": {"input": values[0]}, "one": {"input": values[1], "output": values[2]}}
    delivery = Delivery("one", {name: parse_path(text, "policy_step") for name, text in mapping.items()})
    try:
        given_ = delivery.build(frame, schema)
    except agf.StepError:
        return
    # An optional field gets null whatever its type is (AMB-6).
    assert all(given_[name] is not None for name in schema["required"])
    jsonschema.Draft202012Validator(schema).validate({n: v for n, v in given_.items() if v is not None})


# --- cases that rows cannot describe ---

TAKES_ONE = Delivery("one", {"f": parse_path("parent.input.a", "policy_step")})


def test_a_path_of_a_hundred_thousand_names_is_read_without_recursion() -> None:
    path = parse_path("parent.input" + ".a" * 100_000, "policy_step")
    with pytest.raises(Absent):
        path.evaluate({"parent": {"input": {"a": {}}}})


def test_a_path_in_quotes_is_pointed_at_inside_of_them() -> None:
    source = Source("test", 'x: "parent.inptu.n"')
    with pytest.raises(agf.DefinitionError) as caught:
        parse_path(source.span(4, 18), "policy_step")
    assert caught.value.diagnostic.span == source.span(11, 16)


def test_where_an_element_is_bound_a_path_reads_that_element_alone() -> None:
    path = parse_path("parent.input.items.[].v", "batch")
    frame: Frame = {"parent": {"input": {"items": [{"v": 1}, {"v": 2}]}}}
    assert path.over(frame) == [{"v": 1}, {"v": 2}]
    assert path.evaluate(frame) == [1, 2]
    assert path.evaluate({**frame, ELEMENT: {"v": 2}}) == 2


def test_a_required_field_that_nothing_maps_is_missing_unless_it_has_a_default() -> None:
    frame: Frame = {"parent": {"input": {"a": 1}}}
    expected = {"properties": {"g": {"default": [0]}}, "required": ["g"]}
    assert TAKES_ONE.build(frame, expected) == {"f": 1, "g": [0]}
    with pytest.raises(agf.StepError) as caught:
        TAKES_ONE.build(frame, {"properties": {"g": {}}, "required": ["g"]})
    assert caught.value.code == "policy.missing-value"


def test_a_default_is_handed_out_as_a_copy() -> None:
    expected = {"properties": {"f": {"default": []}}}  # type: ignore[var-annotated]
    TAKES_ONE.build({"parent": {"input": {}}}, expected)["f"].append(1)
    assert TAKES_ONE.build({"parent": {"input": {}}}, expected) == {"f": []}


def test_an_opaque_value_passes_where_no_type_is_required() -> None:
    opaque = object()
    frame: Frame = {"parent": {"input": {"a": opaque}}}
    assert TAKES_ONE.build(frame, {"properties": {"f": {}}})["f"] is opaque
    with pytest.raises(agf.StepError, match="'f' of one needs an object, not an opaque object"):
        TAKES_ONE.build(frame, {"properties": {"f": {"type": "object"}}})


def test_a_path_is_an_expression_language_of_its_own() -> None:
    context = {"parent": {"input": {"crates": [{"n": 3}, {"n": 4}]}}, "one": {"input": {}, "output": {"n": 5}}}
    assert agf.evaluate("path", "one.output.n", context) == 5
    assert agf.evaluate("path", "parent.input.crates.[].n", context) == [3, 4]
    with pytest.raises(agf.DefinitionError, match=r"policy\.path-syntax"):
        agf.evaluate("path", "one.output", context)
    with pytest.raises(agf.StepError, match=r"policy\.unresolved-path"):
        agf.evaluate("path", "one.output.m", context)


def test_two_runs_with_different_schemas_may_build_at_once() -> None:
    text, number = ({"properties": {"f": {"type": kind, "default": kind}}} for kind in ("string", "integer"))
    frame: Frame = {"parent": {"input": {}}}
    assert [TAKES_ONE.build(frame, expected)["f"] for expected in (text, number, text)] == [
        "string",
        "integer",
        "string",
    ]


def test_a_step_names_its_fields_with_their_places_and_the_paths_it_reads() -> None:
    source = Source("test", "f: parent.input.a\ng: one.output.b")
    paths = {"f": parse_path(source.span(3, 17), "policy_step"), "g": parse_path(source.span(21), "policy_step")}
    delivery = Delivery("one", paths, {"f": source.span(0, 1), "g": source.span(18, 19)})
    assert delivery.names == (("f", source.span(0, 1)), ("g", source.span(18, 19)))
    read = [(ref.path, ref.span and ref.span.text) for ref in delivery.reads()]
    assert read == [(("parent", "input", "a"), "parent.input.a"), (("one", "output", "b"), "one.output.b")]
