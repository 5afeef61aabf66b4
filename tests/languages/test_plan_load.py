"""Loading of plan documents: the flow that a text describes, or all its errors. The rows are the rules of the
language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.graph_steps import Dag
from agf_magics.flow.steps import Invoke
from agf_magics.languages.plan import SCHEMA, Log, resolve
from agf_magics.languages.plan.arguments import Arguments
from agf_magics.languages.plan.calls import Call
from agf_magics.languages.plan.takes import INSTANCE, instance_names
from agf_magics.languages.plan.words import CALL, PLAN
from agf_magics.text.yaml.nodes import plain
from tests.languages.loading import as_vectors, load, nodes

VECTORS = Path(__file__).parents[1] / "vectors" / "plan_documents.json"
ROWS = json.loads(VECTORS.read_text("utf-8"))["rows"]


def flow_of(text: str) -> agf.Flow:
    definition, problems = load("plan", text)
    assert definition.flow is not None, problems
    return definition.flow


def dag(flow: agf.Flow) -> Dag:
    (step,) = flow.body.steps
    assert isinstance(step, Dag)
    return step


def calls(text: str) -> list[Call]:
    calls_of_plan = [step.args for step in dag(flow_of(text)).steps if isinstance(step, Invoke)]
    return [args.call for args in calls_of_plan if isinstance(args, Arguments)]


@pytest.mark.parametrize("row", ROWS, ids=[row["title"] for row in ROWS])
def test_documents(row: dict[str, Any]) -> None:
    definition, problems = load("plan", row["text"])
    as_row: dict[str, Any] = {
        "title": row["title"],
        "text": row["text"],
        **as_vectors(problems, "error", "warning", "note"),
    }
    if "errors" not in as_row:
        assert definition.flow is not None
        body = dag(definition.flow)
        as_row["ok"] = [{"id": step.id, "word": step.word, "label": step.label} for step in body.steps]
        as_row["feeds"] = [list(fed) for fed in body.feeds]
    assert as_row == row


@pytest.mark.parametrize("row", [row for row in ROWS if "ok" in row], ids=lambda row: row["title"])
def test_a_correct_document_conforms_to_the_schema(row: dict[str, Any]) -> None:
    ((node,), _) = nodes(row["text"])
    jsonschema.Draft202012Validator(SCHEMA).validate(plain(node))


@pytest.mark.parametrize(
    "title", ["unknown keys", "methods", "bad call", "types", "no calls", "calls no list", "scalar", "instances"]
)
def test_a_wrong_document_does_not_conform_to_the_schema(title: str) -> None:
    (row,) = [row for row in ROWS if row["title"] == title]
    ((node,), _) = nodes(row["text"])
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(plain(node))


def test_a_dollar_is_kept_as_a_dagger_where_a_known_kind_follows() -> None:
    (call,) = calls(
        "calls:\n- {_tool: a, v: $state.x, w: '($input.a||$data)', m: '$5 off', k: $weather, t: $$state.x,"
        " u: ††state.x, n: {k: [$state]}, _outputPath: $state.y && †rain.x}\nstate: {x: 1}\n"
    )
    assert call.authored == {
        "_tool": "a", "v": "†state.x", "w": "(†input.a||†data)", "m": "$5 off", "k": "$weather", "t": "$$state.x",
        "u": "††state.x", "n": {"k": ["†state"]}, "_outputPath": "†state.y && †rain.x",
    }  # fmt: skip
    assert {name: template for name, _, template, _ in call.arguments if isinstance(template, str)} == {
        "m": "$5 off", "k": "$weather", "t": "$state.x", "u": "†state.x",
    }  # fmt: skip


def test_a_kind_of_the_document_s_own_may_have_a_dollar_too() -> None:
    text = "messages: [{type: data, kind: weather, data: {sun: 1}}]\ncalls: [{_tool: a, v: $weather.sun}]\n"
    assert calls(text)[0].authored["v"] == "†weather.sun"


def test_a_prescribed_path_is_filled_in() -> None:
    (call,) = calls("tools: {a: {_outputPath: {const: †data.s}}}\ncalls: [{_tool: a}]\n")
    assert call.authored == {"_tool": "a", "_outputPath": "†data.s"}
    assert [str(path) for path in call.output.destinations] == ["†data.s"]


def test_or_is_distributed_over_and() -> None:
    (call,) = calls("- {_tool: a, _outputPath: '(†a || †b) && †c || †d'}\n")
    assert [[str(path) for path in alternative] for alternative in call.output.alternatives] == [
        ["†a", "†c"],
        ["†b", "†c"],
        ["†d"],
    ]


def test_a_path_of_too_many_destinations_is_refused() -> None:
    pairs = " && ".join(f"(†a{i} || †b{i})" for i in range(30))
    _, problems = load("plan", f"- {{_tool: a, _outputPath: '{pairs}'}}\n")
    assert [problem.code for problem in problems] == ["plan.bad-output-path"]


def test_an_error_is_reported_at_its_line_in_yaml_and_in_json() -> None:
    for text in ("- _tool: a\n  v: †state.\n", '[{"_tool": "a",\n  "v": "†state."}]'):
        (problem,) = load("plan", text)[1]
        assert problem.span.place[0] == 2


def test_the_first_input_of_a_plan_is_messages() -> None:
    flow = flow_of(
        "input: {n: 1}\nstate: {x: 2}\ndata: 3\nmessages: [{type: data, kind: k, data: 4}]\n"
        "instances: [{state: {x: 5}}]\ncalls: []\n"
    )
    registry = agf.Registry()
    agf.run(flow, registry=registry)
    log = Log([{"type": "data", "kind": "input", "data": {"n": 1}}])
    assert resolve(log, "†input.n") == 1
    agf.define("{name: p, input: {n: 1}, data: 3, instances: [{state: {x: 5}}], calls: []}", "plan", registry=registry)
    agf.run("p", {"n": 7}, registry=registry)
    assert list(agf.context("p", registry=registry)) == [
        {"type": "data", "kind": "input", "data": {"n": 1}},
        {"type": "data", "data": 3},
        {"type": "data", "kind": "state", "_instance": "①", "data": {"x": 5}},
        {"type": "data", "kind": "input", "data": {"n": 7}},
    ]


@pytest.mark.parametrize(
    ("instances", "calls_made"),
    [
        ("{north: {state: {q: 1}}, south: {}}", 2),
        ("{north: {}, south: {}}", 2),
        ("[{}, {}, {}]", 3),
        ("[{data: 3}, {data: {a: 1}}]", 2),
        ("[{state: }, {input: }, {data: }]", 3),
    ],
)
def test_each_instance_is_made_whatever_it_has(instances: str, calls_made: int) -> None:
    registry = agf.Registry()
    agf.tool(lambda: 1, name="count", registry=registry)
    text = f"instances: {instances}\ncalls: [{{_tool: count, _outputPath: $state.n}}]\noutput: '$state[*].n'\n"
    assert agf.run(agf.load(text, "plan", registry=registry), registry=registry).output == [1] * calls_made


def test_a_value_that_only_another_instance_has_is_unresolved() -> None:
    registry = agf.Registry()
    agf.tool(lambda value: value, name="same", registry=registry)
    calls = "[{_tool: same, value: $state.n, _outputPath: $state.m}]"
    text = f"instances: {{north: {{state: {{n: 1}}}}, south: {{}}}}\ncalls: {calls}\n"
    run = agf.run(agf.load(text, "plan", registry=registry), registry=registry, raises=False)
    assert run.error is not None
    assert run.error.code == "plan.unresolved-reference"


def test_instances_without_names_are_numbered() -> None:
    names = instance_names(60)
    assert len(set(names)) == 60
    assert (names[0], names[19], names[20], names[49], names[50]) == ("①", "⑳", "㉑", "㊿", "i51")


def test_a_plan_of_thousands_of_calls_loads() -> None:
    text = "".join(f"- {{_tool: a, v: †state.x{i}, _outputPath: †state.x{i + 1}}}\n" for i in range(3000))
    flow = flow_of(text)
    feeds = [name for source, _, name in dag(flow).feeds if source]
    assert len(feeds) == 2999


def test_a_kind_that_a_call_writes_may_have_a_dollar_too() -> None:
    first, second = calls(
        "- {_tool: a, v: $report.total, w: $other.total, _outputPath: †state.x}\n"
        "- {_tool: b, _outputPath: $report.total}\n"
    )
    assert (first.authored["v"], first.authored["w"]) == ("†report.total", "$other.total")
    assert second.authored["_outputPath"] == "†report.total"


def test_a_sentence_that_begins_with_a_dagger_gets_a_hint() -> None:
    (problem,) = load("plan", "- {_tool: a, v: † see below}\n")[1]
    assert "††" in str(problem.hint)


TEXTS = [
    "†state.x",
    "$state.x",
    "†",
    "††a",
    "†state.x || 1",
    "†a && †b",
    "push",
    "",
    "①",
    "a",
    "*",
    "lazy",
    "†state[*].x",
]
KEYS = [*PLAN.keys, *CALL.keys, *INSTANCE.keys, "v", "type", "kind", "content", "properties", "pattern", "const"]
DOCUMENTS = st.recursive(
    st.one_of(st.sampled_from(TEXTS), st.none(), st.booleans(), st.integers(-1, 2)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)),
    max_leaves=20,
)
CALLS = st.fixed_dictionaries(
    {"_tool": st.sampled_from(["a", "b"])},
    optional={key: DOCUMENTS for key in [*CALL.keys, "v", "w"] if key != "_tool"},
)
PLANS = st.fixed_dictionaries(
    {"calls": st.lists(CALLS, max_size=4)}, optional={key: DOCUMENTS for key in PLAN.keys if key != "calls"}
)


@given(st.one_of(DOCUMENTS, PLANS))
def test_any_document_is_loaded_or_gets_an_error(document: Any) -> None:
    definition, problems = load("plan", json.dumps(document, ensure_ascii=False))
    assert definition.flow is not None or any(problem.severity == "error" for problem in problems)
    assert all(problem.span is not None for problem in problems)


def test_hints_have_the_sign_of_the_document() -> None:
    for sign in "†$":
        (problem,) = load("plan", f"- {{_tool: a, v: {sign}input.x, _outputPath: state.y}}\n")[1]
        assert problem.hint == f"write {sign}state.y"
