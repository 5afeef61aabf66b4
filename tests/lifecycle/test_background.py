"""Runs in the background: the handle, who may wait for it, what stops the run and what does not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.host.host import Host
from agf_magics.engine.host.job import Job
from agf_magics.flow.progress.events import CancelAsked, Event
from agf_magics.lifecycle.launch.launch import start
from agf_magics.lifecycle.runs.live import live
from agf_magics.pictures.pages.parts import headline
from agf_magics.pictures.pages.updates import Updates
from tests.engine.jobs import start as start_job

PATIENCE = 60.0
"""Seconds after which the awaited event will not come any more."""


class Gates:
    """Tools that wait until the test releases them."""

    def __init__(self) -> None:
        self.registry = agf.Registry()
        self.open = threading.Event()
        self.reached = threading.Semaphore(0)
        self.runs: list[agf.Run] = []

        @agf.tool(registry=self.registry)
        def gate(name: str = "") -> str:
            self.reached.release()
            assert self.open.wait(PATIENCE)
            return threading.current_thread().name

        @agf.tool(registry=self.registry)
        async def soft_gate() -> str:
            self.reached.release()
            await asyncio.sleep(PATIENCE)
            return "never"

        @agf.tool(registry=self.registry)
        def fail() -> None:
            raise ValueError("no pears")

    def start(self, tool: str = "gate", **options: Any) -> agf.Run:
        run = start(pipeline(tool), registry=self.registry, **options)
        self.runs.append(run)
        return run

    def at_the_gate(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.reached.acquire(timeout=PATIENCE)


def pipeline(tool: str, name: str = "p") -> str:
    return f"pipeline: {name}\nsteps:\n- tool: {{name: {tool}, output: o}}\n- transform: {{value: o}}\n"


def press() -> None:
    """Interrupt this process as soon as its main thread waits for a run of the background."""
    waits = False
    while not waits:
        threading.Event().wait(0.01)
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        while frame is not None and not waits:
            waits, frame = frame.f_code is Job.join.__code__, frame.f_back  # type: ignore[assignment]
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def gates() -> Iterator[Gates]:
    new_gates = Gates()
    yield new_gates
    new_gates.open.set()
    for run in new_gates.runs:
        run.cancel()
        assert run.wait(PATIENCE).done


def test_a_run_is_returned_while_it_continues(gates: Gates) -> None:
    run = gates.start()
    gates.at_the_gate()
    assert (run.status, run.done) == ("running", False)
    with pytest.warns(UserWarning, match="has no output yet"):
        assert run.output is None
    assert run in live.running
    gates.open.set()
    assert run.result().output == "agf-worker"
    assert (run.status, run.done, run.stores) == ("ok", True, {"o": "agf-worker"})
    assert run not in live.running
    assert live.find(run.run_id) is run


FAN_OUT = """
pipeline: p
steps:
- for_each:
    over: "[1, 2]"
    max_parallel: 2
    on_error: abort
    do: {tool: {name: gate}}
    collect: {transform: {value: pipe}}
"""


def shown(run: agf.Run) -> tuple[str, list[str]]:
    """The status in the page of a run, with the counts of calls that do not stop. The line of the run has them, too."""
    update = Updates(run.progress).complete(0.0)
    counts = [count for count in update["counts"] if "running" in count]
    line = headline(run.progress, now=0.0)
    assert all(text in line for text in (update["status"], *counts)), line
    return update["status"], counts


@pytest.mark.parametrize("is_awaited", [False, True], ids=["in the background", "awaited"])
@pytest.mark.parametrize(("ends", "after"), [(False, ["2 calls left running"]), (True, [])], ids=["left", "ended"])
def test_a_cancelled_run_says_until_its_end_and_after_it_which_calls_go_on(
    gates: Gates, is_awaited: bool, ends: bool, after: list[str]
) -> None:
    seen = []

    def hear(event: Event) -> None:
        if isinstance(event, CancelAsked):
            (run,) = live.running
            seen.append((run.status, *shown(run)))
            if ends:
                gates.open.set()

    async def awaited() -> agf.Run:
        waiting = asyncio.ensure_future(agf.arun(FAN_OUT, registry=gates.registry, on_event=hear, raises=False))
        await asyncio.to_thread(gates.at_the_gate, 2)
        (run,) = live.running
        run.cancel()
        run.cancel()
        return await waiting

    if is_awaited:
        run = asyncio.run(awaited())
    else:
        run = start(FAN_OUT, registry=gates.registry, on_event=hear)
        gates.at_the_gate(2)
        assert shown(run) == ("running", [])
        run.cancel()
        run.cancel()
        run.wait(PATIENCE)
    assert seen == [("running", "cancelling", ["2 calls still running"])]
    assert shown(run) == ("cancelled", after)


def test_waiting_has_a_limit_of_its_own(gates: Gates) -> None:
    run = gates.start()
    assert run.wait(0.01) is run
    assert not run.done


def test_the_error_of_a_run_is_raised_by_result_alone(gates: Gates) -> None:
    run = gates.start("fail")
    assert run.wait().status == "error"
    with pytest.raises(agf.StepError, match="no pears"):
        run.result()
    assert run.error is not None


def test_a_wrong_start_is_refused_at_once_and_nothing_is_started(gates: Gates) -> None:
    before = tuple(live)
    with pytest.raises(agf.DefinitionError):
        start("pipeline: p\nsteps:\n- tool: {name: nobody}\n", registry=gates.registry)
    assert tuple(live) == before


def test_cancel_stops_a_run_and_result_says_so(gates: Gates) -> None:
    run = gates.start("soft_gate")
    gates.at_the_gate()
    run.cancel("enough")
    assert run.wait().status == "cancelled"
    with pytest.raises(agf.RunCancelled, match="enough") as caught:
        run.result()
    assert caught.value.run is run


def test_a_run_cancelled_before_it_began_ends_too(gates: Gates) -> None:
    blocked, free = threading.Event(), threading.Event()

    async def blocker(host: Host) -> None:
        blocked.set()
        assert free.wait(PATIENCE)

    job = start_job(blocker)
    assert blocked.wait(PATIENCE)
    run = gates.start()
    run.cancel("at once")
    free.set()
    job.wait()
    assert run.wait().status == "cancelled"
    assert run not in live.running


def test_a_run_is_awaited_on_any_loop(gates: Gates) -> None:
    async def wait() -> tuple[str, str]:
        run = gates.start()
        asyncio.get_running_loop().call_later(0, gates.open.set)
        return (await run).status, (await run).output

    assert asyncio.run(wait()) == ("ok", "agf-worker")
    assert asyncio.run(wait()) == ("ok", "agf-worker")


def test_awaiting_raises_the_error_of_the_run(gates: Gates) -> None:
    async def wait() -> None:
        await gates.start("fail")

    with pytest.raises(agf.StepError, match="no pears"):
        asyncio.run(wait())


def test_a_cancelled_await_does_not_stop_the_run(gates: Gates) -> None:
    async def wait() -> agf.Run:
        run = gates.start()
        waiting = asyncio.ensure_future(_awaited(run))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return run

    run = asyncio.run(wait())
    assert not run.done
    gates.open.set()
    assert run.result().status == "ok"


async def _awaited(run: agf.Run) -> agf.Run:
    return await run


def test_an_interrupt_ends_the_waiting_and_not_the_run(gates: Gates) -> None:
    run = gates.start()
    gates.at_the_gate()
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    assert (run.status, run.done) == ("running", False)
    gates.open.set()
    assert run.result().status == "ok"


def test_fifty_runs_work_at_once(gates: Gates) -> None:
    runs = [gates.start() for _ in range(50)]
    gates.at_the_gate(50)
    assert {run.status for run in runs} == {"running"}
    assert set(runs) <= set(live.running)
    gates.open.set()
    assert {run.result().status for run in runs} == {"ok"}
    assert len({run.run_id for run in runs}) == 50


def test_an_async_tool_may_await_a_run_of_the_background(gates: Gates) -> None:
    @agf.tool(registry=gates.registry)
    async def outer() -> str:
        return str((await gates.start("inner")).output)

    @agf.tool(registry=gates.registry)
    def inner() -> str:
        return "deep"

    assert agf.run(pipeline("outer"), registry=gates.registry).output == "deep"


def test_a_tool_that_waits_for_the_background_can_be_stopped(gates: Gates) -> None:
    @agf.tool(registry=gates.registry)
    def outer() -> None:
        gates.start().wait()

    run = gates.start("outer")
    gates.at_the_gate()
    run.cancel("enough")
    assert run.wait().status == "cancelled"
    assert run.steps["steps[0]"].state == "cancelled"  # the step was not left running
    (inner,) = (other for other in gates.runs if other is not run)
    assert inner.status == "running"


def test_a_tool_of_the_waiting_thread_is_refused(gates: Gates) -> None:
    registry = gates.registry
    agf.tool(lambda: None, name="plot", where="kernel", registry=registry)
    agf.define(pipeline("plot", "inner"), registry=registry)
    for text, marked in ((pipeline("plot"), "plot"), ("pipeline: q\nsteps:\n- call: {pipeline: inner}\n", "plot")):
        with pytest.raises(agf.DefinitionError) as caught:
            start(text, registry=registry)
        diagnostic = caught.value.diagnostic
        assert (diagnostic.code, diagnostic.span and diagnostic.span.text) == ("run.kernel-tool", marked)
        assert agf.run(text, registry=registry).status == "ok"


def test_only_the_last_runs_are_kept(gates: Gates) -> None:
    runs = [gates.start("soft_gate", dry=True).wait() for _ in range(live.MAX_ENDED + 5)]
    assert {run.status for run in runs} == {"ok"}
    assert len(live.ended) == live.MAX_ENDED
    assert live.find(runs[0].run_id) is None
    assert live.find(runs[-1].run_id) is runs[-1]


def test_a_run_on_a_loop_of_ones_own_can_be_cancelled_from_the_list(gates: Gates) -> None:
    async def main() -> agf.Run:
        running = asyncio.ensure_future(agf.arun(pipeline("soft_gate"), registry=gates.registry, raises=False))
        while not any(run.status == "running" and run.steps["steps[0]"].running for run in live.running):
            await asyncio.sleep(0)
        (run,) = live.running
        run.cancel("from the list")
        assert await running is run
        await asyncio.sleep(0)  # would raise if the task around the run were cancelled
        return run

    run = asyncio.run(main())
    assert run.status == "cancelled"
    assert "from the list" in str(run.error)
    assert run not in live.running
