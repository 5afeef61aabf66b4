"""Each reply of a model that was paid for counts, usable or not, once and for every limit around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

import agf_magics as agf
from agf_magics.flow.progress.events import TokensUsed
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

    def __init__(self, *ends: str) -> None:
        self.registry, self.count, self.events = agf.Registry(), 0, list[Any]()
        self._ends: Iterator[str] = iter(ends)
        self.registry.choose(FunctionModel(self._reply))

    async def _reply(self, messages: Any, info: Any) -> ModelResponse:
        self.count += 1
        usage = RequestUsage(input_tokens=100, output_tokens=10)
        end: Any = next(self._ends, "stop")
        return ModelResponse([TextPart("fine")], finish_reason=end, usage=usage)

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
