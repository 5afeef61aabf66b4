"""Runs as spans of OpenTelemetry, read from the SDK's own exporter in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.lifecycle.launch import tracing
from agf_magics.lifecycle.runs.run import state_of
from tests.engine.test_react import Script, call
from tests.engine.test_react import text as reply
from tests.fans import fan_out
from tests.lifecycle.planning.scripted_planner import Planner, plan
from tests.lifecycle.planning.scripted_planner import call as planned
from tests.processes import printed

TEXT = """\
pipeline: shop
steps:
- agent: {prompt: 'figs?', output: answer}
- for_each:
    over: ctx.fruits
    max_parallel: 4
    on_error: continue
    do: {tool: {name: price, args: {fruit: !expr item}}}
    collect: {transform: {value: pipe}}
    output: prices
- call: {pipeline: inner, pass: {fruit: ctx.last}}
"""
INNER = "pipeline: inner\nsteps:\n- tool: {name: price, args: {fruit: !expr ctx.fruit}}\n"
FAN = fan_out("price", argument="fruit", limit=8, name="fan")


class Exported:
    def __init__(self) -> None:
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def around(self, span: ReadableSpan) -> list[str]:
        """The names of the spans that enclose a span, the innermost first."""
        by_id = {span.context.span_id: span for span in self.spans}
        names = []
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            names.append(span.name)
        return names


@pytest.fixture
def exported() -> Iterator[Exported]:
    yield Exported()
    agf.trace_to(False)


@pytest.fixture
def registry() -> Registry:
    registry = Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> float:
        return {"pear": 2.5, "fig": 7.0}[fruit]

    agf.define(INNER, registry=registry)
    return registry


def shop(registry: Registry) -> agf.Run:
    script = Script(call(("price", {"fruit": "fig"})), reply("7 dollars"))
    registry.choose(script.model())
    return agf.run(TEXT, {"fruits": ["fig", "stone", "pear"], "last": "pear"}, registry=registry)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_run_its_requests_and_its_calls_are_spans_with_the_conventions_names(
    exported: Exported, registry: Registry
) -> None:
    agf.trace_to(exported.provider)
    run = shop(registry)
    (root,) = exported.named("invoke_agent shop")
    assert attributes(root)["gen_ai.operation.name"] == "invoke_agent"
    assert (attributes(root)["agf.run"], attributes(root)["agf.status"]) == (run.run_id, "ok")
    chats = [span for span in exported.spans if attributes(span).get("gen_ai.operation.name") == "chat"]
    assert len(chats) == 2
    assert {span.kind for span in chats} == {SpanKind.CLIENT}
    assert all(attributes(span)["gen_ai.usage.input_tokens"] > 0 for span in chats)
    assert exported.around(chats[0])[-2:] == ["invoke_agent", "invoke_agent shop"]
    tools = exported.named("execute_tool price")
    assert len(tools) == 5
    assert {attributes(span)["gen_ai.tool.name"] for span in tools} == {"price"}
    assert {attributes(span)["gen_ai.tool.type"] for span in tools} == {"function"}
    names = {attributes(span)["gen_ai.request.model"] for span in chats}
    assert [f"chat {name}" for name in names] == list({span.name for span in chats})
    (inner,) = [span for span in tools if attributes(span)["agf.step"].startswith("steps[2]")]
    assert exported.around(inner) == ["invoke_agent inner", "invoke_agent shop"]
    (failed,) = [span for span in tools if span.status.status_code is StatusCode.ERROR]
    assert attributes(failed)["error.type"] == "step.tool-failed"
    assert attributes(failed)["agf.step"] == "steps[1].do#1"
    assert exported.around(failed) == ["for_each steps[1]", "invoke_agent shop"]
    assert all(span.start_time <= span.end_time for span in exported.spans if span.start_time and span.end_time)


def test_without_content_no_span_has_a_prompt_an_argument_or_a_result(exported: Exported, registry: Registry) -> None:
    agf.trace_to(exported.provider)
    shop(registry)
    texts = [str(value) for span in exported.spans for value in attributes(span).values()]
    assert not [text for text in texts if "figs?" in text or "7 dollars" in text or text == "7.0"]


OF_THE_PERSON = """
from dataclasses import replace
from agf_magics.settings.settings import current
current.settings = replace(current.settings, tracing=True)
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import agf_magics as agf
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
@agf.tool
def echo(x: str) -> str:
    return x + " again"
agf.run("{pipeline: p, steps: [{tool: {name: echo, args: {x: a private text}}}]}")
for span in exporter.get_finished_spans():
    print(span.name, dict(span.attributes))
"""


def test_spans_for_a_provider_of_the_process_have_no_content(tmp_path: Path) -> None:
    lines = printed(OF_THE_PERSON, tmp_path)
    assert [line.partition(" {")[0] for line in lines] == ["execute_tool echo", "invoke_agent p"]
    assert not [line for line in lines if "private" in line]


def test_with_content_spans_have_them_without_secrets(
    exported: Exported, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "of-the-environment-77")

    @agf.tool(registry=registry, secret=("token",))
    def pay(token: str) -> dict[str, str]:
        return {"paid with": token, "key": "of-the-environment-77"}

    agf.trace_to(exported.provider, content=True)
    shop(registry)
    text = "pipeline: p\nsteps:\n- tool: {name: pay, args: {token: !expr ctx.token}}\n"
    agf.run(text, {"token": "of-the-input-99"}, registry=registry)
    (picked,) = [span for span in exported.spans if "gen_ai.tool.call.arguments" in attributes(span)]
    assert attributes(picked)["gen_ai.tool.call.arguments"] == '{"fruit":"fig"}'
    assert any("figs?" in str(attributes(span).get("gen_ai.input.messages")) for span in exported.spans)
    (paid,) = exported.named("execute_tool pay")
    assert "\\u2022" in attributes(paid)["gen_ai.tool.call.result"]
    texts = str([attributes(span) for span in exported.spans])
    assert "of-the-input-99" not in texts
    assert "of-the-environment-77" not in texts


def test_spans_nest_below_the_span_that_is_open(exported: Exported, registry: Registry) -> None:
    agf.trace_to(exported.provider)
    with exported.provider.get_tracer("notebook").start_as_current_span("a cell"):
        agf.run("inner", {"fruit": "fig"}, registry=registry)
    (root,) = exported.named("invoke_agent inner")
    assert exported.around(root) == ["a cell"]


def test_older_names_are_written_too_unless_only_the_latest_are_wanted(
    exported: Exported, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    agf.trace_to(exported.provider)
    agf.run("inner", {"fruit": "fig"}, registry=registry)
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, gen_ai_latest_experimental")
    agf.run("inner", {"fruit": "fig"}, registry=registry)
    before, after = exported.named("invoke_agent inner")
    assert attributes(before)["gen_ai.workflow.name"] == attributes(before)["gen_ai.agent.name"] == "inner"
    assert "gen_ai.workflow.name" not in attributes(after)


def test_a_run_has_a_bounded_number_of_spans(
    exported: Exported, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "MOST_SPANS", 10)
    agf.trace_to(exported.provider)
    agf.run(FAN, {"xs": ["fig"] * 20}, registry=registry)
    assert len(exported.spans) == 11  # with the run itself
    (root,) = exported.named("invoke_agent fan")
    assert attributes(root)["agf.spans_dropped"] == 12  # 11 elements and the transform


def test_a_run_that_is_cancelled_closes_its_spans(exported: Exported, registry: Registry) -> None:
    @agf.tool(registry=registry)
    async def stop() -> None:
        began.set()
        await asyncio.Event().wait()

    began = threading.Event()
    agf.trace_to(exported.provider)
    text = "pipeline: p\nsteps:\n- tool: {name: stop, args: {}}\n- tool: {name: price, args: {fruit: fig}}\n"
    run = agf.start(text, registry=registry)
    began.wait(20)
    run.cancel()
    run.wait()
    assert attributes(exported.named("execute_tool stop")[0])["agf.status"] == "cancelled"
    (root,) = exported.named("invoke_agent p")
    assert attributes(root)["agf.status"] == "cancelled"


def test_without_tracing_there_is_no_listener(exported: Exported, registry: Registry) -> None:
    agf.trace_to(exported.provider)
    agf.trace_to(False)
    run = agf.run("inner", {"fruit": "fig"}, registry=registry)
    assert exported.spans == ()
    assert state_of(run).emit == run.progress.apply


def test_an_exporter_that_fails_does_not_fail_the_run(registry: Registry) -> None:
    class Broken(TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> Any:
            return self

        def start_span(self, *_: Any, **__: Any) -> Any:
            raise OSError("no collector")

    agf.trace_to(Broken())
    try:
        run = agf.run("inner", {"fruit": "fig"}, registry=registry)
    finally:
        agf.trace_to(False)
    assert run.output == 7.0
    assert "tracing raised OSError: no collector" in str(run.warnings[0])


def test_a_run_of_a_planner_is_a_span_with_the_name_of_plans(exported: Exported, registry: Registry) -> None:
    agf.trace_to(exported.provider)
    planner = Planner(plan(planned("price", "†state.price", fruit="fig"), output="†state.price"))
    agf.planning.run_planner(planner.model, "figs?", tools=["price"], registry=registry, context="traced")
    (root,) = [span for span in exported.spans if span.name.startswith("plan ")]
    assert attributes(root)["gen_ai.operation.name"] == "plan"
    assert exported.around(root) == []
    assert len(exported.named("execute_tool price")) == 1
