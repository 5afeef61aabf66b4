"""Tests of the checks of a whole flow: they report each problem, and nothing where there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.checks.rules import RULES, check
from agf_magics.flow.protocols import Frame
from agf_magics.languages.pipeline.r1 import Names, parse
from agf_magics.languages.pipeline.values import infer
from agf_magics.schemas.shapes import Shape
from agf_magics.text.diagnostics import sort_by_place
from agf_magics.text.source import Source
from tests.languages.loading import load

PIPELINE = Names({name: (name,) for name in ("ctx", "pipe", "item", "acc")}, ("ctx",))

ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "pipeline_checks.json").read_text("utf-8"))["rows"]


def flow_of(text: str) -> agf.Flow:
    definition, problems = load("pipeline", text)
    assert definition.flow is not None, problems
    return definition.flow


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_checks(row: dict[str, Any]) -> None:
    flow, diagnostics = check(flow_of(row["text"]))
    codes = [
        {"severity": d.severity, "code": d.code, "at": d.span.text if d.span else None}
        for d in sort_by_place(diagnostics)
    ]
    assert codes == row["found"]
    assert {ref.path[-1]: ref.certain for ref in flow.inputs} == row["inputs"]


def test_every_code_is_in_a_rule_that_documents_it() -> None:
    documented = " ".join(rule.__doc__ or "" for rule in RULES)
    codes = {finding["code"] for row in ROWS for finding in row["found"]}
    assert {code for code in codes if code.startswith("flow.") and f"{code}:" not in documented} == {
        "flow.schema-field",
        "flow.maybe-absent",
    }


def test_an_input_points_at_the_first_place_that_surely_reads_it() -> None:
    steps = "- transform: {value: \"get(ctx, 'doc', 1)\"}\n- transform: {value: ctx.doc.title}\n"
    (ref,) = check(flow_of(f"pipeline: p\nsteps:\n{steps}"))[0].inputs
    assert ref.path == ("ctx", "doc")
    assert ref.span.text == "ctx.doc.title"


def test_an_overwritten_store_shows_both_places() -> None:
    steps = "- transform: {value: '1', output: a}\n- transform: {value: '2', output: a}\n"
    (finding,) = check(flow_of(f"pipeline: p\nsteps:\n{steps}"))[1]
    assert finding.span.place == (3, 35)
    assert [(label, span.place) for label, span in finding.related] == [("overwritten here", (4, 35))]


def test_a_flow_that_infers_nothing_is_still_checked_for_its_names() -> None:
    steps = "- transform: {value: 'true + 1', output: verdict}\n- match: {on: verdcit, cases: {a: {pipeline: q}}}\n"
    flow = flow_of(f"pipeline: p\nsteps:\n{steps}")
    flow = replace(flow, dialect=replace(flow.dialect, infer=None))
    assert [d.code for d in sort_by_place(check(flow)[1])] == ["flow.never-read", "flow.unwritten"]


def test_a_chain_of_thousands_of_steps_is_followed_to_its_end() -> None:
    steps = ["- transform: {value: \"'a'\", output: s0}\n"]
    steps += [f"- transform: {{value: s{n - 1}, output: s{n}}}\n" for n in range(1, 3000)]
    steps += ["- match: {on: s2999, cases: {a: {pipeline: q}, b: {pipeline: q}}}\n"]
    diagnostics = check(flow_of(f"pipeline: p\nsteps:\n{''.join(steps)}"))[1]
    assert [d.code for d in diagnostics] == ["flow.label"]


# --- what is inferred of an expression is so ---

NAMES = st.sampled_from(
    ["ctx.n", "ctx.t", "ctx.b", "ctx.l", "ctx.o", "ctx.o.n", "ctx.o.t", "ctx.k", "ctx.zz", "ctx.o.zz"]
)
STORES = {"n": 2, "t": "low", "b": True, "l": ["low", ""], "o": {"n": 0.5, "t": "x"}, "k": "low", "zz": None}
FRAME: Frame = {"ctx": STORES, "pipe": 1}
TEXT, NUMBER = Shape(frozenset({"text"})), Shape(frozenset({"number"}))
KNOWN: dict[tuple[str, ...], Shape] = {
    ("ctx", "n"): NUMBER,
    ("ctx", "t"): TEXT,
    ("ctx", "b"): Shape(frozenset({"bool"}), (False, True)),
    ("ctx", "l"): Shape(frozenset({"list"}), of=TEXT),
    ("ctx", "o"): Shape(frozenset({"object"}), fields={"n": NUMBER, "t": TEXT}, closed=True),
    ("ctx", "o", "n"): NUMBER,
    ("ctx", "o", "t"): TEXT,
    ("ctx", "k"): Shape(frozenset({"text"}), ("low", "high")),
}
LITERALS = st.sampled_from(["1", "0", "2.5", "'low'", "'x'", "''", "true", "false", "null", "[]", "[1, 2]", "{n: 1}"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["and", "or", "==", "!=", "<", ">=", "+", "-", "*", "/"])
    function = st.sampled_from(["map", "filter", "all", "any", "find"])
    bodies = st.sampled_from(["x", "x == 'low'", "x + 'y'", "x.n", "x and 1", "[x]"])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(function, inner, bodies).map(lambda parts: f"{parts[0]}({parts[1]}, x -> {parts[2]})"),
        st.sampled_from(["(not {})", "(-{})", "[{}]", "{{n: {}}}", "count({})", "sum({})"]).flatmap(
            lambda form: inner.map(form.format)
        ),
        st.tuples(inner, inner).map(lambda parts: f"get({parts[0]}, 'n', {parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"join({parts[0]}, {parts[1]})"),
    )


@given(st.recursive(st.one_of(NAMES, LITERALS), _larger, max_leaves=8))
def test_a_value_has_the_shape_that_was_inferred_and_what_cannot_work_does_not(source: str) -> None:
    problems: list[agf.Diagnostic] = []
    expr = parse(Source("test", source).span(), PIPELINE)
    shape = infer(expr, lambda path: (KNOWN.get(path), None), problems)
    try:
        value = expr.evaluate(FRAME)
    except agf.StepError:
        return
    assert [d for d in problems if d.severity == "error"] == []
    assert shape is None or fits(shape, value), (shape, value)


def fits(shape: Shape, value: Any) -> bool:
    kinds = {
        str: "text",
        int: "number",
        float: "number",
        bool: "bool",
        type(None): "null",
        list: "list",
        dict: "object",
    }
    if kinds[type(value)] not in shape.kinds:
        return False
    if shape.values is not None:
        return any(type(value) is type(literal) and value == literal for literal in shape.values)
    if type(value) is list:
        return shape.of is None or all(fits(shape.of, element) for element in value)
    if type(value) is dict:
        inside = {name: inner for name, inner in shape.fields.items() if name in value}
        return (
            (not shape.closed or value.keys() <= shape.fields.keys())
            and all(name in value or name in shape.optional for name in shape.fields)
            and all(inner is None or fits(inner, value[name]) for name, inner in inside.items())
        )
    return True
