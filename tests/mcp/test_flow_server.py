"""Flows as tools of a server, in both protocols: schemas, results, errors, questions, progress, and the limit of
runs."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

import agf_magics as agf
from agf_magics import DefinitionError, Registry
from agf_magics.engine.host.host import NoUser
from agf_magics.flow.progress.events import StepFinished
from agf_magics.flow.progress.question import Question
from agf_magics.lifecycle.runs.live import live
from agf_magics.mcp.server.flow_tools import flow_tool, flow_tools
from agf_magics.mcp.server.open_question import TRIES, OpenQuestion
from agf_magics.mcp.server.own_tools import NAMES
from agf_magics.mcp.server.protocol import FlowServer
from agf_magics.mcp.server.run_app import PAGE_TOOL, RUN_ID, URI, document
from agf_magics.mcp.server.served_run import ServedRun
from agf_magics.mcp.server.served_runs import MOST_WAITING, ServedRuns

pytestmark = pytest.mark.usefixtures("journaled")

MODES = ("auto", "legacy")
"""The current protocol of MCP, and the older one."""

SUM = """\
schema_version: "1.4.0"
metadata: {id: sum, name: Sum, version: "1", description: Adds two numbers.}
interface:
  input:
    type: object
    properties: {a: {type: integer}, b: {type: integer, description: The second one.}}
    required: [a, b]
  output: {type: OUTPUT}
execution_policy:
  id: agf.sequential
  config:
    steps: [{agent: adder}]
"""
ASKING = """\
pipeline: paint
steps:
- tool: {name: choose, output: colour}
- tool: {name: confirm, output: sure}
- transform: {value: "[colour, sure]"}
"""


class WaitingTool:
    """A tool that waits until it may end, and counts its calls."""

    def __init__(self) -> None:
        self.running = self.most = self.cancelled = self.ended = 0
        self.open = asyncio.Event()
        self.changed = asyncio.Event()

    async def wait(self, n: int = 0) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        self.changed.set()
        try:
            while not self.open.is_set():
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
            self.ended += 1
        return n

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0)


@pytest.fixture
def waiting() -> WaitingTool:
    return WaitingTool()


@pytest.fixture
def registry(waiting: WaitingTool) -> Registry:
    tools = Registry()

    @agf.tool(registry=tools)
    async def choose(call: agf.ToolContext) -> str:
        return str(await call.ask("Which colour?", choices=["red", "blue"]))

    @agf.tool(registry=tools)
    async def confirm(call: agf.ToolContext) -> str:
        return str(await call.ask("Are you sure? Why?"))

    @agf.tool(registry=tools)
    def fail(word: str) -> str:
        raise ValueError(f"no {word} here")

    agf.tool(waiting.wait, registry=tools, name="wait")
    define = [
        "pipeline: double\ndescription: Twice.\nsteps:\n- transform: {value: '[ctx.n, ctx.n]'}\n",
        "pipeline: record\nsteps:\n- transform: {value: '{n: ctx.n}'}\n",
        "pipeline: broken\nsteps:\n- tool: {name: fail, args: {word: figs}}\n",
        "pipeline: wait\nsteps:\n- tool: {name: wait, args: {n: !expr ctx.n}}\n",
        "pipeline: slowly\nsteps:\n- transform: {value: ctx.n}\n- tool: {name: wait, args: {n: !expr pipe}}\n",
        ASKING,
    ]
    for text in define:
        agf.define(text, registry=tools)
    return tools


@asynccontextmanager
async def connected(registry: Registry, mode: str, at_once: int = 8, **options: Any) -> AsyncIterator[Client]:
    flows = FlowServer([*registry.flows.values()], registry, at_once)
    async with Client(flows.server(), mode=mode, **options) as client:
        yield client


def in_loop(registry: Registry, mode: str, act: Callable[[Client], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        async with connected(registry, mode, **options) as client:
            await act(client)

    asyncio.run(main())


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


# --- schemas and names ---


def test_the_declared_interface_is_the_schema() -> None:
    tools = Registry()
    agf.agent(lambda a, b: a + b, name="adder", registry=tools)
    flow = agf.load(SUM.replace("OUTPUT", "object"), registry=tools)
    tool = flow_tool(flow)
    assert tool.description == "Adds two numbers."
    assert tool.accepts["properties"]["b"] == {"type": "integer", "description": "The second one."}
    assert tool.accepts["required"] == ["a", "b"]
    assert tool.gives == {"type": "object"}
    assert tool.structured({"c": 3}) == {"c": 3}


def test_an_output_that_is_not_an_object_becomes_a_field_of_one() -> None:
    tools = Registry()
    agf.agent(lambda a, b: a + b, name="adder", registry=tools)
    tool = flow_tool(agf.load(SUM.replace("OUTPUT", "integer"), registry=tools))
    assert tool.gives == {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    assert tool.structured(3) == {"result": 3}


def test_without_an_interface_the_names_that_it_reads_are_the_schema(registry: Registry) -> None:
    tool = flow_tool(registry.flows["double"])
    assert tool.accepts == {"type": "object", "properties": {"n": {}}, "required": ["n"]}
    assert tool.gives == {"type": "object", "properties": {"result": {}}, "required": ["result"]}


@pytest.mark.parametrize("name", ["run_result", "grün", "x" * 65, "two words"])
def test_a_name_that_no_tool_can_have_is_refused(name: str) -> None:
    flow = agf.load(f"pipeline: {name}\nsteps:\n- transform: {{value: ctx.n}}\n", registry=Registry())
    with pytest.raises(DefinitionError) as caught:
        flow_tools([flow], NAMES)
    assert caught.value.code == "mcp.serve-name"


def test_two_flows_of_one_name_are_refused() -> None:
    text = "pipeline: same\nsteps:\n- transform: {value: '%s'}\n"
    flows = [agf.load(text % number, registry=Registry()) for number in (1, 2)]
    with pytest.raises(DefinitionError, match="cannot be served") as caught:
        flow_tools(flows, NAMES)
    assert caught.value.code == "mcp.serve-name"


# --- calls ---


@pytest.mark.parametrize("mode", MODES)
def test_a_flow_is_called_and_its_output_is_text_and_value(registry: Registry, mode: str) -> None:
    async def act(client: Client) -> None:
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} == {*registry.flows, *NAMES} - {PAGE_TOOL}
        result = await client.call_tool("double", {"n": "ü"})
        assert (text_of(result), result.structured_content) == ('["ü", "ü"]', {"result": ["ü", "ü"]})
        assert (await client.call_tool("record", {"n": 1})).structured_content == {"result": {"n": 1}}

    in_loop(registry, mode, act)


EACH = """\
pipeline: each
steps:
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: half_of, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
"""
UNREAD = "warning: 'each' does not read 'numbesr', which the input has [run.unused-input]"
DROPPED = "✗ 1 element failed and dropped\n  each of numbers #1 (3): tool 'half_of' failed: ValueError: odd"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"numbers": [2, 4]}, []),
        ({"numbers": [2, 4], "numbesr": 1}, [UNREAD]),
        ({"numbers": [2, 3]}, [DROPPED]),
        ({"numbers": [2, 3], "numbesr": 1}, [f"{UNREAD}\n{DROPPED}"]),
    ],
)
def test_what_is_not_right_with_a_result_that_is_ok_is_said_beside_it(
    registry: Registry, mode: str, arguments: dict[str, Any], said: list[str]
) -> None:
    def half_of(n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n // 2

    agf.tool(half_of, registry=registry)
    agf.define(EACH, registry=registry)

    async def act(client: Client) -> None:
        result = await client.call_tool("each", arguments)
        assert not result.is_error
        assert [content.text for content in result.content[1:] if content.type == "text"] == said
        envelope = await client.call_tool("run_result", {"run_id": (result.meta or {})[RUN_ID]})
        warned = (envelope.structured_content or {})["data"].get("warnings")
        assert ([warned] if warned else []) == said

    in_loop(registry, mode, act)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("output", "read"),
    [
        ("fig \ud83c", "fig \ufffd"),
        ("\udcff.txt", "\ufffd.txt"),
        ("\ud83c\udf50", "\U0001f350"),
        ([1, ["\ud800"], {"\udcff": "é"}], [1, ["\ufffd"], {"\ufffd": "é"}]),
    ],
)
def test_half_of_a_character_in_a_result_is_replaced(registry: Registry, mode: str, output: Any, read: Any) -> None:
    agf.tool(lambda: output, registry=registry, name="half")
    agf.define("pipeline: half\nsteps:\n- tool: {name: half, output: a}\n", registry=registry)

    async def act(client: Client) -> None:
        result = await client.call_tool("half", {})
        assert result.structured_content == {"result": read}
        assert text_of(result).encode()
        envelope = await client.call_tool("run_result", {"run_id": (result.meta or {})[RUN_ID]})
        data = (envelope.structured_content or {})["data"]
        assert (data["output"], data["named_stores"]) == (read, {"a": read})

    in_loop(registry, mode, act)


LONG = {"day": date(2026, 1, 2), "numbers": list(range(1_000)), "text": "word " * 1_000}


@pytest.mark.parametrize("mode", MODES)
def test_the_result_of_a_run_that_has_ended_is_as_whole_as_the_first_answer(registry: Registry, mode: str) -> None:
    agf.tool(lambda key: LONG, registry=registry, name="make", secret=["key"])
    agf.define(
        "pipeline: made\nsteps: [{tool: {name: make, args: {key: !expr ctx.key}, output: a}}]", registry=registry
    )

    async def act(client: Client) -> None:
        result = await client.call_tool("made", {"key": "hunter2-and-more"})
        output = {**LONG, "day": "2026-01-02"}
        assert result.structured_content == {"result": output}
        live.forget()
        envelope = await client.call_tool("run_result", {"run_id": (result.meta or {})[RUN_ID]})
        data = (envelope.structured_content or {})["data"]
        assert data["output"] == output
        assert (data["named_stores"]["key"], data["warnings"][:28]) == ("•••", "not whole: named_stores.a; t")

    in_loop(registry, mode, act)


@pytest.mark.parametrize("mode", MODES)
def test_errors_have_codes_and_neither_files_nor_lines(registry: Registry, mode: str) -> None:
    async def act(client: Client) -> None:
        refused: list[tuple[str, dict[str, Any], str]] = [
            ("double", {}, "run.missing-input"),
            ("broken", {}, "step.tool-failed"),
            ("run_result", {"run_id": "made-up"}, "journal.unknown-run"),
            ("run_result", {"run": 3}, "mcp.arguments"),
            ("run_pipeline_async", {"name": "dubble"}, "mcp.arguments"),
            ("explain", {"code": "flow.unknown-tol"}, "magic.unknown-code"),
        ]
        for name, arguments, code in refused:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert f"[{code}]" in text_of(result)
            assert "-->" not in text_of(result)
        with pytest.raises(MCPError, match=r"mcp\.unknown-tool"):
            await client.call_tool("dubble", {})

    in_loop(registry, mode, act)


@pytest.mark.parametrize("mode", MODES)
def test_progress_is_reported(registry: Registry, waiting: WaitingTool, mode: str) -> None:
    reports = list[tuple[float, str | None]]()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message))
        waiting.open.set()

    async def act(client: Client) -> None:
        await client.call_tool("slowly", {"n": 1}, progress_callback=report)

    in_loop(registry, mode, act)
    assert reports[0] == (1, "steps[0]")


def test_a_step_that_finishes_before_anybody_waits_is_reported() -> None:
    async def main() -> None:
        served = ServedRun()
        served.ended = asyncio.get_running_loop().create_future()
        served.listen(StepFinished(("steps[0]",), 0.0, 1))
        await asyncio.sleep(0)  # the step has woken the loop, and nobody was waiting
        assert await asyncio.wait_for(served.next(0), 60) is None
        assert (served.done, served.at) == (1, "steps[0]")

    asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
def test_a_run_is_followed_by_its_id(registry: Registry, waiting: WaitingTool, mode: str) -> None:
    async def act(client: Client) -> None:
        started = (await client.call_tool("run_pipeline_async", {"name": "wait", "input": {"n": 4}})).structured_content
        assert started is not None
        assert started["status"] == "started"
        run = {"run_id": started["data"]["run_id"]}
        await waiting.until(lambda: waiting.running == 1)
        assert (await client.call_tool("run_result", run)).structured_content == started
        waiting.open.set()
        await waiting.until(lambda: waiting.ended == 1)
        while (ended := (await client.call_tool("run_result", run)).structured_content) == started:
            pass
        assert ended == {"status": "ok", "data": {**run, "output": 4, "named_stores": {"n": 4}}}

    in_loop(registry, mode, act)


@pytest.mark.parametrize("mode", MODES)
def test_a_launched_run_is_cancelled(registry: Registry, waiting: WaitingTool, mode: str) -> None:
    async def act(client: Client) -> None:
        started = (await client.call_tool("run_pipeline_async", {"name": "wait", "input": {"n": 4}})).structured_content
        run = {"run_id": started["data"]["run_id"]}
        await waiting.until(lambda: waiting.running == 1)
        ended = (await client.call_tool("run_cancel", run)).structured_content
        assert (ended["status"], waiting.cancelled) == ("cancelled", 1)

    in_loop(registry, mode, act)


COLOUR = """\
name: colour
nodes:
  q: {type: interrupt, message: "Which colour?", resume_key: colour}
edges: [{from: START, to: q}, {from: q, to: END}]
"""


def test_a_run_that_waits_in_the_journal_is_cancelled(registry: Registry) -> None:
    registry.flows.define(agf.load(COLOUR, registry=registry), None)

    async def main() -> None:
        served = ServedRuns(registry.flows.values(), registry)
        run = await served.launch("colour", {})
        assert run.run is not None
        assert run.ended is not None
        run_id = run.run.run_id
        while await run.next(0) is None:
            pass
        run.open_question.give_up()
        await run.ended
        assert (await served.state(run_id))["status"] == "waiting"
        assert (await served.cancel(run_id))["status"] == "cancelled"
        state = await served.state(run_id)
        assert state["status"] == "cancelled"
        assert "a client of the MCP server cancelled it" in state["data"]["error"]
        with pytest.raises(agf.DefinitionError, match="asks nothing now"):
            await served.answer(run_id, "red")

    asyncio.run(main())


def test_the_end_of_a_server_waits_for_the_runs_that_it_has_cancelled(registry: Registry) -> None:
    begun, ending, go = threading.Event(), threading.Event(), threading.Event()

    @agf.tool(registry=registry)
    async def hold() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.to_thread(go.wait, 60)

    registry.flows.define(agf.load("pipeline: hold\nsteps:\n- tool: {name: hold}\n", registry=registry), None)

    async def main() -> None:
        served = ServedRuns(registry.flows.values(), registry)
        await served.settle(60)
        run = (await served.launch("hold", {})).run
        assert run is not None
        await asyncio.to_thread(begun.wait, 60)
        await served.settle(60)  # it goes on: the next server resumes it
        assert run.status == "running"
        run.cancel("the client has gone")
        settling = asyncio.ensure_future(served.settle(60))
        await asyncio.to_thread(ending.wait, 60)
        assert not settling.done()
        go.set()
        await settling
        assert run.status == "cancelled"

    asyncio.run(main())


# --- bad input ---


@pytest.mark.parametrize("mode", MODES)
def test_only_some_of_a_hundred_concurrent_calls_run(registry: Registry, waiting: WaitingTool, mode: str) -> None:
    async def act(client: Client) -> None:
        calls = [asyncio.ensure_future(client.call_tool("wait", {"n": n})) for n in range(100)]
        await waiting.until(lambda: waiting.running == 3)
        busy = await client.call_tool("run_pipeline_async", {"name": "double", "input": {"n": 1}})
        assert busy.is_error
        assert "[mcp.busy]" in text_of(busy)
        waiting.open.set()
        results = await asyncio.gather(*calls)
        assert [result.structured_content for result in results] == [{"result": n} for n in range(100)]
        assert waiting.most == 3

    in_loop(registry, mode, act, at_once=3)


@pytest.mark.parametrize("mode", MODES)
def test_calls_beyond_those_that_may_wait_are_refused(registry: Registry, waiting: WaitingTool, mode: str) -> None:
    async def act(client: Client) -> None:
        calls = [asyncio.ensure_future(client.call_tool("wait", {"n": n})) for n in range(1 + MOST_WAITING + 3)]
        await waiting.until(lambda: sum(call.done() for call in calls) == 3)
        refused = [call.result() for call in calls if call.done()]
        assert all(result.is_error and "[mcp.busy]" in text_of(result) for result in refused)
        waiting.open.set()
        assert sum(not result.is_error for result in await asyncio.gather(*calls)) == 1 + MOST_WAITING

    in_loop(registry, mode, act, at_once=1)


@pytest.mark.parametrize("mode", MODES)
def test_cancelled_calls_leave_the_queue(registry: Registry, waiting: WaitingTool, mode: str) -> None:
    async def act(client: Client) -> None:
        calls = [asyncio.ensure_future(client.call_tool("wait", {"n": n})) for n in range(20)]
        await waiting.until(lambda: waiting.running == 2)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await waiting.until(lambda: waiting.running == 0)
        waiting.open.set()
        assert (await client.call_tool("wait", {"n": 5})).structured_content == {"result": 5}
        assert waiting.most == 2
        assert waiting.cancelled < 20

    in_loop(registry, mode, act, at_once=2)


# --- questions ---


def answering(*answers: types.ElicitResult) -> tuple[list[str], Any]:
    """The list of the questions that arrive, and the callback that gives the answers in order."""
    texts, answers_left = list[str](), list(answers)

    async def callback(context: Any, params: Any) -> types.ElicitResult:
        texts.append(params.message)
        return answers_left.pop(0)

    return texts, callback


def accept(answer: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": answer})


@pytest.mark.parametrize("mode", MODES)
def test_questions_are_forms_of_the_client(registry: Registry, mode: str) -> None:
    texts, callback = answering(accept("blue"), accept("it is my wall"))

    async def act(client: Client) -> None:
        result = await client.call_tool("paint", {})
        assert result.structured_content == {"result": ["blue", "it is my wall"]}

    in_loop(registry, mode, act, elicitation_callback=callback)
    assert texts == ["Which colour?", "Are you sure? Why?"]


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_does_not_fit_is_asked_again(registry: Registry, mode: str) -> None:
    texts, callback = answering(accept("green"), accept("red"), accept("no"))

    async def act(client: Client) -> None:
        assert (await client.call_tool("paint", {})).structured_content == {"result": ["red", "no"]}

    in_loop(registry, mode, act, elicitation_callback=callback)
    assert texts[1:] == ["'green' is not one of the choices: Which colour?\nWhich colour?", "Are you sure? Why?"]


@pytest.mark.parametrize("mode", MODES)
def test_a_question_that_the_person_declines_ends_the_call(registry: Registry, mode: str) -> None:
    _, callback = answering(types.ElicitResult(action="decline"))

    async def act(client: Client) -> None:
        result = await client.call_tool("paint", {})
        assert result.is_error
        assert "[step.no-user]" in text_of(result)

    in_loop(registry, mode, act, elicitation_callback=callback)


@pytest.mark.parametrize("mode", MODES)
def test_a_program_that_fills_the_form_wrongly_is_not_asked_for_ever(registry: Registry, mode: str) -> None:
    texts, callback = answering(*[accept("green")] * TRIES)

    async def act(client: Client) -> None:
        result = await client.call_tool("paint", {})
        assert result.is_error
        assert "[step.no-user]" in text_of(result)

    in_loop(registry, mode, act, elicitation_callback=callback)
    assert len(texts) == TRIES


def test_a_question_that_nobody_answers_is_given_up() -> None:
    messages = list[str]()
    asking = OpenQuestion(lambda: messages.append("asked"), patience=0)
    with pytest.raises(NoUser):
        asyncio.run(asking.ask(Question("Which?")))
    assert messages == ["asked"]
    assert asking.current is None


@pytest.mark.parametrize("mode", MODES)
def test_a_client_without_forms_answers_by_the_id(registry: Registry, mode: str) -> None:
    async def act(client: Client) -> None:
        waits = await client.call_tool("paint", {})
        assert waits.is_error
        assert '"status": "waiting"' in text_of(waits)
        (line,) = agf.runs(flow="paint")
        run = {"run_id": line.run_id}
        wrong = await client.call_tool("run_answer", {**run, "answer": "green"})
        assert wrong.is_error
        assert "[run.answer]" in text_of(wrong)
        for answer in ("red", "yes"):
            await client.call_tool("run_answer", {**run, "answer": answer})
            while (state := (await client.call_tool("run_result", run)).structured_content)["status"] == "started":
                pass
        assert state["data"]["output"] == ["red", "yes"]
        again = await client.call_tool("run_answer", {**run, "answer": "red"})
        assert again.is_error
        assert "[run.no-question]" in text_of(again)

    in_loop(registry, mode, act)


def test_a_state_that_the_client_made_up_is_refused(registry: Registry) -> None:
    async def act(client: Client) -> None:
        refused = await client.session.call_tool("paint", {}, request_state="made-up")
        assert isinstance(refused, types.CallToolResult)
        assert refused.is_error
        assert "[journal.unknown-run]" in text_of(refused)
        await client.call_tool("double", {"n": 1})
        (line,) = agf.runs(flow="double")
        with pytest.raises(MCPError, match="is not one of this tool"):
            await client.session.call_tool("paint", {}, request_state=line.run_id)

    in_loop(registry, "auto", act)


# --- the page of a run ---


@pytest.mark.parametrize("mode", MODES)
def test_a_client_with_pages_shows_that_of_the_run(registry: Registry, mode: str) -> None:
    async def act(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["double"].meta == {"ui": {"resourceUri": URI}}
        assert tools[PAGE_TOOL].meta == {"ui": {"resourceUri": URI, "visibility": ["app"]}}
        (content,) = (await client.read_resource(URI)).contents
        assert isinstance(content, types.TextResourceContents)
        assert (content.mime_type, content.text[:15]) == (APP_MIME_TYPE, "<!doctype html>")
        result = await client.call_tool("double", {"n": "<b>"})
        assert result.meta is not None
        page = (await client.call_tool(PAGE_TOOL, {"run_id": result.meta[RUN_ID]})).structured_content
        assert page is not None
        assert page["is_over"] is True
        assert "&lt;b&gt;" in page["html"]
        assert "<b>" not in page["html"]
        assert "2 items" in page["text"] or "steps:" in page["text"]
        with pytest.raises(MCPError):
            await client.read_resource("ui://agf-magics/other.html")

    shows_pages = advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})
    in_loop(registry, mode, act, extensions=[shows_pages])


def test_the_page_loads_nothing(registry: Registry) -> None:
    text = document()
    assert not re.findall(r"https?://|src=|href=|import ", text)
