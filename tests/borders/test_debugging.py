"""After a failed run, `%debug` and `%pdb on` begin in the code of the tool."""

from __future__ import annotations

from queue import Empty

import pytest

from tests.notebook.conftest import PATIENCE, Cell, Kernel, headless, kernel, kernels, page_kernel  # noqa: F401

TOOLS = """
import agf_magics as agf, asyncio
from agf_magics import agent

@tool
def bad(x: int) -> int:
    local = 40 + x
    return inner(local)

def inner(value):
    raise ValueError("z")

@tool
async def bad_async(x: int) -> int:
    await asyncio.sleep(0)
    local = 40 + x
    return inner(local)

@agent
def bad_agent(x):
    local = 40 + x
    return inner(local)

@tool
def nested(x: int) -> int:
    return agf.run("tool", {"x": x}).output

FAN = ("{pipeline: %s, steps: [{for_each: {items: [2], on_error: abort, do: {tool: {name: %s, args: {x: !expr item}}},"
       " collect: {transform: {value: pipe}}}}]}")
for name in ("bad", "bad_async", "nested"):
    agf.define("{pipeline: %s, steps: [{tool: {name: %s, args: {x: 2}}}]}" % (name.replace("bad", "tool"), name))
    agf.define(FAN % (f"fan_{name}", name))
agf.define("{calls: [{_tool: bad, x: 2, _outputPath: $state.a}]}", "plan", name="plan")
agf.define("{id: agf.sequential, config: {steps: [{agent: bad_agent, input_mapping: {x: parent.input.x}}]}}",
           "policy", name="policy")
agf.define("{state: {x: int, r: int}, nodes: {a: {type: python, tool: bad, state_key: r}},"
           " edges: [{from: START, to: a}]}", "graph", name="graph")
"""


def typed(kernel: Kernel, cell: Cell, *lines: str) -> str:  # noqa: F811
    """What a debugger prints in answer to these lines."""
    lines_left = list(lines)
    while True:
        try:
            kernel.client.get_stdin_msg(timeout=0.1)
            kernel.client.input(lines_left.pop(0) if lines_left else "q")
        except Empty:
            pass
        try:
            message = kernel.client.get_iopub_msg(timeout=0.1)
        except Empty:
            continue
        cell.messages.append(message)
        if message["content"].get("execution_state") == "idle":
            kernel.reply(cell.id)
            return cell.printed


WAYS = {
    "run": "agf.run('tool')",
    "async": "agf.run('tool_async')",
    "magic": "%run_pipeline tool",
    "fan-out": "agf.run('fan_bad')",
    "async fan-out": "%run_pipeline fan_bad_async",
    "arun": "await agf.arun('tool')",
    "background": "agf.start('tool').result()",
    "plan": "agf.run('plan')",
    "policy": "agf.run('policy', {'x': 2})",
    "graph": "%run_pipeline graph --set x=2",
    "nested": "agf.run('nested')",
}


@pytest.mark.kernel
@pytest.mark.parametrize("way", WAYS)
def test_the_debugger_begins_in_the_tool_and_up_leads_to_the_cell(way: str, kernel: Kernel) -> None:  # noqa: F811
    kernel.good(TOOLS)
    failed = kernel.run(WAYS[way])
    assert failed.reply["status"] == "error"
    answers = typed(kernel, kernel.begin("%debug"), "p value", "u", "p local", "u", "w", "q")
    assert "\n42\n" in answers, answers
    assert answers.count("\n42\n") == 2, answers
    assert "agf_magics" not in answers.replace("import agf_magics as agf", ""), answers


@pytest.mark.kernel
def test_a_debugger_that_starts_by_itself_begins_in_the_tool(kernel: Kernel) -> None:  # noqa: F811
    kernel.good(TOOLS + "\n%pdb on")
    try:
        assert "\n42\n" in typed(kernel, kernel.begin("%run_pipeline fan_bad"), "p value", "q")
    finally:
        kernel.good("%pdb off")


@pytest.mark.kernel
def test_an_error_of_a_definition_is_debugged_in_its_cell(kernel: Kernel) -> None:  # noqa: F811
    kernel.good(TOOLS)
    kernel.run("marker = 77\nagf.run('no_such_flow')")
    answers = typed(kernel, kernel.begin("%debug"), "p marker", "q")
    assert "\n77\n" in answers, answers
