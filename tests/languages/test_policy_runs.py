"""tests/vectors/policy_runs.json: whole policies, from text to output, warnings and calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine.policy_case import Agents
from tests.engine.virtual_time import run_virtual

ROWS = json.loads((Path(__file__).parent.parent / "vectors" / "policy_runs.json").read_text("utf-8"))["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_policy_runs_as_its_vector_says(row: dict[str, Any]) -> None:
    agents = Agents(row)
    registry = agents.registry()
    if "error" in row:
        with pytest.raises(agf.AgfError) as caught:
            _run(row, registry)
        found = caught.value.diagnostic
        assert {"code": found.code, "at": found.span.text if found.span else None} == row["error"]
    else:
        run = _run(row, registry)
        assert run.status == "ok"
        assert _typed(run.output) == _typed(row["ok"]["output"])
        if "key_order" in row["ok"]:
            assert list(run.output) == row["ok"]["key_order"]
        told = [found.code for found in run.warnings if found.code != "flow.registered-instead"]
        assert told == row["warnings"]
    if "calls" in row:
        assert agents.calls == row["calls"]
    if "expect" in row:
        _check_the_model(row["expect"], agents)


def _check_the_model(expect: dict[str, Any], agents: Agents) -> None:
    asked = agents.script.asked
    if "model_calls" in expect:
        assert len(asked) == expect["model_calls"]
    if "system" in expect:
        assert set(agents.script.told) == {expect["system"]}
    if "tools" in expect:
        assert [[tool.name for tool in info.function_tools] for info in asked] == [expect["tools"]]
    if "tool_log" in expect:
        assert agents.tools == expect["tool_log"]


def _run(row: dict[str, Any], registry: agf.Registry) -> agf.Run:
    flow = agf.load(row["text"], "policy", registry=registry)
    run: agf.Run = run_virtual(agf.arun(flow, row["input"], registry=registry))
    return run


def _typed(value: Any) -> Any:
    """Values compared by JSON type: 1 is neither true nor 1.0."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    return type(value), value
