"""A run that a tool starts may end in any way: for the run around it, that is a failure of the tool like any other."""

from __future__ import annotations

from typing import Any

import pytest

import agf_magics as agf

TWICE = "pipeline: inner\nsteps:\n- agent: {identity: writer, prompt: a}\n- agent: {identity: writer, prompt: b}\n"
ASKS = """
name: inner
nodes:
  q: {type: interrupt, message: "Which colour?", state_key: q, resume_key: colour}
edges: [{from: START, to: q}, {from: q, to: END}]
"""
CONFIRMS = "name: inner\nconfirm: true\ncalls:\n- {_tool: work, _outputPath: †state.r}\n"

ENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "limit.spawns": (TWICE, {"limits": agf.Limits(spawns=1)}),
    "limit.timeout": (CONFIRMS, {"limits": agf.Limits(timeout=1e-9)}),
    "run.waiting": (ASKS, {}),
    "run.answer": (CONFIRMS, {"ask": lambda question: "perhaps"}),
    "step.denied": (CONFIRMS, {"ask": lambda question: False}),
}


@pytest.fixture
def starts() -> tuple[agf.Registry, list[int]]:
    """A registry with a tool `start`, which runs the flow `inner`, and the list of its calls."""
    registry = agf.Registry()
    agf.agent(lambda prompt: "hi", name="writer", registry=registry)
    agf.tool(lambda: 1, name="work", registry=registry)
    return registry, []


@pytest.mark.parametrize("code", ENDS)
@pytest.mark.usefixtures("journaled")
def test_on_error_applies_and_a_resumed_run_calls_the_tool_again(
    code: str, starts: tuple[agf.Registry, list[int]]
) -> None:
    registry, calls = starts
    text, options = ENDS[code]

    @agf.tool(registry=registry)
    def start(x: int) -> str:
        calls.append(x)
        if len(calls) > 4:
            return "well"
        return str(agf.run(text, registry=registry, **options).output)

    each = (
        "{items: [1, 2, 3], on_error: continue, do: {tool: {name: start, args: {x: !expr item}}}, "
        "collect: {transform: {value: pipe}}}"
    )
    run = agf.run(f"pipeline: outer\nsteps:\n- for_each: {each}\n", registry=registry)
    assert (run.status, [getattr(failure.error, "code", "") for failure in run.progress.failures]) == ("ok", [code] * 3)
    failed = agf.run("pipeline: one\nsteps:\n- tool: {name: start, args: {x: 4}}\n", registry=registry, raises=False)
    assert (failed.status, failed.error.code) == ("error", code)
    assert agf.resume(failed.run_id, registry=registry).output == "well"
    assert calls[3:] == [4, 4]
