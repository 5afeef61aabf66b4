"""`agf.ToolContext`: a running tool reports its progress and asks the user."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional, Union

import pytest

import agf_magics as agf
from agf_magics.engine.calls.tool_context import RunContact, hear
from agf_magics.flow.progress.events import (
    BackgroundCallEnded,
    Progressed,
    QuestionAnswered,
    QuestionAsked,
    StepFinished,
)
from agf_magics.lifecycle.runs.live import live
from agf_magics.pictures.pages.parts import progress_text
from agf_magics.pictures.pages.updates import Updates
from agf_magics.pictures.row_words import activity, share_of
from tests.engine import kept
from tests.engine.virtual_time import run_virtual
from tests.fans import fan_out
from tests.pictures.flows import progress_html

ONE = "pipeline: one\nsteps:\n- tool: {name: crawl, args: {url: a}}\n"
FAN = fan_out("crawl", argument="url", limit=4)
LANGUAGES = {
    "pipeline": ONE,
    "plan": "calls:\n- {_tool: crawl, url: a, _outputPath: $state.out}\noutput: $state.out\n",
    "graph": "name: g\nstate: {out: str}\nnodes:\n  n: {type: tool, tool: crawl, variables: {url: a}, state_key: out}\n"
    "edges:\n- {from: START, to: n}\n- {from: n, to: END}\n",
}


class Tools:
    """A registry with a tool `crawl`, and the events of its runs."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.registry, self.events = agf.Registry(), list[Any]()
        agf.tool(function, name="crawl", registry=self.registry, **options)

    def run(self, text: str = ONE, fields: Any = None, **options: Any) -> agf.Run:
        options = {"raises": False, "on_event": self.events.append, **options}
        return agf.run(agf.load(text, registry=self.registry), fields, registry=self.registry, **options)

    def run_virtual(self, text: str = ONE, fields: Any = None, **options: Any) -> agf.Run:
        flow = agf.load(text, registry=self.registry)
        options = {"raises": False, "on_event": self.events.append, **options}
        return run_virtual(agf.arun(flow, fields, registry=self.registry, **options))

    def of(self, kind: Any) -> list[Any]:
        return [event for event in self.events if type(event) is kind]


def plain(url: str, call: agf.ToolContext) -> str:
    call.progress(3, total=10, text="page 3")
    return url


async def waits(url: str, call: agf.ToolContext) -> str:
    call.progress(3, total=10, text="page 3")
    await asyncio.sleep(0)
    return url


PLACES = [(plain, None), (plain, "kernel"), (plain, "thread"), (plain, "loop"), (waits, None)]


@pytest.mark.parametrize(("function", "where"), PLACES)
def test_a_tool_reports_in_every_place(function: Any, where: Any) -> None:
    tools = Tools(function, where=where)
    assert tools.run().output == "a"
    assert [event[2:] for event in tools.of(Progressed)] == [(3.0, 10.0, "page 3")]
    assert tools.events.index(tools.of(Progressed)[0]) < tools.events.index(tools.of(StepFinished)[0])


@pytest.mark.parametrize("text", LANGUAGES.values(), ids=LANGUAGES)
def test_a_tool_reports_in_every_language(text: str) -> None:
    tools = Tools(plain)
    run = agf.run(
        agf.load(text, registry=tools.registry, name="it"), registry=tools.registry, on_event=tools.events.append
    )
    assert run.status == "ok"
    assert [event.text for event in tools.of(Progressed)] == ["page 3"]


def test_the_parameter_is_not_part_of_the_schema() -> None:
    tool = Tools(plain).registry.tools["crawl"]
    assert list(tool.accepts["properties"]) == ["url"]
    assert tool.takes == "url (text)"
    with pytest.raises(agf.DefinitionError, match="has no argument 'call'"):
        Tools(plain).run("pipeline: p\nsteps:\n- tool: {name: crawl, args: {url: a, call: b}}\n")


def test_the_annotation_may_be_a_class_optional_or_a_text() -> None:
    def one(call: agf.ToolContext) -> None: ...
    def other(call: agf.ToolContext | None = None) -> None: ...
    def third(call: int) -> None: ...

    one.__annotations__["call"], other.__annotations__["call"] = agf.ToolContext, agf.ToolContext | None
    names = [Tools(function).registry.tools["crawl"].context for function in (one, other, third, plain)]
    assert names == [("call",), ("call",), (), ("call",)]


def test_a_result_of_such_a_tool_is_reused(tmp_path: Path) -> None:
    calls = list[str]()

    def crawl(url: str, call: agf.ToolContext) -> str:
        calls.append(url)
        call.progress(1)
        return url

    crawl.__annotations__["call"] = agf.ToolContext  # the class itself, as in a cell
    tools = Tools(crawl)
    with kept.journal_in(tmp_path):
        tools.run()
        assert (tools.run(reuse=True).output, calls) == ("a", ["a"])


def test_an_agent_gets_no_context() -> None:
    def reviewer(prompt: str, call: agf.ToolContext) -> str:
        return prompt

    with pytest.raises(TypeError, match="only a tool gets"):
        agf.agent(reviewer, registry=agf.Registry())


def test_a_tool_of_an_agent_reports_for_its_step() -> None:
    tools = Tools(plain)

    @agf.agent(registry=tools.registry)
    def reviewer(prompt: str, tools: Any) -> Any:
        return tools["crawl"](url="a")

    run = tools.run("pipeline: p\nsteps:\n- agent: {prompt: go}\n")
    assert run.output == "a"
    assert [event.at for event in tools.of(Progressed)] == [("steps[0]",)]


def test_ten_reports_a_second_and_the_last_one_arrive() -> None:
    async def crawl(url: str, call: agf.ToolContext) -> str:
        for number in range(101):
            call.progress(number, total=100)
            await asyncio.sleep(0.01)
        return url

    tools = Tools(crawl)
    tools.run_virtual()
    reported = [event.done for event in tools.of(Progressed)]
    assert reported[0] == 0
    assert reported[-1] == 100
    assert 10 <= len(reported) <= 12


def test_another_thread_may_report() -> None:
    def crawl(url: str, call: agf.ToolContext) -> str:
        thread = threading.Thread(target=call.progress, args=(5,))
        thread.start()
        thread.join()
        return url

    tools = Tools(crawl)
    tools.run()
    assert [event[2:] for event in tools.of(Progressed)] == [(5.0, None, "")]


def test_nothing_is_reported_after_the_end_of_a_call() -> None:
    contexts = list[agf.ToolContext]()

    async def crawl(url: str, call: agf.ToolContext) -> str:
        contexts.append(call)
        return url

    tools = Tools(crawl)
    tools.run(LANGUAGES["pipeline"] + "- tool: {name: crawl, args: {url: b}}\n")
    for call in contexts:
        call.progress(1)
        with pytest.raises(agf.StepError, match="its call has ended"):
            asyncio.run(call.ask("Still there?"))
    assert tools.of(Progressed) == []


@pytest.mark.parametrize(
    "report",
    [(math.nan,), (math.inf,), (-1,), (1, -1), (1, math.nan), (1e16,), (True,), ("3",), (1, 2, 3), (10**400,)],
    ids=repr,
)
def test_wrong_progress_is_an_error_at_the_step(report: Any) -> None:
    def crawl(url: str, call: agf.ToolContext) -> str:
        call.progress(*report)
        return url

    tools = Tools(crawl)
    error = tools.run().error
    assert (error.code, tools.of(Progressed)) == ("tool.progress", [])
    assert error.diagnostic.span.text == "crawl"


# --- what is shown ---


def test_the_rows_show_a_bar_and_the_last_text() -> None:
    texts = list[Any]()

    async def crawl(url: str, call: agf.ToolContext) -> str:
        call.progress(2, total=10)
        call.progress(3, total=10, text="page <3>")
        await asyncio.sleep(0.2)
        progress = started[0].progress
        row = progress.rows["steps[0]",]
        texts.extend([activity(row), share_of(row), progress_html(progress, now=0), progress_text(progress, now=0)])
        texts.append(Updates(progress).complete(0)["rows"])
        return url

    tools = Tools(crawl)
    flow, started = agf.load(ONE, registry=tools.registry), list[agf.Run]()
    ready = threading.Event()

    def first(event: Any) -> None:
        ready.wait(5)

    started.append(agf.start(flow, registry=tools.registry, on_event=first))
    ready.set()
    started[0].result()
    text, share, page, lines, rows = texts
    assert (text, share) == ("3 of 10 · page <3>", 0.3)
    assert '<progress value="0.3" max="1"' in page
    assert "3 of 10 · page &lt;3&gt;" in page
    assert "3 of 10 · page <3>" in lines
    assert rows[0][4] == "3 of 10 · page <3>"
    assert rows[0][-2:] == [0.3, 0]
    assert activity(started[0].progress.rows["steps[0]",]) == ""


def test_of_many_calls_the_longest_running_one_is_shown() -> None:
    texts = list[str]()

    async def crawl(url: str, call: agf.ToolContext) -> str:
        call.progress(int(url))
        await asyncio.sleep(1)
        if url == "2":
            texts.append(activity(tools.of_run.progress.rows["steps[0].do",]))
        return url

    class Watched(Tools):
        of_run: agf.Run

    tools = Watched(crawl)

    async def main() -> agf.Run:
        flow = agf.load(FAN, registry=tools.registry)
        tools.of_run = agf.start(flow, {"xs": list("0123")}, registry=tools.registry)
        return await tools.of_run

    asyncio.run(main())
    assert texts in (["#0: 0, and 3 more"], ["#1: 1, and 2 more"], ["#2: 2, and 1 more"])


def test_secrets_are_masked() -> None:
    def crawl(url: str, token: str, call: agf.ToolContext) -> str:
        call.progress(1, text=f"with {token}")
        return url

    tools = Tools(crawl, secret=["token"])
    tools.run("pipeline: p\nsteps:\n- tool: {name: crawl, args: {url: a, token: hunter2hunter2}}\n")
    assert [event.text for event in tools.of(Progressed)] == ["with •••"]


# --- questions ---


def asks_and_waits(url: str, call: agf.ToolContext) -> str:
    return call.ask_and_wait(f"Follow {url}?", choices=["yes", "no"])


async def asks(url: str, call: agf.ToolContext) -> str:
    return await call.ask(f"Follow {url}?", choices=["yes", "no"])


def asks_on_a_loop(url: str, call: agf.ToolContext) -> str:
    return asyncio.run(asks(url, call))


def asks_on_a_thread(url: str, call: agf.ToolContext) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asks_and_waits, url, call).result()


ASKING = [
    *((asks_and_waits, where) for where in (None, "kernel", "thread")),
    *((asks_on_a_loop, where) for where in ("kernel", "thread")),
    *((asks_on_a_thread, where) for where in ("kernel", "thread")),
    (asks, None),
]


@pytest.mark.parametrize(("function", "where"), ASKING)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_asks_in_every_place(function: Any, where: Any, is_async: bool) -> None:
    async def later(question: agf.Question) -> str:
        return question.choices[1]

    tools = Tools(function, where=where)
    run = tools.run(ask=later if is_async else lambda question: question.choices[1])
    assert run.output == "no", run.error
    (asked_event,) = tools.of(QuestionAsked)
    assert asked_event.question == agf.Question("Follow a?", ("yes", "no"), where="steps[0]")
    assert [event.answer for event in tools.of(QuestionAnswered)] == ["no"]


@pytest.mark.parametrize("where", [None, "kernel"])
def test_a_tool_is_interrupted_after_its_question_as_before_it(where: Any) -> None:
    done = list[str]()

    def crawl(url: str, call: agf.ToolContext) -> None:
        done.append(call.ask_and_wait(f"Follow {url}?"))
        signal.raise_signal(signal.SIGINT)
        done.append("went on")

    with pytest.raises(KeyboardInterrupt):
        Tools(crawl, where=where).run(ask=lambda question: "yes")
    assert done == ["yes"]


def test_the_question_of_a_plain_tool_is_put_on_the_thread_that_waits() -> None:
    threads = list[threading.Thread]()

    def answer(question: agf.Question) -> str:
        threads.append(threading.current_thread())
        return "yes"

    Tools(asks_and_waits).run(ask=answer)
    assert threads == [threading.current_thread()]


TURNS = 200
"""The turns of the loop that are enough for all calls on it to ask, if nothing holds them back."""


@pytest.mark.parametrize("function", [asks, asks_and_waits])
def test_calls_next_to_each_other_ask_one_after_another(function: Any) -> None:
    tools = Tools(function)
    open_now, most = list[str](), list[int]()

    async def answer(question: agf.Question) -> str:
        open_now.append(question.text)
        most.append(len(open_now))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        open_now.remove(question.text)
        return "yes"

    assert tools.run(FAN, {"xs": list("abcd")}, ask=answer).output == ["yes"] * 4
    assert most == [1] * 4


@pytest.mark.parametrize(("function", "where"), ASKING)
def test_without_a_user_the_call_fails_and_the_run_does_not_wait(function: Any, where: Any) -> None:
    run = Tools(function, where=where).run()
    assert (run.status, run.error and run.error.code) == ("error", "step.no-user")
    assert "Follow a?" in str(run.error)


def test_on_error_applies_to_a_question_without_a_user() -> None:
    text = "pipeline: one\nsteps:\n- tool: {name: crawl, args: {url: a}, on_error: continue}\n"
    assert Tools(asks).run(text).status == "ok"


def test_the_time_of_the_call_pauses_while_a_question_is_open() -> None:
    async def after_an_hour(question: agf.Question) -> str:
        await asyncio.sleep(3600)
        return "yes"

    run = Tools(asks, timeout=5).run_virtual(ask=after_an_hour)
    assert run.output == "yes", run.error


@pytest.mark.parametrize(("function", "where"), ASKING)
@pytest.mark.parametrize("limit", ["tool", "run"])
def test_the_time_pauses_wherever_the_question_comes_from(function: Any, where: Any, limit: str) -> None:
    async def after_a_second(question: agf.Question) -> str:
        await asyncio.sleep(1)  # longer than the time limit
        return "yes"

    seconds = 0.5
    tools = Tools(function, where=where, timeout=seconds if limit == "tool" else None)
    run = tools.run(ask=after_a_second, limits=agf.Limits(timeout=seconds if limit == "run" else None))
    assert run.output == "yes", run.error


@pytest.mark.parametrize("where", ["kernel", "thread", None])
def test_the_time_of_an_agent_pauses_while_its_tool_asks_from_a_thread(where: Any) -> None:
    async def after_a_second(question: agf.Question) -> str:
        await asyncio.sleep(1)
        return "yes"

    tools = Tools(asks_on_a_thread)

    @agf.agent(registry=tools.registry, timeout=0.5, where=where)
    def reviewer(prompt: str, tools: Any) -> Any:
        return tools["crawl"](url="a")

    run = tools.run("pipeline: p\nsteps:\n- agent: {prompt: go}\n", ask=after_a_second)
    assert run.output == "yes", run.error


@pytest.mark.parametrize(("function", "where"), [(asks, None), (asks_and_waits, None), (asks_on_a_thread, "thread")])
def test_a_call_that_nobody_waits_for_may_ask(function: Any, where: Any) -> None:
    tools, answers, ended = Tools(function, where=where), list[str](), threading.Event()

    def hear(event: Any) -> None:
        tools.events.append(event)
        if type(event) is BackgroundCallEnded:
            ended.set()

    def answer(question: agf.Question) -> str:
        answers.append(question.text)
        return "yes"

    flow = agf.load("calls:\n- {_tool: crawl, url: a}\n", registry=tools.registry)
    agf.run(flow, registry=tools.registry, ask=answer, on_event=hear)
    assert ended.wait(20)
    assert [event.error for event in tools.of(BackgroundCallEnded)] == [None]
    assert answers == ["Follow a?"]


def test_a_flow_that_nobody_waits_for_may_ask_after_the_end_of_the_run() -> None:
    run_has_ended, ended, registry, ends = threading.Event(), threading.Event(), agf.Registry(), list[Any]()
    agf.tool(lambda: run_has_ended.wait(20), name="hold", registry=registry, where="thread")
    asking = "name: asking\nnodes:\n  h: {type: tool, tool: hold, state_key: held}\n"
    asking += "  q: {type: interrupt, message: Go?, resume_key: a}\n"
    asking += "edges:\n- {from: START, to: h}\n- {from: h, to: q}\n- {from: q, to: END}\n"
    registry.flows.define(agf.load(asking, registry=registry), None)

    def hear(event: Any) -> None:
        if type(event) is BackgroundCallEnded:
            ends.append(event.error)
            ended.set()

    flow = agf.load("calls:\n- {_tool: asking}\n", registry=registry)
    agf.run(flow, registry=registry, ask=lambda question: "yes", on_event=hear)
    run_has_ended.set()
    assert ended.wait(20)
    assert ends == [None]


def test_a_report_that_arrives_late_is_that_of_no_other_call() -> None:
    """A worker sends the report of a call a second after it, when the call has ended."""
    numbers = list[int]()

    async def crawl(url: str, call: agf.ToolContext) -> str:
        contact: Any = call._contact
        for _ in range(50):  # the contacts of calls that have ended
            numbers.append(RunContact(contact._site, "worker").__reduce__()[1][0])
        contact.__reduce__()
        for ended in numbers:
            hear(ended, 7.0, None, "of another call")
        await asyncio.sleep(0.2)
        return url

    tools = Tools(crawl)
    assert tools.run_virtual().status == "ok"
    assert len(set(numbers)) == 50
    assert tools.of(Progressed) == []


def test_the_time_before_and_after_a_question_counts() -> None:
    async def crawl(url: str, call: agf.ToolContext) -> str:
        await asyncio.sleep(3)
        await call.ask("Go on?")
        await asyncio.sleep(3)
        return url

    async def after_an_hour(question: agf.Question) -> str:
        await asyncio.sleep(3600)
        return "yes"

    run = Tools(crawl, timeout=5).run_virtual(ask=after_an_hour)
    assert run.error.code == "step.timeout"


@pytest.mark.parametrize(
    ("question", "choices"),
    [("", ()), (3, ()), ("which?", "ab"), ("which?", [1]), ("which?", ["a"] * 101)],
    ids=["empty", "number", "text", "numbers", "many"],
)
def test_a_wrong_question_is_an_error(question: Any, choices: Any) -> None:
    async def crawl(url: str, call: agf.ToolContext) -> str:
        return await call.ask(question, choices)

    run = Tools(crawl).run(ask=lambda question: "yes")
    assert run.error.code == "tool.ask"


def test_an_answer_that_is_not_a_choice_fails_the_call() -> None:
    run = Tools(asks).run(ask=lambda question: "maybe")
    assert run.error.code == "step.question-failed"
    assert "must be 'yes' or 'no', got 'maybe'" in str(run.error)


def test_waiting_on_the_loop_is_an_error() -> None:
    async def crawl(url: str, call: agf.ToolContext) -> str:
        return call.ask_and_wait("Go on?")

    run = Tools(crawl).run(ask=lambda question: "yes")
    assert run.error.code == "tool.ask"
    assert "await call.ask" in str(run.error)


@pytest.mark.parametrize("where", ["kernel", "thread"])
def test_a_cancelled_run_closes_the_question_of_its_tool(where: Any) -> None:
    is_asked = threading.Event()

    async def never(question: agf.Question) -> str:
        is_asked.set()
        await asyncio.Event().wait()
        return "yes"

    def cancel() -> None:
        assert is_asked.wait(60)
        (running,) = (run for run in live.running if run.name == "one")
        running.cancel()

    # The run is in the foreground, because the kernel's thread serves the tools that are bound to it only while it
    # waits.
    person = threading.Thread(target=cancel)
    person.start()
    run = Tools(asks_and_waits, where=where).run(ask=never)
    person.join()
    assert (run.status, run.progress.open_questions) == ("cancelled", {})
    assert run.steps["steps[0]"].state == "cancelled"


@pytest.mark.parametrize(
    "annotation",
    [
        "ToolContext",
        "agf.ToolContext",
        "ToolContext | None",
        "None | agf.ToolContext",
        "Optional[ToolContext]",
        "Optional[agf.ToolContext]",
        "Union[agf.ToolContext, None]",
    ],
)
def test_a_context_is_found_in_an_annotation_that_is_a_text(annotation: str) -> None:
    def reports(x: int, call: Any = None) -> str:
        return type(call).__name__

    reports.__annotations__["call"] = annotation
    names = {"ToolContext": agf.ToolContext, "agf": agf, "Optional": Optional, "Union": Union}
    registry = agf.Registry()
    tool = types.FunctionType(reports.__code__, names, "reports", (None,))
    tool.__annotations__ = reports.__annotations__
    agf.tool(tool, registry=registry)
    assert registry.tools["reports"].context == ("call",)
    text = "pipeline: p\nsteps:\n- tool: {name: reports, args: {x: 1}}\n"
    assert agf.run(text, registry=registry).output == "ToolContext"


# --- outside of a run ---


def test_a_tool_can_be_called_directly() -> None:
    assert plain("a", agf.ToolContext()) == "a"
    assert asyncio.run(waits("a", agf.ToolContext())) == "a"
    assert asks_and_waits("a", agf.ToolContext(ask=lambda question: question.choices[0])) == "yes"
    assert asyncio.run(asks("a", agf.ToolContext(ask=lambda question: "no"))) == "no"
    with pytest.raises(agf.StepError, match="there is no run") as caught:
        asks_and_waits("a", agf.ToolContext())
    assert caught.value.code == "step.no-user"
    with pytest.raises(agf.StepError, match="must be a number from 0"):
        agf.ToolContext().progress(math.nan)
