"""Prints of tools are shown under the steps that made them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import threading
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.run_options import RunOptions
from agf_magics.flow.progress import events as ev
from agf_magics.flow.step_path import StepPath, format_path
from agf_magics.lifecycle.launch.launch import start_run
from agf_magics.pictures.pages.parts import progress_text
from tests.pictures.flows import progress_html

ONE = "{pipeline: p, steps: [{tool: {name: shout}}]}"
EACH = """
pipeline: p
steps:
- for_each: {over: "[1, 2, 3]", on_error: abort, do: {tool: {name: shout, args: {n: !expr item}}}, collect: {transform: {value: pipe}}}
"""  # noqa: E501


@pytest.fixture
def registry() -> agf.Registry:
    return agf.Registry()


def prints_of(events: list[ev.Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ev.StepPrinted))


def run(registry: agf.Registry, text: str = ONE, **options: Any) -> tuple[agf.Run, list[ev.Event], str]:
    events: list[ev.Event] = []
    with contextlib.redirect_stdout(io.StringIO()) as out:
        options = {"stream": True, "raises": False, **options}
        run = agf.run(text, registry=registry, on_event=events.append, **options)
    return run, events, out.getvalue()


def test_what_a_tool_prints_is_under_its_step_and_still_in_the_output(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        print("page", 1)
        print("page", 2)

    ended, events, out = run(registry)
    assert prints_of(events) == out == "page 1\npage 2\n"
    assert {event.at for event in events if isinstance(event, ev.StepPrinted)} == {("steps[0]",)}
    assert "… prints: page 1 page 2" in progress_text(ended.progress, now=0)
    assert "prints: page 1\npage 2" in progress_html(ended.progress, now=0)


@pytest.mark.parametrize("where", ["thread", "loop"])
def test_calls_that_run_at_the_same_time_have_their_own_prints(registry: agf.Registry, where: str) -> None:
    def plain(n: int) -> None:
        print(f"{n}", end="")

    async def waiting(n: int) -> None:
        print(f"{n}", end="")
        await asyncio.sleep(0)
        print(f"{n}", end="")

    agf.tool(waiting if where == "loop" else plain, name="shout", registry=registry)
    _, events, _ = run(registry, EACH)
    for event in events:
        if isinstance(event, ev.StepPrinted):
            assert set(event.text) == {str(event.at[-1] + 1)}  # type: ignore[operator]
    assert set(prints_of(events)) == {"1", "2", "3"}


def test_a_tool_that_fails_has_its_prints(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        print("half of it")
        raise ValueError("no pears")

    ended, events, _ = run(registry)
    assert ended.error.code == "step.tool-failed"
    assert prints_of(events) == "half of it\n"
    kinds = [type(event) for event in events]
    assert kinds.index(ev.StepPrinted) < kinds.index(ev.StepFailed)


def test_prints_arrive_before_the_call_ends(registry: agf.Registry) -> None:
    has_arrived = threading.Event()

    @agf.tool(registry=registry, where="thread")
    def shout() -> bool:
        print("hello")
        return has_arrived.wait(30)

    def listen(event: ev.Event) -> None:
        if isinstance(event, ev.StepPrinted):
            has_arrived.set()

    assert agf.run(ONE, registry=registry, stream=True, on_event=listen).output is True


def test_a_listener_gets_no_prints_that_only_the_page_asked_for(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> bool:
        print("hello")
        return True

    heard: list[ev.Event] = []
    run = start_run(ONE, None, RunOptions(registry=registry, shown=True, on_event=heard.append)).wait()
    assert run.steps["steps[0]"].printed == "hello\n"
    assert ev.StepFinished in map(type, heard)
    assert ev.StepPrinted not in map(type, heard)


def test_the_last_state_of_a_progress_bar_is_shown(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        for step in range(3):
            print(f"\r{step} of 2", end="")
        print()

    ended, _, _ = run(registry)
    assert "prints: 2 of 2" in progress_text(ended.progress, now=0)


def test_prints_are_masked_in_events_and_rows(registry: agf.Registry) -> None:
    @agf.tool(registry=registry, secret=("token",))
    def shout(token: str) -> None:
        print("logs in with", token[:4], end="")
        print()
        print(*token, sep="", end="")

    text = "{pipeline: p, steps: [{tool: {name: shout, args: {token: !expr ctx.token}}}]}"
    events: list[ev.Event] = []
    run = agf.run(text, {"token": "hunter2-hunter2"}, registry=registry, stream=True, on_event=events.append)
    assert prints_of(events) == "logs in with hunt\n•••"
    assert "hunter2-hunter2" not in progress_text(run.progress, now=0)


def test_sys_stdout_is_the_old_one_after_the_run_and_is_never_touched_if_nobody_watches(
    registry: agf.Registry,
) -> None:
    outputs: list[Any] = []

    @agf.tool(registry=registry)
    def shout() -> None:
        outputs.append(sys.stdout)
        assert sys.stdout.writable()
        sys.stdout.writelines(["a", "b"])

    before = sys.stdout
    _, events, out = run(registry)
    assert prints_of(events) == out == "ab"
    assert sys.stdout is before
    with contextlib.redirect_stdout(io.StringIO()) as redirected:
        agf.run(ONE, registry=registry)
    assert outputs[-1] is redirected
    assert sys.stdout is before


def test_output_that_is_redirected_while_a_run_is_watched_is_put_back(registry: agf.Registry) -> None:
    is_running, may_end = threading.Event(), threading.Event()

    @agf.tool(registry=registry)
    def shout() -> None:
        is_running.set()
        may_end.wait(30)
        print("end")

    before = sys.stdout
    run = agf.start(ONE, registry=registry, stream=True)
    assert is_running.wait(30)
    with contextlib.redirect_stdout(io.StringIO()) as redirected:
        print("mine")
        may_end.set()
        run.wait()
    assert redirected.getvalue() == "mine\nend\n"
    print("after")
    agf.run("{pipeline: p, steps: [{transform: {value: '1'}}]}", registry=registry, stream=True)
    assert sys.stdout is before


def test_a_thread_of_a_tool_prints_for_itself(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        thread = threading.Thread(target=print, args=("from elsewhere",))
        thread.start()
        thread.join()

    _, events, out = run(registry)
    assert out == "from elsewhere\n"
    assert prints_of(events) == ""


def test_a_call_of_a_watched_run_that_is_left_running_has_the_name_of_its_tool(registry: agf.Registry) -> None:
    gate = threading.Event()

    @agf.tool(registry=registry, where="thread")
    def shout() -> None:
        gate.wait()

    try:
        _, events, _ = run(registry, limits=agf.Limits(timeout=0.01))
    finally:
        gate.set()
    assert [event.why for event in events if isinstance(event, ev.StepAbandoned)] == ["left running: shout"]


def steps_that_printed(events: list[ev.Event]) -> list[tuple[str, str]]:
    return [(format_path(event.at), event.text) for event in events if isinstance(event, ev.StepPrinted)]


def steps(*names: str) -> str:
    return "pipeline: p\nsteps:\n" + "".join(f"- tool: {{name: {name}}}\n" for name in names)


def test_the_tasks_of_a_call_print_for_it(registry: agf.Registry) -> None:
    async def line(n: int) -> None:
        print(n, end="")

    @agf.tool(registry=registry)
    async def shout() -> None:
        await asyncio.gather(*(line(n) for n in range(3)))

    _, events, _ = run(registry, steps("shout", "shout"))
    assert steps_that_printed(events) == [("steps[0]", "012"), ("steps[1]", "012")]


def test_a_task_that_outlives_its_call_prints_for_no_step(registry: agf.Registry) -> None:
    ticks = asyncio.Event()

    async def clock() -> None:
        while True:
            print("tick")
            ticks.set()
            await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []

    @agf.tool(registry=registry)
    async def start() -> None:
        tasks.append(asyncio.create_task(clock()))
        await ticks.wait()

    @agf.tool(registry=registry)
    async def go_on() -> None:
        ticks.clear()
        print("on")
        await ticks.wait()
        tasks[0].cancel()

    _, events, out = run(registry, steps("start", "go_on"))
    assert steps_that_printed(events) == [("steps[0]", "tick\n"), ("steps[1]", "on\n")]
    assert out.count("tick") > 1


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_call_prints_for_its_step_after_a_run_of_its_own(registry: agf.Registry, is_watched: bool) -> None:
    @agf.tool(registry=registry)
    async def inner() -> None:
        print("in", end=" ")
        await asyncio.sleep(0)

    @agf.tool(registry=registry)
    async def shout() -> None:
        print("before", end=" ")
        await agf.arun(steps("inner", "inner"), registry=registry, stream=is_watched)
        print("after", end="")

    _, events, _ = run(registry)
    assert prints_of(events) == ("before after" if is_watched else "before in in after")
    assert {event.at for event in events if isinstance(event, ev.StepPrinted)} == {("steps[0]",)}


def test_branches_that_wait_have_their_own_prints(registry: agf.Registry) -> None:
    def make(name: str) -> None:
        @agf.tool(name=name, registry=registry)
        async def shout() -> None:
            for _ in range(3):
                print(name, end="")
                await asyncio.sleep(0)

    make("a")
    make("b")
    both = "- parallel: {branches: {x: {tool: {name: a}}, y: {tool: {name: b}}}, collect: {transform: {value: pipe}}}"
    _, events, _ = run(registry, f"pipeline: p\nsteps:\n- tool: {{name: a}}\n{both}\n- tool: {{name: b}}\n")
    assert sorted(steps_that_printed(events)) == [
        ("steps[0]", "aaa"), ("steps[1].branches.x", "aaa"), ("steps[1].branches.y", "bbb"), ("steps[2]", "bbb"),
    ]  # fmt: skip


def test_a_listener_that_prints_does_not_do_it_for_the_call(registry: agf.Registry) -> None:
    has_arrived = asyncio.Event()

    @agf.tool(registry=registry)
    async def shout() -> None:
        print("hello")
        await has_arrived.wait()

    events: list[ev.Event] = []

    def listen(event: ev.Event) -> None:
        events.append(event)
        print(type(event).__name__)
        if isinstance(event, ev.StepPrinted):
            has_arrived.set()

    agf.run(steps("shout"), registry=registry, stream=True, on_event=listen)
    assert steps_that_printed(events) == [("steps[0]", "hello\n")]


def test_a_quick_call_on_a_thread_prints_after_its_start_and_before_its_end(registry: agf.Registry) -> None:
    @agf.tool(registry=registry, where="worker")
    def shout(n: int) -> None:
        if n % 50 == 0:
            print(n, end="")

    text = EACH.replace("[1, 2, 3]", "ctx.xs")
    events: list[ev.Event] = []
    agf.run(text, {"xs": list(range(500))}, registry=registry, stream=True, on_event=events.append)
    kinds: dict[StepPath, list[type]] = {}
    for event in events:
        if isinstance(event, (ev.StepStarted, ev.StepPrinted, ev.StepFinished)) and event.at[0] == "steps[0].do":
            kinds.setdefault(event.at, []).append(type(event))
    assert len(kinds) == 500
    for path, kinds_of_element in kinds.items():
        prints = path[-1] % 50 == 0  # type: ignore[operator]
        assert kinds_of_element == [ev.StepStarted, *([ev.StepPrinted] if prints else []), ev.StepFinished]
    texts = {event.at[-1]: event.text for event in events if isinstance(event, ev.StepPrinted)}
    assert texts == {n: str(n) for n in range(0, 500, 50)}


def test_a_function_on_a_thread_that_returns_a_coroutine_prints_for_its_element(registry: agf.Registry) -> None:
    @agf.tool(registry=registry, where="worker")
    def shout(n: int) -> Any:
        async def rest() -> None:
            await asyncio.sleep(0)
            print(n, end="")

        return rest()

    _, events, _ = run(registry, EACH)
    assert sorted(steps_that_printed(events)) == [(f"steps[0].do#{n}", str(n + 1)) for n in range(3)]
