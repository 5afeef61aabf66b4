"""Tests of a request and its reply, against a real server that speaks the OpenAI protocol, with everything that
fails."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.openai import OpenAIProvider

from agf_magics.catalog import Model, ModelFault, Offered, Request, model_of
from agf_magics.values.value import Value
from notebooks.scripted_server import Answer, Raw, ScriptedServer, calls, failing, streamed

ADD = Offered("add", "Adds.", {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})
HELLO: list[Value] = [{"role": "user", "text": "hello"}]
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    new_loop = asyncio.new_event_loop()
    yield new_loop
    new_loop.close()


def ask(answer: Answer, request: Request | None = None, name: str = "openai:scripted") -> tuple[Any, ScriptedServer]:
    with ScriptedServer([answer]) as server:
        return asyncio.run(Model(name, server.url).ask(request or Request(HELLO))), server


def refusal(answer: Answer) -> ModelFault:
    with pytest.raises(ModelFault) as caught:
        ask(answer)
    return caught.value


# --- what is sent, what comes back ---


def test_a_text_comes_back_with_what_it_cost() -> None:
    reply, server = ask("hi")
    assert reply == {"text": "hi", "calls": [], "usage": {"input": 10, "output": 5}}
    assert server.requests[0]["model"] == "scripted"


def test_instructions_are_sent_as_they_stand() -> None:
    _, server = ask("hi", Request(HELLO, instructions="  You add.  Keep  spaces.\n"))
    assert server.requests[0]["messages"][0] == {"role": "system", "content": "  You add.  Keep  spaces.\n"}


def test_reasoning_in_a_text_is_apart_from_it() -> None:
    reply, _ = ask("<think>2+3</think>\n5")
    assert (reply["text"], reply["thinking"]) == ("5", "2+3")


def test_settings_are_sent_and_what_a_provider_does_not_have_is_left_out() -> None:
    settings = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "max_output_tokens": 50, "stop_sequences": ["END"]}
    _, server = ask("hi", Request(HELLO, settings=settings))
    sent = server.requests[0]
    assert (sent["temperature"], sent["top_p"], sent["stop"]) == (0.5, 0.9, ["END"])
    assert 50 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert "top_k" not in sent


def test_a_model_calls_tools_and_is_told_their_results() -> None:
    reply, _ = ask(calls(("add", {"x": 2})), Request(HELLO, tools=(ADD,)))
    (call,) = reply["calls"]
    assert (call["tool"], call["arguments"]) == ("add", {"x": 2})
    messages = [
        *HELLO,
        {"role": "model", "text": "", "calls": [call]},
        {"role": "tool", "id": call["id"], "tool": "add", "text": "4", "failed": False},
    ]
    _, server = ask("It is 4.", Request(messages, tools=(ADD,)))
    assert [message["role"] for message in server.requests[0]["messages"]] == ["user", "assistant", "tool"]
    assert server.requests[0]["messages"][2]["content"] == "4"


def test_arguments_that_are_no_json_are_told_and_not_raised() -> None:
    reply, _ = ask(calls(("add", '{"x": ')), Request(HELLO, tools=(ADD,)))
    assert reply["calls"][0]["fault"].startswith("are not JSON")
    assert reply["calls"][0]["arguments"] == '{"x": '


@pytest.mark.parametrize(
    "arguments", ["[1]", '{"x": NaN}', '{"x":' + "[" * 300 + "]" * 300 + "}", '{"x": ' + "9" * 5000 + "}"]
)
def test_arguments_that_are_no_object_of_ours_are_told(arguments: str) -> None:
    reply, _ = ask(calls(("add", arguments)), Request(HELLO, tools=(ADD,)))
    assert reply["calls"][0]["fault"]


def test_tools_have_names_that_every_provider_takes() -> None:
    odd = (Offered("a.b", "", {"type": "object"}), Offered("a_b", "", {"type": "object"}))
    reply, server = ask(calls(("a_b_2", {})), Request(HELLO, tools=odd))
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]] == ["a_b", "a_b_2"]
    assert reply["calls"][0]["tool"] == "a_b"


def test_a_tool_must_be_called_where_that_is_said() -> None:
    _, server = ask(calls(("add", {"x": 1})), Request(HELLO, tools=(ADD,), tool_choice="required"))
    assert server.requests[0]["tool_choice"] == "required"


def test_the_last_request_offers_no_tools() -> None:
    _, server = ask("4", Request(HELLO, tools=(ADD,), last=True))
    assert "tools" not in server.requests[0]


# --- structured answers ---

SUM = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}


def test_an_answer_of_a_schema_is_asked_for_in_the_servers_own_way() -> None:
    reply, server = ask('{"total": 5}', Request(HELLO, schema=SUM))
    assert server.requests[0]["response_format"]["json_schema"]["schema"]["required"] == ["total"]
    assert reply["text"] == '{"total": 5}'


def test_beside_tools_an_answer_is_a_call_of_its_own() -> None:
    reply, server = ask(calls(("final_answer", {"total": 5})), Request(HELLO, tools=(ADD,), schema=SUM))
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]] == ["add", "final_answer"]
    assert server.requests[0]["tool_choice"] == "required"
    assert reply["answer"] == {"total": 5}


def test_an_answer_that_is_no_object_is_asked_for_in_one() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "number"}}}
    reply, server = ask(calls(("final_answer", {"answer": [1, 2]})), Request(HELLO, tools=(ADD,), schema=schema))
    sent = server.requests[0]["tools"][1]["function"]["parameters"]
    assert sent["type"] == "object"
    assert sent["$defs"] == {"n": {"type": "number"}}
    assert reply["answer"] == [1, 2]


def test_an_answer_that_is_no_object_is_unwrapped_where_it_comes_as_text() -> None:
    schema = {"type": "array", "items": {"type": "number"}}
    reply, server = ask('{"answer": [1, 2]}', Request(HELLO, schema=schema))
    assert server.requests[0]["response_format"]["json_schema"]["schema"]["required"] == ["answer"]
    assert reply["text"] == "[1, 2]"
    assert ask("no answer", Request(HELLO, schema=schema))[0]["text"] == "no answer"


def test_the_providers_own_schema_mode_is_used_beside_tools_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(['{"total": 5}']) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        model = model_of("openai-chat:gpt-4o")
        reply = asyncio.run(model.ask(Request(HELLO, tools=(ADD,), schema=SUM)))
        sent = server.requests[0]
    assert reply["text"] == '{"total": 5}'
    assert sent["response_format"]["type"] == "json_schema"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["add"]


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("answer", "code", "again"),
    [
        (failing(401, "no such key"), "model.key-refused", False),
        (failing(402, "pay first"), "model.quota", False),
        (failing(404, "no such model"), "model.not-found", False),
        (failing(400, "this model has no tools"), "model.rejected", False),
        (failing(422, "what is that"), "model.rejected", False),
        (failing(429, "slow down", Retry_After="7"), "model.rate-limit", True),
        (failing(500, "oops"), "model.server", True),
        (failing(503, "overloaded"), "model.server", True),
        (Raw("{not json", headers={"Content-Type": "application/json"}), "model.reply", False),
        (Raw('{"a": 1}', headers={"Content-Type": "application/json"}), "model.reply", False),
        (Raw("<html>log in</html>", headers={"Content-Type": "text/html"}), "model.reply", False),
        (Raw(""), "model.reply", False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_server_answers_is_told_in_our_words(answer: Answer, code: str, again: bool) -> None:
    error = refusal(answer)
    assert (error.code, error.again) == (code, again)
    assert error.__cause__ is None


def test_a_provider_says_when_to_ask_again() -> None:
    assert refusal(failing(429, "slow down", Retry_After="7")).after == 7.0


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody else's, and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ModelFault) as caught:
            asyncio.run(Model("openai:m", url).ask(Request(HELLO)))
    assert caught.value.code == "model.no-server"
    assert url in str(caught.value)


def test_a_server_that_only_streams_is_understood() -> None:
    with ScriptedServer([streamed("hello there")]) as server:
        reply = asyncio.run(Model("openai:m", server.url).ask(Request(HELLO)))
        assert reply["text"] == "hello there"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ({"message": "overloaded", "type": "server_error", "code": 500}, "model.server", "overloaded"),
        ({"message": "slow down", "type": "rate_limit_exceeded", "code": 429}, "model.rate-limit", "slow down"),
        ("broken", "model.reply", "is not a model's reply"),
    ],
)
def test_the_error_of_a_server_that_only_streams_is_told(error: Any, code: str, words: str) -> None:
    text = "{broken" if error == "broken" else json.dumps({"error": error})
    refused = refusal(Raw(f"data: {text}\n\n", headers={"Content-Type": "text/event-stream"}))
    assert (refused.code, words in str(refused)) == (code, True)


def test_no_key_is_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
    answer = failing(401, "Incorrect API key provided: not-to-be-seen, nor sk-abcdefgh, Bearer abc.def")
    texts = repr(refusal(answer).diagnostics)
    assert not [word for word in ("not-to-be-seen", "sk-abcdefgh", "abc.def") if word in texts]
    assert "•••" in texts


def test_a_server_of_the_users_own_is_never_sent_the_key_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
    _, server = ask("hi")
    assert "not-to-be-seen" not in json.dumps(server.headers)


# --- names ---


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("openai:gpt-4o", "model.no-key"),
        ("gpt-4o", "model.no-key"),
        ("anthropic:claude-sonnet-4-5", "model.no-key"),
        ("claude-sonnet-4-5", "model.no-key"),
        ("google:gemini-2.5-pro", "model.no-key"),
        ("m1", "model.no-provider"),
        ("openai:", "model.name"),
        (":gpt-4o", "model.name"),
        (" ", "model.none"),
        ("", "model.none"),
    ],
)
def test_what_is_wrong_with_a_name_is_known_before_anybody_is_asked(name: str, code: str) -> None:
    problem = model_of(name).problem()
    assert problem.code == code
    assert problem.hint


def test_a_server_for_the_api_of_openai_replaces_only_the_key_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    assert model_of("openai:m").problem() is None
    assert model_of("anthropic:claude-sonnet-4-5").problem().code == "model.no-key"
    assert model_of("google:gemini-2.5-pro").problem().code == "model.no-key"


@pytest.mark.parametrize(
    ("name", "code", "word"),
    [("opnai:gpt-4o", "model.unknown-provider", "openai"), ("groq:m", "model.not-installed", "pydantic-ai-slim[groq]")],
)
def test_what_only_the_library_knows_is_told_when_it_is_asked(
    name: str, code: str, word: str, loop: asyncio.AbstractEventLoop
) -> None:
    with pytest.raises(ModelFault) as caught:
        model_of(name).open(loop)
    assert caught.value.code == code
    assert word in (caught.value.diagnostic.hint or "")


def test_a_model_with_a_key_can_be_asked(monkeypatch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
    model = model_of("openai:gpt-4o")
    assert model.problem() is None
    assert not model.ready(loop)
    model.open(loop)
    assert model.ready(loop)
    assert "not-to-be-seen" not in repr(model)


@pytest.mark.parametrize("package", ["pydantic_ai", "anthropic"])
def test_without_its_package_a_model_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    problem = model_of("anthropic:claude-sonnet-4-5").problem()
    assert (problem.code, problem.hint) == ("model.not-installed", 'pip install "agf-magics[anthropic]"')


def test_ollama_needs_no_key(loop: asyncio.AbstractEventLoop) -> None:
    model = model_of("ollama:qwen3")
    assert model.problem() is None
    model.open(loop)


def test_a_base_url_is_for_openai_and_for_names_without_a_provider() -> None:
    assert model_of("openai:m", "http://localhost:1/v1").problem() is None
    assert model_of("m1", "http://localhost:1/v1").problem() is None
    problem = model_of("anthropic:m", "http://localhost:1/v1").problem()
    assert problem.code == "model.no-key"


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="model must be a name such as"):
        model_of(3)


def test_the_library_is_not_imported_before_a_model_is_asked() -> None:
    code = "import agf_magics, sys; agf_magics.registry.choose('openai:m'); print('pydantic_ai' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout == "False\n"


# --- models of the library's own ---


def function_model(answer: Callable[[list[ModelMessage], AgentInfo], ModelResponse]) -> Model:
    return model_of(FunctionModel(answer))


def test_a_model_object_answers() -> None:
    model = function_model(lambda messages, info: ModelResponse(parts=[TextPart("hi")]))
    assert asyncio.run(model.ask(Request(HELLO)))["text"] == "hi"


def test_what_a_provider_wants_to_see_again_is_kept_and_sent() -> None:
    requests: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests.append(messages)
        return ModelResponse(parts=[ThinkingPart("hm", signature="abc"), ToolCallPart("add", {"x": 1}, "c1")])

    model = function_model(answer)
    first = asyncio.run(model.ask(Request(HELLO, tools=(ADD,))))
    json.dumps(first)
    reply = {"role": "model", **{name: first[name] for name in ("text", "calls", "kept")}}
    result = {"role": "tool", "id": "c1", "tool": "add", "text": "2", "failed": False}
    asyncio.run(model.ask(Request([*HELLO, reply, result], tools=(ADD,))))  # type: ignore[list-item]
    again = requests[1][1]
    assert isinstance(again, ModelResponse)
    assert again.parts[0] == ThinkingPart("hm", signature="abc")


def test_an_exception_of_somebodys_model_is_told() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ValueError("no pears")

    with pytest.raises(ModelFault) as caught:
        asyncio.run(function_model(answer).ask(Request(HELLO)))
    assert caught.value.code == "model.failed"
    assert "ValueError: no pears" in str(caught.value)


def test_one_model_is_asked_from_one_loop_after_another() -> None:
    with ScriptedServer(["hi"]) as server:
        model = Model("openai:m", server.url)
        assert [asyncio.run(model.ask(Request(HELLO)))["text"] for _ in range(2)] == ["hi", "hi"]


def test_one_model_is_asked_from_several_loops_at_once() -> None:
    """A run in the background has the engine's loop, `arun` its caller's; a registered agent's model is the same."""
    all_there = threading.Barrier(3, timeout=60)

    def answer(_: dict[str, Any]) -> Answer:
        all_there.wait()
        return "hi"

    async def talk() -> list[Any]:
        return [(await model.ask(Request(HELLO)))["text"] for _ in range(3)]

    with ScriptedServer(answer) as server, ThreadPoolExecutor(3) as threads:
        model = Model("openai:m", server.url)
        talks = [threads.submit(asyncio.run, talk()) for _ in range(3)]
        assert [finished_talk.result() for finished_talk in talks] == [["hi"] * 3] * 3


def test_sessions_that_begin_at_once_open_one_model(loop: asyncio.AbstractEventLoop) -> None:
    """With one each, whoever ends first would close the connections of another."""
    at_once = threading.Barrier(8)
    model = Model("openai:m", "http://localhost:1/v1")

    def opened(_: int) -> Any:
        at_once.wait()
        return model.open(loop)

    with ThreadPoolExecutor(8) as threads:
        first, *other_models = threads.map(opened, range(8))
    assert all(other is first for other in other_models)


def test_a_status_of_the_library_is_enough() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(529, "m", {"error": {"message": "overloaded"}})

    with pytest.raises(ModelFault) as caught:
        asyncio.run(function_model(answer).ask(Request(HELLO)))
    assert (caught.value.code, caught.value.again) == ("model.server", True)


def packed(size: int, packing: str = "gzip") -> Raw:
    """An answer that unpacks to ``size`` bytes."""
    text = b'{"id": "' + b"x" * size + b'"}'
    return Raw(gzip.compress(text), headers={"Content-Type": "application/json", "Content-Encoding": packing})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Raw("x" * 65_000_000), "the answer has more than 64 MB"),
        (packed(65_000_000), "the answer has more than 64 MB"),
        (packed(10, "br"), "the server packs its answer as 'br', not as gzip"),
    ],
    ids=["large", "large when unpacked", "packed in another way"],
)
def test_the_answer_of_a_server_is_bounded(answer: Raw, why: str) -> None:
    failed = refusal(answer)
    assert failed.code == "model.reply"
    assert failed.diagnostic.message == f"the answer of openai:scripted cannot be read: {why}"


def test_a_packed_answer_is_read() -> None:
    body = {
        "id": "1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    reply, _ = ask(Raw(gzip.compress(json.dumps(body).encode()), headers=headers))
    assert reply["text"] == "hi"


@pytest.mark.parametrize("tokens", [10**30, -5])
def test_impossible_numbers_of_tokens_are_no_numbers(tokens: int) -> None:
    body = {
        "id": "1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip
    reply, _ = ask(Raw(json.dumps(body), headers={"Content-Type": "application/json"}))
    assert reply["text"] == "hi"
    assert 0 <= reply["usage"]["input"] < 10**12


# --- by what its results are found again ---

SERVERS = [
    ("openai:gpt-4o", {"OPENAI_BASE_URL": "https://gateway.example/v1"}),
    ("openai-chat:gpt-4o", {"OPENAI_BASE_URL": "https://gateway.example/v1"}),
    ("gpt-4o", {"OPENAI_BASE_URL": "https://gateway.example/v1"}),
    ("anthropic:claude", {"ANTHROPIC_BASE_URL": "https://gateway.example"}),
    ("google:gemini", {"GOOGLE_GEMINI_BASE_URL": "https://gateway.example"}),
    ("google-vertex:gemini", {"GOOGLE_CLOUD_LOCATION": "europe-west1"}),
    ("ollama:qwen", {"OLLAMA_BASE_URL": "http://other:11434/v1"}),
    ("azure:gpt-4o", {"AZURE_OPENAI_ENDPOINT": "https://one.example"}),
    ("azure:gpt-4o", {"OPENAI_API_VERSION": "2025-01-01"}),
    ("bedrock:nova", {"AWS_REGION": "eu-central-1"}),
    ("groq:llama", {"GROQ_BASE_URL": "https://gateway.example"}),
    ("cohere:command", {"CO_BASE_URL": "https://gateway.example"}),
]


@pytest.mark.parametrize(("name", "variables"), SERVERS, ids=str)
def test_a_model_of_another_server_has_another_address(
    name: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Model(name).address
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert Model(name).address != before
    monkeypatch.setenv("OTHER_BASE_URL", "https://other.example")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    after = Model(name).address
    assert after is not None
    assert after.endswith("".join(variables.values()))
    assert "a-key" not in after


def test_an_address_that_is_given_hides_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Model("openai:m", "http://localhost:8000/v1").address
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    assert Model("openai:m", "http://localhost:8000/v1").address == before == "openai:m http://localhost:8000/v1"


# --- servers that always stream, or never ---


def with_usage(raw: Raw, read: int, written: int) -> Raw:
    """A stream with the tokens in each of its pieces."""
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    lines = []
    for line in str(raw.body).split("\n\n"):
        is_piece = line.startswith("data: {")
        lines.append("data: " + json.dumps({**json.loads(line[6:]), "usage": usage}) if is_piece else line)
    return Raw("\n\n".join(lines), headers=raw.headers)


def test_a_server_that_only_streams_is_asked_once_from_the_second_request_on() -> None:
    with ScriptedServer([with_usage(streamed("hello there"), 10, 5)]) as server:
        model = Model("openai:scripted", server.url)
        first = asyncio.run(model.ask(Request(HELLO)))
        assert len(server.requests) == 2
        assert first["usage"] == {"input": 20, "output": 10}, "both answers are paid for"
        second = asyncio.run(model.ask(Request(HELLO)))
        assert (second["text"], second["usage"]) == ("hello there", {"input": 10, "output": 5})
        assert [bool(request.get("stream")) for request in server.requests] == [False, True, True]


def test_a_server_that_never_streams_is_asked_once_from_the_second_request_on() -> None:
    with ScriptedServer(["hello"]) as whole:
        body = json.dumps(
            {
                "id": "1", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [
                    {"index": 0, "message": {"content": "hello", "role": "assistant"}, "finish_reason": "stop"}
                ],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }
        )  # fmt: skip
        whole._script = [Raw(body, headers={"Content-Type": "application/json"})]
        model = Model("openai:scripted", whole.url)
        first = asyncio.run(model.ask(Request(HELLO), lambda delta: None))
        assert (first["text"], first["usage"]) == ("hello", {"input": 20, "output": 10})
        second = asyncio.run(model.ask(Request(HELLO), lambda delta: None))
        assert (second["text"], second["usage"]) == ("hello", {"input": 10, "output": 5})
        assert [bool(request.get("stream")) for request in whole.requests] == [True, False, False]


def test_a_reply_without_numbers_of_tokens_has_no_price() -> None:
    used = {"input": 0, "output": 0}
    assert Model("openai:gpt-4o").price(used) is None  # type: ignore[arg-type]
    assert Model("openai:gpt-4o").price({"input": 1, "output": 0}) is not None


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_key_of_the_users_model_object_is_masked(status: int) -> None:
    key = "my-own-way-of-keys-1234"
    with ScriptedServer([failing(status, f"no access for {key}")]) as server:
        library_model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=server.url, api_key=key))
        with pytest.raises(ModelFault) as caught:
            asyncio.run(model_of(library_model).ask(Request(HELLO)))
        with pytest.raises(ModelFault) as wrapped:
            asyncio.run(model_of(WrapperModel(library_model)).ask(Request(HELLO)))
    for error in (caught.value, wrapped.value):
        assert key not in str(error)
        assert "no access for •••" in str(error)
    assert caught.value.again == (status == 500)
