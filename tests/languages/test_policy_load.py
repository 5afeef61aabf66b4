"""Policies as they are loaded: the steps that each becomes, and errors that vector rows cannot describe."""

from __future__ import annotations

from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.protocols import FanOutResult, FlowInput, Outcome
from agf_magics.flow.step import Step
from agf_magics.flow.steps import (
    WIDTH,
    Branches,
    Choose,
    Compute,
    Each,
    Invoke,
    Repeat,
    Sequence,
    every,
)
from tests.languages.loading import load

HEAD = """schema_version: "1.0.0"
metadata: {id: t, name: T, version: "1.0.0", description: a test}
"""


def flow_of(text: str) -> agf.Flow:
    definition, problems = load("policy", text)
    assert definition.flow is not None, problems
    return definition.flow


def document(policy: str, agents: str = "a b c", head: str = "", interface: str = "{input: {}, output: {}}") -> str:
    """A complete document around a policy in flow style."""
    space = "\n".join(f"    - {{alias: {alias}, source: {alias}.agf.yaml}}" for alias in agents.split())
    space = f"action_space:\n  local_agents:\n{space}\n" if agents else ""
    return f"{HEAD}interface: {interface}\n{head}{space}execution_policy: {policy}\n"


def sequential(*steps: str, more: str = "") -> str:
    return f"{{id: agf.sequential, config: {{steps: [{', '.join(steps)}]{more}}}}}"


def codes(text: str) -> list[tuple[str, str | None]]:
    return [(problem.code, problem.span.text if problem.span else None) for problem in load("policy", text)[1]]


def only(flow: agf.Flow, kind: type[Step]) -> Any:
    (only_step,) = (step for step in every(flow.body) if type(step) is kind)
    return only_step


# --- the steps of each policy ---


def test_a_sequence_is_its_steps_and_the_step_that_makes_the_output() -> None:
    flow = flow_of(document(sequential("{agent: a}", "{agent: b}")))
    assert [(step.id, step.word, step.label) for step in every(flow.body)] == [
        ("policy", "agf.sequential", "t"),
        ("steps[0]", "agent", "a"),
        ("steps[1]", "agent", "b"),
        ("output_from", "output_from", "last"),
    ]
    assert (flow.name, flow.language, flow.declared.description) == ("t", "policy", "a test")


def test_agents_side_by_side_all_run_to_their_end() -> None:
    flow = flow_of(document("{id: agf.parallel, config: {agents: [{agent: a}, {agent: b}]}}"))
    step = only(flow, Branches)
    assert list(step.branches) == ["a", "b"]
    assert step.failing.on_error == "finish"
    assert isinstance(step.collect, Compute)
    assert step.collect.label == "merge"


def test_a_loop_is_bounded_and_says_when_its_bound_ended_it() -> None:
    when = "exit_condition: {args_match: {a.output.n: {gt: 1}}}"
    flow = flow_of(document(f"{{id: agf.loop, config: {{steps: [{{agent: a}}], max_iterations: 3, {when}}}}}"))
    step = only(flow, Repeat)
    assert (step.limit, step.label) == (3, "a")
    assert step.over is not None
    outcome = step.over(3, {"a": {"output": {"n": "5"}}})
    assert (outcome.code, outcome.severity) == ("policy.loop-limit", "warning")
    assert outcome.hint == "a.output.n > 1 needs a number, but the value is text '5'"
    assert only(flow_of(document("{id: agf.loop, config: {steps: [{agent: a}]}}")), Repeat).limit == 10


def test_a_batch_builds_every_input_before_its_first_call() -> None:
    policy = "{id: agf.batch, config: {agent: a, input_mapping: {n: 'parent.input.rows.[].n'}, max_batch_count: 2}}"
    step = only(flow_of(document(policy)), Each)
    assert step.cut is not None
    assert (step.ahead, step.failing.on_error, step.limit or WIDTH, step.cut.most) == (True, "finish", 8, 2)
    assert step.cut.problem(3).message == "skipped 3 elements of parent.input.rows: max_batch_count is 2"
    unlimited = document(policy.replace("max_batch_count: 2", "max_batch_count: 0"))
    assert only(flow_of(unlimited), Each).cut is None


def test_routes_are_cases_under_their_conditions() -> None:
    when = "{args_match: {parent.input.n: 1}}"
    routes = f"routes: [{{when: {when}, agent: a}}, {{when: {when}, agent: b}}], default_agent: c"
    step = only(flow_of(document(f"{{id: agf.conditional, config: {{{routes}}}}}")), Choose)
    assert list(step.cases) == ["parent.input.n = 1", "parent.input.n = 1 (2)"]
    assert step.default.id == "default_agent"


def test_a_vendors_policy_is_called_with_its_configuration() -> None:
    step = only(flow_of(document("{id: x-acme.vote, config: {rounds: 2}}", "a b")), Invoke)
    assert (step.kind, step.name.text, step.asking.config) == ("policy", "x-acme.vote", {"rounds": 2})
    assert [name.text for name in step.tools] == ["a", "b"]


# --- forms of a document ---


# --- errors ---


def test_a_loop_says_how_a_value_is_carried_to_the_next_round() -> None:
    steps = "{agent: a, input_mapping: {n: b.output.n}}, {agent: b}"
    (problem,) = load("policy", document(f"{{id: agf.loop, config: {{steps: [{steps}]}}}}"))[1]
    assert problem.code == "policy.dependency-order"
    assert problem.hint is not None
    assert "fold" in problem.hint


@pytest.mark.parametrize("value", ["null", "[1, 2]"])
def test_a_value_that_no_matcher_tests_has_its_hint(value: str) -> None:
    route = f"{{agent: a, when: {{args_match: {{parent.input.n: {value}}}}}}}"
    (problem,) = load("policy", document(f"{{id: agf.conditional, config: {{routes: [{route}]}}}}"))[1]
    assert (problem.code, problem.span and problem.span.text) == ("policy.schema", value)
    assert problem.hint == "for one of several values: {in: [...]}; a matcher cannot test null"


# --- missing servers and agents ---


def test_an_impossible_requirement_refuses_the_run() -> None:
    governance = "[{policy_ref: acme.pii}, {policy_ref: acme.log, required: false}]"
    head = f"memory: {{required: true}}\nconstraints: {{governance_policies: {governance}}}\n"
    definition, problems = load("policy", document(sequential("{agent: a}"), head=head))
    assert [(d.code, d.span and d.span.text) for d in definition.flow.declared.refuses] == [
        ("policy.memory", "true"),
        ("policy.governance", "acme.pii"),
    ]
    assert [(d.code, d.severity, d.span and d.span.text) for d in problems] == [
        ("policy.governance", "warning", "acme.log")
    ]


def test_missing_servers_and_remote_agents_refuse_the_run_of_a_model() -> None:
    far = "mcp_servers: [{alias: db}], remote_agents: [{alias: far}]"
    space = f"action_space: {{{far}, local_agents: [{{alias: a, source: a.yaml}}]}}\n"
    model = flow_of(document("{id: agf.react, config: {instructions: x, model: m}}", agents="", head=space))
    assert [(d.code, d.span and d.span.text) for d in model.declared.refuses] == [
        ("policy.not-supported", "far"),
    ]
    assert [(server.alias.text, server.ref) for server in model.declared.servers] == [("db", "")]
    steps = document(sequential("{agent: a}"), agents="", head=space)
    assert flow_of(steps).declared.refuses == ()
    assert flow_of(steps).declared.servers == ()
    assert codes(steps) == [("policy.not-supported", "far")]


def test_constraints_become_limits_of_the_engine() -> None:
    budget = "budget: {max_token_usage: 5, max_duration_seconds: 4}"
    limits = "limits: {max_llm_calls: 3, max_tool_calls: 0, max_delegation_depth: 1}"
    caps = flow_of(
        document(sequential("{agent: a}"), head=f"constraints: {{{budget}, {limits}}}\n")
    ).declared.own_limits
    assert (caps.tokens, caps.seconds, caps.model_calls, caps.tool_calls, caps.depth) == (5, 4, 3, 0, 1)
    assert flow_of(document(sequential("{agent: a}"))).declared.own_limits is None


# --- beginning and end ---


def test_the_input_is_checked_before_the_first_step_and_nothing_is_filled_in() -> None:
    interface = "{input: {type: object, required: [n], properties: {n: {type: integer}, m: {default: 1}}}, output: {}}"
    flow = flow_of(document(sequential("{agent: a}"), interface=interface))
    assert flow.start(FlowInput({"n": 1})) == {"parent": {"input": {"n": 1}}}
    with pytest.raises(agf.StepError) as caught:
        flow.start(FlowInput({"n": "1"}))
    assert (
        caught.value.diagnostic.message
        == "the input does not conform to interface.input: n: needs a whole number, not text '1'"
    )
    assert flow.declared.accepts == {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer"}, "m": {"default": 1}},
    }


def test_an_opaque_value_passes_where_no_interface_requires_json() -> None:
    opaque = object()
    open_ = flow_of(document(sequential("{agent: a}")))
    assert open_.end({"parent": {"input": {}}, "output()": opaque}).output is opaque
    closed = flow_of(document(sequential("{agent: a}"), interface="{input: {}, output: {type: object}}"))
    with pytest.raises(agf.StepError) as caught:
        closed.end({"parent": {"input": {}}, "output()": {"x": [opaque]}})
    assert caught.value.diagnostic.message == "the output is not JSON: x[0] is an opaque object"


def test_the_outputs_are_stored_by_their_aliases() -> None:
    flow = flow_of(document(sequential("{agent: a}", "{agent: parent}"), agents="a parent"))
    frame = flow.start(FlowInput({}))
    for step, value in zip(flow.body.steps, ("x", "y"), strict=False):
        frame = step.target.store(frame, Outcome(value, {}))
    assert flow.dialect.stores_of is not None
    assert flow.dialect.stores_of(frame) == {"a": "x", "parent": "y"}
    assert frame["parent"] == {"input": {}}


def test_the_outputs_of_a_parallel_policy_keep_the_order_of_the_text() -> None:
    flow = flow_of(document("{id: agf.parallel, config: {agents: [{agent: a}, {agent: b}], output_from: first}}"))
    step = only(flow, Branches)
    frame = step.join.join({"parent": {"input": {}}}, FanOutResult(["x", "y"], ("a", "b"), {}, [1, 0]))
    assert step.collect.value.evaluate(frame) == "y"
    assert flow.dialect.stores_of is not None
    assert list(flow.dialect.stores_of(frame)) == ["a", "b"]


def test_a_sequence_inside_a_loop_is_one_round() -> None:
    flow = flow_of(document("{id: agf.loop, config: {steps: [{agent: a}]}}"))
    assert only(flow, Repeat).body.word == "round"
    assert isinstance(only(flow, Repeat).body, Sequence)
