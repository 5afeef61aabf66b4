"""Calls with an effect that end after their time limit, or while their step is being cancelled: the end is their
outcome, so that nothing makes them again (decision D-EFFECTS-1)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.threads.call_threads import ThreadCall
from agf_magics.mcp.client.session import Gone
from agf_magics.text.diagnostics import Diagnostic
from tests.processes import printed

pytestmark = pytest.mark.usefixtures("journaled")

LIMIT = 0.05


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that is set when a call is told to stop: after its time limit, or when its step is cancelled."""
    event, stop = threading.Event(), ThreadCall.stop

    def stop_and_tell(call: ThreadCall) -> None:
        stop(call)
        event.set()

    monkeypatch.setattr(ThreadCall, "stop", stop_and_tell)
    return event


class World:
    """A tool that pays, and ends after its limit."""

    def __init__(self, told: threading.Event) -> None:
        self.registry, self.paid, self.told = agf.Registry(), list[str](), told

    def pay(self, end: Callable[[], Any] = lambda: "paid") -> Any:
        self.paid.append("paid")
        return end()

    def thread(self, end: Callable[[], Any], **options: Any) -> None:
        @agf.tool(registry=self.registry, where="thread", timeout=LIMIT, **options)
        def pay() -> Any:
            self.told.wait()
            return self.pay(end)

    def loop(self, end: Callable[[], Any], **options: Any) -> None:
        @agf.tool(registry=self.registry, where="loop", timeout=LIMIT, **options)
        def pay() -> Any:
            block()
            return self.pay(end)

    def coroutine(self, end: Callable[[], Any], **options: Any) -> None:
        @agf.tool(registry=self.registry, timeout=LIMIT, **options)
        async def pay() -> Any:
            block()
            return self.pay(end)

    def run(self, on_error: str = "abort") -> Any:
        text = f"pipeline: p\nsteps:\n- tool: {{name: pay, on_error: {on_error}}}\n"
        return agf.run(text, registry=self.registry, raises=False)

    def resume(self, run: Any) -> Any:
        """Resume a run. Whoever is asked says no."""
        return agf.resume(run.run_id, registry=self.registry, raises=False, ask=lambda question: False)


def block() -> None:
    """Keep the thread busy for longer than the limit."""
    until = time.monotonic() + 1.2 * LIMIT
    while time.monotonic() < until:
        pass


@pytest.fixture
def world(told: threading.Event) -> Iterator[World]:
    yield World(told)
    told.set()


PLACES = ["thread", "loop", "coroutine"]


def codes(run: Any) -> set[str]:
    return {warning.code for warning in run.warnings} - {"flow.repeated-effect"}


@pytest.mark.parametrize("on_error", ["abort", "continue", "retry(1)"])
@pytest.mark.parametrize("place", PLACES)
def test_a_value_that_comes_late_is_the_outcome(place: str, on_error: str, world: World) -> None:
    getattr(world, place)(lambda: "paid", reuse=False, retry=agf.Retry(1, first=0))
    run = world.run(on_error)
    assert (run.status, run.output, world.paid) == ("ok", "paid", ["paid"])
    assert codes(run) == {"tool.late-result"}
    (warning,) = [found for found in run.warnings if found.code == "tool.late-result"]
    assert warning.message == (
        "tool 'pay' took longer than 0.05 s, and its result is used: its call must not be repeated"
    )
    assert warning.hint == "@tool(timeout=…) sets how long it may take"


@pytest.mark.parametrize("place", PLACES)
def test_a_call_that_may_be_repeated_has_failed(place: str, world: World) -> None:
    getattr(world, place)(lambda: "paid")
    run = world.run()
    assert (run.status, run.error.code, codes(run)) == ("error", "step.timeout", set())


def no_money() -> None:
    raise ValueError("no money")


def gone() -> None:
    raise Gone(Diagnostic("mcp.gone", "MCP server 'bank' ended during the call"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("end", "status", "code"), [(no_money, "error", "step.tool-failed"), (gone, "waiting", "step.unknown-outcome")]
)
def test_an_error_that_comes_late_is_the_outcome(
    end: Callable[[], None], status: str, code: str, place: str, world: World
) -> None:
    getattr(world, place)(end, reuse=False)
    run = world.run()
    assert (run.status, run.error.code) == (status, code)


INTERRUPTED = """
import threading
import agf_magics as agf

@agf.tool(timeout=0.05, reuse=False)
def pay() -> str:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return "a part"

run = agf.run("{pipeline: p, steps: [{tool: {name: pay}}]}", raises=False)
print(run.status, run.error.code, *run.warnings)
"""


def test_what_an_interrupted_call_returns_is_no_outcome(tmp_path: Path) -> None:
    assert printed(INTERRUPTED, tmp_path) == ["error step.timeout"]


FAN = """
pipeline: p
steps:
- for_each:
    items: [0, 1]
    on_error: abort
    do: {tool: {name: pay, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
"""


@pytest.mark.parametrize("reuse", [False, True])
def test_a_call_that_ends_while_its_sibling_fails_keeps_its_value(reuse: bool, world: World) -> None:
    begun, fails, paid = threading.Event(), [True], list[int]()

    @agf.tool(registry=world.registry, reuse=reuse)
    def pay(n: int) -> str:
        if n == 0:
            begun.wait()
            if fails.pop():
                raise ValueError("no money")
        else:
            begun.set()
            world.told.wait()
        paid.append(n)
        return f"paid {n}"

    run = agf.run(FAN, registry=world.registry, raises=False)
    assert (run.status, paid) == ("error", [1])
    fails.append(False)
    again = world.resume(run)
    assert (again.status, again.output, paid) == ("ok", ["paid 0", "paid 1"], [1, 0])


def test_a_call_that_ends_while_its_run_is_cancelled_keeps_its_value(world: World) -> None:
    begun = threading.Event()

    @agf.tool(registry=world.registry, where="thread", reuse=False)
    def pay() -> str:
        begun.set()
        world.told.wait()
        return str(world.pay())

    run = agf.start("pipeline: p\nsteps:\n- tool: {name: pay}\n", registry=world.registry)
    begun.wait()
    run.cancel()
    run.wait()
    again = world.resume(run)
    assert (run.status, again.status, again.output, world.paid) == ("cancelled", "ok", "paid", ["paid"])


def test_what_a_call_returns_whose_inner_run_was_stopped_is_no_outcome(world: World) -> None:
    begun = threading.Event()

    @agf.tool(registry=world.registry)
    async def hold() -> None:
        begun.set()
        await asyncio.Event().wait()

    @agf.tool(registry=world.registry, where="thread", reuse=False)
    def pay() -> str:
        try:
            agf.run("pipeline: inner\nsteps:\n- tool: {name: hold}\n", registry=world.registry)
        except KeyboardInterrupt:
            return "a part"
        return "all"

    run = agf.start("pipeline: p\nsteps:\n- tool: {name: pay}\n", registry=world.registry)
    begun.wait()
    run.cancel()
    run.wait()
    again = world.resume(run)
    assert (run.status, again.status, again.error.code) == ("cancelled", "waiting", "step.unknown-outcome")
