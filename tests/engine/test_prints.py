"""What tools print, under their steps."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import threading
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.pictures.page import progress_html, progress_text
from agf_magics.progress import events as ev

ONE = "{pipeline: p, steps: [{tool: {name: shout}}]}"
EACH = """
pipeline: p
steps:
- for_each: {over: "[1, 2, 3]", on_error: abort, do: {tool: {name: shout, args: {n: !expr item}}}, collect: {transform: {value: pipe}}}
"""  # noqa: E501


@pytest.fixture
def registry() -> agf.Registry:
    return agf.Registry()


def printed(seen: list[ev.Event]) -> str:
    return "".join(event.text for event in seen if isinstance(event, ev.StepPrinted))


def run(registry: agf.Registry, text: str = ONE, **options: Any) -> tuple[agf.Run, list[ev.Event], str]:
    seen: list[ev.Event] = []
    with contextlib.redirect_stdout(io.StringIO()) as out:
        options = {"stream": True, "raises": False, **options}
        made = agf.run(text, registry=registry, on_event=seen.append, **options)
    return made, seen, out.getvalue()


def test_what_a_tool_prints_is_under_its_step_and_still_in_the_output(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        print("page", 1)
        print("page", 2)

    made, seen, out = run(registry)
    assert printed(seen) == out == "page 1\npage 2\n"
    assert {event.at for event in seen if isinstance(event, ev.StepPrinted)} == {("steps[0]",)}
    assert "… prints: page 1 page 2" in progress_text(made.progress, now=0)
    assert "prints: page 1\npage 2" in progress_html(made.progress, now=0)


@pytest.mark.parametrize("where", ["thread", "loop"])
def test_calls_that_run_at_the_same_time_have_their_own_prints(registry: agf.Registry, where: str) -> None:
    def plain(n: int) -> None:
        print(f"{n}", end="")

    async def waiting(n: int) -> None:
        print(f"{n}", end="")
        await asyncio.sleep(0)
        print(f"{n}", end="")

    agf.tool(waiting if where == "loop" else plain, name="shout", registry=registry)
    _, seen, _ = run(registry, EACH)
    for event in seen:
        if isinstance(event, ev.StepPrinted):
            assert set(event.text) == {str(event.at[-1] + 1)}  # type: ignore[operator]
    assert set(printed(seen)) == {"1", "2", "3"}


def test_a_tool_that_fails_has_its_prints(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        print("half of it")
        raise ValueError("no pears")

    made, seen, _ = run(registry)
    assert made.error is not None
    assert made.error.code == "step.tool-failed"
    assert printed(seen) == "half of it\n"
    kinds = [type(event) for event in seen]
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


def test_the_last_state_of_a_progress_bar_is_shown(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        for done in range(3):
            print(f"\r{done} of 2", end="")
        print()

    made, _, _ = run(registry)
    assert "prints: 2 of 2" in progress_text(made.progress, now=0)


def test_prints_are_masked_in_events_and_rows(registry: agf.Registry) -> None:
    @agf.tool(registry=registry, secret=("token",))
    def shout(token: str) -> None:
        print("logs in with", token[:4], end="")
        print()
        print(*token, sep="", end="")

    text = "{pipeline: p, steps: [{tool: {name: shout, args: {token: !expr ctx.token}}}]}"
    seen: list[ev.Event] = []
    made = agf.run(text, {"token": "hunter2-hunter2"}, registry=registry, stream=True, on_event=seen.append)
    assert printed(seen) == "logs in with hunt\n•••"
    assert "hunter2-hunter2" not in progress_text(made.progress, now=0)


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
    _, seen, out = run(registry)
    assert printed(seen) == out == "ab"
    assert sys.stdout is before
    with contextlib.redirect_stdout(io.StringIO()) as own:
        agf.run(ONE, registry=registry)
    assert outputs[-1] is own
    assert sys.stdout is before


def test_output_that_is_redirected_while_a_run_is_watched_is_put_back(registry: agf.Registry) -> None:
    is_running, may_end = threading.Event(), threading.Event()

    @agf.tool(registry=registry)
    def shout() -> None:
        is_running.set()
        may_end.wait(30)
        print("end")

    before = sys.stdout
    made = agf.start(ONE, registry=registry, stream=True)
    assert is_running.wait(30)
    with contextlib.redirect_stdout(io.StringIO()) as own:
        print("mine")
        may_end.set()
        made.wait()
    assert own.getvalue() == "mine\nend\n"
    print("after")
    agf.run("{pipeline: p, steps: [{transform: {value: '1'}}]}", registry=registry, stream=True)
    assert sys.stdout is before


def test_a_thread_of_a_tool_prints_for_itself(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def shout() -> None:
        thread = threading.Thread(target=print, args=("from elsewhere",))
        thread.start()
        thread.join()

    _, seen, out = run(registry)
    assert out == "from elsewhere\n"
    assert printed(seen) == ""


def test_a_call_of_a_watched_run_that_is_left_running_has_the_name_of_its_tool(registry: agf.Registry) -> None:
    gate = threading.Event()

    @agf.tool(registry=registry, where="thread")
    def shout() -> None:
        gate.wait()

    try:
        _, seen, _ = run(registry, limits=agf.Limits(timeout=0.01))
    finally:
        gate.set()
    assert [event.why for event in seen if isinstance(event, ev.StepAbandoned)] == ["left running: shout"]
