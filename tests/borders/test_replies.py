"""Replies of models that are not an answer, or break their protocol, end in the same way in each protocol (decision
D130).

The table combines kinds of replies with protocols, streamed or plain, with and without a schema. A cell is the outcome
of a run: the code, the words, and the number of requests to the server.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_ai import messages as ai
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.function import FunctionModel, FunctionStreamedResponse

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from notebooks.scripted_server import Raw
from tests.borders.protocols import (
    EVENTS,
    JSON,
    Anthropic,
    Call,
    Chat,
    Fails,
    Google,
    Protocol,
    ProtocolServer,
    Responses,
    Said,
)
from tests.engine import kept

SCHEMA = "schema: Total\nfields:\n  total: {type: number}\n---\n"
FINE, TOTAL = Said(text="fine"), Said(text='{"total": 5}')
PROTOCOLS: Mapping[str, Protocol] = {
    "chat": Chat(),
    "responses": Responses(),
    "anthropic": Anthropic(),
    "google": Google(),
}
VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY",
             "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY")  # fmt: skip


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


# --- two kinds of models: behind a protocol, or as an object of pydantic-ai ---


class ModelObject(FunctionModel):
    """A model object of the user's own that gives the replies of a script with the reasons of their ends."""

    system = "openai"

    def __init__(self, script: Sequence[Said | Fails]) -> None:
        self.script, self.requests = script, list[Any]()
        super().__init__(self._whole, stream_function=self._pieces, model_name="m")

    def _next(self, messages: Any) -> Said | Fails:
        reply = self.script[min(len(self.requests), len(self.script) - 1)]
        self.requests.append(messages)
        return reply

    def _whole(self, messages: Any, info: Any) -> ai.ModelResponse:
        reply = self._next(messages)
        if isinstance(reply, Fails):
            return ai.ModelResponse(parts=[ai.TextPart(reply.message)], finish_reason="error")
        thinking = [ai.ThinkingPart(reply.thinking)] if reply.thinking else []
        text = [ai.TextPart(reply.text)] if reply.text else []
        calls = [ai.ToolCallPart(call.tool or "", dict(call.arguments), call.id or "c") for call in reply.calls]  # type: ignore[arg-type]
        end = END[reply.end]
        details = {"refusal": reply.refusal} if reply.refusal else {"finish_reason": end} if end else {}
        reason: Any = end
        return ai.ModelResponse(parts=[*thinking, *text, *calls], finish_reason=reason, provider_details=details)

    async def _pieces(self, messages: Any, info: Any) -> AsyncIterator[Any]:
        raise AssertionError("request_stream is ours")
        yield

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, settings: Any, parameters: Any, context: Any = None
    ) -> AsyncIterator[StreamedResponse]:
        yield _Streamed(parameters, _model_name="m", _iter=_nothing(), whole=self._whole(messages, None))


@dataclass
class _Streamed(FunctionStreamedResponse):
    whole: ai.ModelResponse = None  # type: ignore[assignment]

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        for number, part in enumerate(self.whole.parts):
            if isinstance(part, ai.TextPart):
                for piece in (part.content[:8], part.content[8:]):
                    for event in self._parts_manager.handle_text_delta(vendor_part_id="content", content=piece):
                        yield event
            else:
                yield self._parts_manager.handle_part(vendor_part_id=number, part=part)
        self.finish_reason, self.provider_details = self.whole.finish_reason, self.whole.provider_details


async def _nothing() -> AsyncIterator[Any]:
    return
    yield


END = {"stop": "stop", "length": "length", "refused": "content_filter", "filtered": "content_filter", "none": None}


@dataclass
class Asked:
    """The outcome of a run."""

    run: agf.Run
    bodies: list[Any]

    @property
    def cell(self) -> tuple[str | None, str, int]:
        """The code, the words or the output, and the number of requests."""
        error = self.run.error
        words = repr(self.run.output) if error is None else error.diagnostic.message
        for name in (*(protocol.model for protocol in PROTOCOLS.values()), "openai:m"):
            words = words.replace(name, "M")
        return (None if error is None else error.code), words, len(self.bodies)


WHERE = (*PROTOCOLS, "object")


def ask(
    where: str, script: Sequence[Any], patch: pytest.MonkeyPatch,
    *, stream: bool = False, schema: bool = False, text: str = "", **options: Any,
) -> Asked:  # fmt: skip
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def add(x: int) -> int:
        """Adds one."""
        return x + 1

    @agf.tool(registry=registry)
    def now() -> str:
        """The time."""
        return "noon"

    text = (
        text or f"{SCHEMA if schema else ''}pipeline: p\nsteps:\n- agent: {{prompt: Hi{', schema: Total' * schema}}}\n"
    )
    run_options: dict[str, Any] = {"registry": registry, "raises": False, "stream": stream, **options}
    if stream:
        run_options.setdefault("on_event", lambda event: None)
    if where == "object":
        model = ModelObject(script)
        registry.choose(model)
        return Asked(agf.run(text, **run_options), model.requests)
    protocol = PROTOCOLS[where]
    with ProtocolServer(protocol, script) as server:
        patch.setenv(protocol.key, "not-a-real-key")
        patch.setenv(protocol.variable, server.url)
        registry.choose(protocol.model)
        return Asked(agf.run(text, **run_options), server.requests)


# --- the table ---

SILENT = "the model replied with {}, also when it was asked again"
UNENDED = "the reply of M ended without its end mark: it is not complete"
RULES = "M gives no answer, by the rules of its provider: {}"
KINDS: Mapping[str, tuple[Sequence[Any], tuple[str | None, str, int]]] = {
    "refused": ([Said(refusal="I cannot help.", end="refused")], ("model.filtered", RULES.format("I cannot help."), 1)),
    "filtered": ([Said(text="Half a", end="filtered")], ("model.filtered", RULES.format("Half a"), 1)),
    "broken off": ([Said(text="The answer is", end="none")], ("model.unended", UNENDED, 1)),
    "empty": ([Said()], ("model.empty", SILENT.format("nothing"), 2)),
    "blank": ([Said(text=" \n")], ("model.empty", SILENT.format("nothing"), 2)),
    "a call without a name": ([Said(calls=[Call("", {"x": 2})]), FINE], (None, "'fine'", 2)),
    "a call that was not offered": ([Said(calls=[Call("nope", {"x": 2})]), FINE], (None, "'fine'", 2)),
    "an error in a 200": ([Fails("overloaded", 503), FINE], (None, "'fine'", 2)),
    "<think> in the text": ([Said(text="<think>2+3</think>fine")], (None, "'fine'", 1)),
    "<thinking> in the text": ([Said(text="\n<thinking>a\nb</thinking>\n\nfine")], (None, "'fine'", 1)),
    "reasoning only": ([Said(thinking="2+3")], ("model.empty", SILENT.format("reasoning only"), 2)),
    "tags only": ([Said(text="<think>2+3</think>\n")], ("model.empty", SILENT.format("reasoning only"), 2)),
    "reasoning that does not end": ([Said(text="<think>2+3")], ("model.empty", SILENT.format("reasoning only"), 2)),
    "nothing, then an answer": ([Said(), FINE], (None, "'fine'", 2)),
    "reasoning, then an answer": ([Said(thinking="hm"), FINE], (None, "'fine'", 2)),
    "about tags": ([Said(text="write <think>x</think> so")], (None, "'write <think>x</think> so'", 1)),
}
"""The replies of a model, in order, and the outcome of its run."""


def with_total(reply: Any) -> Any:
    """The same reply with an answer that fits the schema."""
    return Said(**{**vars(reply), "text": reply.text.replace("fine", TOTAL.text)}) if isinstance(reply, Said) else reply


@pytest.mark.parametrize("schema", [False, True], ids=["text", "schema"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_has_the_same_end_in_each_protocol(
    kind: str, where: str, stream: bool, schema: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, (code, words, requests) = KINDS[kind]
    if (kind, where, stream) == ("broken off", "object", False):
        pytest.skip("an object that replies in one piece has no mark of an end")
    if schema:
        if kind == "about tags":
            pytest.skip("it is no JSON")
        script = [with_total(reply) for reply in script]
        words = words.replace("'fine'", "{'total': 5}")
    exchange = ask(where, script, monkeypatch, stream=stream, schema=schema)
    assert exchange.cell == (code, words, requests)
    if kind == "an error in a 200":
        (warning,) = exchange.run.warnings
        assert (warning.code, "overloaded" in warning.message) == ("model.retried", True)
        return
    assert exchange.run.warnings == ()
    # Each reply was paid for, even one that is not an answer.
    assert exchange.run.usage.requests == requests


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("where", WHERE)
def test_a_model_is_told_that_a_call_names_nothing_and_its_other_calls_are_made(
    where: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Said(calls=[Call("add", {"x": 1}, "c1"), Call("", {"x": 9}, "c2"), Call("nope", {}, "c3")])
    exchange = ask(where, [both, FINE], monkeypatch, stream=stream)
    assert exchange.run.output == "fine"
    request = str(exchange.bodies[1]) if where == "object" else json.dumps(exchange.bodies[1])
    assert "there is no tool '' here" in request
    assert "there is no tool 'nope' here" in request
    (call,) = [row for row in exchange.run.steps.values() if row.id.endswith(".call")]
    assert (call.finished, call.failed) == (1, 2)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("where", WHERE)
def test_the_call_of_an_answer_is_an_answer_only_where_one_was_asked_for(
    where: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = ask(where, [Said(calls=[Call("final_answer", {"x": 9})]), FINE], monkeypatch, stream=stream)
    assert exchange.cell == (None, "'fine'", 2)


@pytest.mark.parametrize("where", WHERE)
def test_the_tokens_of_a_refusal_count_towards_the_limit(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fan_out = "over: '[1, 2, 3]', on_error: continue, max_parallel: 1, do: {agent: {prompt: x}}"
    text = f"{{pipeline: p, steps: [{{for_each: {{{fan_out}, collect: {{transform: {{value: pipe}}}}}}}}]}}"
    refused = Said(refusal="No.", end="refused")
    run = ask(where, [refused], monkeypatch, text=text).run
    assert run.usage.requests == 3
    assert run.usage.tokens > 0


# --- streamed pieces ---

CUTS = (
    ["<think>", "2+3", "</think>", "5"],
    ["<think>\n", "2+3\n</think>", "\n\n5"],
    ["<think>2", "+3</think>", "5"],
    ["<", "thi", "nk>2+3</thi", "nk>5"],
    ["<think>2+3</think>5"],
    ["<think>", "2+3</think>5"],
    [*"<think>2+3</think>5"],
    ["\n", "<think>", "2+3", "</think>", "\n", "5"],
)


@pytest.mark.parametrize("where", PROTOCOLS)
@pytest.mark.parametrize("cut", range(len(CUTS)))
def test_reasoning_is_no_part_of_an_answer_however_it_is_cut(
    cut: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[ev.ModelText] = []

    def hear(event: ev.Event) -> None:
        if isinstance(event, ev.ModelText):
            heard.append(event)

    pieces = CUTS[cut]
    exchange = ask(where, [Said(text="".join(pieces), pieces=pieces)], monkeypatch, stream=True, on_event=hear)
    assert exchange.cell == (None, "'5'", 1)
    texts = {part: "".join(event.text for event in heard if event.part == part) for part in ("thinking", "text")}
    assert (texts["thinking"].strip(), texts["text"]) == ("2+3", "5")


# --- wrong forms of servers ---


def chunk(delta: Mapping[str, Any], **more: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": None, **more}]
    return f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'choices': choices})}\n\n".encode()


def piece(index: int, id: str | None, name: str | None, arguments: str) -> bytes:
    head = {"id": id, "type": "function"} if id else {}
    return chunk({"tool_calls": [{"index": index, **head, "function": {"name": name, "arguments": arguments}}]})


PARALLEL = {
    "each with its number": [(0, "a", "add", '{"x": 2}'), (1, "b", "add", '{"x": 5}')],
    "all with number 0": [(0, "a", "add", '{"x": 2}'), (0, "b", "add", '{"x": 5}')],
    "all with number 0, in pieces": [
        (0, "a", "add", ""), (0, None, None, '{"x"'), (0, None, None, ": 2}"),
        (0, "b", "add", ""), (0, None, None, '{"x": 5}'),
    ],
    "all with number 0, without ids": [(0, None, "add", '{"x": 2}'), (0, None, "add", '{"x": 5}')],
    "interleaved by id": [
        (0, "a", "add", '{"x"'), (0, "b", "add", '{"x"'), (0, "a", None, ": 2}"), (0, "b", None, ": 5}"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", PARALLEL)
def test_parallel_calls_stay_apart_in_a_stream(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    end = [chunk({}, finish_reason="tool_calls"), b"data: [DONE]\n\n"]
    calls = Raw(b"".join([*(piece(*call_piece) for call_piece in PARALLEL[form]), *end]), headers=EVENTS)  # type: ignore[attr-defined]
    exchange = ask("chat", [calls, FINE], monkeypatch, stream=True)
    assert exchange.cell == (None, "'fine'", 2)
    assert [message["content"] for message in exchange.bodies[1]["messages"] if message["role"] == "tool"] == ["3", "6"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("form", ["null", "", "{}"])
@pytest.mark.parametrize("where", ["chat", "responses", "google"])
def test_a_tool_without_arguments_is_called_with_each_form_of_none(
    where: str, form: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: Any = {} if where == "google" and form == "{}" else form
    exchange = ask(where, [Said(calls=[Call("now", arguments)]), FINE], monkeypatch, stream=stream)
    assert exchange.cell == (None, "'fine'", 2)
    assert "noon" in json.dumps(exchange.bodies[1])


USAGES = [
    {"prompt_tokens": 10, "completion_tokens": 5},
    {"prompt_tokens": 10.0, "completion_tokens": 5.0, "total_tokens": 15.0},
    {"prompt_tokens": 10.2, "completion_tokens": 4.9, "total_tokens": 15.1},
    {"prompt_tokens": "10", "completion_tokens": "5", "total_tokens": "15"},
    {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": None},
    {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.5, "x": {"y_tokens": 1.5}},
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("usage", USAGES, ids=map(str, range(len(USAGES))))
def test_the_form_of_its_numbers_refuses_no_paid_reply(
    usage: Any, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {**Chat().plain(FINE), "usage": usage}
    end = f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'choices': [], 'usage': usage})}\n\n"
    pieces = [chunk({"content": "fine"}), chunk({}, finish_reason="stop"), end.encode(), b"data: [DONE]\n\n"]
    reply = Raw(b"".join(pieces), headers=EVENTS) if stream else Raw(json.dumps(whole), headers=JSON)
    exchange = ask("chat", [reply], monkeypatch, stream=stream)
    assert exchange.cell == (None, "'fine'", 1)
    assert (exchange.run.usage.input, exchange.run.usage.output) == (10, 5)


@pytest.mark.parametrize("where", ["responses", "anthropic", "google"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_other_protocols_are_read_with_such_numbers_too(
    where: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = PROTOCOLS[where]

    def odd(value: Any) -> Any:
        if isinstance(value, list):
            return [odd(element) for element in value]
        if isinstance(value, dict):
            return {
                key: float(element) if "oken" in key and isinstance(element, int) else odd(element)
                for key, element in value.items()
            }
        return value

    if stream or where == "anthropic":  # the client of Anthropic always asks for a stream
        reply = Raw(b"".join(protocol.line(odd(event)) for event in protocol.events(FINE)), headers=EVENTS)
    else:
        reply = Raw(json.dumps(odd(protocol.plain(FINE))), headers=JSON)
    exchange = ask(where, [reply], monkeypatch, stream=stream)
    assert exchange.cell == (None, "'fine'", 1)
    assert (exchange.run.usage.input, exchange.run.usage.output) == (10, 5)


BODIES: Sequence[tuple[Any, tuple[str, str, int]]] = [
    ({"error": {"message": "overloaded", "code": 502}}, ("model.server", "overloaded", 4)),
    ({"error": {"message": "slow down", "type": "rate_limit_error"}}, ("model.rate-limit", "slow down", 4)),
    ({"error": {"message": "who?", "code": "invalid_api_key"}}, ("model.key-refused", "who?", 1)),
    ({"error": {"message": "pay", "code": "insufficient_quota"}}, ("model.quota", "pay", 1)),
    ({"error": "out of memory"}, ("model.server", "out of memory", 4)),
    ({"object": "error", "message": "too long", "code": 400}, ("model.rejected", "too long", 1)),
    ({"choices": None, "error": {"message": "gone", "code": "404"}}, ("model.not-found", "gone", 1)),
    ({"choices": []}, ("model.empty", "nothing", 2)),
    ({"a": 1}, ("model.reply", "not a model's reply", 1)),
    ([1], ("model.reply", "not a model's reply", 1)),
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(("body", "expected"), BODIES, ids=map(str, range(len(BODIES))))
def test_an_answer_of_status_200_that_is_no_reply_says_why(
    body: Any, expected: tuple[str, str, int], stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = ask("chat", [Raw(json.dumps(body), headers={**JSON, "Retry-After": "0"})], monkeypatch, stream=stream)
    code, words, requests = exchange.cell
    assert (code, expected[1] in words) == (expected[0], True), words
    # A reply in one piece to a request for a stream is requested once more, in one piece.
    again = stream and code == "model.empty"
    assert requests == expected[2] + again


# --- replies that break off ---


def half(body: Mapping[str, Any]) -> str:
    text = json.dumps(body)
    return text[: text.index("fine") + 2]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("where", PROTOCOLS)
@pytest.mark.parametrize("how", ["the body ends", "the connection is cut", "no event at all"])
def test_a_reply_that_is_cut_anywhere_is_an_error_and_not_asked_for_again(
    how: str, where: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = PROTOCOLS[where]
    lines = b"".join(map(protocol.line, protocol.events(FINE)))
    cut = lines[: lines.index(b"fin") + 3] if b"fin" in lines else lines
    if how == "no event at all":
        cut, plain = b"", "{"
    else:
        plain = half(protocol.plain(FINE))
    is_cut = how == "the connection is cut"
    reply = Raw(cut if stream else plain, headers=EVENTS if stream else JSON, cut=is_cut)
    exchange = ask(where, [reply], monkeypatch, stream=stream)
    code = "model.broken-off" if is_cut else "model.unended"
    assert (exchange.cell[0], exchange.cell[2]) == (code, 1), exchange.cell


# --- places of a model ---

EDGES = "edges:\n- {{from: START, to: n}}\n- {{from: n, to: END}}\n"
GRAPH = f"name: g\nversion: '1.0'\nstate: {{{{}}}}\nnodes:\n  n: {{node}}\n{EDGES}"
FLOWS = {
    "pipeline": "pipeline: p\nsteps:\n- agent: {prompt: Hi}\n",
    "llm node": GRAPH.format(node="{type: llm, prompt: Hi, state_key: a}"),
    "agent node": GRAPH.format(node="{type: agent, prompt: Hi, tools: [add], state_key: a}"),
    "router node": """
name: g
version: '1.0'
state: {}
nodes:
  n: {type: router, prompt: Hi, routes: {a: x, b: y}, default_route: x}
  x: {type: passthrough, output: {v: 1}}
  y: {type: passthrough, output: {v: 2}}
edges:
- {from: START, to: n}
- {from: n, to: [x, y], type: conditional}
- {from: x, to: END}
- {from: y, to: END}
""",
    "policy": """
schema_version: "1.0.0"
metadata: {id: greeter, name: Greeter, version: "1.0.0", description: Greets.}
interface: {input: {}, output: {}}
execution_policy:
  id: agf.react
  config: {instructions: Greet., model: "openai-chat:m"}
""",
    "element": "{pipeline: p, steps: [{for_each: {over: '[1]', on_error: abort, do: {agent: {prompt: Hi}}, "
    "collect: {transform: {value: pipe}}}}]}",
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("kind", ["refused", "broken off", "empty", "reasoning only", "an error in a 200"])
@pytest.mark.parametrize("flow", FLOWS)
def test_a_reply_has_the_same_end_in_each_flow(
    flow: str, kind: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, (code, words, requests) = KINDS[kind]
    exchange = ask("chat", script, monkeypatch, stream=stream, text=FLOWS[flow])
    assert (exchange.cell[0], exchange.cell[2]) == (code, requests), exchange.cell
    if code is not None:
        assert exchange.cell[1] == words
        assert exchange.run.error.diagnostic.span is not None


@pytest.mark.parametrize(
    "script",
    [
        [Said(), FINE],
        [Said()],
        [Said(calls=[Call("", {"x": 2})]), FINE],
        [Said(text="<think>hm</think>fine")],
        [Said(refusal="No.", end="refused")],
    ],
    ids=["empty, then an answer", "empty", "a call without a name", "reasoning in the text", "refused"],
)
def test_a_recording_has_the_same_end(script: Sequence[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    with kept.journal_in(tmp_path), ProtocolServer(Chat(), script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        registry = agf.Registry()
        registry.choose(Chat.model)
        run = agf.run(FLOWS["pipeline"], registry=registry, raises=False)
        requests = len(server.requests)
        file = agf.record(run, tmp_path / "run.agf")
        with agf.replay(file):
            again = agf.run(FLOWS["pipeline"], registry=registry, raises=False)
        assert len(server.requests) == requests
    assert (again.output, again.error and again.error.code) == (run.output, run.error and run.error.code)


PLAN = {"calls": [{"_tool": "add", "x": 3, "_outputPath": "†state.sum"}], "output": "†state.sum"}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([Said(refusal="No.", end="refused")], ("model.filtered", 1)),
        ([Said(text=json.dumps(PLAN)[:20], end="none")], ("model.unended", 1)),
        ([Said()], ("model.empty", 2)),
        ([Said(thinking="hm"), Said(text=json.dumps(PLAN))], (4, 2)),
        ([Said(text=f"<think>hm</think>{json.dumps(PLAN)}")], (4, 1)),
    ],
    ids=["refused", "broken off", "empty", "reasoning, then a plan", "reasoning in the text"],
)
def test_a_planner_has_the_same_end_as_a_flow(script: Any, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def add(x: int) -> int:
        """Adds one."""
        return x + 1

    with ProtocolServer(Chat(), script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        try:
            end: Any = agf.planning.run_planner(Chat.model, "Add.", registry=registry).output
        except agf.AgfError as error:
            end = error.code
    assert (end, len(server.requests)) == expected


def test_an_empty_reply_is_asked_for_once_more_by_a_resumed_run_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The journal contains the empty replies, so their requests are not repeated."""
    with kept.journal_in(tmp_path), ProtocolServer(Chat(), [Said(), Fails("bad", 400), FINE]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        registry = agf.Registry()
        registry.choose(Chat.model)
        first = agf.run(FLOWS["pipeline"], registry=registry, raises=False)
        assert first.error.code == "model.rejected"
        assert agf.resume(first.run_id, registry=registry).output == "fine"
        assert len(server.requests) == 3
