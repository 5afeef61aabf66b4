"""Tests of each provider's own client with replies in its protocol, and of the how-to pages about models.

The replies are written by hand in the format of each protocol, not recorded; no connection leaves this computer.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from genai_prices import Usage, calc_price
from pydantic_ai.models import KnownModelName

import agf_magics as agf
from notebooks.scripted_server import LocalServer, Raw

PROTOCOLS: Mapping[str, Any] = json.loads(Path(__file__).with_name("replies.json").read_text("utf-8"))


@dataclass(frozen=True)
class Sent:
    """A request that the server received."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


STALL = "stall"
"""A reply that never comes: the connection stays open until the server is closed."""


class ReplayServer(LocalServer):
    """Gives the named replies of a protocol one after another, the last one again and again."""

    def __init__(self, protocol: str, names: Sequence[str], values: Mapping[str, Any] | None = None) -> None:
        """``values``: texts to put into the replies, by their placeholders."""
        super().__init__()
        self.protocol, self.names, self.values = PROTOCOLS[protocol], names, values or {}
        self.received: list[Sent] = []

    @property
    def url(self) -> str:
        return f"{self.address}{self.protocol['prefix']}"

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Raw:
        with self._lock:
            name = self.names[min(len(self.received), len(self.names) - 1)]
            self.received.append(Sent(path, headers, body))
        if name == STALL:
            return Raw(stalls=True)
        replay = self.protocol["replies"][name]
        text = self._filled(replay["body"])
        if replay["status"] == 200 and body.get("stream"):
            return Raw(message_events(json.loads(text)), headers={"Content-Type": "text/event-stream"})
        return Raw(text, replay["status"], {"Content-Type": "application/json", **replay.get("headers", {})})

    def _filled(self, body: Any) -> str:
        """The body as JSON. ``"$name"`` is the value of that name, ``"$json:name"`` its JSON as a text."""
        if isinstance(body, str):
            if body.startswith("$json:"):
                return json.dumps(json.dumps(self.values[body[6:]]))
            return json.dumps(self.values[body[1:]] if body.startswith("$") else body)
        if isinstance(body, list):
            return f"[{', '.join(map(self._filled, body))}]"
        if isinstance(body, dict):
            return "{" + ", ".join(f"{json.dumps(key)}: {self._filled(value)}" for key, value in body.items()) + "}"
        return json.dumps(body)


def message_events(message: dict[str, Any]) -> str:
    """A message of Anthropic as the events of a stream: each part of the content in two pieces."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    ]
    for index, part in enumerate(message["content"]):
        whole = part["text"] if part["type"] == "text" else json.dumps(part["input"])
        kind, field = ("text_delta", "text") if part["type"] == "text" else ("input_json_delta", "partial_json")
        empty = {**part, "text": ""} if part["type"] == "text" else {**part, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for piece in (whole[:3], whole[3:]):
            events.append({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    tokens = {"output_tokens": message["usage"]["output_tokens"]}
    events += [{"type": "message_delta", "delta": end, "usage": tokens}, {"type": "message_stop"}]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


HOWTO = Path(__file__).parents[2] / "docs" / "howto"
MODELS = (HOWTO / "models.md").read_text("utf-8")
KEY = "not-a-real-key"
ASK = 'pipeline: ask\nsteps:\n- agent: {prompt: "What do figs cost?"}\n'
SCHEMA = (
    'schema: Cost\nfields:\n  price: {type: number}\n---\npipeline: ask\nsteps:\n- agent: {prompt: "?", schema: Cost}\n'
)
ROW = re.compile(r"^\| (\w+) \| ([^|]+) \| \[`([\w.-]+)`\]", re.MULTILINE)


@dataclass(frozen=True)
class Provider:
    """A how-to page and the protocol that it is about."""

    protocol: str
    page: str
    address: str
    """The environment variable of the server's address; empty: it is a setting."""
    key: str = ""
    structured: str = "structured"
    """The reply with a structured answer."""

    @property
    def text(self) -> str:
        return (HOWTO / self.page).read_text("utf-8")

    @property
    def model(self) -> str:
        """The model of the line to type."""
        return re.findall(r'%config AgfMagics\.model = "([^"]+)"', self.text)[0]

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """What goes wrong with the answers that this provider gives: the answer, what the run does, the code."""
        answers = {*PROTOCOLS[self.protocol]["replies"], "nothing"}
        return [row for row in ROW.findall(MODELS) if row[0] in answers]


PROVIDERS = (
    Provider("openai", "openai.md", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    Provider("anthropic", "anthropic.md", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    Provider("google", "google.md", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY"),
    Provider("ollama", "ollama.md", "OLLAMA_BASE_URL"),
    Provider("server", "compatible-server.md", ""),
)
ENVIRONMENT = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY",
               *(provider.address for provider in PROVIDERS if provider.address))  # fmt: skip
each = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.protocol)
charged = pytest.mark.parametrize("provider", PROVIDERS[:3], ids=lambda provider: provider.protocol)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def registry() -> agf.Registry:
    tools = agf.Registry()

    @agf.tool(registry=tools)
    def price(fruit: str) -> float:
        """The price of a kilo."""
        return {"pear": 2.5, "fig": 7.0}[fruit]

    return tools


def choose(provider: Provider, server: ReplayServer, registry: agf.Registry, patch: pytest.MonkeyPatch) -> None:
    """What the page says: the name of the model, the key, the address."""
    if provider.key:
        patch.setenv(provider.key, KEY)
    if provider.address:
        patch.setenv(provider.address, server.url)
    registry.choose(provider.model, "" if provider.address else server.url)


def ask(
    provider: Provider, names: list[str], registry: agf.Registry, patch: pytest.MonkeyPatch,
    text: str = ASK, values: Any = None, **limits: Any,
) -> tuple[agf.Run, ReplayServer]:  # fmt: skip
    with ReplayServer(provider.protocol, names, values) as server:
        choose(provider, server, registry, patch)
        run = agf.run(text, registry=registry, raises=False, limits=agf.Limits(**limits))
    return run, server


# --- replies ---


@each
def test_a_session_with_a_tool(provider: Provider, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    run, server = ask(provider, ["call", "text"], registry, monkeypatch)
    assert (run.error, run.output) == (None, "A kilo is 7.0.")
    assert (run.usage.requests, run.usage.input, run.usage.output) == (2, 42, 18)
    assert run.steps["steps[0]/session.then.tools.call"].finished == 1
    model = provider.model.partition(":")[2]
    assert [sent.path for sent in server.received] == [server.protocol["path"].format(model=model)] * 2
    assert model in (server.received[0].path + str(server.received[0].body.get("model")))
    assert "price" in json.dumps(server.received[0].body["tools"])
    assert "7.0" in json.dumps(server.received[1].body)


@each
def test_the_key_is_sent_to_its_provider_alone(
    provider: Provider, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-openai")
    run, server = ask(provider, ["text"], registry, monkeypatch)
    assert run.error is None
    header, form = server.protocol["key"]
    sent = server.received[0].headers
    assert (sent[header] == form.format(key=KEY)) if provider.key else ("the-key-of-openai" not in str(sent))
    assert provider.protocol == "openai" or "the-key-of-openai" not in json.dumps(dict(sent))


@each
def test_a_structured_reply(provider: Provider, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = ask(provider, [provider.structured], registry, monkeypatch, SCHEMA, {"answer": {"price": 7.0}})
    assert (run.error, run.output) == (None, {"price": 7.0})


@each
def test_a_model_of_the_provider_plans(
    provider: Provider, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [{"_tool": "price", "fruit": "fig", "_outputPath": "†state.price"}]
    answer = {"calls": calls, "output": "†state.price"}
    with ReplayServer(provider.protocol, [provider.structured], {"answer": answer}) as server:
        choose(provider, server, registry, monkeypatch)
        planned = agf.planning.run_planner(provider.model, "What do figs cost?", registry=registry)
    assert (planned.output, planned.usage.tokens) == (7.0, 30)
    body = json.dumps(server.received[0].body, ensure_ascii=False)
    assert "The price of a kilo." in body
    assert not [word for word in ("_call", "_date", "_outputMethod") if word in body]


# --- what the page says ---


WRONG = [(provider, *row) for provider in PROVIDERS for row in provider.rows]


def test_every_provider_gives_the_answers_of_the_page() -> None:
    for provider in PROVIDERS:
        assert {answer for answer, _, _ in provider.rows} >= {"401", "429", "500", "nothing"}, provider.page
        assert "(models.md#what-goes-wrong)" in provider.text


@pytest.mark.parametrize(("provider", "answer", "does", "code"), WRONG, ids=lambda one: getattr(one, "protocol", None))
def test_the_run_does_what_the_page_says(
    provider: Provider, answer: str, does: str, code: str, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer == "nothing":
        run, server = ask(provider, [STALL], registry, monkeypatch, model_timeout=0.3)
        assert does == "fails after `model_timeout`"
        assert len(server.received) == 1
    else:
        run, server = ask(provider, [answer], registry, monkeypatch)
        requests = {"fails at once": 1, "asks again, up to three times": 4}[does]
        assert len(server.received) == requests
    assert run.error.code == code
    assert not provider.key or KEY not in str(run.error)
    if answer == "401":  # the key of OpenAI is never sent to a server of one's own
        assert (provider.key or "a model object of pydantic-ai") in (run.error.diagnostic.hint or "")
        assert provider.key or "_API_KEY" not in (run.error.diagnostic.hint or "")
    if len(server.received) > 1:
        again, server = ask(provider, [answer, "text"], registry, monkeypatch)
        assert (again.output, len(server.received)) == ("A kilo is 7.0.", 2)
        assert [warning.code for warning in again.warnings] == ["model.retried"]
        assert again.usage.requests == 1


@charged
def test_the_model_of_the_page_is_one_that_the_library_knows(provider: Provider) -> None:
    """A provider ends its models: a page must not name one that is gone."""
    assert provider.model in get_args(KnownModelName.__value__)


@charged
def test_without_the_key_of_the_page_a_run_is_refused(provider: Provider, registry: agf.Registry) -> None:
    registry.choose(provider.model)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(ASK, registry=registry)
    assert caught.value.code == "model.no-key"
    assert provider.key in (caught.value.diagnostic.hint or "")
    assert f"`{provider.key}`" in provider.text
    assert f"`{provider.address}`" in provider.text


@charged
def test_a_run_has_a_price(provider: Provider, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = ask(provider, ["429", "call", "text"], registry, monkeypatch)
    prefix, _, name = provider.model.partition(":")
    price = calc_price(Usage(input_tokens=42, output_tokens=18), name, provider_id=prefix).total_price
    assert price > 0
    assert run.cost == price
    assert "`run.cost`" in MODELS
    costly, server = ask(provider, ["call"], registry, monkeypatch, max_cost=0.000001)
    assert (costly.error.code, len(server.received)) == ("limit.cost", 1)


@pytest.mark.parametrize("provider", PROVIDERS[3:], ids=lambda one: one.protocol)
def test_a_model_of_an_own_server_has_no_price(
    provider: Provider, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = ask(provider, ["text"], registry, monkeypatch)
    assert (run.cost, run.usage.tokens) == (None, 30)


def test_a_server_that_is_not_there_is_reported_as_the_page_of_ollama_says(
    registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens there
        monkeypatch.setenv("OLLAMA_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        registry.choose(PROVIDERS[3].model)
        run = agf.run(ASK, registry=registry, raises=False)
    assert run.error.code == "model.no-server"
    assert "`model.no-server`" in PROVIDERS[3].text
