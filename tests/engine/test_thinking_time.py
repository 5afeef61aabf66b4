"""The time in which the user thinks about a question counts for no time limit around the question (in virtual time)."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.host import job
from agf_magics.engine.host.deadline import Deadline, time_limits
from agf_magics.flow.flow import Declarations
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.question import Question
from agf_magics.flow.step_options import OwnLimits
from agf_magics.flow.steps import Branches
from tests.engine.small_flows import SPAN, Put, call, flow
from tests.engine.virtual_time import run_virtual

HOUR = 3_600.0
QUESTION = call("q", "q", lambda frame: {"text": "how many?"}, kind="question", target=Put("out"))
INNER = flow(QUESTION, name="inner")


def work(seconds: float, id: str = "w") -> Any:
    return call(id, "doze", lambda frame: {"seconds": seconds}, target=Put("out"))


def run_thinking(made: agf.Flow, think: float = HOUR, **limits: Any) -> tuple[agf.Run, list[ev.Event]]:
    """Run ``made``. A user answers each question after ``think`` seconds."""
    registry = agf.Registry()
    registry.flows.define(INNER, None)
    events: list[ev.Event] = []

    @agf.tool(registry=registry, where="loop")
    async def doze(**given: Any) -> str:
        await asyncio.sleep(given["seconds"])
        return "rested"

    async def ask(question: Question) -> str:
        await asyncio.sleep(think)
        return "5"

    run: agf.Run = run_virtual(
        agf.arun(made, registry=registry, ask=ask, limits=agf.Limits(**limits), raises=False, on_event=events.append)
    )
    return run, events


def capped(*steps: Any) -> agf.Flow:
    return flow(*steps, name="capped", declared=Declarations(own_limits=OwnLimits(seconds=10.0, span=SPAN)))


CALLS_INNER = call("c", "inner", lambda frame: {}, kind="flow", timeout=10.0, target=Put("out"))


@pytest.mark.parametrize(
    ("made", "limits"),
    [
        (flow(QUESTION), {"timeout": 10.0}),
        (flow(QUESTION), {"step_timeout": 10.0}),
        (capped(QUESTION), {}),
        (flow(CALLS_INNER), {}),
        (capped(CALLS_INNER), {"timeout": 10.0, "step_timeout": 10.0}),
    ],
)
def test_the_user_may_think_for_longer_than_any_time_limit(made: agf.Flow, limits: Any) -> None:
    run, _ = run_thinking(made, **limits)
    assert (run.status, run.output) == ("ok", "5"), run.error


@pytest.mark.parametrize(
    ("made", "limits", "code"),
    [
        (flow(work(6, "a"), QUESTION, work(6, "b")), {"timeout": 10.0}, "limit.timeout"),
        (capped(work(6, "a"), QUESTION, work(6, "b")), {}, "limit.duration"),
        (flow(work(4, "a"), QUESTION, work(4, "b")), {"timeout": 10.0}, None),
        (capped(work(4, "a"), QUESTION, work(4, "b")), {}, None),
    ],
)
def test_the_work_before_and_after_a_question_counts_together(made: agf.Flow, limits: Any, code: str | None) -> None:
    run, _ = run_thinking(made, **limits)
    assert (run.error and run.error.code) == code


def test_a_question_does_not_stop_the_time_of_a_flow_beside_it() -> None:
    slow = flow(work(60), name="inner", declared=Declarations(own_limits=OwnLimits(seconds=10.0, span=SPAN)))
    both = Branches(
        id="b", word="b", branches={"slow": call("s", "slow", lambda frame: {}, kind="flow"), "q": QUESTION}
    )
    registry_flow = replace(flow(both), name="both")

    async def ask(question: Question) -> str:
        await asyncio.sleep(HOUR)
        return "5"

    registry = agf.Registry()
    registry.flows.define(replace(slow, name="slow"), None)

    @agf.tool(name="doze", registry=registry, where="loop")
    async def doze(**given: Any) -> None:
        await asyncio.sleep(given["seconds"])

    events: list[ev.Event] = []
    run: agf.Run = run_virtual(
        agf.arun(registry_flow, registry=registry, ask=ask, raises=False, on_event=events.append)
    )
    assert run.error.code == "limit.duration"
    closed = [event for event in events if isinstance(event, ev.QuestionClosed)]
    assert [event.at for event in closed] == [("q",)], "the question closes with its run"
    assert run.progress.open_questions == {}


def test_several_questions_pause_a_limit_until_the_last_answer() -> None:
    questions = {name: call(name, name, lambda frame: {"text": "?"}, kind="question") for name in ("a", "b", "c")}
    run, events = run_thinking(flow(Branches(id="all", word="all", branches=questions)), timeout=10.0)
    assert run.status == "ok"
    assert sum(isinstance(event, ev.QuestionAnswered) for event in events) == 3


def test_an_answer_after_the_end_does_not_start_the_time_limit_again() -> None:
    class Host:
        grace = 0.0

        def stop(self, late: bool = False) -> None: ...
        def pause(self) -> None: ...
        def resume(self) -> None: ...

    async def ended() -> None:
        async with Deadline(10.0, Host()):
            *_, clock = time_limits.get()
            clock.pause()
        clock.resume()
        await asyncio.sleep(HOUR)  # would be cancelled

    run_virtual(ended())


def test_a_question_that_nobody_can_answer_closes() -> None:
    events: list[ev.Event] = []
    run = agf.run(flow(QUESTION), raises=False, on_event=events.append)
    assert run.status == "waiting"
    assert [type(event) for event in events if "Question" in type(event).__name__] == [
        ev.QuestionAsked,
        ev.QuestionClosed,
    ]


def test_a_blocking_run_is_not_ended_from_outside_while_the_user_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock on the wall, its time limit has been over for a long time."""
    monkeypatch.setattr(job, "LATE", 0.0)
    thinking = threading.Event()

    def ask(question: Question) -> str:
        thinking.wait(1.0)
        return "5"

    run = agf.run(flow(QUESTION), ask=ask, limits=agf.Limits(timeout=0.2), raises=False)
    assert (run.status, run.output) == ("ok", "5"), run.error
