"""A model's reply while it arrives: its events, its row, its secrets, and servers that break off."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

import agf_magics as agf
from agf_magics.engine.run_options import RunOptions
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.progress.rows import Arriving
from agf_magics.journal.secrets.masking import Secrets
from agf_magics.lifecycle.launch.launch import prepare_run
from agf_magics.pictures.pages.parts import progress_text
from notebooks.scripted_server import Answer, Raw, ScriptedServer, Stream, calls, failing
from tests.engine import kept
from tests.engine.virtual_time import run_virtual
from tests.pictures.flows import progress_html
from tests.processes import script

ASK = """
pipeline: ask
steps:
- agent: {prompt: "What do figs cost?"}
"""
AT = ("steps[0]", "session.ask", 0)


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> float:
        """The price of a kilo."""
        return 7.0

    @agf.tool(registry=registry, secret=("token",))
    def log_in(user: str, token: str) -> str:
        """Logs in."""
        return f"hello, {token}"

    return registry


def parts(events: list[ev.Event], part: str | None = None) -> list[str]:
    return [event.text for event in events if isinstance(event, ev.ModelText) and part in (None, event.part)]


def run(registry: agf.Registry, *answers: Answer, **options: Any) -> tuple[agf.Run, list[ev.Event], ScriptedServer]:
    events: list[ev.Event] = []
    with ScriptedServer(answers) as server:
        registry.choose("openai:scripted", base_url=server.url)
        options = {"stream": True, "on_event": events.append, "raises": False, **options}
        return agf.run(ASK, registry=registry, **options), events, server


# --- arriving replies ---


def test_the_text_of_a_model_is_emitted_before_its_reply_is_complete(registry: agf.Registry) -> None:
    has_arrived = threading.Event()
    events: list[ev.Event] = []

    def pieces() -> Iterator[str]:
        yield "A kilo of figs "
        assert has_arrived.wait(30), "the first piece is shown while the second one is missing"
        yield "is seven euros."

    def listen(event: ev.Event) -> None:
        events.append(event)
        if isinstance(event, ev.ModelText):
            has_arrived.set()

    ended, *_ = run(registry, Stream(pieces()), on_event=listen)
    assert ended.output == "A kilo of figs is seven euros."
    assert parts(events) == ["A kilo of figs ", "is seven euros."]
    assert [event.at for event in events if isinstance(event, ev.ModelText)] == [AT, AT]


def test_reasoning_text_and_calls_are_parts_of_their_own(registry: agf.Registry) -> None:
    thinks = Stream([{"reasoning_content": "What would "}, {"reasoning_content": "a fig cost?"}, "Let me look."])
    ended, events, server = run(registry, calls(("price", {"fruit": "fig"})), thinks)
    assert ended.output == "Let me look."
    assert "".join(parts(events, "call")) == 'price({"fruit": "fig"})\n'
    assert "".join(parts(events, "thinking")) == "What would a fig cost?"
    assert "".join(parts(events, "text")) == "Let me look."
    assert [request["stream"] for request in server.requests] == [True, True]
    assert ended.usage.tokens == 30


@pytest.mark.parametrize("options", [{"stream": False}, {"on_event": None, "stream": False}])
def test_nothing_is_streamed_if_nobody_listens(registry: agf.Registry, options: dict[str, Any]) -> None:
    ended, events, server = run(registry, "seven", **options)
    assert ended.output == "seven"
    assert parts(events) == []
    assert server.requests[0]["stream"] is False


def test_only_the_reply_is_journaled(registry: agf.Registry, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        _, events, _ = run(registry, Stream(["one ", "reply"]))
        assert len(parts(events)) >= 1
        assert len(kept.lines(path)) == 1


def test_a_view_gets_ten_events_a_second_at_most() -> None:
    registry, events = agf.Registry(), list[ev.Event]()

    async def deltas(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for _ in range(200):
            await asyncio.sleep(0.01)
            yield "fig "

    registry.choose(FunctionModel(stream_function=deltas))
    ended = run_virtual(agf.arun(ASK, registry=registry, on_event=events.append, stream=True))
    texts = [event for event in events if isinstance(event, ev.ModelText)]
    assert "".join(event.text for event in texts) == ended.output == "fig " * 200
    assert 15 <= len(texts) <= 21  # 200 deltas in 2 seconds


def test_an_arrived_text_is_emitted_while_the_model_is_silent() -> None:
    registry, events = agf.Registry(), list[ev.Event]()
    before: list[int] = []

    async def deltas(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "hm"
        await asyncio.sleep(60)
        before.append(len(parts(events)))
        yield " figs"

    registry.choose(FunctionModel(stream_function=deltas))
    run_virtual(agf.arun(ASK, registry=registry, on_event=events.append, stream=True))
    assert before == [1]
    assert parts(events) == ["hm", " figs"]


def test_a_model_object_without_a_stream_is_asked_for_the_reply_in_one_piece() -> None:
    registry, requests = agf.Registry(), list[int]()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests.append(1)
        return ModelResponse(parts=[TextPart("seven")])

    registry.choose(FunctionModel(answer))
    assert agf.run(ASK, registry=registry, stream=True).output == "seven"
    assert requests == [1]


def test_a_server_that_replies_in_one_piece_is_asked_for_a_stream_once_in_a_run(registry: agf.Registry) -> None:
    message = {"index": 0, "message": {"role": "assistant", "content": "seven"}, "finish_reason": "stop"}
    whole = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [message]}
    piece = Raw(json.dumps(whole), headers={"Content-Type": "application/json"})
    with ScriptedServer([piece]) as server:
        registry.choose("openai:scripted", base_url=server.url)
        fan_out = "over: '[1, 2]', on_error: abort, max_parallel: 1, do: {agent: {prompt: x}}"
        twice = f"{{pipeline: p, steps: [{{for_each: {{{fan_out}, collect: {{transform: {{value: pipe}}}}}}}}]}}"
        assert agf.run(twice, registry=registry, stream=True).output == ["seven", "seven"]
        assert [request.get("stream", False) for request in server.requests] == [True, False, False]


def test_a_cancelled_run_shows_what_had_arrived() -> None:
    registry, events = agf.Registry(), list[ev.Event]()

    async def deltas(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "half a reply"
        await asyncio.sleep(3600)

    registry.choose(FunctionModel(stream_function=deltas))
    limits = agf.Limits(timeout=10)
    cancelled = run_virtual(
        agf.arun(ASK, registry=registry, on_event=events.append, stream=True, limits=limits, raises=False)
    )
    assert cancelled.error.code == "limit.timeout"
    assert parts(events) == ["half a reply"]
    assert "half a reply" in progress_text(cancelled.progress, now=0)


# --- servers that break off ---

NONSENSE = [
    b"data: {nonsense\n\n",
    b"data: [1]\n\n",
    b'data: {"error": {"message": "overloaded"}}\n\n',
    b"\xff\xfe\n\n",
]


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_in_the_middle_of_a_reply_ends_it_with_a_code_and_what_had_arrived(
    registry: agf.Registry, nonsense: bytes
) -> None:
    ended, events, _ = run(registry, Stream(["A kilo of figs ", nonsense]))
    check_broken_off(ended, events)


def test_a_connection_that_is_cut_in_the_middle_of_a_reply(registry: agf.Registry) -> None:
    ended, events, _ = run(registry, Stream(["A kilo of figs "], ends=False))
    check_broken_off(ended, events)


def test_a_reply_without_an_end_mark_has_a_warning(registry: agf.Registry) -> None:
    ended, _, _ = run(registry, Stream(["A kilo of figs ", b"data: [DONE]\n\n"], ends=False))
    assert ended.output == "A kilo of figs "
    assert [warning.code for warning in ended.warnings] == ["model.unended"]


def check_broken_off(ended: agf.Run, events: list[ev.Event]) -> None:
    diagnostic = ended.error.diagnostic
    assert diagnostic.code == "model.broken-off"
    assert diagnostic.span is not None
    assert diagnostic.hint is not None
    assert "%resume" in diagnostic.hint
    assert parts(events) == ["A kilo of figs "]
    assert "A kilo of figs" in progress_text(ended.progress, now=0)
    assert "A kilo of figs" in progress_html(ended.progress, now=0)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Stream([b"data: {nonsense\n\n"]), "model.reply"),
        (failing(401, "no such key"), "model.key-refused"),
        (Raw("<html>log in</html>", headers={"Content-Type": "text/html"}), "model.reply"),
    ],
)
def test_a_server_that_sends_no_reply_has_the_same_errors_as_without_a_stream(
    registry: agf.Registry, answer: Answer, code: str
) -> None:
    ended, events, _ = run(registry, answer)
    assert ended.error.code == code
    assert parts(events) == []


def test_a_reply_that_broke_off_is_asked_for_again_by_a_resumed_run(registry: agf.Registry, tmp_path: Path) -> None:
    answers = [calls(("price", {"fruit": "fig"})), Stream(["half"], ends=False), "seven"]
    with kept.journal_in(tmp_path), ScriptedServer(answers) as server:  # type: ignore[arg-type]
        registry.choose("openai:scripted", base_url=server.url)
        first = agf.run(ASK, registry=registry, stream=True, raises=False)
        assert first.error is not None
        assert agf.resume(first.run_id, registry=registry).output == "seven"
        assert len(server.requests) == 3


# --- the row ---


def test_a_retry_replaces_the_text_of_the_attempt_before() -> None:
    registry, attempts = agf.Registry(), list[int]()
    events: list[ev.Event] = []

    async def deltas(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        attempts.append(1)
        yield f"attempt {len(attempts)}"
        await asyncio.sleep(3600 if len(attempts) == 1 else 0)

    registry.choose(FunctionModel(stream_function=deltas))
    text = """
pipeline: p
steps:
- for_each:
    over: "[1]"
    on_error: retry(1)
    do: {agent: {prompt: x}}
    collect: {transform: {value: pipe}}
"""
    limits = agf.Limits(model_timeout=5)
    ended = run_virtual(agf.arun(text, registry=registry, on_event=events.append, stream=True, limits=limits))
    assert ended.output == ["attempt 2"]


def session() -> Progress:
    registry = agf.Registry()
    registry.choose("openai:m", base_url="http://127.0.0.1:1/v1")
    return prepare_run(ASK, None, RunOptions(registry=registry)).progress


def text(words: str, part: Any = "text", index: int = 0, attempt: int = 1) -> ev.ModelText:
    return ev.ModelText((*AT[:2], index), 0.0, attempt, part, words)


def test_a_row_has_the_parts_of_the_reply_that_arrives_and_none_of_a_complete_one() -> None:
    progress = session()
    row = progress.row(AT)
    for event in (text("hm ", "thinking"), text("A kilo"), text(" is seven")):
        progress.apply(event)
    assert row.arriving.parts == {"thinking": "hm ", "text": "A kilo is seven"}
    html = progress_html(progress, now=0)
    assert "thinking: hm" in html
    assert "A kilo is seven" in html
    progress.apply(ev.TokensUsed(AT, 0.0, 1, 1))  # also of a reply that broke off
    assert row.arriving is not None
    progress.apply(ev.StepFinished(AT, 0.0))
    assert row.arriving is None


def test_a_row_keeps_the_end_of_a_long_reply_and_shows_the_first_of_several_concurrent_ones() -> None:
    progress = session()
    row = progress.row(AT)
    progress.apply(text("a" * 3_000))
    progress.apply(text("b" * 3_000))
    progress.apply(text("the other, ", index=1))
    assert row.arriving.parts == {"text": "a" * 1_000 + "b" * 3_000}
    progress.apply(ev.StepFailed(AT, 0.0, ValueError("no")))
    progress.apply(text("whole", index=1))
    assert row.arriving.parts == {"text": "the other, whole"}
    progress.apply(text("again", index=1, attempt=2))
    assert row.arriving.parts == {"text": "again"}


def test_a_row_keeps_a_bounded_number_of_replies_and_rather_those_that_still_arrive() -> None:
    progress = session()
    row = progress.row(AT)
    for index in range(Arriving.MOST):
        progress.apply(text("first", index=index))
    progress.apply(text("one too many", index=99))
    assert len(row.replies) == Arriving.MOST
    progress.apply(ev.StepFailed((*AT[:2], 3), 0.0, ValueError("no")))
    progress.apply(text("has room", index=99))
    assert [at[-1] for at in row.replies] == [*range(3), *range(4, Arriving.MOST), 99]


def test_a_reply_cannot_write_into_the_page() -> None:
    progress = session()
    progress.apply(text("<script>alert(1)</script>\x1b[2J\u202e\n| fake row"))
    html = progress_html(progress, now=0)
    assert "<script>" not in html
    assert not {"\x1b", "\u202e"} & {*html, *progress_text(progress, now=0)}


# --- secrets ---


def test_a_secret_is_masked_over_the_borders_of_deltas(registry: agf.Registry) -> None:
    secret = "hunter2-hunter2"
    text = """
    pipeline: p
    steps:
    - tool: {name: log_in, args: {user: eve, token: !expr ctx.token}, output: greeting}
    - agent: {prompt: "What did it say?"}
    """
    events: list[ev.Event] = []
    with ScriptedServer([Stream([*f"It said hello, {secret}, twice {secret}."])]) as server:
        registry.choose("openai:scripted", base_url=server.url)
        agf.run(text, {"token": secret}, registry=registry, on_event=events.append, stream=True)
    assert "".join(parts(events)) == "It said hello, •••, twice •••."


@pytest.mark.parametrize("width", [1, 2, 3, 7, 100])
def test_the_beginning_of_a_text_that_can_be_shown_ends_before_every_secret_that_goes_on(width: int) -> None:
    secrets, masked, waiting = Secrets(), "", ""
    secrets.learn("hunter2-hunter2")
    secrets.learn("hunter2-")
    whole = "a hunter2-hunter2 b hunter2-hunter hunter2-hunter2hunter2- c hunter"
    for start in range(0, len(whole), width):
        waiting += whole[start : start + width]
        length = secrets.maskable(waiting)
        masked += secrets.text(waiting[:length])
        waiting = waiting[length:]
    masked += secrets.text(waiting)
    assert masked == secrets.text(whole)


@pytest.mark.parametrize("tool", ["log_in", "log_out"])
def test_the_arguments_of_a_tool_with_a_secret_are_not_shown(registry: agf.Registry, tool: str) -> None:
    """The secret is known only when the call is complete, and an unknown name may be the beginning of a secret."""
    _, events, _ = run(registry, calls((tool, {"user": "eve", "token": "hunter2-hunter2"})), "done")
    assert "".join(parts(events, "call")) == f"{tool}(•••)\n"


def test_arguments_that_a_model_gives_in_one_piece_are_shown() -> None:
    registry, events = agf.Registry(), list[ev.Event]()

    async def deltas(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) > 1:
            yield "done"
            return
        yield {0: DeltaThinkingPart(content="hm")}
        yield {1: DeltaToolCall(name="nope", json_args='{"a": 1}', tool_call_id="c1")}

    registry.choose(FunctionModel(stream_function=deltas))
    agf.run(ASK, registry=registry, on_event=events.append, stream=True)
    assert parts(events, "call") == ['nope({"a": 1})\n']
    assert parts(events, "thinking") == ["hm"]


# --- async for ---


def test_events_are_read_with_async_for_from_the_first_to_the_last(registry: agf.Registry) -> None:
    async def read(started: agf.Run) -> list[ev.Event]:
        return [event async for event in started.events()]

    with ScriptedServer([Stream(["A kilo ", "is seven"])]) as server:
        registry.choose("openai:scripted", base_url=server.url)
        started = agf.start(ASK, registry=registry, stream=True)
        events = asyncio.run(read(started))
    assert isinstance(events[0], ev.RunStarted)
    assert isinstance(events[-1], ev.RunEnded)
    assert "".join(parts(events)) == "A kilo is seven"
    assert asyncio.run(read(started)) == []


def test_events_can_be_read_after_the_end_of_a_run_and_by_a_reader_that_stops_early(registry: agf.Registry) -> None:
    async def first(started: agf.Run) -> ev.Event:
        async for event in started.events():
            return event
        raise AssertionError("a run has events")

    started = agf.start("{pipeline: p, steps: [{transform: {value: '1'}}]}", registry=registry, stream=True)
    started.wait()
    assert isinstance(asyncio.run(first(started)), ev.RunStarted)
    assert isinstance(asyncio.run(first(started)), ev.StepStarted)


def test_a_run_that_keeps_no_events_says_how_to_start_one_that_does(registry: agf.Registry) -> None:
    run = agf.run("{pipeline: p, steps: [{transform: {value: '1'}}]}", registry=registry)
    with pytest.raises(RuntimeError, match="stream=True"):
        run.events()


OPENING = """
    import sys, time
    from pathlib import Path
    import agf_magics as agf
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    class Watch:
        opened = []
        def find_spec(self, name, path=None, target=None):
            if name == "agf_magics.catalog.models.requests":
                self.opened.append(time.time())

    sys.meta_path.insert(0, Watch())
    agf.registry.choose(FunctionModel(lambda messages, info: ModelResponse([TextPart("seven")])))
    run = agf.run('pipeline: p\\nsteps: [{agent: {prompt: "What?"}}]')
    (request,) = (record for record in agf.runs(run.run_id).records() if record.kind == "model")
    (opened,) = Watch.opened
    assert request.started <= opened < request.ended, (request.started, opened, request.ended)
"""


def test_the_first_request_took_the_time_in_which_its_library_was_opened(tmp_path: Path) -> None:
    """As its step did, so that all views have one number."""
    (tmp_path / "pyproject.toml").touch()
    ended = script(OPENING, tmp_path)
    assert ended.returncode == 0, ended.stderr
