"""A run with a time limit ends in time, even if its tools block the loop, catch every exception, uncancel, fork or
nest."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agf_magics.__main__ import main
from tests.processes import printed, script
from tests.slow import slow_but

TOOLS = """
import asyncio, json, os, sys, threading, time
import agf_magics as agf
from agf_magics.engine.host import deadline, host, job, loop

# The times that a run allows its tools, shorter: a test should not wait for them.
host.Host.__init__.__defaults__ = (None, None, 0.2)
host.FORCE = deadline.FORCE = 0.25
job.LATE, job.UNANSWERED, loop.STUCK, loop.ANSWER = 1.0, 0.3, 0.3, 0.2
LIMITS = agf.Limits(timeout=0.3, fan_out_depth=0)

@agf.tool
async def block():
    while True:
        time.sleep(0.05)

@agf.tool
async def block_and_catch():
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            pass

@agf.tool
async def block_a_little():
    time.sleep(0.6)

@agf.tool
async def swallow():
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            pass

@agf.tool
async def uncancel():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()

@agf.tool
async def uncancel_and_end():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        asyncio.current_task().uncancel()
        return "survived"

@agf.tool
def loop_forever():
    while True:
        pass

@agf.tool
def sleep():
    time.sleep(600)

@agf.tool
def catch():
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            pass

def catch_inside():
    try:
        time.sleep(0.05)
    except KeyboardInterrupt:
        pass

@agf.tool
def catch_in_two_frames():
    while True:
        try:
            catch_inside()
        except BaseException:
            pass

@agf.tool
def threads():
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    time.sleep(600)

@agf.tool
def fork():
    if os.fork() == 0:
        sys.exit("child")
    time.sleep(600)

@agf.tool
def nested():
    return agf.run("{pipeline: inner, steps: [{tool: {name: sleep}}]}").status

@agf.tool
async def nested_async():
    return (await agf.arun("{pipeline: inner, steps: [{tool: {name: swallow}}]}")).status

@agf.tool
def leave():
    sys.exit("done")

def step(name):
    return {"tool": {"name": name}}

def fan(names):
    branches = {f"b{i}": step(name) for i, name in enumerate(names)}
    return {"parallel": {"branches": branches, "collect": {"transform": {"value": "pipe"}}}}

def text(name, steps):
    return json.dumps({"pipeline": name, "steps": steps})
"""

ENDLESS = (
    "block", "block_and_catch", "swallow", "uncancel", "loop_forever", "sleep", "catch", "catch_in_two_frames",
    "threads", "fork", "nested", "nested_async",
)  # fmt: skip
OTHERS = ("block_a_little", "uncancel_and_end")

RUN = """
names, way = json.loads(sys.argv[1]), sys.argv[2]
steps = [fan(names), step("leave")] if len(names) > 1 else [step(names[0]), step("leave")]
if way == "start":
    made = agf.start(text("p", steps), limits=LIMITS)
    made.wait()
else:
    made = agf.run(text("p", steps), limits=LIMITS, raises=False)
print(made.status, made.error.code, made.done)
sys.stdout.flush()
os._exit(0)  # threads that are left running are no part of this
"""


def ended(names: list[str], way: str) -> list[str]:
    with TemporaryDirectory() as folder:
        results = printed(TOOLS + RUN, Path(folder), json.dumps(names), way)
    return [line for line in results if line != "child"]


# One tool of each kind: it blocks the loop, catches the interrupt, catches the cancellation, or runs in a thread.
@pytest.mark.parametrize(
    ("name", "way"),
    slow_but(
        [
            ("block", "run"),
            ("swallow", "run"),
            ("catch", "run"),
            ("nested", "run"),
            ("block", "start"),
            ("fork", "start"),
        ],
        [(name, way) for name in (*ENDLESS, *OTHERS) for way in ("run", "start")],
    ),
)
def test_a_run_ends_in_time_whatever_its_tool_does(name: str, way: str) -> None:
    assert ended([name], way) == ["error limit.timeout True"]


@pytest.mark.slow
@given(names=st.lists(st.sampled_from(ENDLESS), min_size=2, max_size=4), way=st.sampled_from(["run", "start"]))
@settings(max_examples=6)
def test_a_run_ends_in_time_whatever_its_tools_do_side_by_side(names: list[str], way: str) -> None:
    assert ended(names, way) == ["error limit.timeout True"]


def test_a_background_run_ends_in_time_without_a_waiter(tmp_path: Path) -> None:
    watched = """
    made = agf.start(text("p", [step("block")]), limits=LIMITS)
    while made.status == "running" or not made.done:  # looks, and never waits
        time.sleep(0.01)
    print(made.status, made.error.code)
    print(agf.runs()[0].status, agf.run(text("q", [{"transform": {"value": "1"}}])).output)
    sys.stdout.flush()
    os._exit(0)
    """
    assert printed(TOOLS + dedent(watched), tmp_path) == ["error limit.timeout", "error 1"]


def test_an_async_tool_that_blocks_fails_by_its_step_timeout_as_a_plain_one_does(tmp_path: Path) -> None:
    code = """
    for name in ("block_a_little", "sleep"):
        made = agf.run(text("p", [step(name)]), limits=agf.Limits(step_timeout=0.3), raises=False)
        print(made.status, made.error.code, made.error.diagnostic.message)
    """
    assert printed(TOOLS + dedent(code), tmp_path) == [
        "error step.timeout tool 'block_a_little' took longer than 0.3 s",
        "error step.timeout tool 'sleep' took longer than 0.3 s",
    ]


def test_no_step_starts_after_the_time_of_the_run(tmp_path: Path) -> None:
    code = """
    @agf.tool
    async def effect():
        print("effect")
    for first in ("block_a_little", "uncancel_and_end"):
        made = agf.run(text("p", [step(first), step("effect")]), limits=LIMITS, raises=False)
        print(made.status, made.error.code)
    """
    assert printed(TOOLS + dedent(code), tmp_path) == ["error limit.timeout"] * 2


def test_an_awaited_run_fails_by_its_limit_when_the_tool_gives_its_loop_back(tmp_path: Path) -> None:
    code = """
    async def main():
        made = await agf.arun(text("p", [step("block_a_little"), step("leave")]), limits=LIMITS, raises=False)
        print(made.status, made.error.code)
    asyncio.run(main())
    """
    assert printed(TOOLS + dedent(code), tmp_path) == ["error limit.timeout"]


def test_the_command_line_has_a_time_limit(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "p.yaml").write_text("pipeline: p\nsteps:\n- tool: {name: block}\n")
    code = """
    import os, sys
    from agf_magics.__main__ import main
    code = main(["run", "p.yaml", "--tools", "tools.py", "--timeout", "0.3", "--quiet"])
    sys.stderr.flush()
    os._exit(code)
    """
    completed = script(code, tmp_path)
    assert completed.returncode == 1
    assert "[limit.timeout]" in completed.stderr
    assert "blocked in block" in completed.stderr


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_limit_is_a_number_of_seconds_above_zero(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "p.yaml", "--timeout", wrong]) == 2
    assert "--timeout" in capsys.readouterr().err
