"""Tools of a fan-out that redirect their prints leave `sys.stdout` unchanged afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.conftest import Kernel, headless, kernel, kernels, page_kernel  # noqa: F401
from tests.processes import printed

TOOLS = """
import asyncio, contextlib, io, sys, threading
import agf_magics as agf
from agf_magics import tool, agent

entered, left = threading.Event(), threading.Event()

def crossing(x):
    if x == 1:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            entered.set()
            again.wait(30)
        left.set()
    else:
        entered.wait(30)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            again.set()
            left.wait(30)
    return x

@tool
def quiet(x: int) -> int:
    "The first of two calls ends within the second one, which puts back the buffer of the first."
    return crossing(x)

@agent
def quiet_agent(x):
    return crossing(x)

@tool
def says(x: int = 0) -> int:
    print("a later step")
    return x

again = threading.Event()
agf.define("{pipeline: fan, steps: [{for_each: {items: [1, 2], on_error: abort,"
           " do: {tool: {name: quiet, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}},"
           " {tool: {name: says}}]}")
agf.define("{pipeline: branches, steps: [{parallel: {branches: {a: {tool: {name: quiet, args: {x: 1}}},"
           " b: {tool: {name: quiet, args: {x: 2}}}}, collect: {transform: {value: pipe}}}}, {tool: {name: says}}]}")
agf.define("{calls: [{_tool: quiet, x: 1, _outputPath: $state.a}, {_tool: quiet, x: 2, _outputPath: $state.b}]}",
           "plan", name="plan")
agf.define("{id: agf.batch, config: {agent: quiet_agent, input_mapping: {x: 'parent.input.xs.[]'}}}",
           "policy", name="batch")
agf.define("{state: {xs: list, r: list}, nodes: {m: {type: map, over: '{state.xs}', as: x,"
           " node: {type: python, tool: quiet}, collect: r}}, edges: [{from: START, to: m}]}", "graph", name="map")
"""

WAYS = {
    "fan": "agf.run('fan')",
    "branches": "agf.run('branches')",
    "plan": "agf.run('plan')",
    "batch": "agf.run('batch', {'xs': [1, 2]})",
    "map": "agf.run('map', {'xs': [1, 2]})",
    "watched": "agf.run('fan', stream=True)",
    "arun": "asyncio.run(agf.arun('fan'))",
    "start": "agf.start('fan').result()",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_fan_out_whose_calls_redirect_leaves_the_streams_as_they_were(way: str, tmp_path: Path) -> None:
    code = f"""
before = sys.stdout, sys.stderr
{WAYS[way]}
print("heard", (sys.stdout, sys.stderr) == before)
"""
    later = ["a later step"] if way in ("fan", "branches", "watched", "arun", "start") else []
    assert printed(TOOLS + code, tmp_path) == [*later, "heard True"]


def test_a_redirection_around_a_run_is_its_own(tmp_path: Path) -> None:
    code = """
with contextlib.redirect_stdout(io.StringIO()) as out:
    agf.run("fan")
    print("inside")
print("outside", out.getvalue().split("\\n"))
"""
    assert printed(TOOLS + code, tmp_path) == ["outside ['a later step', 'inside', '']"]


def test_a_tool_alone_may_replace_a_stream(tmp_path: Path) -> None:
    code = """
@tool
def tees() -> None:
    sys.stdout = Tee(sys.stdout)

class Tee:
    def __init__(self, stream): self.stream = stream
    def write(self, text): return self.stream.write(text)
    def flush(self): self.stream.flush()

agf.run("{pipeline: p, steps: [{tool: {name: tees}}]}")
print(type(sys.stdout).__name__)
"""
    assert printed(TOOLS + code, tmp_path) == ["Tee"]


@pytest.mark.kernel
@pytest.mark.parametrize(
    "cell", ["%run_pipeline fan --out r", "h = %run_pipeline_async fan\nh.wait()", "await agf.arun('fan')"]
)
def test_a_notebook_prints_after_such_a_fan_out(cell: str, kernel: Kernel) -> None:  # noqa: F811
    kernel.good(TOOLS)
    kernel.good(cell)
    assert kernel.good("print('can you see me?')").printed == "can you see me?\n"


@pytest.mark.kernel
def test_a_notebook_prints_after_a_background_run_beside_a_redirection_of_a_cell(kernel: Kernel) -> None:  # noqa: F811
    kernel.good(TOOLS)
    kernel.good(
        "with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "    h = agf.start('fan')\n    while not h.done: pass\n    print('inside')"
    )
    assert kernel.good("print('can you see me?')").printed == "can you see me?\n"
