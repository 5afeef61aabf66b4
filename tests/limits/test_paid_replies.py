"""Each reply of a model that was paid for counts, usable or not, once and for every limit around it."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

import agf_magics as agf
from agf_magics.flow.progress.events import TokensUsed
from agf_magics.settings import settings
from tests.engine.virtual_time import run_virtual

ONE = "pipeline: p\nsteps:\n- agent: {prompt: 'hello'}\n"
EACH = """
pipeline: p
steps:
- for_each:
    over: ctx.items
    max_parallel: 1
    on_error: MODE
    do: {agent: {prompt: 'hello {item}'}}
    collect: {transform: {value: pipe}}
"""
GRAPH = """
name: p
config: {max_tokens: 50}
nodes:
  a: {type: llm, prompt: 'hello {x}', state_key: a}
edges:
- {from: START, to: a}
- {from: a, to: END}
"""


class Asked:
    """A model whose replies end for the given reasons, and then well. Each costs 110 tokens."""

    def __init__(self, *ends: str, text: str = "fine") -> None:
        self.registry, self.count, self.events = agf.Registry(), 0, list[Any]()
        self._ends: Iterator[str] = iter(ends)
        self._text = text
        self.registry.choose(FunctionModel(self._reply))

    async def _reply(self, messages: Any, info: Any) -> ModelResponse:
        self.count += 1
        usage = RequestUsage(input_tokens=100, output_tokens=10)
        end: Any = next(self._ends, "stop")
        return ModelResponse([TextPart(self._text)], finish_reason=end, usage=usage)

    def options(self, limit: int) -> dict[str, Any]:
        limits = agf.Limits(max_tokens=limit, model_timeout=0)
        return {"registry": self.registry, "limits": limits, "raises": False, "on_event": self.events.append}

    @property
    def shown(self) -> int:
        """The tokens that the events have told."""
        return sum(event.input + event.output for event in self.events if type(event) is TokensUsed)


def code(run: agf.Run) -> str | None:
    return run.error.code if run.error is not None else None


@pytest.mark.parametrize("mode", ["continue", "abort", "retry(30)"])
@pytest.mark.parametrize("end", ["content_filter", "stop"])
def test_a_fan_out_ends_with_the_first_reply_above_the_limit(end: str, mode: str) -> None:
    asked = Asked(*[end] * 50)
    run = agf.run(EACH.replace("MODE", mode), {"items": [*range(20)]}, **asked.options(300))
    ended_by_error = (end, mode) == ("content_filter", "abort")
    assert (code(run), asked.count) == (("model.filtered", 1) if ended_by_error else ("limit.tokens", 3))
    assert asked.shown == 110 * asked.count


@pytest.mark.parametrize(
    ("limit", "expected"), [(0, (None, 3, 330)), (330, (None, 3, 330)), (329, ("limit.tokens", 3, 330))]
)
def test_each_attempt_of_a_request_counts(limit: int, expected: tuple[Any, ...]) -> None:
    asked = Asked("error", "error")
    run = run_virtual(agf.arun(ONE, **asked.options(limit)))
    assert (code(run), asked.count, asked.shown) == expected


def test_a_request_is_not_repeated_above_the_limit() -> None:
    asked = Asked("error", "error")
    run = run_virtual(agf.arun(ONE, **asked.options(109)))
    assert (code(run), asked.count, asked.shown) == ("limit.tokens", 1, 110)


@pytest.mark.usefixtures("journaled")
def test_a_resumed_run_counts_the_unusable_replies_of_its_earlier_sessions() -> None:
    asked = Asked(*["content_filter"] * 9)
    run = agf.run(ONE, **asked.options(150))
    ends = [(code(run), asked.count)]
    for _ in range(2):
        asked.events.clear()
        ends.append((code(agf.resume(run.run_id, registry=asked.registry, raises=False)), asked.count))
    assert ends == [("model.filtered", 1), ("limit.tokens", 2), ("limit.tokens", 2)]
    asked.events.clear()
    more = agf.resume(run.run_id, **asked.options(1000))
    assert (code(more), asked.count, asked.shown) == ("model.filtered", 3, 330)
    assert agf.runs(run.run_id).usage.tokens == 330


@pytest.mark.usefixtures("journaled")
def test_a_resumed_run_counts_the_attempts_before_a_reply() -> None:
    asked = Asked("content_filter", "stop", "content_filter")
    agf.tool(lambda: 1 / 0, name="fail", registry=asked.registry)
    text = EACH.replace("MODE", "retry(1)") + "- tool: {name: fail}\n"
    run = agf.run(text, {"items": [1, 2]}, **asked.options(0))
    assert (code(run), asked.count, asked.shown) == ("step.tool-failed", 4, 440)
    asked.events.clear()
    again = agf.resume(run.run_id, registry=asked.registry, on_event=asked.events.append, raises=False)
    assert (code(again), asked.count, asked.shown) == ("step.tool-failed", 4, 440)


def test_what_a_definition_refuses_counts_for_the_run() -> None:
    """Each row fails by the limit of the graph, until the limit of the run ends the run."""
    asked = Asked()
    rows = [{"x": number} for number in range(40)]
    run = agf.run(agf.define(GRAPH, "graph", registry=asked.registry), over=rows, **asked.options(300))
    assert code(run) == "limit.tokens"
    assert "this run has used" in run.error.diagnostic.message
    assert asked.count < len(rows)  # those that were asked together with the one that ended it
    assert asked.shown == 110 * asked.count


def test_what_another_run_paid_counts_for_nothing(journaled: Path) -> None:
    """A reply that is reused or replayed costs nothing, so no limit counts it, of a run or of a definition."""
    registry, requests = agf.Registry(), list[int]()

    def reply(messages: Any, info: Any) -> ModelResponse:
        requests.append(1)
        return ModelResponse([TextPart("fine")], usage=RequestUsage(input_tokens=100, output_tokens=10))

    registry.choose(FunctionModel(reply))
    limits = agf.Limits(max_tokens=50)
    texts = {"run": ONE, "rows": "pipeline: p\nsteps:\n- agent: {prompt: 'hello {ctx.x}'}\n", "graph": GRAPH}
    loose = {**texts, "graph": GRAPH.replace("max_tokens: 50", "max_tokens: 500")}
    inputs: dict[str, Any] = {"run": {}, "rows": {"over": [{"x": 1}, {"x": 2}]}, "graph": {"input": {"x": 1}}}
    ended = list[Any]()
    for name, given in inputs.items():
        language = "graph" if name == "graph" else "pipeline"
        first = agf.run(agf.define(loose[name], language, registry=registry), registry=registry, **given)
        flow = agf.define(texts[name], language, registry=registry)
        terms: dict[str, Any] = {**given, "registry": registry, "limits": limits, "raises": False}
        again = agf.run(flow, reuse=first.run_id, **terms)
        ended.append((code(again), again.usage.tokens, agf.runs(again.run_id).usage.tokens))
        if name == "rows":
            continue
        with agf.replay(agf.record(first, journaled.with_name(f"{name}.agf"))):
            replayed = agf.run(flow, **terms)
        ended.append((code(replayed), replayed.usage.tokens, 0))
    assert (ended, len(requests)) == ([(None, 0, 0)] * 5, 4)


TWO = """
pipeline: two
steps:
- agent: {prompt: 'first', output: first}
- tool: {name: fail}
- agent: {prompt: 'second'}
"""
PLAN = """
name: two
calls:
- {_tool: p}
- {_tool: fail, _outputPath: $state.held}
- {_tool: p, x: $state.held, _outputPath: $state.end}
"""
LONG = "fine " * 400_000

SECRET = "the key is abcdefghijklmnop"
WAYS = {
    "stored": (TWO, "fine", [1, 1, 2]),
    "has a secret": (TWO, SECRET, [1, 2, 4]),
    "is large": (TWO, LONG, [1, 1, 2]),
    "fired": (PLAN, "fine", [1, 1, 2]),
    "fired, and has a secret": (PLAN, SECRET, [1, 1, 2]),
}
"""The definition, the text of the replies, and the number of requests after each of three sessions."""


@pytest.fixture
def replied(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Asked]:
    """Makes a model whose replies have this text; some texts are secret, or too large for a row of the journal."""
    monkeypatch.setenv("MY_API_KEY", "abcdefghijklmnop")
    monkeypatch.setattr(settings.current, "settings", replace(settings.current.settings, journal_value=1_000_000))
    return lambda text: Asked(text=text)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("journaled")
def test_what_a_run_has_paid_counts_once_in_all_its_sessions(way: str, replied: Callable[[str], Asked]) -> None:
    text, reply, counts = WAYS[way]
    asked, faults = replied(reply), [1, 1]

    @agf.tool(registry=asked.registry)
    async def fail() -> int:
        # A fire-and-forget call may end after the run.
        while not asked.count:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        return faults.pop() // 0 if faults else 1

    agf.define(ONE, registry=asked.registry)
    flow = agf.define(text, "plan" if text == PLAN else "pipeline", registry=asked.registry)
    run = agf.run(flow, **asked.options(0))
    assert _counted(asked, run) == (1, 110, 110)
    for count in counts[1:]:
        run = agf.resume(run.run_id, registry=asked.registry, on_event=asked.events.append, raises=False)
        assert _counted(asked, run) == (count, 110 * count, 110 * count)
    assert run.error is None


@pytest.mark.parametrize("reply", ["fine", SECRET, LONG])
@pytest.mark.usefixtures("journaled")
def test_a_row_that_is_not_evaluated_again_counts(reply: str, replied: Callable[[str], Asked]) -> None:
    asked, runs = replied(reply), queue.SimpleQueue[agf.Run]()

    @agf.tool(registry=asked.registry)
    def stop(x: int) -> None:
        if x == 1 and asked.count == 2:
            runs.get().cancel()

    text = "pipeline: row\nsteps:\n- agent: {prompt: 'hello'}\n- tool: {name: stop, args: {x: !expr ctx.x}}\n"
    flow = agf.define(text, registry=asked.registry)
    over = agf.Over(table=[{"x": x} for x in range(3)], width=1)
    run = agf.start(flow, over=over, registry=asked.registry, on_event=asked.events.append)
    runs.put(run)
    assert run.wait().status == "cancelled"
    seen = _counted(asked, run)
    run = agf.resume(run.run_id, registry=asked.registry, on_event=asked.events.append)
    assert [seen, _counted(asked, run)] == [(2, 220, 220), (asked.count, 110 * asked.count, 110 * asked.count)]
    assert asked.count == (4 if reply == SECRET else 3)


def _counted(asked: Asked, run: agf.Run) -> tuple[int, int, int]:
    """The number of requests so far, the tokens of this session's events, and those of the past run."""
    shown = asked.shown
    asked.events.clear()
    assert run.usage.tokens == shown
    return asked.count, shown, agf.runs(run.run_id).usage.tokens
