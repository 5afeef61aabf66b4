"""A planner whose process is killed continues in another process, and repeats no completed call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slow import slow_but

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, signal, sys
from pathlib import Path

import agf_magics as agf
from tests.lifecycle.planning.scripted_planner import Planner, call, plan

agf.run("pipeline: first\\nsteps:\\n- transform: {value: '1'}\\n")  # the planner is not the only one in the journal
killed_in = sys.argv[1]


def made(name):
    with Path("calls.txt").open("a") as calls:
        calls.write(f"{name}\\n")


def die():
    made("died")
    os.kill(os.getpid(), signal.SIGKILL)


@agf.tool
def one() -> int:
    "One."
    made("one")
    return 1


@agf.tool
def add(n: int) -> int:
    "One more."
    if killed_in == "plan":
        die()
    made("add")
    return n + 1


ONE, ADD = plan(call("one", "†state.n")), plan(call("add", "†state.n", n="†state.n"), output="†state.n")


def model():
    from pydantic_ai.models.function import FunctionModel

    given = Planner(*([ONE, ADD] if killed_in else [ADD] if sys.argv[2] == "request" else [])).model
    if killed_in != "request":
        return given
    answer, asked = given.function, []

    async def answer_or_die(messages, info):
        asked.append(1)
        if len(asked) == 2:
            die()
        return await answer(messages, info)

    return FunctionModel(answer_or_die)


done = agf.planning.run_planner(model(), "Count to two.", tools=["one", "add"], resume=not killed_in)
print(done.output, len(done.asked), len(done.runs))
"""


@pytest.mark.parametrize("where", slow_but(["plan"], ["request", "plan"]))
def test_a_killed_planner_continues_in_another_process(where: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyproject.toml").touch()  # makes the folder a project
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "program.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    killed = run(where, where)
    assert killed.returncode < 0, killed.stderr
    resumed = run("", where)
    assert resumed.stdout == ("2 1 1\n" if where == "request" else "2 0 1\n"), resumed.stderr
    assert (tmp_path / "calls.txt").read_text() == "one\ndied\nadd\n"
