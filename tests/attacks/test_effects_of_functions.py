"""Functions that call tools with an effect by `tools[…]`: a resumed run does not repeat them without a question
(decision D7)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import printed, script

CODE = """
import os, signal, sys
from pathlib import Path
import agf_magics as agf

is_first = sys.argv[1] == "first"

def note(word):
    with open("effects.txt", "a") as file:
        file.write(word + " ")

def die():
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)

@agf.tool(reuse=False)
def pay(n: int) -> str:
    note(f"pay {n}")
    return f"paid {n}"

@agf.tool(reuse=False)
async def send(n: int) -> str:
    note(f"send {n}")
    return f"sent {n}"

@agf.tool
def look(n: int) -> str:
    note(f"look {n}")
    return f"seen {n}"

@agf.tool
def fail() -> None:
    if is_first:
        raise ValueError("not yet")
"""
RUN = """
run = agf.run(agf.load(Path("flow.yaml").read_text()), raises=False)
print(run.status, run.output, getattr(run.error, "code", None))
"""
RESUME = """
def ask(question):
    print(question.text)
    return eval(sys.argv[2])
run = agf.resume(agf.runs()[0].run_id, raises=False, ask=ask)
print(run.status, run.output, getattr(run.error, "code", None))
"""
AGENT = "pipeline: p\nsteps:\n- agent: {prompt: hi, identity: bob}\n"
THEN_FAIL = AGENT + "- tool: {name: fail}\n"
IN_FAN = """
pipeline: p
steps:
- for_each:
    items: [1]
    on_error: abort
    do: {agent: {prompt: hi, identity: bob}}
    collect: {transform: {value: pipe}}
"""
QUESTION = "'bob' called a tool that has an effect, and its outcome is unknown. Call it again?"


class Case(NamedTuple):
    agent: str
    flow: str = AGENT
    asked: tuple[str, ...] = (QUESTION,)
    effects: str = "pay 1"
    """What was done in both sessions, if the answer gives the result."""
    output: str = "given"


def agent(*lines: str, how: str = "def") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"\n@agf.agent(tools=['pay', 'send', 'look'])\n{how} bob(input, tools):\n{body}"


PAYS = "answer = tools['pay'](n=1)"
CASES = {
    "killed after it": Case(agent(PAYS, "die()", "return answer")),
    "on a thread": Case(agent(PAYS, "die()", "return answer"), IN_FAN, output="['given']"),
    "async": Case(agent(PAYS, "die()", "return answer", how="async def")),
    "a tool that is async": Case(
        agent("answer = await tools['send'](n=1)", "die()", "return answer", how="async def"), effects="send 1"
    ),
    "it fails after it": Case(agent(PAYS, "if is_first: raise ValueError('no')", "return answer")),
    "only a tool without an effect": Case(
        agent("answer = tools['look'](n=1)", "die()", "return answer"), AGENT, (), "look 1 look 1", "seen 1"
    ),
    "killed before it": Case(agent("die()", PAYS, "return answer"), AGENT, (), "pay 1", "paid 1"),
    "it returned": Case(agent(PAYS, "return answer"), THEN_FAIL, (), "pay 1", "None"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_function_that_called_a_tool_with_an_effect_is_not_repeated(case: Case, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "flow.yaml").write_text(case.flow)
    first = script(CODE + case.agent + RUN, tmp_path, "first")
    assert first.returncode in (-signal.SIGKILL, 0), first.stderr
    resumed = printed(CODE + case.agent + RESUME, tmp_path, "again", "{'result': 'given'}")
    assert resumed == [*case.asked, f"ok {case.output} None"]
    assert (tmp_path / "effects.txt").read_text().strip() == case.effects


def test_a_person_may_allow_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "flow.yaml").write_text(AGENT)
    pays = CASES["killed after it"].agent
    script(CODE + pays + RUN, tmp_path, "first")
    assert printed(CODE + pays + RESUME, tmp_path, "again", "False")[-1] == "waiting None step.unknown-outcome"
    assert printed(CODE + pays + RESUME, tmp_path, "again", "True") == [QUESTION, "ok paid 1 None"]
    assert (tmp_path / "effects.txt").read_text() == "pay 1 pay 1 "


def test_a_full_disk_prevents_it(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(AGENT)
    fills = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50, resource.RLIM_INFINITY))"
    ended = printed(CODE + agent(fills, PAYS, "return answer") + RUN, tmp_path, "again")
    assert not (tmp_path / "effects.txt").exists()
    assert ended == ["error None journal.unstored"]
