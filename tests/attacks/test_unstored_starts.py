"""The disk is full while a run goes on: a call that must not be repeated is made only if the journal has recorded that
it starts (decision D7)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import printed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a limit of the file's size")

TOOLS = """
import resource, sys
from pathlib import Path
import agf_magics as agf

is_first = sys.argv[1] == "first"

def note(word):
    with open("effects.txt", "a") as file:
        file.write(word + " ")

def fill_disk():
    if is_first:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))

@agf.tool
def large() -> str:
    return "x" * 300_000

@agf.tool
def fill(after: str = "") -> int:
    fill_disk()
    return 1

@agf.tool
def safe() -> int:
    note("safe")
    return 1

@agf.tool(reuse=False)
def pay(n: int) -> int:
    note(f"pay {n}")
    return n

@agf.tool(reuse=False)
def pay_last() -> int:
    note("pay last")
    fill_disk()
    return 1

def end(run):
    print(run.status, getattr(run.error, "code", None), *[found.code for found in run.warnings])
"""
RUN = """
end(agf.run(agf.load(Path("flow.yaml").read_text()), raises=False))
"""
RESUME = """
def ask(question):
    print(question.text)
    return {"result": 1}
run = agf.resume(agf.runs()[0].run_id, raises=False, ask=ask)
print(run.status, getattr(run.error, "code", None))
"""
QUESTION = "'pay_last' was called with {} and its outcome is unknown. Call it again?"
ENDED = "error journal.unstored journal.full"


class Case(NamedTuple):
    flow: str
    made: str
    """The calls of the first session."""
    asked: tuple[str, ...] = ()
    """The questions of the resumed run."""
    made_later: str = ""
    """The calls of the resumed run."""


def pipeline(*steps: str) -> str:
    return "pipeline: p\nsteps:\n- tool: {name: large}\n" + "".join(f"- {step}\n" for step in steps)


FILL, SAFE, PAY = "tool: {name: fill}", "tool: {name: safe}", "tool: {name: pay, args: {n: 1}ON}"
FAN = """for_each:
    items: [1, 2]
    on_error: MODE
    do: {tool: {name: pay, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}"""
CASES = {
    "before the call": Case(pipeline(FILL, SAFE, PAY.replace("ON", "")), "safe", (), "safe pay 1"),
    "before the call, continue": Case(
        pipeline(FILL, PAY.replace("ON", ", on_error: continue"), SAFE), "", (), "pay 1 safe"
    ),
    "before the call, retry": Case(pipeline(FILL, PAY.replace("ON", ", on_error: retry(2)")), "", (), "pay 1"),
    "before a fan-out": Case(pipeline(FILL, FAN.replace("MODE", "continue")), "", (), "pay 1 pay 2"),
    "during the call": Case(
        pipeline("tool: {name: pay_last}", PAY.replace("ON", "")), "pay last", (QUESTION,), "pay 1"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_call_whose_start_cannot_be_recorded_is_not_made(case: Case, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(case.flow)
    (ended,) = printed(TOOLS + RUN, tmp_path, "first")
    assert ended.replace(" flow.repeated-effect", "") == ENDED
    effects = tmp_path / "effects.txt"
    assert (effects.read_text().strip() if effects.exists() else "") == case.made
    effects.write_text("")
    assert printed(TOOLS + RESUME, tmp_path, "again") == [*case.asked, "ok None"]
    assert effects.read_text().strip() == case.made_later


def test_a_call_that_nothing_waits_for_is_not_fired(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "name: p\ncalls:\n- {_tool: large, _outputPath: $state.a}\n"
        "- {_tool: fill, after: $state.a, _outputPath: $state.b}\n- {_tool: pay, n: $state.b}\n"
    )
    assert printed(TOOLS + RUN, tmp_path, "first") == [ENDED]
    assert not (tmp_path / "effects.txt").exists()
    assert printed(TOOLS + RESUME, tmp_path, "again") == ["ok None"]
    assert (tmp_path / "effects.txt").read_text() == "pay 1 "


def test_a_run_that_the_journal_does_not_have_makes_its_calls(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(pipeline(PAY.replace("ON", "")))
    assert printed(TOOLS + "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))" + RUN,
                   tmp_path, "again") == ["ok None journal.full"]  # fmt: skip
    assert (tmp_path / "effects.txt").read_text() == "pay 1 "
