"""The rows that views list: their names, what was dropped in them, and one meaning of each number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.progress.rows import Row
from agf_magics.pictures.pages.updates import Updates, describe_tree
from agf_magics.pictures.row_words import listed, shown_name
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.scene import Box, Frame

pytestmark = pytest.mark.usefixtures("journaled")


@pytest.fixture
def registry() -> agf.Registry:
    """``half`` fails for odd numbers, ``broken`` always, ``lookup_customer`` when a model calls it."""
    made = agf.Registry()

    async def half(n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n // 2

    async def broken() -> int:
        raise ValueError("no")

    async def lookup_order(id: str) -> dict[str, str]:
        return {"id": id}

    async def lookup_customer(id: str) -> None:
        raise ValueError("no customer")

    for function in (half, broken, lookup_order, lookup_customer):
        agf.tool(function, registry=made)
    made.choose(FunctionModel(_reply))
    return made


def _reply(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) > 1 or not info.function_tools:
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart(tool.name, {"id": "1"}) for tool in info.function_tools])


ALL = """\
pipeline: all
steps:
- tool: {name: half, args: {n: 4}, output: two}
- tool: {name: half, args: {n: 2}}
- tool: {name: half, args: {n: 8}}
  title: The last half
- transform: {value: ctx.two + 1, output: three}
- for_each:
    items: [2, 4]
    on_error: abort
    do: {tool: {name: half, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: halves
- parallel:
    on_error: abort
    branches: {left: {tool: {name: half, args: {n: 2}, output: one}}, right: {transform: {value: "1"}}}
    collect: {transform: {value: left}}
- tool: {name: half, args: {n: 6}, on_error: retry(2), output: kept}
"""


def boxes(parts: Sequence[Box]) -> Iterator[Box]:
    for part in parts:
        yield part
        if isinstance(part, Frame):
            yield from boxes(part.parts)


def test_a_step_has_one_name_in_its_row_its_box_the_tree_of_the_page_and_the_trace(registry: agf.Registry) -> None:
    run = agf.run(ALL, registry=registry)
    names = {row.id: shown_name(row) for row in listed(run.progress)}
    assert names == {
        "steps[0]": "two",
        "steps[1]": "half",
        "steps[2]": "The last half",
        "steps[3]": "three",
        "steps[4]": "halves",
        "steps[4].do": "half",
        "steps[5]": "parallel",
        "steps[5].branches.left": "left",
        "steps[5].branches.right": "right",
        "steps[5].collect": "collect",
        "steps[6]": "kept",
    }
    assert {box.id: box.name for box in boxes(scene(run.flow).parts)} == names
    assert {step["step"]: step["name"] for step in run.trace} == names
    sent = [row for row in describe_tree(run.progress)["rows"] if not row.is_inner]
    assert {row.id: row.name for row in sent} == names


AGENTS = """\
pipeline: support
steps:
- agent: {prompt: Classify, capabilities: {tools: [lookup_order, lookup_customer]}, output: topic}
- agent: {prompt: Answer, capabilities: {tools: []}, output: reply}
"""


def test_an_agent_is_what_its_model_did_and_none_of_our_plumbing_live_and_later(registry: agf.Registry) -> None:
    run = agf.run(AGENTS, registry=registry)
    shown = [
        ("topic", 0, "ok"),
        ("request 1 · lookup_order · lookup_customer ✗ · request 2", 1, "ok"),
        ("2 tool calls, 1 failed", 1, "kept"),
        ("reply", 0, "ok"),
    ]
    for progress in (run.progress, agf.runs(run.run_id).progress):
        assert [(shown_name(row), row.depth, row.look) for row in listed(progress)] == shown


DROPS = """\
pipeline: drops
steps:
- tool: {name: broken, on_error: continue}
- for_each:
    items: [[1, 2], [2, 4]]
    on_error: continue
    do: {call: {pipeline: inner, pass: {numbers: item}}}
    collect: {transform: {value: pipe}}
- tool: {name: half, args: {n: 2}, output: one}
"""
INNER = """\
pipeline: inner
steps:
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: half, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: halves
"""


def test_what_was_dropped_marks_its_step_and_each_step_around_it(registry: agf.Registry) -> None:
    agf.define(INNER, registry=registry)
    run = agf.run(DROPS, registry=registry)
    looks = {
        "steps[0]": "lost",
        "steps[1]": "dropped",
        "steps[1].do": "dropped",
        "steps[1].do/steps[0]": "dropped",
        "steps[1].do/steps[0].do": "dropped",
        "steps[2]": "ok",
    }
    for shown in (run, agf.runs(run.run_id)):
        assert {row.id: row.look for row in listed(shown.progress)} == looks
        assert shown.status == "ok"
        assert {row.state for row in listed(shown.progress) if row.id != "steps[0].call"} == {"ok"}
    assert Updates(run.progress).complete(0.0)["status"] == "dropped"


def test_header_row_and_box_have_one_number_at_each_moment(registry: agf.Registry) -> None:
    events = list[Any]()
    flow = agf.define(INNER, registry=registry)
    assert flow is not None
    agf.run(flow, {"numbers": list(range(20))}, registry=registry, on_event=events.append)
    progress = Progress(flow)
    updates, rows, seen = Updates(progress), dict[int, list[Any]](), 0
    for number, event in enumerate(events):
        progress.apply(event)
        update = updates.changes(0.0, counters=number % 5 == 0) or {"rows": [], "counts": []}
        rows |= {row[0]: row for row in update["rows"]}
        if header := next((text for text in update["counts"] if "element" in text), ""):
            ended = re.match(r"(\d+) of 20 elements", header)
            assert ended, header
            fan, element = rows[0], rows[1]
            assert fan[2].split()[1] == f"{ended[1]}/20"
            counted = re.findall(r"(\d+) (?:ok|failed)", fan[4])
            assert sum(map(int, counted)) == int(ended[1])
            assert element[2].split()[1] in (f"{ended[1]}/20", "pending") or not int(ended[1])
            seen += 1
    assert seen > 5


def test_steps_that_never_ran_are_no_rows_of_their_own(registry: agf.Registry) -> None:
    text = "pipeline: p\nsteps:\n- tool: {name: broken}\n- tool: {name: half, args: {n: 2}}\n"
    with pytest.raises(agf.StepError) as failed:
        agf.run(text, registry=registry)
    run = agf.runs(flow="p")[0].run_id
    rows: list[Row] = listed(agf.runs(run).progress)
    update = Updates(agf.runs(run).progress).complete(0.0)
    assert [row.id for row in rows] == ["steps[0]", "steps[1]"]
    assert [len(row) > 12 and row[12] for row in update["rows"]] == [False, True]
    assert failed.value.code == "step.tool-failed"
