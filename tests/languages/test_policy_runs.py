"""Whole policies run from their text to their output, warnings and calls (tests/vectors/policy_runs.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine.policy_case import Agents
from tests.engine.virtual_time import run_virtual
from tests.languages.typed import typed

ROWS = json.loads((Path(__file__).parent.parent / "vectors" / "policy_runs.json").read_text("utf-8"))["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_policy_runs_as_its_vector_says(row: dict[str, Any]) -> None:
    agents = Agents(row)
    registry = agents.registry()
    if "error" in row:
        with pytest.raises(agf.AgfError) as caught:
            _run(row, registry)
        diagnostic = caught.value.diagnostic
        assert {"code": diagnostic.code, "at": diagnostic.span.text if diagnostic.span else None} == row["error"]
    else:
        run = _run(row, registry)
        assert run.status == "ok"
        assert typed(run.output) == typed(row["ok"]["output"])
        if "key_order" in row["ok"]:
            assert list(run.output) == row["ok"]["key_order"]
        codes = [warning.code for warning in run.warnings if warning.code != "flow.registered-instead"]
        assert codes == row["warnings"]
    if "calls" in row:
        assert agents.calls == row["calls"]
    if "expect" in row:
        _check_the_model(row["expect"], agents)


def _check_the_model(expect: dict[str, Any], agents: Agents) -> None:
    requests = agents.script.asked
    if "model_calls" in expect:
        assert len(requests) == expect["model_calls"]
    if "system" in expect:
        assert set(agents.script.told) == {expect["system"]}
    if "tools" in expect:
        assert [[tool.name for tool in info.function_tools] for info in requests] == [expect["tools"]]
    if "tool_log" in expect:
        assert agents.tools == expect["tool_log"]


def _run(row: dict[str, Any], registry: agf.Registry) -> agf.Run:
    flow = agf.load(row["text"], "policy", registry=registry)
    run: agf.Run = run_virtual(agf.arun(flow, row["input"], registry=registry))
    return run


def mapped(function: Any, fields: Any) -> Any:
    """The output of an agent whose field ``n`` is mapped from the field ``n`` of the input."""
    registry = agf.Registry()
    agf.agent(function, name="f", registry=registry)
    text = "id: agf.sequential\nconfig:\n  steps:\n  - {agent: f, input_mapping: {n: parent.input.n}}\n"
    return agf.run(text, {"n": fields}, registry=registry).output


def test_an_optional_parameter_gets_null_whatever_its_annotation_says() -> None:
    def optional(n: int = 3) -> Any:
        return [n]

    assert mapped(optional, None) == [None]
    assert mapped(optional, 4) == [4]

    def required(n: int) -> Any:
        return [n]

    with pytest.raises(agf.StepError, match=r"policy\.null-required"):
        mapped(required, None)


def test_a_whole_number_may_be_written_as_five_point_nought() -> None:
    def whole(n: int) -> Any:
        return [n]

    def several(n: list[int]) -> Any:
        return n

    assert mapped(whole, 5.0) == [5]
    assert mapped(several, [1, 2.0]) == [1, 2]
    for wrong in (5.5, "5"):
        with pytest.raises(agf.StepError, match=r"policy\.type-mismatch"):
            mapped(whole, wrong)


def test_a_nested_document_takes_null_for_an_optional_field_and_not_for_a_required_one() -> None:
    text = (
        'schema_version: "1.0.0"\nmetadata: {id: inner, name: I, version: "1", description: d}\n'
        "interface:\n  input: {type: object, properties: {n: {type: integer}, m: {type: integer}}, required: [m]}\n"
        "  output: {}\nexecution_policy: {id: agf.sequential, config: {steps: [{agent: echo}]}}\n"
    )
    registry = agf.Registry()
    agf.agent(lambda input: input, name="echo", registry=registry)
    agf.define(text, registry=registry)
    assert agf.run("inner", {"n": None, "m": 1}, registry=registry).output == {"n": None, "m": 1}
    with pytest.raises(agf.StepError, match=r"policy\.invalid-input"):
        agf.run("inner", {"n": 1, "m": None}, registry=registry)


def test_a_single_parameter_without_annotation_gets_the_mapped_field_of_its_name() -> None:
    assert mapped(lambda n: [n], "tea") == ["tea"]
    assert mapped(lambda data: data, "tea") == {"n": "tea"}
