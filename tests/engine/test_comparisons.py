"""Comparisons that the types of their values decide: the run says so, in each language."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest

import agf_magics as agf


class Color(Enum):
    RED = "red"


def warned(flow: agf.Flow, fields: dict[str, Any], registry: agf.Registry) -> list[str]:
    run = agf.run(flow, fields, registry=registry)
    return [warning.message for warning in run.warnings if warning.code == "step.not-comparable"]


GRAPH = """
name: g
state: {{v: any, w: any, hit: bool}}
nodes:
  first: {{type: passthrough, output: {{hit: false}}}}
  second: {{type: passthrough, output: {{hit: true}}}}
edges:
- {{from: START, to: first}}
- {{from: first, to: second, condition: {condition}}}
"""
CONDITIONS: list[tuple[str, Any, str]] = [
    ("v > 0.8", "0.9", "'v > 0.8' is false: the text '0.9' and the number 0.8 have no order"),
    ("v > 10", Decimal(12), "'v > 10' is false: an opaque Decimal and the number 10 have no order"),
    ("v < '2030-01-01'", date(2026, 1, 1), "an opaque date and the text '2030-01-01' have no order"),
    ("v <= 1", {"a": 1}, "an object and the number 1 have no order"),
    ("v == 'red'", Color.RED, "\"v == 'red'\" is false: an opaque Color is equal to itself alone"),
    ("v != 'red'", Color.RED, "is true: an opaque Color is equal to itself alone"),
    ("v == w", date(2026, 1, 1), "an opaque date is equal to itself alone"),
    ("v > 0.8", 0.9, ""),
    ("v > 0.8", None, ""),
    ("v > true", 2, ""),
    ("v == null", Color.RED, ""),
    ("v != null", Decimal(1), ""),
    ("v == v", Color.RED, ""),
    ("v == '0.9'", 0.9, ""),
    ("v < w", "a", ""),
    ("v < w", [1], ""),
    ("v > 0.8 and hit == true", "0.9", ""),
    ("hit == true and v > 0.8", "0.9", ""),
    ("v > 0.8 and hit == false", "0.9", "'v > 0.8' is false"),
    ("hit == true or v > 0.8", "0.9", "'v > 0.8' is false"),
    ("v != 'red' and hit == true", Color.RED, ""),
    ("v != 'red' and hit == false", Color.RED, "\"v != 'red'\" is true"),
]


@pytest.mark.parametrize(("condition", "value", "message"), CONDITIONS)
def test_a_condition_of_a_graph(condition: str, value: Any, message: str) -> None:
    registry = agf.Registry()
    flow = agf.load(GRAPH.format(condition=condition), "graph", registry=registry)
    other = date(2026, 1, 1) if type(value) is date else value
    messages = warned(flow, {"v": value, "w": other}, registry)
    assert [message in text for text in messages] == [True] * bool(message)


@pytest.mark.parametrize(
    ("expression", "messages"),
    [
        ("ctx.v == 'red'", ["'==' is false: 'ctx.v' is an opaque Color, equal to itself alone"]),
        ("'red' != ctx.v", ["'!=' is true: 'ctx.v' is an opaque Color, equal to itself alone"]),
        ("map([1, 2], x -> get(ctx, 'v') == x)", ["'==' is false: a value is an opaque Color, equal to itself alone"]),
        ("[ctx.v == null, ctx.v == ctx.v, 1 == '1', [ctx.v] == [1]]", []),
    ],
)
def test_an_expression_of_a_pipeline(expression: str, messages: list[str]) -> None:
    registry = agf.Registry()
    flow = agf.load(f"{{pipeline: p, steps: [{{transform: {{value: {expression!r}}}}}]}}", registry=registry)
    assert warned(flow, {"v": Color.RED}, registry) == messages


def test_a_match_of_a_pipeline() -> None:
    registry = agf.Registry()
    agf.define("{pipeline: hit, steps: [{transform: {value: '1'}}]}", registry=registry)
    cases = "cases: {red: {pipeline: hit}}, default: {pipeline: hit}"
    flow = agf.load(f"{{pipeline: p, steps: [{{match: {{on: ctx.v, {cases}}}}}]}}", registry=registry)
    assert warned(flow, {"v": Color.RED}, registry) == ["an opaque Color is not compared with the labels of match"]
    assert warned(flow, {"v": "red"}, registry) == []


@pytest.mark.parametrize(
    ("matcher", "value", "message"),
    [
        ("{gte: 0.8}", "0.9", "parent.input.v >= 0.8 needs a number, but the value is text '0.9'"),
        ("{gte: 0.8}", Decimal(1), "needs a number, but the value is an opaque Decimal"),
        ("{pattern: r}", ["r"], "needs a text, but the value is a list"),
        ("red", Color.RED, "compares JSON, but the value is an opaque Color"),
        ("{in: [red]}", Color.RED, "compares JSON, but the value is an opaque Color"),
        ("{gte: 0.8}", None, ""),
        ("{gte: 0.8}", 0.1, ""),
        ("red", 1, ""),
        ("{ne: red}", Color.RED, ""),
    ],
)
def test_a_condition_of_a_policy(matcher: str, value: Any, message: str) -> None:
    registry = agf.Registry()
    agf.agent(lambda input: 1, name="a", registry=registry)
    route = f"{{agent: a, when: {{args_match: {{parent.input.v: {matcher}}}}}}}"
    text = f"{{id: agf.conditional, config: {{routes: [{route}], default_agent: a}}}}"
    messages = warned(agf.load(text, "policy", registry=registry), {"v": value}, registry)
    assert [message in text for text in messages] == [True] * bool(message)


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({"k": "order", "v": "n/a"}, True),
        ({"k": "mail", "v": "n/a"}, False),
        ({"k": None, "v": "n/a"}, False),
        ({"k": "order", "v": 0.9}, False),
    ],
)
def test_a_condition_of_a_policy_in_which_something_else_fails(fields: dict[str, Any], is_told: bool) -> None:
    registry = agf.Registry()
    agf.agent(lambda input: 1, name="a", registry=registry)
    route = "{agent: a, when: {args_match: {parent.input.k: order, parent.input.v: {gte: 0.8}}}}"
    text = f"{{id: agf.conditional, config: {{routes: [{route}], default_agent: a}}}}"
    assert len(warned(agf.load(text, "policy", registry=registry), fields, registry)) == is_told
