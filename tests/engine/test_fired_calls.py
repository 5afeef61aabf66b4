"""Calls that a plan does not wait for: whatever they call, they start once in a run, and the end of the run does not
stop them (decision C4)."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress.events import BackgroundCallEnded

PLAN = """
name: fires
calls:
- {_tool: CALLEE, x: 5}
- {_tool: hold, _outputPath: †state.held}
- {_tool: last, y: †state.held, _outputPath: †state.end}
"""
SUB = "pipeline: sub\nsteps:\n- tool: {name: first, args: {x: !expr x}}\n- tool: {name: mail, args: {x: !expr x}}\n"
GRAPH = """
name: walks
state: {x: int}
nodes:
  a: {type: tool, tool: first, variables: {x: '{state.x}'}, state_key: a}
  b: {type: tool, tool: mail, variables: {x: '{state.x}'}, state_key: b}
edges: [{from: START, to: a}, {from: a, to: b}, {from: b, to: END}]
"""
CALLEES = ["mail", "sub", "walks"]


class Post:
    """Tools that are fired, and those after which the run ends."""

    def __init__(self) -> None:
        self.registry, self.mails, self.ends = agf.Registry(), list[int](), queue.SimpleQueue[Any]()
        self.gate, self.fails = threading.Event(), [True]

        @agf.tool(registry=self.registry)
        async def first(x: int) -> int:
            await asyncio.to_thread(self.gate.wait)
            return x

        @agf.tool(registry=self.registry, reuse=False)
        async def mail(x: int) -> None:
            await asyncio.to_thread(self.gate.wait)
            self.mails.append(x)

        @agf.tool(registry=self.registry)
        def last(y: int) -> str:
            if self.fails.pop():
                raise LookupError("not yet")
            return "done"

        agf.define(SUB, registry=self.registry)
        agf.define(GRAPH, "graph", registry=self.registry)

    def hear(self, event: Any) -> None:
        if type(event) is BackgroundCallEnded:
            self.ends.put(event)


@pytest.mark.parametrize("callee", CALLEES)
@pytest.mark.usefixtures("journaled")
def test_a_resumed_run_does_not_fire_it_again(callee: str) -> None:
    post = Post()
    post.gate.set()
    agf.tool(lambda: 1, name="hold", registry=post.registry)
    run = agf.run(PLAN.replace("CALLEE", callee), registry=post.registry, raises=False, on_event=post.hear)
    assert run.error.code == "step.tool-failed"
    assert post.ends.get(timeout=60).error is None
    post.fails.append(False)
    assert agf.resume(run.run_id, registry=post.registry).status == "ok"
    assert (post.mails, post.ends.empty()) == ([5], True)


@pytest.mark.parametrize("callee", CALLEES)
def test_the_end_of_the_time_of_the_run_does_not_stop_it(callee: str) -> None:
    post = Post()

    @agf.tool(registry=post.registry)
    async def hold() -> None:
        await asyncio.sleep(60)

    limits = agf.Limits(timeout=0.3)
    text = PLAN.replace("CALLEE", callee)
    run = agf.run(text, registry=post.registry, raises=False, on_event=post.hear, limits=limits)
    assert run.error.code == "limit.timeout"
    post.gate.set()
    assert post.ends.get(timeout=60).error is None
    assert post.mails == [5]


@pytest.mark.parametrize("callee", CALLEES)
@pytest.mark.usefixtures("journaled")
def test_a_run_that_is_resumed_while_it_goes_on_is_journaled(callee: str) -> None:
    post = Post()

    @agf.tool(registry=post.registry)
    def hold() -> int:
        if post.fails.pop():
            raise LookupError("not yet")
        post.gate.set()
        assert post.ends.get(timeout=60).error is None
        return 1

    text = PLAN.replace("CALLEE", callee)
    run = agf.run(text, registry=post.registry, raises=False, on_event=post.hear)
    post.fails += [False, False]
    resumed = agf.resume(run.run_id, registry=post.registry)
    assert (resumed.warnings, post.mails) == ((), [5])
    ended = {call["label"] for call in agf.runs(run.run_id).calls if call["status"] == "ok"}
    assert ended >= {"hold", "last"}
