"""Agent Format documents: the content of a text, or all its errors. The rows are the rules of the language."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.steps import Invoke, every
from agf_magics.languages.policy.document import schema
from agf_magics.schemas.json_schema import judge
from agf_magics.text.yaml.nodes import Fields, plain
from tests.languages.loading import as_vectors, load, nodes

VECTORS = Path(__file__).parents[1] / "vectors" / "policy_documents.json"
ROWS = json.loads(VECTORS.read_text("utf-8"))["rows"]
BARE = "id: agf.sequential\nconfig: {steps: [{agent: one}]}\n"


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_documents(row: dict[str, Any]) -> None:
    definition, problems = load("policy", row["text"])
    as_row: dict[str, Any] = {"id": row["id"], "text": row["text"]}
    as_row |= as_vectors(problems, "error", "warning")
    if "errors" not in as_row:
        assert definition.flow is not None
        as_row["ok"] = {"name": definition.flow.name, "policy": definition.flow.body.word}
    assert as_row == row


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_the_loader_refuses_the_same_documents_as_the_schema(row: dict[str, Any]) -> None:
    documents, _ = nodes(row["text"])
    if not documents or not isinstance(documents[0], Fields) or "schema_version" not in documents[0].fields:
        return  # another form, or none
    # The library searches with Python, where `$` also matches before a final newline. In JSON Schema it does not.
    python = json.loads(json.dumps(schema()).replace('$"', '\\\\Z"'))
    valid = jsonschema.Draft202012Validator(python).is_valid(plain(documents[0]))
    codes = {error["code"] for error in row.get("errors", ())}
    assert valid == (not codes & {"policy.schema", "yaml.number"} or row["id"] == "yaml-expr")


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert judge(schema())({}) != []


# --- every field of it ---


RULES: Mapping[str, Mapping[str, Any]] = {"the document": schema(), **schema()["$defs"]}


@pytest.mark.parametrize(("name", "rule"), RULES.items(), ids=RULES)
def test_each_field_has_a_description(name: str, rule: Mapping[str, Any]) -> None:
    for key, field in rule.get("properties", {}).items():
        behind = schema()["$defs"][field["$ref"].rpartition("/")[2]] if "$ref" in field else {}
        assert (name, key) == ("SchemaRef", "type") or field.get("description") or behind.get("description"), key
        assert "pattern" not in field or field["$comment"], "a pattern says in words what it asks for"


def policy(id: str, config: Any) -> dict[str, Any]:
    return {"execution_policy": {"id": id, "config": config}}


AT: Mapping[str, Any] = {
    "the document": lambda key: {"schema_version": "1.0.0", key: {}},
    "Metadata": lambda key: {"metadata": {key: 1}},
    "Memory": lambda key: {"execution_policy": {}, "memory": {key: 1}},
    "Constraints": lambda key: {"execution_policy": {}, "constraints": {key: 1}},
    "Budget": lambda key: {"execution_policy": {}, "constraints": {"budget": {key: 1}}},
    "Limits": lambda key: {"execution_policy": {}, "constraints": {"limits": {key: 1}}},
    "ActionSpace": lambda key: {"execution_policy": {}, "action_space": {key: []}},
    "LocalAgent": lambda key: {"execution_policy": {}, "action_space": {"local_agents": [{key: 1}]}},
    "LocalTool": lambda key: {"execution_policy": {}, "action_space": {"local_tools": [{key: 1}]}},
    "ReactConfig": lambda key: policy("agf.react", {key: 1}),
    "SequentialConfig": lambda key: policy("agf.sequential", {key: 1}),
    "ParallelConfig": lambda key: policy("agf.parallel", {key: 1}),
    "LoopConfig": lambda key: policy("agf.loop", {key: 1}),
    "BatchConfig": lambda key: policy("agf.batch", {key: 1}),
    "ConditionalConfig": lambda key: policy("agf.conditional", {key: 1}),
    "PolicyStep": lambda key: policy("agf.sequential", {"steps": [{key: 1}]}),
    "ConditionalRoute": lambda key: policy("agf.conditional", {"routes": [{key: 1}]}),
    "ConditionGroup": lambda key: policy("agf.loop", {"steps": [], "exit_condition": {key: 1}}),
}


@pytest.mark.parametrize("name", AT)
def test_a_name_that_is_nearly_a_field_gets_that_as_its_hint(name: str) -> None:
    for key in RULES[name]["properties"]:
        if len(key) > 2:
            wrong = key[0] + key[2] + key[1] + key[3:] if key[1] != key[2] else key[:-1]
            document = AT[name](wrong)
            document.pop(key, None)  # an existing field is not suggested again
            _, problems = load("policy", json.dumps(document))
            hints = [
                problem.hint or "" for problem in problems if problem.span and problem.span.text.strip('"') == wrong
            ]
            assert any(f"did you mean {key}?" in hint for hint in hints), (wrong, problems)


# --- random changes of a document ---

DOCUMENTS = [plain(node) for row in ROWS for node in nodes(row["text"])[0][:1]]
JUNK: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, "", "x", "a\n", "parent.input.a", "one.output.a", "parent.input.a.[]", "last",
    "parent", "agf.loop", "agf.react", [], {}, [None], [[]], {"a": 1}, {"": ""}, {"agent": "one"}, [{"agent": "one"}],
    {"args_match": {}}, {"args_match": {"parent.input.a": {"pattern": "(a"}}}, {"$ref": "#"}, {"type": 5},
    {"required": 5}, {"properties": []},
]  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping and list in a value, with each key or index."""
    inside = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    for key, inner in inside.items():
        yield value, key
        yield from places(inner)


@given(st.data())
def test_any_value_at_any_place_is_reported_and_raises_nothing(data: st.DataObject) -> None:
    changed = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        if places_left := list(places(changed)):
            within, key = places_left[data.draw(st.integers(0, len(places_left) - 1))]
            within[key] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    text = json.dumps(changed)
    definition, problems = load("policy", text)
    assert definition.flow is not None or any(problem.severity == "error" for problem in problems)
    assert all(problem.span is None or 0 <= problem.span.start <= problem.span.end <= len(text) for problem in problems)
    assert all(str(problem) for problem in problems)


# --- cases that rows cannot describe ---


def test_a_whole_number_written_with_a_point_is_a_whole_number() -> None:
    whole = 'schema_version: "1.0.0"\nmetadata: {id: t, name: T, version: "1", description: d}\n'
    whole += "interface: {input: {}, output: {}}\nconstraints: {limits: {max_llm_calls: 7.0}}\n"
    config = "{instructions: i, model: m, max_output_tokens: 9.0, temperature: 1.0}"
    flow = agf.load(f"{whole}execution_policy: {{id: agf.react, config: {config}}}\n", "policy")
    caps, (session,) = flow.declared.own_limits, flow.body.steps
    request = next(step for step in every(session) if isinstance(step, Invoke) and step.kind == "model")
    numbers = (caps and caps.model_calls, request.asking.config["settings"]["max_output_tokens"])
    assert numbers == (7, 9)
    assert list(map(type, numbers)) == [int, int]


def test_the_three_forms_of_a_policy_are_the_same_policy() -> None:
    indented = BARE.replace("\n", "\n  ").rstrip()
    whole = 'schema_version: "1.0.0"\nmetadata: {id: t, name: T, version: "1", description: d}\n'
    whole += "interface: {input: {}, output: {}}\naction_space: {local_agents: [{alias: one, source: one}]}\n"
    forms = (BARE, f"execution_policy:\n  {indented}\n", f"{whole}execution_policy:\n  {indented}\n")
    flows = [load("policy", text)[0].flow for text in forms]
    assert [flow and [step.word for step in flow.body.steps] for flow in flows] == [["agent", "output_from"]] * 3
