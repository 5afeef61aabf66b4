"""The part of the conversations with models that a cell saves."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.flow.progress import events as ev
from agf_magics.flow.sessions.session import ANSWER_NOW
from agf_magics.notebook.display.conversation import MOST_SAVED, conversations_html
from agf_magics.notebook.explorer.calls import CALL_REQUESTS
from agf_magics.notebook.explorer.request_types import AnyRun
from agf_magics.notebook.explorer.requests import requests_of, session_of
from agf_magics.pictures.pages.run_page import run_html
from agf_magics.pictures.values import BLOCK
from agf_magics.settings.settings import current
from tests.engine.virtual_time import run_virtual

ASKS = """\
pipeline: prices
steps:
- title: Price the figs
  agent: {prompt: "What do {ctx.fruit} cost?", capabilities: {tools: [price]}, output: reply}
"""


def registry_of(size: int) -> Registry:
    registry = Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> str:
        return "<b>4</b>" + "x" * size

    def talk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("price", {"fruit": "figs"})])
        return ModelResponse([TextPart("They cost\n\n**four**.")])

    registry.choose(FunctionModel(talk))
    return registry


def run_asking(tmp_path: Path, size: int = 0, steps: str = ASKS) -> agf.Run:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    return agf.run(steps, {"fruit": "figs"}, registry=registry_of(size))


def test_the_saved_page_has_the_prompt_the_call_its_result_and_the_reply(tmp_path: Path) -> None:
    page = conversations_html(run_asking(tmp_path))
    assert page.count("<details>") >= 1
    for part in (
        "Price the figs",
        "What do figs cost?",
        "⚙ <strong>price",
        "&lt;b&gt;4&lt;/b&gt;",
        "<strong>four</strong>",
    ):
        assert part in page, part
    assert "<b>4" not in page
    assert f'<pre style="{BLOCK};font-family:monospace">What do figs cost?</pre>' in page


def test_what_a_model_answered_is_markdown_in_the_output_the_stores_and_each_moment(tmp_path: Path) -> None:
    run = run_asking(tmp_path)
    for view in (run, agf.runs(run.run_id)):
        assert run_html(view).count("<strong>four</strong>") == 2  # the output and the store
        requests = requests_of(view)
        (step,) = {session_of(view, row) for row in view.progress.rows.values() if session_of(view, row)}
        answers = [
            requests["run"]({})["output"], requests["store"]({"number": 1}), requests["step"]({"step": step})["output"],
            *(row[1] for row in map(tuple, requests["moment"]({"at": 1, "since": 0})["values"]) if row[0] == "reply"),
        ]  # fmt: skip
        assert len(answers) == 4
        assert all(answer.get("markdown") and answer["text"] == "They cost\n\n**four**." for answer in answers)
        assert "markdown" not in requests["store"]({"number": 0})  # the text of a person
        assert json.loads(requests["text"]({})["text"]) == "They cost\n\n**four**."


def test_a_run_without_a_model_or_without_a_journal_has_no_conversation(tmp_path: Path) -> None:
    assert conversations_html(run_asking(tmp_path, steps='{pipeline: p, steps: [{transform: {value: "1"}}]}')) == ""
    current.settings = replace(current.settings, journal="")
    run = agf.run(ASKS, {"fruit": "figs"}, registry=registry_of(0))
    assert conversations_html(run) == ""


def test_long_conversations_are_named_with_their_place(tmp_path: Path) -> None:
    steps = "pipeline: many\nsteps:\n" + "".join(
        f'- agent: {{prompt: "{"word " * 1_500} {{ctx.fruit}} {n}?", output: r{n}}}\n' for n in range(12)
    )
    page = conversations_html(run_asking(tmp_path, steps=steps))
    assert len(page) < MOST_SAVED + 500
    assert "more conversations" in page


EACH = """\
pipeline: prices
steps:
- for_each:
    over: ctx.fruits
    on_error: abort
    do: {agent: {prompt: "What do {item} cost?", capabilities: {tools: [price]}}}
    collect: {transform: {value: pipe}}
"""


def test_the_calls_of_agents_in_a_fan_out_are_in_the_order_of_the_elements_and_turns(tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    run = agf.run(EACH, {"fruits": [f"fruit {number}" for number in range(12)]}, registry=registry_of(0))
    turns = ("request 1", "price", "request 2")
    in_order = [f"#{number} · {turn}" for number in range(12) for turn in turns]
    for shown in (run, agf.runs(run.run_id)):
        for step, order in (("steps[0].do", "element"), ("steps[0].do", None), ("steps[0]", "element")):
            page = CALL_REQUESTS["calls"](shown, {"step": step, "order": order})
            assert [row["at"].removeprefix("each of fruits ") for row in page["rows"]] == in_order, (step, order)


STOCK = """\
pipeline: stock
steps:
- tool: {name: price, args: {fruit: !expr ctx.fruit}}
"""
CLERK = """\
pipeline: prices
steps:
- agent: {prompt: "What do figs cost?", identity: clerk, output: reply}
"""
POLICY = """\
schema_version: "1.0.0"
metadata: {id: prices, name: Prices, version: "1.0.0", description: Prices}
interface: {input: {}, output: {}}
action_space: {local_tools: [{alias: price}, {alias: stock}]}
execution_policy:
  id: agf.react
  config: {model: "openai:gpt-4o", instructions: Be strict., user_prompt_template: "What do {{fruit}} cost?"}
"""
CALLS = [("price", "figs"), ("price", "kiwi"), ("stock", "pears"), ("price", "nuts")]
COST = {"type": "object", "properties": {"cost": {"type": "integer"}}, "required": ["cost"]}


Replies = Sequence[Sequence[ModelResponsePart]]


def clerk_of(replies: Replies, instructions: str, **options: Any) -> Registry:
    """A registry with the agent ``clerk``, who replies with ``replies``. The price of figs comes last."""
    registry = Registry()
    has_nuts = asyncio.Event()

    @agf.tool(registry=registry)
    async def price(fruit: str) -> str:
        if fruit == "kiwi":
            raise ValueError("no kiwi")
        if fruit == "figs":
            await has_nuts.wait()
        elif fruit == "nuts":
            has_nuts.set()
        return f"price of {fruit}"

    others = iter(replies)
    model = FunctionModel(lambda messages, info: ModelResponse(next(others)))
    agf.define(STOCK, registry=registry)
    names = ["price", "stock"]
    agf.model_agent("clerk", model=model, instructions=instructions, tools=names, registry=registry, **options)
    registry.choose(model)
    return registry


def messages_of(run: AnyRun) -> list[dict[str, Any]]:
    (step,) = {id for row in run.progress.rows.values() if (id := session_of(run, row))}
    messages: list[dict[str, Any]] = requests_of(run)["session"]({"step": step})["messages"]
    return messages


@pytest.mark.parametrize("text", [CLERK, POLICY])
def test_a_conversation_begins_with_the_instructions_and_has_each_result_below_its_call(
    text: str, tmp_path: Path
) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    replies: Replies = [[ToolCallPart(tool, {"fruit": fruit}) for tool, fruit in CALLS], [TextPart("They cost four.")]]
    run = agf.run(text, {"fruit": "figs"}, registry=clerk_of(replies, "Be strict."))
    for view in (run, agf.runs(run.run_id)):
        instructions, prompt, asks, answer = messages_of(view)
        assert instructions == {"who": "instructions", "text": "Be strict."}
        assert (prompt["who"], prompt["text"], answer["text"]) == ("user", "What do figs cost?", "They cost four.")
        assert [(call["tool"], call["given"]) for call in asks["calls"]] == [
            (tool, f'fruit: "{fruit}"') for tool, fruit in CALLS
        ]
        figs, kiwi, pears, nuts = asks["calls"]
        assert [call["result"]["text"] for call in (figs, nuts)] == ["price of figs", "price of nuts"]
        assert "no kiwi" in kiwi["error"]
        assert pears["text"] == "price of pears"  # of a flow the model got a text; the calls in it are not the model's
    page = conversations_html(run)
    order = ("Be strict.", "What do", "<strong>price", "price of figs", "no kiwi", "<strong>stock", "price of pears")
    places = [page.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)


def test_what_a_model_is_told_about_its_answer_is_in_the_conversation(tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    replies: Replies = [[TextPart("four")], [ToolCallPart("price", {"fruit": "pears"})], [TextPart('{"cost": 4}')]]
    run = agf.run(CLERK, {}, registry=clerk_of(replies, "Be strict.", gives=COST, max_steps=3))
    for view in (run, agf.runs(run.run_id)):
        said = [(message["who"], message["text"][:25]) for message in messages_of(view)]
        assert said == [
            ("instructions", "Be strict."),
            ("user", "What do figs cost?"),
            ("model", "four"),
            ("user", "Your answer cannot be used"[:25]),
            ("model", ""),
            ("user", ANSWER_NOW[:25]),
            ("model", '{"cost": 4}'),
        ]


def test_long_instructions_are_folded_and_secrets_in_them_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLERKS_TOKEN", "tk-4711-secret")
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    run = agf.run(CLERK, {}, registry=clerk_of([[TextPart("four")]], "Say tk-4711-secret. " * 40))
    instructions, *_ = messages_of(run)
    assert instructions["title"].endswith(" characters")
    page = conversations_html(run)
    assert f"<summary>{instructions['title']}</summary>" in page
    assert "Say •••" in page
    assert "tk-4711" not in page + json.dumps(messages_of(run))
    assert len(conversations_html(agf.run(CLERK, {}, registry=clerk_of([[TextPart("4")]], "x" * 90_000)))) < MOST_SAVED


FAN = """\
pipeline: prices
steps:
- for_each:
    items: [pear, fig, plum, kiwi, nut]
    on_error: continue
    max_parallel: 5
    do: {agent: {prompt: "What does one {item} cost?", identity: teller}}
    collect: {transform: {value: pipe}}
"""


class Teller:
    """Streams the replies of the agent ``teller``: about a fig none, about a nut one that is not valid, about a plum
    and a kiwi one that goes on until it is in `told`."""

    def __init__(self) -> None:
        self.told = set[str]()
        self.news = threading.Condition()
        self.registry = Registry()
        agf.model_agent("teller", model=FunctionModel(stream_function=self._say), gives=COST, max_steps=1,
                        registry=self.registry)  # fmt: skip

    async def _say(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        name = str(messages[0].parts[-1].content).split()[-2]  # type: ignore[union-attr]
        if name == "fig":
            raise ValueError("no fig")
        yield '{"cost": '
        while name in ("plum", "kiwi") and name not in self.told:
            yield " "
            await asyncio.sleep(0.01)
        yield "much" if name == "nut" else "4}"

    def hear(self, event: object) -> None:
        with self.news:
            self.news.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until this is true, which may be after any event of the run."""
        with self.news:
            assert self.news.wait_for(condition, 30)


def sessions_of(run: AnyRun, **given: Any) -> dict[str, Any]:
    (step,) = {id for row in run.progress.rows.values() if (id := session_of(run, row))}
    answer: dict[str, Any] = requests_of(run)["session"]({"step": step, **given})
    return answer | {"states": [f"#{row[0][0]} {row[1]}" for row in answer["sessions"]]}


def arrives(run: AnyRun, number: int) -> bool:
    """Whether the reply of a session arrives, from its beginning on."""
    messages = sessions_of(run, index=[number])["messages"]
    return any(message.get("arriving") and message["text"].startswith('{"cost":') for message in messages)


def test_the_sessions_of_a_fan_out_have_their_states_and_the_one_that_gets_a_reply_is_shown(tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    teller = Teller()
    run = agf.start(FAN, registry=teller.registry, stream=True, on_event=teller.hear)
    states = ["#0 ok", "#1 failed", "#2 running", "#3 running", "#4 failed"]
    for number in (2, 3):
        teller.wait_for(partial(arrives, run, number))
    teller.wait_for(lambda: sessions_of(run)["states"] == states)
    asked = [f"What does one {fruit} cost?" for fruit in ("pear", "fig", "plum", "kiwi")]
    assert [row.input for row in sessions_of(run)["sessions"][:4]] == asked
    shown = sessions_of(run)["index"]
    (other,) = {2, 3} - {*shown}
    for given, expected in (
        ({"index": [0]}, [0]),  # a person has chosen it
        ({"index": [other]}, [other]),
        ({"index": shown, "follows": True}, shown),
        ({"index": [0], "follows": True}, shown),  # it has ended
    ):
        assert sessions_of(run, **given)["index"] == expected
    teller.told.add(("plum", "kiwi")[shown[0] - 2])
    teller.wait_for(lambda: f"#{shown[0]} ok" in sessions_of(run)["states"])
    assert sessions_of(run, index=shown, follows=True)["index"] == [other]
    run.cancel()
    with pytest.raises(agf.RunCancelled):
        run.wait(30).result()
    for view in (run, agf.runs(run.run_id)):
        at_end = sessions_of(view)
        assert at_end["index"] == [1]  # the first that failed
        assert at_end["states"] == [*states[:2], f"#{shown[0]} ok", states[4]]
        assert [row.input for row in at_end["sessions"][:2]] == asked[:2]
        assert sessions_of(view, index=[0], follows=True)["index"] == [0]
        of_element = requests_of(view)["element"]
        elements = [of_element({"step": "steps[0]", "index": [number]}) for number in (0, 1, 4)]
        assert [element["failed"] for element in elements] == [False, True, True]
        # The conversation has the failure of a request; a reply that is not valid is no failed call.
        assert [element.get("lead", {}).get("error", "")[:13] for element in elements] == ["", "", "the reply is "]
        ((step, name),) = elements[0]["sessions"]
        assert name == "teller"
        for number, said in ((0, "pear"), (1, "fig")):
            answer = requests_of(view)["session"]({"step": step, "element": [number]})
            assert (answer["total"], answer["messages"][0]["text"]) == (1, f"What does one {said} cost?")


LOOKING = """\
pipeline: prices
steps:
- for_each:
    items: [pear, plum]
    on_error: continue
    do: {agent: {prompt: "{item}?", identity: looker}}
    collect: {transform: {value: pipe}}
"""


def test_a_session_that_is_cancelled_in_a_tool_is_not_ok(tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    registry, looks, found = Registry(), threading.Event(), threading.Event()

    @agf.tool(registry=registry)
    async def look(fruit: str) -> str:
        looks.set()
        await asyncio.to_thread(found.wait)
        return fruit

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        is_plum = messages[0].parts[-1].content == "plum?"  # type: ignore[union-attr]
        return ModelResponse([ToolCallPart("look", {"fruit": "plum"}) if is_plum else TextPart("four")])

    agf.model_agent("looker", model=FunctionModel(say), tools=["look"], registry=registry)
    run = agf.start(LOOKING, registry=registry)
    assert looks.wait(30)
    assert sessions_of(run)["states"] == ["#0 ok", "#1 running"]
    run.cancel()
    with pytest.raises(agf.RunCancelled):
        run.wait(30).result()
    found.set()
    for view in (run, agf.runs(run.run_id)):
        assert sessions_of(view)["states"] == ["#0 ok", "#1 cancelled"]


# --- replies that break off ---


class Server(FunctionModel):
    """A server with OpenAI's protocol, which marks the end of each reply."""

    system = "server"


BROKEN = {
    "the end mark is missing": "model.unended",
    "the connection is closed": "model.broken-off",
    "the time limit is reached": "model.timeout",
}
"""The code of the error, by how a reply breaks off."""


def broken_run(tmp_path: Path, how: str) -> agf.Run:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    registry = Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> str:
        return "4"

    @agf.tool(registry=registry, secret="key")
    def unlock(key: str) -> str:
        return "open"

    async def talk(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaThinkingPart(content="A fruit?")}
        yield "They cost **four**"
        yield {1: DeltaToolCall(name="unlock", json_args='{"key": "hunter2"}', tool_call_id="c1")}
        yield {2: DeltaToolCall(name="price", json_args='{"fruit": "fi', tool_call_id="c2")}
        if how == "the connection is closed":
            raise ConnectionError("closed")
        if how == "the time limit is reached":
            await asyncio.sleep(3600)

    registry.choose(Server(stream_function=talk, model_name="m"))
    steps = ASKS.replace("[price]", "[price, unlock]")
    limits = agf.Limits(model_timeout=5)
    return run_virtual(agf.arun(steps, {"fruit": "figs"}, registry=registry, stream=True, raises=False, limits=limits))


@pytest.mark.parametrize("how", BROKEN)
def test_what_arrived_of_a_reply_that_broke_off_is_in_each_view_and_its_error_once(tmp_path: Path, how: str) -> None:
    run = broken_run(tmp_path, how)
    past = agf.runs(run.run_id)
    for view in (run, past):
        assert view.error is not None
        assert view.error.code == BROKEN[how]
        assert view.error.arrived["text"] == "They cost **four**"
        said = messages_of(view)[-1]
        assert [said[part] for part in ("who", "end", "thinking", "text", "told")] == [
            "model", "broke off", "A fruit?", "They cost **four**", True,
        ]  # fmt: skip
        assert [call["tool"] for call in said["calls"]] == ["unlock(•••)", 'price({"fruit": "fi …']
        assert said["more"] == "the reply broke off here, so none of its calls was made"
        page = agf.report(view, tmp_path / "report.html").read_text().partition("<main")[2].partition("<script")[0]
        for html in (conversations_html(view), page):
            for part in ("A fruit?", "<strong>four</strong>", "unlock(", "broke off here", "✗ broke off"):
                assert html.count(part) == 1, (part, html)
        assert view.error.diagnostic.message not in conversations_html(view)
        assert page.count(f"{view.error.diagnostic.message} [") == 1
        assert "hunter2" not in page


def test_the_error_of_an_earlier_attempt_stays_in_the_conversation(tmp_path: Path) -> None:
    run = broken_run(tmp_path, "the end mark is missing")
    registry = registry_of(0)
    agf.tool(registry=registry, secret="key")(unlock)
    resumed = agf.resume(run.run_id, registry=registry)
    first, last = [message for message in messages_of(resumed) if message["who"] == "model"][:2]
    assert (first["end"], "told" in first, "end" in last) == ("broke off", False, False)
    assert "without its end mark" in first["error"]


def unlock(key: str) -> str:
    return "open"


def test_what_had_arrived_when_a_run_was_cancelled_stays_in_its_page(tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    registry = Registry()

    async def talk(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "They cost"
        await asyncio.sleep(3600)

    registry.choose(FunctionModel(stream_function=talk))
    arrived = threading.Event()

    def listen(event: ev.Event) -> None:
        if isinstance(event, ev.ModelText):
            arrived.set()

    steps = '{pipeline: p, steps: [{agent: {prompt: "How much?", output: reply}}]}'
    run = agf.start(steps, registry=registry, stream=True, on_event=listen)
    assert arrived.wait(30)
    run.cancel()
    run.wait(30)
    said = messages_of(run)[-1]
    assert (said["text"], said["end"]) == ("They cost", "broke off")
