"""The stop button ■ ends the cell, even with a loop of runs that handles all errors.

Whatever else ends a run is an error of this run only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.conftest import Kernel, headless, kernel, kernels, page_kernel  # noqa: F401
from tests.processes import command_line, printed, script

STOPS = '''
import asyncio, os, signal, threading, time
import agf_magics as agf

presses = []

@agf.tool
def press() -> int:
    """A person presses ■ while it works."""
    presses.append(1)
    signal.raise_signal(signal.SIGINT)
    time.sleep(30)
    return 1

@agf.tool
def late(x: int) -> int:
    if not presses:
        raise ValueError("not yet")
    return press()

@agf.tool
async def wait() -> int:
    if not presses:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    presses.append(1)
    await asyncio.sleep(30)
    return 1

def planner(log):
    return [{"_tool": "press", "_outputPath": "$state.a"}]

FAN = """
pipeline: fan
steps:
- for_each: {items: [1, 2], on_error: continue, do: {tool: {name: wait}}, collect: {transform: {value: pipe}}}
"""

agf.define("{pipeline: p, steps: [{tool: {name: press}}]}")
agf.define("{pipeline: failed, steps: [{tool: {name: late, args: {x: 1}}}]}")
agf.define(FAN)
agf.define("{calls: [{_tool: press, _outputPath: $state.a}]}", "plan", name="plan")
agf.define("{nodes: {a: {type: python, tool: press}}, edges: [{from: START, to: a}]}", "graph", name="graph")

def earlier():
    run = agf.run("failed", raises=False)
    presses.append(0)
    return run.run_id
'''

WAYS = {
    "run": "agf.run('p')",
    "raises": "agf.run('p', raises=False)",
    "plan": "agf.run('plan', raises=False)",
    "graph": "agf.run('graph', raises=False)",
    "fan-out": "agf.run('fan', raises=False)",
    "table": "agf.run('p', over=[{'a': 1}, {'a': 2}], raises=False)",
    "resume": "agf.resume(ID, raises=False)",
    "rerun": "agf.rerun(ID, 'steps[0]', raises=False)",
    "planner": "agf.planning.run_planner(planner, raises=False)",
    "agent tool": "agf.agent_tools.run_pipeline('p')",
}


@pytest.mark.parametrize("way", WAYS)
def test_one_interrupt_ends_a_loop_of_runs_that_handles_all_errors(way: str, tmp_path: Path) -> None:
    code = f"""
ID = {"earlier()" if "ID" in WAYS[way] else "None"}
presses.clear() if ID is None else None
rounds = []
try:
    for number in range(3):
        rounds.append(number)
        try:
            {WAYS[way]}
        except Exception as error:
            print("kept", type(error).__name__)
except KeyboardInterrupt as interrupt:
    print(type(interrupt).__name__, len(rounds), interrupt.run.status, interrupt.run.error.code)
"""
    assert printed(STOPS + code, tmp_path) == ["RunInterrupted 1 cancelled run.cancelled"]


def test_other_ends_of_a_run_are_errors_of_that_run(tmp_path: Path) -> None:
    code = """
@agf.tool
async def forever() -> None:
    await asyncio.sleep(60)

agf.define("{pipeline: f, steps: [{tool: {name: forever}}]}")
background = agf.start("f")
background.cancel("interrupt")  # only the text of the reason is that of an interrupt
for end in (
    lambda: background.result(),
    lambda: agf.run("f", limits=agf.Limits(timeout=0.1)),
):
    try:
        end()
    except Exception as error:
        print(type(error).__name__, error.code)
"""
    ends = ["RunCancelled run.cancelled", "StepError limit.timeout"]
    assert printed(STOPS + code, tmp_path) == ends


def test_an_interrupt_that_comes_at_the_end_of_a_run_is_not_lost(tmp_path: Path) -> None:
    code = """
@agf.tool
def last() -> int:
    try:
        press()
    except KeyboardInterrupt:
        return 7

agf.define("{pipeline: l, steps: [{tool: {name: last}}]}")
try:
    agf.run("l", raises=False)
    print("lost")
except KeyboardInterrupt as interrupt:
    print(type(interrupt).__name__)
"""
    assert printed(STOPS + code, tmp_path) == ["RunInterrupted"]


def test_the_command_line_ends_with_130_and_says_how_to_resume(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tools.py").write_text(STOPS)
    (tmp_path / "p.yaml").write_text("{pipeline: p, steps: [{tool: {name: press}}]}")
    for quiet in ((), ("--quiet",)):
        completed = command_line(tmp_path, "run", "p.yaml", "--tools", "tools.py", *quiet)
        assert (completed.returncode, completed.stdout) == (130, "")
        assert "agf-magics resume p-" in completed.stderr
        assert "Traceback" not in completed.stderr


def test_an_interrupt_of_a_script_that_nothing_handles_ends_it_as_any_other(tmp_path: Path) -> None:
    completed = script(STOPS + "agf.run('p')", tmp_path)
    assert completed.returncode != 0
    assert completed.stderr.rstrip().endswith("run of 'p' was cancelled in step 'press' (interrupt) [run.cancelled]")


CELLS = {
    "%run_pipeline": "get_ipython().run_line_magic('run_pipeline', 'p')",
    "%%pipeline --run": "get_ipython().run_cell_magic('pipeline', '--run', "
    "'{pipeline: p, steps: [{tool: {name: press}}]}')",
    "%%graph --run": "get_ipython().run_cell_magic('graph', 'g --run', "
    "'{nodes: {a: {type: python, tool: press}}, edges: [{from: START, to: a}]}')",
    "agf.run": "agf.run('p', raises=False)",
    "arun": "await agf.arun('fan', raises=False)",
    "wait": "handle = agf.start('fan'); handle.wait()",
}


@pytest.mark.kernel
@pytest.mark.parametrize("way", CELLS)
def test_one_press_ends_a_cell_that_loops(way: str, kernel: Kernel) -> None:  # noqa: F811
    kernel.good(STOPS)
    cell = kernel.run(f"""
for number in range(3):
    print("round", number)
    try:
        {CELLS[way]}
    except Exception as error:
        print("kept", type(error).__name__)
""")
    assert cell.reply["status"] == "error", cell.told
    assert cell.printed.count("round") == 1
    assert "kept" not in cell.printed
    if way.startswith("%") or way == "agf.run":
        assert cell.reply["ename"] == "RunInterrupted"
        assert "Traceback" not in cell.traceback
        assert "[run.cancelled]" in cell.traceback
    assert kernel.good("handle.cancel() if 'handle' in dir() else None\n1 + 1").outputs[-1]["text/plain"] == "2"
