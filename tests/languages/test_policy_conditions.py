"""Conditions of policies: which group matches, what is wrong with a condition, and why it can never match.

The rows are the rules of the language.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.languages.policy.document import schema
from agf_magics.languages.policy.matchers import Condition, condition
from agf_magics.languages.policy.operators import OPERATORS
from agf_magics.text.diagnostics import Diagnostics
from tests.languages.loading import nodes

VECTORS = Path(__file__).parents[1] / "vectors" / "policy_conditions.json"
ROWS = json.loads(VECTORS.read_text("utf-8"))["rows"]


def read_condition_text(text: str, keys: Any = "condition") -> tuple[Condition, Diagnostics]:
    (node,), problems = nodes(text)
    return condition(node, keys, problems), problems


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_conditions(row: dict[str, Any]) -> None:
    keys = "condition" if "input" in row else "approval"
    read_, problems = read_condition_text(row["condition"], keys)
    for severity in ("error", "warning"):
        problems_told = [
            {"code": d.code, "at": d.span.text if d.span else None} for d in problems if d.severity == severity
        ]
        assert problems_told == row.get(f"{severity}s", [])
    if "errors" in row:
        return
    frame = {"parent": {"input": row["input"]}} if "input" in row else row["arguments"]
    if "fails" in row:
        with pytest.raises(agf.StepError) as caught:
            read_.evaluate(frame)
        diagnostic = caught.value.diagnostic
        assert {"code": diagnostic.code, "at": diagnostic.span and diagnostic.span.text} == row["fails"]
    else:
        assert read_.evaluate(frame) == row["group"]


LITERALS = st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0]) | st.text("ab1", max_size=2)
VALUES = LITERALS | st.none() | st.lists(LITERALS, max_size=2) | st.dictionaries(st.text("ab"), LITERALS, max_size=1)
NUMBERS = st.integers(-2, 2) | st.sampled_from([0.5, 1.0])


def matches(matcher: Any, value: Any) -> bool:
    read_condition, problems = read_condition_text(json.dumps({"args_match": {"parent.input.v": matcher}}))
    assert not problems.errors
    return read_condition.evaluate({"parent": {"input": {"v": value}}}) == 1


@given(LITERALS, VALUES)
def test_ne_matches_where_the_value_itself_does_not_and_a_list_of_one_as_the_value(literal: Any, value: Any) -> None:
    assert matches({"ne": literal}, value) == (not matches(literal, value))
    assert matches({"in": [literal]}, value) == matches(literal, value)
    assert matches({"not_in": [literal]}, value) == matches({"ne": literal}, value)


@given(NUMBERS, NUMBERS, VALUES)
def test_several_operators_match_where_each_does(low: Any, high: Any, value: Any) -> None:
    assert matches({"gte": low, "lt": high}, value) == (matches({"gte": low}, value) and matches({"lt": high}, value))


@given(NUMBERS, VALUES)
def test_only_numbers_are_compared_with_a_number(bound: Any, value: Any) -> None:
    number = type(value) in (int, float)
    assert [matches({name: bound}, value) for name in ("gt", "lte")].count(True) == (1 if number else 0)
    assert [matches({name: bound}, value) for name in ("lt", "gte")].count(True) == (1 if number else 0)


def test_a_condition_is_shown_as_a_picture_shows_it() -> None:
    groups = ('{a.output.s: {gte: 0.8}, parent.input.l: {in: [zh, "1"]}}', "{a.output.d: true}")
    read_condition, _ = read_condition_text("".join(f"- args_match: {group}\n" for group in groups))
    assert read_condition.text == 'a.output.s >= 0.8 and parent.input.l in [zh, "1"] or a.output.d = true'
    assert [str(path) for path in read_condition.paths] == ["a.output.s", "parent.input.l", "a.output.d"]


def test_a_number_that_is_text_is_why_a_condition_will_never_match() -> None:
    read_condition, _ = read_condition_text("{args_match: {a.output.word: ok, a.output.score: {gte: 0.8}}}")
    reason = read_condition.mismatch({"a": {"output": {"word": "no", "score": "0.9"}}})
    assert reason == "a.output.score >= 0.8 needs a number, but the value is text '0.9'"
    assert read_condition.mismatch({"a": {"output": {"word": "no", "score": 0.5}}}) is None


def test_every_operator_of_the_schema_is_one_and_no_other() -> None:
    assert set(schema()["$defs"]["Operators"]["properties"]) == set(OPERATORS)


def test_a_pattern_nested_too_deep_is_reported() -> None:
    _, problems = read_condition_text(
        json.dumps({"args_match": {"parent.input.v": {"pattern": "(" * 50_000 + ")" * 50_000}}})
    )
    assert [problem.code for problem in problems] == ["policy.bad-pattern"]
    assert "100,000 characters" in problems.errors[0].message
