"""Value and condition expressions of graphs: the vectors, and laws that hold for all expressions."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.languages import graph
from agf_magics.languages.graph import (
    evaluate_condition,
    resolve_node_variables,
    resolve_state_expression,
    resolve_template,
)
from agf_magics.languages.graph.expressions import condition, tokens, values
from agf_magics.languages.graph.expressions.tokens import LONGEST
from agf_magics.languages.scan import Refusal
from agf_magics.values.extent import LARGEST
from tests.languages.graph_case import decoded, edge_with, format_template, found_in

VECTORS = Path(__file__).parents[1] / "vectors"
VALUES = json.loads((VECTORS / "value_expressions.json").read_text("utf-8"))["rows"]
CONDITIONS = json.loads((VECTORS / "condition_expressions.json").read_text("utf-8"))["rows"]
NAMED = (ValueError, KeyError, TypeError, ZeroDivisionError)


@pytest.mark.parametrize("row", [*VALUES, *CONDITIONS], ids=lambda row: row["id"])
def test_an_expression_gives_what_its_vector_says(row: dict[str, Any]) -> None:
    function, state = getattr(graph, row["fn"]), decoded(row["state"])
    before = copy.deepcopy(state)
    if "error" in row:
        with pytest.raises(NAMED) as caught:
            function(row["text"], state)
        assert type(caught.value).__name__ == row["error"]["type"]
    else:
        assert _typed(function(row["text"], state)) == _typed(decoded(row["ok"]))
    assert _typed(state) == _typed(before), "the state is never changed"


@pytest.mark.parametrize(
    "row", [row for row in (*VALUES, *CONDITIONS) if "code" in row.get("error", {})], ids=lambda row: row["id"]
)
def test_a_wrong_expression_is_reported_at_the_wrong_token(row: dict[str, Any]) -> None:
    language = "condition" if row["fn"] == "evaluate_condition" else "value"
    text = row["text"] if isinstance(row["text"], str) else next(iter(row["text"].values()))
    with pytest.raises(agf.AgfError) as caught:
        agf.evaluate(language, text, decoded(row["state"]))
    diagnostic = caught.value.diagnostic
    assert {"code": diagnostic.code, "at": diagnostic.span.text} == {key: row["error"][key] for key in ("code", "at")}


@pytest.mark.parametrize("row", CONDITIONS, ids=lambda row: row["id"])
def test_a_wrong_condition_of_a_graph_is_reported(row: dict[str, Any]) -> None:
    assert found_in(edge_with(row["text"], row["state"])) == row.get("graph", [])


def _typed(value: Any) -> Any:
    """A value with its types: 1 is neither true nor 1.0, and nan equals itself."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [type(value), *map(_typed, value)]
    return type(value), repr(value)


# --- attributes of objects ---


class Thing:
    shown = 1
    _hidden = 2

    @property
    def computed(self) -> int:
        return 3

    @property
    def broken(self) -> int:
        raise RuntimeError("not today")

    def method(self) -> int:
        return 4


@pytest.mark.parametrize(
    ("name", "value"),
    [("shown", 1), ("computed", 3), ("_hidden", None), ("method", None), ("__class__", None), ("absent", None)],
)
def test_only_shown_attributes_of_an_object_are_read_and_no_methods(name: str, value: Any) -> None:
    assert resolve_template(f"{{state.thing.{name}}}", {"thing": Thing()}) == value
    assert evaluate_condition(f"thing.{name} == null", {"thing": Thing()}) is (value is None)


def test_a_missing_key_is_missing_though_dicts_have_a_method_of_its_name() -> None:
    with pytest.raises(KeyError, match="the state has no 'items'; it has rows"):
        resolve_state_expression("{state.items}", {"rows": [1]})


def test_a_property_that_raises_is_a_value_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="cannot read 'broken' of an opaque Thing: RuntimeError: not today"):
        resolve_template("{state.thing.broken}", {"thing": Thing()})


def test_an_opaque_value_is_not_computed_with() -> None:
    with pytest.raises(TypeError, match="an opaque Thing"):
        resolve_template("{state.thing + 1}", {"thing": Thing()})
    assert not evaluate_condition("a == b", {"a": Thing(), "b": Thing()})
    assert not evaluate_condition("a < b", {"a": Thing(), "b": Thing()})


# --- bounds ---


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("{state.s * 1000000000}", {"s": "x"}),
        ("{state.n * state.n}", {"n": 1 << 60_000}),
        ("{state.rows + state.rows}", {"rows": [0] * (LARGEST // 2 + 1)}),
        ("{state.n / 3}", {"n": 10**400}),
        ("all: {state.deep}", {"deep": None}),
    ],
    ids=["text", "number", "list", "overflow", "shared"],
)
def test_a_value_that_grows_beyond_a_limit_is_an_error(text: str, state: dict[str, Any]) -> None:
    if "deep" in state:
        state["deep"] = [0]
        for _ in range(40):
            state["deep"] = [state["deep"], state["deep"]]
    with pytest.raises(ValueError, match=r"."):
        resolve_template(text, state)


def test_an_expression_has_a_largest_length() -> None:
    with pytest.raises(ValueError, match="characters"):
        resolve_template("{state.a + '" + "x" * LONGEST + "'}", {})
    with pytest.raises(ValueError, match="characters"):
        evaluate_condition(" and ".join(["a == 1"] * LONGEST), {})


# --- laws ---

NAME = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
PATH = st.lists(NAME, min_size=1, max_size=3).map(tuple)
QUOTABLE = st.text(st.sampled_from("abc ,:{}[]+-*/<>=!.andor0"), max_size=8)
LITERAL = st.one_of(st.integers(-99, 99), st.booleans(), st.none(), QUOTABLE).map(tokens.Literal)
ATOM = st.one_of(PATH.map(tokens.Path), LITERAL)
OPERAND = st.one_of(
    ATOM,
    ATOM.map(values.One),
    st.lists(st.tuples(QUOTABLE, ATOM), max_size=3).map(tuple).map(values.Pairs),
)
VALUE = st.one_of(
    PATH.map(tokens.Path),
    st.builds(values.Arithmetic, PATH.map(tokens.Path), st.sampled_from("+-*/"), OPERAND),
)
COMPARISON = st.builds(
    condition.ComparisonNode,
    PATH.filter(lambda path: path[0] not in ("and", "or", "not")).map(tokens.Path),
    st.sampled_from(condition.COMPARING),
    st.one_of(LITERAL, NAME.map(lambda name: f"k_{name}").map(tokens.Bare)),
)
CONDITION = st.lists(st.lists(COMPARISON, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)


@given(VALUE)
def test_a_printed_value_is_parsed_to_the_same(node: Any) -> None:
    assert values.parse_template(format_template(node)) == node


@given(CONDITION.map(condition.Condition))
def test_a_printed_condition_is_parsed_to_the_same(node: condition.Condition) -> None:
    assert condition.parse_condition(condition.format_condition(node)) == node


SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4))
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3))
STATE = st.dictionaries(st.sampled_from(["a", "b", "items", "log", "n"]), JSON, max_size=5)
SOUP = st.lists(
    st.sampled_from(
        ["{", "}", "state.", "a", "b", "items", ".", " ", "+", "-", "*", "/", "[", "]", "'", '"', ",", ":", "1", "0.5",
         "==", "<", ">=", " and ", " or ", "not ", "(", ")", "x y", "null", "true", "\n", "é"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@given(st.one_of(SOUP, SOUP.map(lambda text: f"{{state.a + {text}}}")), STATE)
@example("{state.a + 'x}", {"a": 1})
def test_whatever_a_value_is_it_raises_only_what_is_named_and_leaves_the_state(text: str, state: Any) -> None:
    before = copy.deepcopy(state)
    for function in (resolve_template, resolve_state_expression, lambda t, s: resolve_node_variables({"x": t}, s)):
        with contextlib.suppress(NAMED):  # type: ignore[arg-type]
            function(text, state)
    assert _typed(state) == _typed(before)


@given(st.one_of(SOUP, SOUP.map(lambda text: f"a == {text}")), STATE)
def test_whatever_a_condition_is_it_is_refused_or_it_holds_or_not(text: str, state: Any) -> None:
    before = copy.deepcopy(state)
    try:
        condition.parse_condition(text)
    except Refusal:
        with pytest.raises(ValueError, match=r"."):
            evaluate_condition(text, state)
    else:
        assert evaluate_condition(text, state) in (True, False)
    assert _typed(state) == _typed(before)


def test_the_page_of_conformance_names_what_exists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "graph-conformance.md").read_text("utf-8")
    rows = {row["id"] for path in ("graph_runs", "graph_documents") for row in
            json.loads((VECTORS / f"{path}.json").read_text("utf-8"))["rows"]}  # fmt: skip
    rows |= {row["id"] for row in (*VALUES, *CONDITIONS)}
    held = [line.split("|")[-2] for line in page.splitlines() if line.startswith("| ") and not line.startswith("| row")]
    named = {name for cell in held for name in re.findall(r"`([\w:.-]+)`", cell) if "-" in name or "::" in name}
    assert len(named) > 150
    for name in named:
        path, _, test = name.partition("::")
        exists = test in Path(__file__).with_name(path).read_text("utf-8") if test else name in rows
        assert exists, name
    decisions = [f"PEER-{number}" for number in range(1, 22)] + [f"Y{number}" for number in range(1, 13)]
    assert all(re.search(rf"^\| (?:.*\b)?{name}\b", page, re.MULTILINE) for name in decisions)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("state.a < 0.0000001", "a < 0.0000001"),
        ("state.a == 'state.b'", "a == 'state.b'"),
        ("a == state.b or state.a > 3", "a == b or a > 3"),
    ],
)
def test_the_hint_for_a_prefix_is_the_same_condition(written: str, meant: str) -> None:
    with pytest.raises(agf.DefinitionError) as refused:
        agf.load(edge_with(written, {"a": 1, "b": 2}), "graph")
    assert {problem.hint for problem in refused.value.diagnostics} == {f"write: {meant}"}
