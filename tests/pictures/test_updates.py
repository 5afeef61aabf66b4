"""The messages that a page gets about a run: the changed rows, all rows together, the tree of steps, values of bounded
size."""

from __future__ import annotations

import json
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress
from agf_magics.pictures.pages.updates import Updates, describe_tree
from agf_magics.pictures.pages.wire import UpdateRow
from agf_magics.pictures.values import PNG, value_json

EACH = """\
pipeline: p
steps:
- for_each:
    over: ctx.xs
    on_error: continue
    do: {tool: {name: half, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
- transform: {value: "1"}
"""


def defined(*text: str, registry: agf.Registry, name: str | None = None) -> agf.Flow:
    flow = agf.define(*text, registry=registry, name=name)
    assert flow is not None
    return flow


def updates_of(text: str, input: dict[str, Any], every: int) -> tuple[Progress, list[dict[str, Any]]]:
    """Run a text. Returns the progress, and the updates that were taken after each ``every`` events."""
    registry, events, sent = agf.Registry(), list[Any](), list[dict[str, Any]]()

    async def half(n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n // 2

    agf.tool(half, registry=registry)
    agf.run(defined(text, registry=registry), input, registry=registry, on_event=events.append, raises=False)
    progress = Progress(defined(text, registry=registry))
    updates = Updates(progress)
    for number, event in enumerate(events):
        progress.apply(event)
        if number % every == 0 and (update := updates.changes(0.0)) is not None:
            sent.append(update)
    sent.append(updates.changes(0.0) or {"rows": []})
    return progress, sent


def folded(updates: list[dict[str, Any]]) -> dict[int, list[Any]]:
    return {number: row for update in updates for number, *row in update["rows"]}


FAILS = """\
pipeline: p
steps:
- tool: {name: half, args: {n: 1}}
- transform: {value: "1"}
"""


@pytest.mark.parametrize("text", [EACH, FAILS])
@pytest.mark.parametrize("every", [1, 2, 3, 7, 1000])
def test_all_updates_together_give_the_complete_state(every: int, text: str) -> None:
    progress, updates = updates_of(text, {"xs": list(range(9))}, every)
    assert folded(updates) == folded([Updates(progress).complete(0.0)])


def test_counters_alone_wait_for_an_update_that_has_them() -> None:
    registry, events, sent = agf.Registry(), list[Any](), list[dict[str, Any]]()

    async def half(n: int) -> int:
        return n // 2

    agf.tool(half, registry=registry)
    flow = defined(EACH, registry=registry)
    agf.run(flow, {"xs": [2, 4, 6, 8]}, registry=registry, on_event=events.append)
    state = Progress(flow)
    updates, states = Updates(state), [row.look for row in state.rows.values()]
    for event in events:
        state.apply(event)
        before, states = states, [row.look for row in state.rows.values()]
        sent.append(updates.changes(0.0, counters=False) or {"rows": []})
        is_news = states != before or type(event) in (ev.RunStarted, ev.RunEnded)
        assert is_news or not sent[-1]["rows"]
    sent.append(updates.changes(0.0) or {"rows": []})
    assert folded(sent) == folded([Updates(state).complete(0.0)])


def test_nothing_is_sent_while_nothing_changes() -> None:
    progress, _ = updates_of(EACH, {"xs": [1, 2]}, 1)
    updates = Updates(progress)
    assert updates.changes(0.0) is not None
    assert updates.changes(9.0) is None


def test_an_update_of_many_elements_has_a_row_for_each_step_not_for_each_element() -> None:
    progress, updates = updates_of(EACH, {"xs": list(range(500))}, 100)
    assert all(len(update["rows"]) <= len(progress.rows) for update in updates)
    assert max(len(json.dumps(update)) for update in updates) < 1_000


def test_the_bar_of_a_step_in_a_fan_out_grows_as_that_of_the_fan_out() -> None:
    """A quarter of the elements is a quarter of both bars."""
    _, updates = updates_of(EACH, {"xs": list(range(40))}, 1)
    shares = []
    for update in updates:
        bars = {row.number: row for row in (UpdateRow(*sent) for sent in update["rows"])}
        if 1 in bars and bars[1].failed_share is not None:
            shares.append(bars[1].ok_share + bars[1].failed_share)
    assert len(shares) > 30
    assert shares == sorted(shares)
    assert (shares[0] < 0.1, shares[-1]) == (True, 1.0)


def test_the_tree_and_the_updates_are_json() -> None:
    progress, updates = updates_of(EACH, {"xs": [1]}, 1)
    assert json.loads(json.dumps(describe_tree(progress)))["rows"][1][:5] == ["steps[0].do", 1, "⚙", "half", "tool"]
    assert json.loads(json.dumps(updates))


def test_the_numbers_of_a_walk_are_sent_once_for_each_round() -> None:
    text = """\
state: {n: int}
nodes:
  tick: {type: passthrough, output: {n: "{state.n - 1}"}}
edges:
- {from: START, to: tick}
- {from: tick, to: tick, condition: n > 0}
- {from: tick, to: END, condition: else}
"""
    registry, events = agf.Registry(), list[Any]()
    flow = defined(text, "graph", name="g", registry=registry)
    agf.run(flow, {"n": 3}, registry=registry, on_event=events.append)
    progress = Progress(flow)
    updates = Updates(progress)
    for event in events:
        progress.apply(event)
    sent = updates.changes(0.0)
    assert sorted(sent["edges"].values()) == ["1", "2, 3", "4"]
    assert updates.changes(0.0) is None


def test_values_are_json_of_bounded_size() -> None:
    large = {str(k): [k] * 100 for k in range(10_000)}
    for value in ("x" * 10_000_000, list(range(1_000_000)), large, b"x" * 10_000_000):
        assert len(json.dumps(value_json(value))) < 60_000
    assert value_json(PNG + b"x")["kind"] == "png"
    assert value_json(PNG + b"x" * 3_000_000)["kind"] == "text"
