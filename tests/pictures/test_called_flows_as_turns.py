"""A flow or an agent that a model calls as a tool is a turn of the agent: live, in a past run and in a resumed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.pictures.row_words import listed, shown_name
from tests.engine.test_react import Script, call, text

ASK = "{pipeline: support, steps: [{agent: {prompt: 'Where is A7?', identity: lead}}]}"
FLOWS = (
    "{pipeline: find_order, steps: [{tool: {name: clean, args: {order: !expr ctx.order}}}]}",
    "{pipeline: find_bill, steps: [{tool: {name: lookup, args: {order: !expr ctx.order}}}]}",
    "{pipeline: shorten, steps: [{transform: {value: ctx.order}}]}",
)
TOOLS = ["lookup", "clean", "find_order", "find_bill", "shorten", "critic"]
ORDER = {"order": "A7"}


@pytest.fixture
def registry(journaled: Path) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def lookup(order: str) -> str:
        raise ValueError(f"no order {order}")

    agf.tool(lambda order: order.strip(), name="clean", registry=registry)
    for flow in FLOWS:
        agf.define(flow, registry=registry)
    agf.model_agent("critic", model=Script(text("Fine.")).model(), tools=[], registry=registry)
    return registry


def ask(registry: agf.Registry, *turns: Any, **options: Any) -> agf.Run:
    agf.model_agent("lead", model=Script(*turns).model(), tools=TOOLS, registry=registry)
    return agf.run(ASK, registry=registry, raises=False, **options)


def inside(run: Any) -> str:
    """The words of the agent's row of requests."""
    row = next(row for row in listed(run.progress) if row.is_request)
    return shown_name(row)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([("lookup", ORDER), ("find_order", ORDER)], "lookup ✗ · find_order"),
        ([("find_order", ORDER), ("lookup", ORDER)], "find_order · lookup ✗"),
        ([("find_order", ORDER), ("find_order", {"order": " B8"})], "find_order ×2"),
        # The call inside of it fails, so the flow does.
        ([("find_bill", ORDER)], "find_bill ✗"),
        # It makes no call that could be in the journal.
        ([("shorten", ORDER), ("clean", ORDER)], "shorten · clean"),
        # It has a session of its own.
        ([("critic", {"prompt": "A7"}), ("clean", ORDER)], "critic · clean"),
        # A call that was refused before it began is a call that failed.
        ([("clean", {"number": 7})], "clean ✗"),
        # There is no such tool, which the model learns as a failure.
        ([("nobody", {}), ("clean", ORDER)], "nobody ✗ · clean"),
    ],
)
def test_what_a_model_calls_is_in_its_turns(calls: list[Any], words: str, registry: agf.Registry) -> None:
    run = ask(registry, call(*calls), text("It was sent."))
    assert run.output == "It was sent."
    whole = f"request 1 · {words} · request 2"
    assert inside(run) == whole
    assert inside(agf.runs(run.run_id)) == whole


def test_a_resumed_agent_has_the_turns_of_the_earlier_session(registry: agf.Registry) -> None:
    both = call(("lookup", ORDER), ("find_order", ORDER))
    failed = ask(registry, both, ValueError("the model is away"))
    assert failed.status == "error"
    assert inside(agf.runs(failed.run_id)) == "request 1 · lookup ✗ · find_order · request 2 ✗"
    agf.model_agent("lead", model=Script(text("It was sent.")).model(), tools=TOOLS, registry=registry)
    resumed = agf.resume(failed.run_id, registry=registry)
    assert resumed.output == "It was sent."
    for run in (resumed, agf.runs(failed.run_id)):
        assert inside(run).startswith("request 1 · lookup ✗ · find_order · request 2")


def test_a_call_that_a_model_picks_is_told_once_with_its_arguments(registry: agf.Registry) -> None:
    events: list[ev.Event] = []
    calls = [("lookup", ORDER), ("find_order", ORDER), ("clean", {"number": 7}), ("critic", {"prompt": "A7"})]
    ask(registry, call(*calls), text("done"), on_event=events.append)
    told = [event for event in events if isinstance(event, ev.CallStarted) and event.kind != "model"]
    assert [(event.name, event.arguments) for event in told] == calls
    begun = {event.at for event in events if isinstance(event, ev.StepStarted)}
    assert {event.at for event in told} <= begun
