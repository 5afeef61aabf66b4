"""Tests of the cost of models per request, step and run, of the limits of tokens and money, and of unknown prices."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.catalog import model_of
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.usage import cost_of
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.pictures.pages.parts import progress_text
from agf_magics.pictures.pages.run_list import RUN_COLUMNS
from agf_magics.pictures.pages.run_page import run_html
from notebooks.scripted_server import Answer, ScriptedServer, Stream, calls
from tests.engine import kept

ASK = """
pipeline: ask
steps:
- agent: {prompt: "What do figs cost?"}
"""
TWICE = """
pipeline: twice
steps:
- call: {pipeline: ask}
- agent: {prompt: again}
"""
FAN = """
pipeline: fan
steps:
- for_each:
    items: [1, 2, 3]
    on_error: abort
    do: {agent: {prompt: "What do figs cost?"}}
    collect: {transform: {value: pipe}}
"""
REPLY = Decimal("0.000075")
"""10 tokens of input and 5 of output of gpt-4o: $2.50 and $10 for a million."""


@pytest.fixture
def registry() -> agf.Registry:
    tools = agf.Registry()
    agf.tool(lambda fruit: 7.0, name="price", registry=tools)
    return tools


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch, registry: agf.Registry) -> Iterator[list[Answer]]:
    """A server on this computer in the place of OpenAI's; the list is what it answers."""
    answers: list[Answer] = []
    numbers = iter(range(1_000))
    with ScriptedServer(lambda request: answers[min(next(numbers), len(answers) - 1)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        registry.choose("openai-chat:gpt-4o")
        yield answers


def run(registry: agf.Registry, text: str = ASK, **options: Any) -> agf.Run:
    return agf.run(text, registry=registry, raises=False, **options)


# --- counting ---


@pytest.mark.parametrize("listens", [False, True])
def test_the_tokens_of_a_fire_and_forget_flow_are_those_of_its_call_also_after_the_run(
    registry: agf.Registry, openai: list[Answer], listens: bool
) -> None:
    openai += ["seven"]
    ended, reported, events = threading.Event(), threading.Event(), list[ev.Event]()
    agf.tool(lambda: ended.wait(60), name="hold", registry=registry)
    agf.tool(lambda: reported.set(), name="tell", registry=registry)
    agf.define(
        "pipeline: late\nsteps: [{tool: {name: hold}}, {agent: {prompt: x}}, {tool: {name: tell}}]", registry=registry
    )
    main_run = run(registry, "name: main\ncalls: [{_delegate: late}]", on_event=events.append if listens else None)
    assert (main_run.status, main_run.usage.requests) == ("ok", 0)
    ended.set()
    assert reported.wait(60)
    assert (main_run.usage.requests, main_run.cost) == (1, REPLY)
    assert {id: row.usage.cost for id, row in main_run.steps.items() if row.usage is not None} == {"calls[0]": REPLY}
    used = [event.at for event in events if isinstance(event, ev.TokensUsed)]
    assert used == [("calls[0]",)] * listens


@pytest.mark.parametrize("stream", [False, True])
def test_each_request_each_step_and_the_run_has_its_cost(
    registry: agf.Registry, openai: list[Answer], stream: bool
) -> None:
    openai += [calls(("price", {"fruit": "fig"})), "seven", "seven again"]
    agf.define(ASK, registry=registry)
    events: list[ev.Event] = []
    ended = run(registry, TWICE, on_event=events.append, stream=stream)
    used = [event for event in events if isinstance(event, ev.TokensUsed)]
    assert [(usage.model, usage.input, usage.output, usage.cost) for usage in used] == [
        ("openai-chat:gpt-4o", 10, 5, REPLY)
    ] * 3
    assert ended.cost == ended.usage.cost == 3 * REPLY
    assert {name: (usage.requests, usage.cost) for name, usage in ended.usage.by_model.items()} == {
        "openai-chat:gpt-4o": (3, 3 * REPLY)
    }
    rows = {id: row.usage.cost for id, row in ended.steps.items() if row.usage is not None}
    assert rows == {
        "steps[0]": 2 * REPLY,
        "steps[0]/steps[0]": 2 * REPLY,
        "steps[0]/steps[0]/session": 2 * REPLY,
        "steps[0]/steps[0]/session.ask": 2 * REPLY,
        "steps[1]": REPLY,
        "steps[1]/session": REPLY,
        "steps[1]/session.ask": REPLY,
    }
    assert "45 tokens in 3 requests · ≈ $0.00022" in progress_text(ended.progress, now=0)
    assert "30 tokens · ≈ $0.00015" in run_html(ended)


def test_a_fan_out_has_the_tokens_of_all_its_elements(registry: agf.Registry, openai: list[Answer]) -> None:
    openai += ["seven"]
    ended = run(registry, FAN)
    rows = {id: row.usage.cost for id, row in ended.steps.items() if row.usage is not None}
    step = ("steps[0]", "steps[0].do", "steps[0].do/session", "steps[0].do/session.ask")
    assert rows == dict.fromkeys(step, 3 * REPLY)


def test_a_model_without_a_known_price_has_no_figure_and_never_zero(registry: agf.Registry) -> None:
    registry.choose(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("7")])))
    ended = run(registry)
    assert ended.usage.requests == ended.usage.unpriced == 1
    assert ended.cost is None
    assert "$" not in progress_text(ended.progress, now=0)


def test_each_view_says_that_a_price_is_unknown(registry: agf.Registry, tmp_path: Path) -> None:
    from agf_magics.notebook.display.run_comparison import compare_runs

    registry.choose(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("7")])))
    with kept.journal_in(tmp_path):
        ended, over = run(registry), agf.run(ASK, over=[{"n": 1}], registry=registry)
        plain = run(registry, "{pipeline: p, steps: [{transform: {value: '1'}}]}")
        head, row, *_ = progress_text(ended.progress, now=0).split("\n")
        assert (head.count("cost unknown"), row.count("cost unknown")) == (1, 1)
        assert run_html(ended).count("cost unknown") == 2
        costs = {line.run_id: RUN_COLUMNS["cost"](line) for line in agf.runs()}
        assert costs == {ended.run_id: "unknown", over.run_id: "unknown", plain.run_id: ""}
        assert over.table[0]["cost"] is None
        assert [row["cost"] for row in over.table.shown_at([0])] == ["unknown"]
        (step,) = compare_runs({"runs": [ended.run_id, ended.run_id]})["steps"]
        assert (step.cost, step.other_cost) == ("cost unknown", "cost unknown")
        assert "cost unknown" not in run_html(plain)


def test_a_run_that_asks_no_model_has_no_cost(registry: agf.Registry) -> None:
    assert run(registry, "{pipeline: p, steps: [{transform: {value: '1'}}]}").cost is None


def test_a_cost_of_which_a_part_is_not_known_is_shown_with_what_is_missing(
    registry: agf.Registry, openai: list[Answer]
) -> None:
    openai.append("seven")
    agf.model_agent("priced", model="openai-chat:gpt-4o", registry=registry)
    local = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("7")]), model_name="m")
    agf.model_agent("local", model=local, registry=registry)
    registry.choose(None)
    text = "{pipeline: p, steps: [{agent: {prompt: x, identity: priced}}, {agent: {prompt: x, identity: local}}]}"
    ended = run(registry, text)
    assert ended.cost is None
    assert {name: usage.cost for name, usage in ended.usage.by_model.items()} == {
        "openai-chat:gpt-4o": REPLY,
        "function:m": None,
    }
    head, first, *others = progress_text(ended.progress, now=0).split("\n")
    assert "at least ≈ $0.000075" in head
    assert "≈ $0.000075" in first
    assert any("cost unknown" in row for row in others)


@pytest.mark.parametrize(
    ("name", "base_url", "is_known"),
    [
        ("openai:gpt-4o", "", True),
        ("gpt-4o", "", True),
        ("openai-chat:gpt-4o", "", True),
        ("anthropic:claude-sonnet-4-5", "", True),
        ("google:gemini-2.5-pro", "", True),
        ("ollama:qwen3", "", False),
        ("openai:gpt-4o", "http://localhost:1/v1", False),
        ("openai:no-such-model", "", False),
        ("nonsense", "", False),
    ],
)
def test_a_price_is_known_for_the_models_of_a_provider_on_its_own_server(
    name: str, base_url: str, is_known: bool
) -> None:
    assert (model_of(name, base_url).price({"input": 1_000, "output": 10}) is not None) is is_known


def test_cached_tokens_cost_less() -> None:
    model = model_of("openai:gpt-4o")
    whole, cached = ({"input": 1_000, "output": 0}, {"input": 1_000, "output": 0, "cache_read": 1_000})
    assert model.price(cached) == model.price(whole) / 2  # type: ignore[arg-type, operator]


def test_a_price_needs_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise AssertionError("a price opens no connection")

    monkeypatch.setattr("socket.socket.connect", refuse)
    assert model_of("openai:gpt-4o").price({"input": 1_000, "output": 10}) == Decimal("0.0026")


# --- journal ---


def test_a_past_run_and_a_resumed_run_have_the_cost_of_all_requests(
    registry: agf.Registry, openai: list[Answer], tmp_path: Path
) -> None:
    openai += [calls(("price", {"fruit": "fig"})), Stream(["half"], ends=False), "seven"]
    with kept.journal_in(tmp_path):
        first = run(registry, stream=True)
        assert first.error is not None
        assert first.cost == REPLY
        resumed = agf.resume(first.run_id, registry=registry)
        assert resumed.cost == 2 * REPLY
        (listed,) = agf.runs()
        assert (listed.tokens, listed.cost) == (30, 2 * REPLY)
        assert "≈ $0.00015" in repr(agf.runs())
        past = find_past_run(first.run_id)
        assert past.cost == 2 * REPLY
        assert past.steps["steps[0]"].usage.cost == 2 * REPLY
        past.export(tmp_path / "run.json")
        assert '"cost":"0.000150"' in (tmp_path / "run.json").read_text().replace(" ", "")


@pytest.mark.parametrize("text", ["NaN", "1e999999999", "-1", "1" * 40, "", 5, None, "1_0", "٣"])
def test_a_cost_in_a_journal_that_is_not_an_amount_is_not_known(text: Any) -> None:
    assert cost_of({"cost": text}) is None


# --- limits ---


def codes(ended: agf.Run) -> Sequence[str]:
    return [ended.error.code] if ended.error is not None else []


def test_a_run_ends_when_its_models_have_cost_more_than_max_cost(registry: agf.Registry, openai: list[Answer]) -> None:
    openai += [calls(("price", {"fruit": "fig"})), "seven"]
    assert run(registry, limits=agf.Limits(max_cost=0.00015)).output == "seven"
    openai[:] = [calls(("price", {"fruit": "fig"}))]
    ended = run(registry, limits=agf.Limits(max_cost=0.0001))
    assert codes(ended) == ["limit.cost"]
    assert ended.error.diagnostic.span is not None
    assert "$0.000150 of the $0.0001" in ended.error.diagnostic.message
    assert ended.usage.requests == 2


def test_a_run_ends_when_its_models_have_used_more_than_max_tokens(registry: agf.Registry) -> None:
    with ScriptedServer(["seven"]) as server:
        registry.choose("openai:m", base_url=server.url)
        assert codes(run(registry, limits=agf.Limits(max_tokens=15))) == []
        assert codes(run(registry, limits=agf.Limits(max_tokens=14))) == ["limit.tokens"]


def test_on_error_neither_drops_nor_retries_a_limit_of_cost(registry: agf.Registry, openai: list[Answer]) -> None:
    openai.append("seven")
    text = """
pipeline: p
steps:
- for_each: {over: "[1, 2]", on_error: continue, do: {agent: {prompt: x}}, collect: {transform: {value: pipe}}}
"""
    assert codes(run(registry, text, limits=agf.Limits(max_cost=0.0001))) == ["limit.cost"]


def test_a_model_of_unknown_price_is_refused_before_its_first_request(registry: agf.Registry) -> None:
    with ScriptedServer(["seven"]) as server:
        registry.choose("openai:m", base_url=server.url)
        ended = run(registry, limits=agf.Limits(max_cost=1))
        assert codes(ended) == ["limit.unknown-price"]
        assert ended.error.diagnostic.span is not None
        assert server.requests == []
        assert run(registry, limits=agf.Limits(max_cost=1), dry=True).error is None


GRAPH = """
name: g
config: {max_cost: %s}
state: {answer: str}
nodes:
  ask: {type: llm, prompt: "What do figs cost?", state_key: answer}
edges:
- {from: START, to: ask}
- {from: ask, to: END}
"""


def test_a_graph_limits_its_own_cost(registry: agf.Registry, openai: list[Answer]) -> None:
    openai.append("seven")
    assert run(registry, GRAPH % 0.0001).output["answer"] == "seven"
    ended = run(registry, GRAPH % 0.00001)
    assert codes(ended) == ["limit.cost"]
    assert "'g' has cost" in ended.error.diagnostic.message
    registry.choose(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("7")])))
    assert codes(run(registry, GRAPH % 5)) == ["limit.unknown-price"]


@pytest.mark.parametrize(
    "wrong", [{"max_cost": -1}, {"max_cost": float("nan")}, {"max_cost": "1"}, {"max_tokens": 1.5}, {"max_tokens": -1}]
)
def test_a_limit_that_is_not_an_amount_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        agf.Limits(**wrong)


def test_a_limit_has_no_effect_on_a_model_that_reports_no_tokens_and_that_is_a_warning(
    registry: agf.Registry,
) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("7")])

    class Silent(FunctionModel):
        async def request(self, *args: Any) -> ModelResponse:
            response = await super().request(*args)
            response.usage = type(response.usage)()
            return response

    registry.choose(Silent(answer))
    ended = run(registry, limits=agf.Limits(max_tokens=1))
    assert [warning.code for warning in ended.warnings] == ["model.no-usage"]
