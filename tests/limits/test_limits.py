"""Tests of the limits of a run, through every nesting and language, and of the limits that a definition sets itself."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.step_options import OwnLimits
from agf_magics.limits.budgets import Budget, LimitReached, Meter
from agf_magics.limits.limits import limit_values
from agf_magics.settings.settings import current
from tests.engine.virtual_time import run_virtual


def run(text: str, fields: dict[str, Any] | None = None, *, registry: agf.Registry, **limits: Any) -> agf.Run:
    run_made: agf.Run = run_virtual(
        agf.arun(text, fields, registry=registry, limits=agf.Limits(**limits), raises=False)
    )
    return run_made


def over(body: str, items: str = "[1]") -> str:
    """A for_each around a step."""
    return f"for_each: {{items: {items}, on_error: continue, do: {{{body}}}, collect: {{transform: {{value: pipe}}}}}}"


def pipeline(step: str, name: str = "p") -> str:
    return f"pipeline: {name}\nsteps:\n- {step}\n"


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()
    agf.agent(lambda prompt: "hi", name="anyone", default=True, where="loop", registry=registry)
    agf.tool(lambda: "done", name="quick", where="loop", registry=registry)
    return registry


# --- what a person sets ---


@pytest.mark.parametrize("wrong", [-1, 1.0, True, "5", None])
@pytest.mark.parametrize("name", ["fan_out_depth", "spawns"])
def test_a_cap_is_a_whole_number(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=name):
        agf.Limits(**{name: wrong})


@pytest.mark.parametrize("wrong", ["1", True, -1.0, math.nan])
@pytest.mark.parametrize("name", ["timeout", "step_timeout", "model_timeout"])
def test_a_time_is_a_number(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=name):
        agf.Limits(**{name: wrong})


@pytest.mark.parametrize("name", ["timeout", "step_timeout", "model_timeout"])
def test_no_time_is_no_limit_however_it_is_written(name: str) -> None:
    assert agf.Limits(**{name: 0}) == agf.Limits(**{name: 0.0}) == agf.Limits(**{name: None})  # type: ignore[arg-type]
    assert getattr(agf.Limits(**{name: 0}), name) is None


@pytest.mark.parametrize(
    ("limits_given", "changed"),
    [
        (None, {}),
        ({}, {}),
        ({"timeout": 60}, {"timeout": 60}),
        ({"spawns": 0}, {"spawns": 0}),
        ({"spawns": 100}, {"spawns": 100}),
        ({"model_timeout": None, "max_cost": 0}, {"model_timeout": None, "max_cost": 0}),
        ({"max_tokens": 9, "fan_out_depth": 1}, {"max_tokens": 9, "fan_out_depth": 1}),
    ],
)
@pytest.mark.usefixtures("journaled")
def test_those_that_are_not_given_are_those_of_the_settings(
    limits_given: dict[str, Any] | None, changed: dict[str, Any], registry: agf.Registry
) -> None:
    limits = None if limits_given is None else agf.Limits(**limits_given)
    before = current.settings
    current.settings = replace(before, max_pipeline_spawns=7, model_timeout=3.0, max_cost=0.5)
    expected = {"fan_out_depth": 5, "spawns": 7, "model_timeout": 3.0, "max_cost": 0.5, "max_tokens": 0} | changed
    flow = agf.define(pipeline("tool: {name: fail}"), registry=registry)
    agf.tool(lambda: 1 / 0, name="fail", registry=registry)
    first = agf.run(flow, registry=registry, limits=limits, raises=False)
    background = agf.start(flow, registry=registry, limits=limits).wait()
    again = agf.rerun(first, "steps[0]", registry=registry, limits=limits, raises=False)
    for run in (first, background, again):
        assert limit_values(run.limits) == {"timeout": None, "step_timeout": None} | expected
    # A resumed run has the others that it began with, whatever the settings say by then.
    began = agf.run(flow, registry=registry, raises=False)
    current.settings = before
    resumed = agf.resume(began.run_id, registry=registry, limits=limits, raises=False)
    assert limit_values(resumed.limits) == {"timeout": None, "step_timeout": None} | expected


def test_the_rows_of_a_table_have_those_of_the_settings(registry: agf.Registry) -> None:
    current.settings = replace(current.settings, max_tokens=9)
    flow = agf.define(pipeline("transform: {value: ctx.n}"), registry=registry)
    run = agf.run(flow, over=[{"n": 1}], registry=registry, limits=agf.Limits(timeout=60))
    assert run.limits.max_tokens == 9


def test_nothing_a_definition_says_changes_them() -> None:
    for key in ("limits", "timeout", "max_pipeline_spawns", "fan_out_depth"):
        with pytest.raises(agf.DefinitionError, match=r"pipeline\.unknown-key"):
            agf.load(f"pipeline: p\n{key}: 0\nsteps:\n- transform: {{value: '1'}}\n")
        with pytest.raises(agf.DefinitionError, match=r"pipeline\.unknown-key"):
            agf.load(pipeline(f"agent: {{prompt: x, {key}: 0}}"))


# --- depth ---

DEEP = {
    "for_each": over(over(over("transform: {value: item}"))),
    "through a call": over("call: {pipeline: two}"),
    "through a match": over("match: {on: \"'x'\", cases: {x: {pipeline: two}}}"),
    "through a fold": over("fold: {items: [1], init: '0', do: {call: {pipeline: two}}, output: o}"),
    "through a parallel, which is none": over(
        "parallel: {branches: {x: {call: {pipeline: two}}}, collect: {transform: {value: pipe}}}"
    ),
    "in collect": "for_each: {items: [1], on_error: continue, do: {transform: {value: item}}, "
    f"collect: {{{over(over('transform: {value: item}'))}}}}}",
    "through an agent step that a flow answers": over("agent: {prompt: x, identity: two}"),
    "through a batch of a policy": "call: {pipeline: batch, pass: [rows]}",
    "through a map of a graph": "call: {pipeline: map}",
}
"""Definitions that open three scopes inside each other."""

LIBRARY = {
    "two": ("pipeline", pipeline(over(over("transform: {value: item}")), "two")),
    "batch": ("policy", "id: agf.batch\nconfig: {agent: two, input_mapping: {n: 'parent.input.rows.[]'}}\n"),
    "map": (
        "graph",
        "state: {out: list}\nnodes:\n"
        "  each: {type: map, over: [1], as: x, collect: out, node: {type: tool_call, tool: two, state_key: v}}\n"
        "edges: [{from: START, to: each}, {from: each, to: END}]\n",
    ),
    "plan": ("plan", "context: plan\ncalls:\n- {_tool: two, _outputPath: †state.x}\n"),
}


def library(registry: agf.Registry) -> agf.Registry:
    for name, (language, text) in LIBRARY.items():
        agf.define(text, language, name=name, registry=registry)
    instance = {"type": "data", "kind": "input", "_instance": "①", "data": {"x": 1}}
    agf.context("plan", registry=registry).append(instance)
    return registry


@pytest.mark.parametrize("how", DEEP)
def test_depth_counts_every_fan_out_through_every_nesting_and_language(registry: agf.Registry, how: str) -> None:
    library(registry)
    refused = run(pipeline(DEEP[how]), {"rows": [1]}, registry=registry, fan_out_depth=2)
    assert isinstance(refused.error, LimitReached)  # and no on_error: continue dropped it
    assert refused.error.code == "limit.fan-out-depth"
    assert "would be number 3" in str(refused.error)
    for enough in (3, 0):
        assert run(pipeline(DEEP[how]), {"rows": [1]}, registry=registry, fan_out_depth=enough).result()


def test_the_instances_of_a_plan_are_a_fan_out(registry: agf.Registry) -> None:
    library(registry)
    refused = run("plan", registry=registry, fan_out_depth=2)
    assert (refused.error and refused.error.code, refused.steps["calls[0]"].state) == ("limit.fan-out-depth", "failed")
    assert run("plan", registry=registry, fan_out_depth=3).result()


# --- sessions ---

ASKS = "agent: {prompt: x}"
SPAWNS: dict[str, tuple[str, int]] = {
    "alone": (ASKS, 1),
    "for_each": (over(ASKS, "[1, 2, 3]"), 3),
    "branches and collect": (f"parallel: {{branches: {{x: {{{ASKS}}}, y: {{{ASKS}}}}}, collect: {{{ASKS}}}}}", 3),
    "fold": (f"fold: {{items: [1, 2], init: '0', do: {{{ASKS}}}, output: o}}", 2),
    "call": (over("call: {pipeline: asks}", "[1, 2]"), 4),
    "match": ("match: {on: \"'x'\", cases: {x: {pipeline: asks}}}", 2),
    "a flow that answers": ("agent: {prompt: x, identity: asks}", 3),
    "Python agents of a policy are none": ("call: {pipeline: policy}", 0),
    "a pipeline in a policy": ("call: {pipeline: outer_policy}", 2),
    "a pipeline in a graph": ("call: {pipeline: graph}", 2),
    "a pipeline in a plan": ("call: {pipeline: delegating_plan}", 2),
}
"""Definitions, and how many sessions they open."""

ASKING = {
    "asks": ("pipeline", f"pipeline: asks\nsteps:\n- {ASKS}\n- {ASKS}\n"),
    "policy": ("policy", "id: agf.sequential\nconfig: {steps: [{agent: anyone}]}\n"),
    "outer_policy": ("policy", "id: agf.sequential\nconfig: {steps: [{agent: asks}, {agent: anyone}]}\n"),
    "graph": (
        "graph",
        "state: {v: any}\nnodes: {n: {type: tool_call, tool: asks, args: {}, state_key: v}}\n"
        "edges: [{from: START, to: n}, {from: n, to: END}]\n",
    ),
    "delegating_plan": ("plan", "calls:\n- {_tool: asks, _outputPath: †state.x}\n"),
}


@pytest.mark.parametrize("how", SPAWNS)
def test_sessions_are_counted_through_every_nesting_and_language(registry: agf.Registry, how: str) -> None:
    for name, (language, text) in ASKING.items():
        agf.define(text, language, name=name, registry=registry)
    step, count = SPAWNS[how]
    assert run(pipeline(step), registry=registry, spawns=0).result().sessions == count
    assert run(pipeline(step), registry=registry, spawns=max(count, 1)).result().sessions == count
    if count > 1:
        refused = run(pipeline(step), registry=registry, spawns=count - 1)
        assert isinstance(refused.error, LimitReached)
        assert refused.error.code == "limit.spawns"


def test_every_attempt_counts_and_a_fan_out_that_surely_needs_more_asks_nobody(registry: agf.Registry) -> None:
    prompts = []

    def moody(prompt: str) -> str:
        prompts.append(prompt)
        raise ValueError("not now")

    agf.agent(moody, registry=registry, where="loop")
    step = "agent: {prompt: x, identity: moody}"
    again = over(step).replace("continue", "retry(5)")
    assert run(pipeline(again), registry=registry, spawns=3).error is not None
    assert len(prompts) == 3
    prompts.clear()
    assert "needs at least 4" in str(run(pipeline(over(step, "[1, 2, 3, 4]")), registry=registry, spawns=3).error)
    assert prompts == []


FETCHES = "tool: {name: fetch, args: {x: !expr item}}"
FAILING: dict[str, tuple[str, bool]] = {
    "the agent comes first": (over("call: {pipeline: asks_first, pass: {item: item}}", "[0, 1, 2, 3]"), True),
    "an element may fail before": (over("call: {pipeline: fetches, pass: {item: item}}", "[0, 1, 2, 3]"), False),
    "the rescued call may fail before": (
        over("call: {pipeline: fetches, pass: {item: item}, on_error: continue}", "[0, 1, 2, 3]").replace(
            "on_error: continue, do", "on_error: abort, do"
        ),
        False,
    ),
    "a failure ends the fan-out": (
        over("call: {pipeline: fetches, pass: {item: item}}", "[3, 3, 3, 3]").replace("continue", "abort"),
        True,
    ),
    "a branch may fail before": (
        "parallel: {on_error: continue, branches: {"
        + ", ".join(f"b{n}: {{call: {{pipeline: fetches, pass: {{item: '{n}'}}}}}}" for n in range(4))
        + "}, collect: {transform: {value: pipe}}}",
        False,
    ),
}


@pytest.mark.parametrize("how", FAILING)
def test_only_sessions_that_a_fan_out_surely_opens_are_refused_before_it(registry: agf.Registry, how: str) -> None:
    def fetch(x: int) -> int:
        if x < 3:
            raise ValueError("no page")
        return x

    agf.tool(fetch, where="loop", registry=registry)
    for name, steps in {"asks_first": (ASKS, FETCHES), "fetches": (FETCHES, ASKS)}.items():
        text = f"pipeline: {name}\nsteps:\n" + "".join(f"- {step}\n" for step in steps)
        agf.define(text.replace("expr item", "expr ctx.item"), registry=registry)
    step, is_refused = FAILING[how]
    ended = run(pipeline(step), registry=registry, spawns=1)
    if is_refused:
        assert "needs at least 4 of the run's agent sessions, and 1 are left" in str(ended.error)
    else:
        assert (ended.status, ended.sessions) == ("ok", 1), ended.error


@given(st.integers(0, 5), st.lists(st.integers(0, 3), max_size=8))
def test_no_budget_is_ever_exceeded(most: int, requests: list[int]) -> None:
    budget = Budget(agf.Limits(spawns=most))
    for expected in requests:
        try:
            budget.foresee(expected, None)
        except LimitReached:
            assert most
            assert budget.spawned + expected > most
            continue
        for _ in range(expected):
            budget.spawn(None)
    assert not most or budget.spawned <= most


# --- times ---


@pytest.fixture
def slow(registry: agf.Registry) -> agf.Registry:
    async def wait(seconds: float = 3600) -> str:
        await asyncio.sleep(seconds)
        return "done"

    agf.tool(wait, name="slow", registry=registry)
    agf.tool(wait, name="hasty", timeout=1, registry=registry)

    @agf.agent(name="slow", registry=registry)
    async def ponder(prompt: str) -> str:
        return await wait()

    return registry


@pytest.mark.parametrize("step", ["tool: {name: slow}", "agent: {prompt: x, identity: slow}"])
def test_a_call_may_take_so_long_and_no_longer(slow: agf.Registry, step: str) -> None:
    refused = run(pipeline(step), registry=slow, step_timeout=60)
    assert (refused.error and refused.error.code, refused.seconds is not None) == ("step.timeout", True)
    assert "took longer than 60 s" in str(refused.error)
    assert "AgfMagics.step_timeout" in str(refused.error)
    assert run(pipeline("tool: {name: slow, args: {seconds: 59}}"), registry=slow, step_timeout=60).result()


def test_the_shorter_time_holds(slow: agf.Registry) -> None:
    refused = run(pipeline("tool: {name: hasty}"), registry=slow, step_timeout=60)
    assert "took longer than 1 s" in str(refused.error)
    assert "@tool(timeout=…)" in str(refused.error)
    assert "took longer than 0.5 s" in str(run(pipeline("tool: {name: hasty}"), registry=slow, step_timeout=0.5).error)


def test_a_call_that_took_too_long_fails_like_any_other(slow: agf.Registry) -> None:
    late = over("tool: {name: slow, args: {seconds: !expr item}}", "[1, 100, 2]")
    assert run(pipeline(late), registry=slow, step_timeout=60).result().output == ["done", "done"]
    twice = run(pipeline(late.replace("continue", "retry(1)")), registry=slow, step_timeout=60)
    assert (twice.error and twice.error.code, twice.steps["steps[0].do"].retried) == ("step.timeout", 1)


def test_a_run_may_take_so_long_and_no_handling_of_errors_swallows_that(slow: agf.Registry) -> None:
    for on_error in ("continue", "retry(9)"):
        text = pipeline(over("tool: {name: slow}", "[1, 2, 3]").replace("continue", on_error))
        refused = run(text, registry=slow, timeout=60)
        assert (refused.status, refused.error and refused.error.code) == ("error", "limit.timeout")
    assert run(pipeline("tool: {name: slow, args: {seconds: 59}}"), registry=slow, timeout=60).result()


# --- what a definition allows itself ---

COUNTED = {"tool_calls": Meter.tool, "model_calls": Meter.model}


@given(st.sampled_from(sorted(COUNTED)), st.one_of(st.none(), st.integers(0, 5)), st.integers(0, 8))
def test_a_meter_lets_through_as_many_as_it_says(case: str, limit: int | None, requested: int) -> None:
    caps: dict[str, Any] = {case: limit}
    meter = Meter("p", OwnLimits(**caps), 0)
    through = 0
    for _ in range(requested):
        try:
            COUNTED[case](meter)
        except LimitReached:
            continue
        through += 1
    assert through == (requested if limit is None else min(requested, limit))


@given(st.integers(0, 100), st.lists(st.integers(0, 50), max_size=6))
def test_tokens_are_counted_when_they_are_spent(most: int, spent: list[int]) -> None:
    meter = Meter("p", OwnLimits(tokens=most), 0)
    for tokens in spent:
        before = meter.tokens
        if before + tokens > most:
            with pytest.raises(LimitReached, match="used"):
                meter.use(tokens)
        else:
            meter.use(tokens)


@given(st.integers(0, 100), st.lists(st.none() | st.integers(0, 50), max_size=6))
def test_what_a_reply_costs_is_counted_if_it_is_known(most: int, costs: list[int | None]) -> None:
    meter, paid = Meter("p", OwnLimits(cost=most / 100), 0), 0
    for cents in costs:
        paid += cents or 0
        cost = None if cents is None else Decimal(cents) / 100
        if paid > most:
            with pytest.raises(LimitReached, match="has cost"):
                meter.use(1, cost)
        else:
            meter.use(1, cost)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 8))
def test_depth_is_counted_from_where_the_definition_begins(most: int, below: int, opened: int) -> None:
    meter = Meter("p", OwnLimits(depth=most), below)
    if opened - below > most:
        with pytest.raises(LimitReached, match="may delegate"):
            meter.open(opened)
    else:
        meter.open(opened)


def test_an_inner_definition_never_has_more_than_the_one_around_it(registry: agf.Registry) -> None:
    def capped(name: str, agent: str, calls: int) -> None:
        text = f"""schema_version: "1.0.0"
metadata: {{id: {name}, name: N, version: "1.0.0", description: d}}
interface: {{input: {{}}, output: {{}}}}
constraints: {{limits: {{max_tool_calls: {calls}}}}}
action_space: {{local_agents: [{{alias: {agent}, source: x}}], local_tools: [{{alias: quick}}]}}
execution_policy: {{id: agf.sequential, config: {{steps: [{{agent: {agent}}}, {{agent: {agent}}}]}}}}
"""
        agf.define(text, "policy", name=name, registry=registry)

    agf.define("pipeline: uses\nsteps:\n- tool: {name: quick}\n", registry=registry)
    capped("inner", "uses", 2)
    assert run("inner", registry=registry).result()
    capped("inner", "uses", 1)
    assert run("inner", registry=registry).error is not None
    for outer, inner, fine in ((4, 2, True), (3, 2, False), (4, 1, False), (3, 9, False)):
        capped("inner", "uses", inner)
        capped("outer", "inner", outer)
        ended = run("outer", registry=registry)
        assert (ended.status == "ok") is fine, (outer, inner)
        if not fine:
            assert ended.error.code == "limit.tool-calls"
            assert ("'outer'" if outer < 4 else "'inner'") in str(ended.error)
