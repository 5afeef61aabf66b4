"""The rows that views list: their names, their dropped elements, and one meaning for each number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.flow.progress.events import Progressed
from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.progress.rows import Arriving, Row
from agf_magics.flow.progress.usage import one_reply
from agf_magics.lifecycle.run_internals import linked_flow
from agf_magics.pictures.corners import corner_of, numbers_of, taken_edges
from agf_magics.pictures.pages.parts import headline
from agf_magics.pictures.pages.updates import MADE_AGAIN, Updates, describe_tree
from agf_magics.pictures.pages.wire import UpdateRow
from agf_magics.pictures.row_words import (
    activity,
    brief_name,
    brief_times,
    count_words,
    does,
    listed,
    never_ran,
    pace,
    share_of,
    shown_name,
    spent,
    state_words,
    tails,
    tally_of,
)
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.scene import Box, Frame
from agf_magics.pictures.tally import Tally
from tests.pictures.flows import load

pytestmark = pytest.mark.usefixtures("journaled")


@pytest.fixture
def registry() -> agf.Registry:
    """Tools: ``half`` fails for odd numbers, ``broken`` always, and ``lookup_customer`` if a model calls it."""
    registry = agf.Registry()

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
        agf.tool(function, registry=registry)
    registry.choose(FunctionModel(_reply))
    return registry


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


def test_an_agent_shows_what_its_model_did_without_internal_steps(registry: agf.Registry) -> None:
    run = agf.run(AGENTS, registry=registry)
    words = [
        ("topic", 0, "ok"),
        ("request 1 · lookup_order · lookup_customer ✗ · request 2", 1, "ok"),
        ("1 call of lookup_order · 1 call of lookup_customer, 1 failed", 1, "kept"),
        ("reply", 0, "ok"),
    ]
    for progress in (run.progress, agf.runs(run.run_id).progress):
        assert [(shown_name(row), row.depth, row.look) for row in listed(progress)] == words
        assert [state_words(row) for row in listed(progress)] == ["✓ ok", "✓ ok", "! 1 ok, 1 failed", "✓ ok"]
        brief = ["", "request 1–2", "lookup_order · lookup_customer ✗", ""]
        assert [brief_name(row) for row in listed(progress)] == brief
        assert [brief_times(row) for row in listed(progress)] == ["", "", "2 ✗1", ""]


HANDLED = """\
pipeline: one
steps:
- tool: {name: half, args: {n: !expr ctx.item}, on_error: continue, output: half}
- tool: {name: seldom, args: {n: !expr ctx.item}, on_error: retry(1), output: other}
"""
CALLS_HANDLED = """\
pipeline: each
steps:
- for_each:
    items: [1, 2, 3]
    on_error: continue
    do: {call: {pipeline: one, pass: {item: item}}}
    collect: {transform: {value: pipe}}
"""


def test_a_step_that_handles_its_failures_counts_its_calls(registry: agf.Registry) -> None:
    asked = set[int]()

    async def seldom(n: int) -> int:
        if n not in asked:
            asked.add(n)
            raise ValueError("not yet")
        return n

    agf.tool(seldom, registry=registry)
    agf.define(HANDLED, registry=registry)
    run = agf.run(CALLS_HANDLED, registry=registry)
    for progress in (run.progress, agf.runs(run.run_id).progress):
        rows = {shown_name(row): row for row in listed(progress)}
        half, other = rows["half"], rows["other"]
        assert (count_words(half), brief_times(half)) == ("1 ok, 2 failed", "3 ✗2")
        assert corner_of(half, None).words == "! 3/3 ✗2"
        assert (count_words(other), brief_times(other)) == ("3 ok, 3 retried", "3")
    asked.clear()
    once = agf.run(HANDLED.replace("ctx.item", "2"), registry=registry)
    assert [count_words(row) for row in listed(once.progress)] == ["", "1 retried"]
    updates = [UpdateRow(*row) for row in Updates(once.progress).complete(0.0)["rows"]]
    assert [row.has_attempts for row in updates[:3]] == [None, None, True]


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


def test_a_dropped_element_marks_its_step_and_each_step_around_it(registry: agf.Registry) -> None:
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
    for either_run in (run, agf.runs(run.run_id)):
        assert {row.id: row.look for row in listed(either_run.progress)} == looks
        assert either_run.status == "ok"
        assert {row.state for row in listed(either_run.progress) if row.id != "steps[0].call"} == {"ok"}
    assert Updates(run.progress).complete(0.0)["status"] == "dropped"


@pytest.mark.parametrize(("items", "drops"), [([2, 3], 1), ([2, 3, 5, 4], 2)])
def test_a_step_of_a_called_flow_has_the_same_number_of_drops_in_a_past_run(
    items: list[int], drops: int, registry: agf.Registry
) -> None:
    each = (
        "pipeline: p\nsteps: [{for_each: {items: [2, 3], on_error: continue, "
        "do: {call: {pipeline: one, pass: {n: item}}}, collect: {transform: {value: pipe}}}}]"
    ).replace("[2, 3]", str(items))
    agf.define("pipeline: one\nsteps: [{tool: {name: half, args: {n: !expr ctx.n}, output: n}}]", registry=registry)
    run = agf.run(each, registry=registry)
    for progress in (run.progress, agf.runs(run.run_id).progress):
        assert [state_words(row) for row in listed(progress)] == [f"! ok, {drops} dropped"] * 3


def test_header_row_and_box_have_one_number_at_each_moment(registry: agf.Registry) -> None:
    events = list[Any]()
    flow = agf.define(INNER, registry=registry)
    assert flow is not None
    agf.run(flow, {"numbers": list(range(20))}, registry=registry, on_event=events.append)
    progress = Progress(flow)
    updates, rows, moments = Updates(progress), dict[int, list[Any]](), 0
    for number, event in enumerate(events):
        progress.apply(event)
        update = updates.changes(0.0, counters=number % 5 == 0) or {"rows": [], "counts": []}
        rows |= {row[0]: row for row in update["rows"]}
        if header := next((text for text in update["counts"] if "element" in text), ""):
            ended = re.match(r"(\d+) of 20 elements", header)
            assert ended, header
            fan, element = rows[0], rows[1]
            assert f"{ended[1]}/20" in fan[2].split()
            counted = re.findall(r"(\d+) (?:ok|failed)", fan[4])
            assert sum(map(int, counted)) == int(ended[1])
            assert f"{ended[1]}/20" in element[2].split() or not int(ended[1])
            moments += 1
    assert moments > 5


BRANCHES = """\
pipeline: branches
steps:
- parallel:
    branches:
      a: {transform: {value: "1"}}
      b:
        for_each:
          items: [2, 4, 6, 7]
          max_parallel: 1
          on_error: ON_ERROR
          do: {tool: {name: half, args: {n: !expr item}}}
          collect: {transform: {value: pipe}}
    collect: {transform: {value: b}}
- agent: {prompt: Classify, capabilities: {tools: [lookup_order, lookup_customer]}, output: topic}
"""


@pytest.mark.parametrize(
    ("on_error", "words"),
    [
        ("continue", ["! ok, 1 of 4 dropped", "2 of 2 steps", "4 of 4 elements"]),
        ("abort", ["✗ failed", "0 of 2 steps", "4 of 4 elements"]),
    ],
)
def test_the_header_counts_the_elements_of_data_not_branches_and_not_calls_of_a_model(
    on_error: str, words: list[str], registry: agf.Registry
) -> None:
    run = agf.start(BRANCHES.replace("ON_ERROR", on_error), registry=registry)
    run.wait()
    update = Updates(run.progress).complete(0.0)
    said = headline(run.progress, now=0.0).split(" · ")[1]
    assert [said, *update["counts"][:2]] == words


def test_a_cancelled_element_has_not_ended() -> None:
    row = fan({"started": 12, "finished": 6, "failed": 1, "cancelled": 5}, width=12, failed=1)
    tally = tally_of(row)
    assert tally is not None
    assert str(tally) == "6 ok, 1 failed, 5 cancelled of 12"
    assert tally.brief == "7/12 ✗1 ■5"
    assert corner_of(row, tally).words == "7/12 ✗1"
    assert corner_of(row.elements[0], None).words == "7 ✗1 ■5"


def test_a_call_of_a_plan_that_was_skipped_for_a_missing_value_is_no_step_that_is_done(registry: agf.Registry) -> None:
    calls = "- {_tool: half, n: 4, _outputPath: †state.a}\n- {_tool: half, n: †state.b, _outputPath: †state.c}"
    text = f"name: p\ncalls:\n{calls}"
    agf.define(text, "plan", name="p", registry=registry)
    run = agf.start("p", registry=registry)
    run.wait()
    assert Updates(run.progress).complete(0.0)["counts"][0] == "1 of 2 steps"


def test_the_row_of_a_run_over_a_table_has_a_name(registry: agf.Registry) -> None:
    agf.define("pipeline: one\nsteps: [{tool: {name: half, args: {n: !expr ctx.n}}}]", name="one", registry=registry)
    run = agf.run("one", over=[{"n": 2}], registry=registry)
    row = listed(run.progress)[0]
    assert (row.name, does(row)) == ("each row", "for_each row")


def test_steps_that_never_ran_are_no_rows_of_their_own(registry: agf.Registry) -> None:
    text = "pipeline: p\nsteps:\n- tool: {name: broken}\n- tool: {name: half, args: {n: 2}}\n"
    with pytest.raises(agf.StepError) as failed:
        agf.run(text, registry=registry)
    run = agf.runs(flow="p")[0].run_id
    rows: list[Row] = listed(agf.runs(run).progress)
    update = Updates(agf.runs(run).progress).complete(0.0)
    assert [row.id for row in rows] == ["steps[0]", "steps[1]"]
    assert [UpdateRow(*row).is_unused for row in update["rows"]] == [None, True]
    assert failed.value.code == "step.tool-failed"


# --- each number in words ---

EACH = """\
pipeline: each
steps:
- for_each:
    over: ctx.xs
    on_error: continue
    do: {tool: {name: half, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
"""


def counted(many: bool = False, **counts: Any) -> Row:
    """The row of a step with these counts. ``many``: whether the step is in a fan-out."""
    row = listed(Progress(load(EACH)))[1 if many else 0]
    for name, value in counts.items():
        setattr(row, name, value)
    return row


def fan(elements: dict[str, int], **counts: Any) -> Row:
    return counted(elements=(counted(many=True, **elements),), **{"when": 0.0, "started": 1} | counts)


COUNTS: dict[str, tuple[Row, str, str, str, str]] = {
    # what: the row, its state, its counts, its short counts, its corner
    "not begun": (counted(), "· pending", "", "", "· pending"),
    "ok": (counted(started=1, finished=1), "✓ ok", "", "", "✓ ok"),
    "ok after two retries": (
        *(counted(started=3, failed=2, retried=2, finished=1), "✓ ok"),
        *("2 retried", "2 retried", "✓ ok"),
    ),
    "three times": (counted(started=3, finished=3), "✓ ok", "3 ok", "3", "✓ 3×"),
    "reused": (counted(started=1, finished=1, earlier=1), "✓ ok, ↺ reused", "", "", "✓ ok ↺"),
    "one of two reused": (
        *(counted(started=2, finished=2, earlier=1), "✓ ok, ↺ 1 reused"),
        *("2 ok", "2", "✓ 2× ↺"),
    ),
    "all elements reused": (
        fan({"started": 3, "finished": 3, "earlier": 3}, finished=1, width=3),
        *("✓ ok, ↺ reused", "", "", "✓ ok"),
    ),
    "some elements reused": (
        fan({"started": 3, "finished": 3, "earlier": 2}, finished=1, width=3),
        *("✓ ok, ↺ 2 reused", "", "", "✓ ok"),
    ),
    "failed and handled": (counted(started=1, failed=1, rescues=True), "! failed, handled", "", "", "! handled"),
    "left running": (counted(started=1, left=1), "◌ left running", "", "", "◌ left"),
    "one of two left running": (
        *(counted(started=3, finished=1, left=1), "▶ running, 1 left running"),
        *("1 ok, 1 running", "1 ▶1", "1× ▶1"),
    ),
    "elements dropped": (
        *(fan({"started": 1_201, "finished": 1}, finished=1, lost=1_200), "! ok, 1,200 dropped"),
        *("", "", "! ok"),
    ),
    "of elements": (
        counted(many=True, started=1_012, finished=1_000, failed=4, retried=1, cancelled=2, skipped=3),
        "▶ running",
        "1,000 ok, 3 failed, 6 running, 1 retried, 2 cancelled, 3 skipped",
        "1,003 ✗3 ▶6 ■2",
        "1,003 ✗3 ▶6",
    ),
    "of elements that wait": (
        *(counted(many=True, started=2, finished=1, failed=1, asks=True), "? waiting"),
        *("1 ok, 1 waiting", "1 ok, 1 waiting", "1 ?1"),
    ),
    "of elements, some of which still run and ask": (
        *(counted(many=True, started=3, finished=1, failed=1, asks=True), "? waiting"),
        *("1 ok, 1 failed, 1 running", "1 ok, 1 failed, 1 running", "1 ?"),
    ),
    "skipped by need": (
        *(counted(skipped=1, by_need=True, why="no price"), "– skipped"),
        *("no price", "no price", "– skipped"),
    ),
    "a visit that was skipped, of a loop": (
        *(counted(many=True, loops=True, started=1, finished=1, skipped=4), "✓ ok"),
        *("1 ok", "1 ok", "✓ 1"),
    ),
}


@pytest.mark.parametrize("case", COUNTS)
def test_the_counts_of_a_row_in_words(case: str) -> None:
    row, *expected = COUNTS[case]
    words = list(map(str.strip, (state_words(row), count_words(row), brief_times(row), corner_of(row, None).words)))
    assert words == expected


def test_the_corner_of_a_fan_out_counts_its_elements() -> None:
    row = fan({"started": 12_350, "finished": 12_345, "failed": 3, "retried": 1}, width=20_000)
    tally = tally_of(row)
    assert tally == Tally(20_000, 12_345, 2, 2, 0)
    corner = corner_of(row, tally)
    assert (corner.words, corner.shares) == ("12k ✗2 ▶2", (12_345 / 20_000, 2 / 20_000))
    assert corner_of(counted(), tally).words == "· pending"
    assert corner_of(fan({}, width=0), Tally(0, 0, 0, 0, 0)).shares == (0, 0)
    assert tally_of(counted()) is None, "it has not started"
    ended = {"started": 60, "finished": 57, "failed": 3}
    corners = [
        (ended, 60, "! 60/60 ✗3"),
        (ended | {"failed": 0, "started": 57}, 57, "✓ 57/57"),
        ({"started": 400, "finished": 388, "failed": 12}, 400, "! 400 ✗12"),
        ({"started": 1_000, "finished": 1_000}, 1_000, "✓ 1,000"),
        # A sign before a number is the state of so many: eight of these forty have ended, and three run.
        ({"started": 11, "finished": 8}, 40, "8/40 ▶3"),
        ({"started": 11, "finished": 6, "failed": 2}, 40, "8/40 ✗2 ▶3"),
        ({"started": 820, "finished": 800, "failed": 12}, 1_000, "812 ✗12 ▶8"),
        ({"started": 820, "finished": 812}, 1_000, "812/1,000 ▶"),
        ({"started": 119, "finished": 108, "failed": 7}, 119, "115 ✗7 ▶4"),
        ({"started": 40, "finished": 8, "cancelled": 32}, 40, "8/40 ■32"),
    ]
    for counts, width, words in corners:
        running = counts["started"] > sum(counts.values()) - counts["started"]
        of_fan = {"started": 1, "finished": int(not running), "lost": counts.get("failed", 0)}
        if "cancelled" in counts:
            of_fan |= {"finished": 0, "cancelled": 1}
        row_of_fan = fan(counts, width=width, **of_fan)
        assert corner_of(row_of_fan, tally_of(row_of_fan)).words == words
    inner = counted(many=True, started=3, finished=2, around=row)
    assert corner_of(inner, None).words == "2/20k ▶1"


PACES: dict[str, tuple[dict[str, int], float, str]] = {
    "ten a second": ({"finished": 100}, 10.0, "10/s, 1 min 30 s left"),
    "failures count": ({"finished": 60, "failed": 40}, 10.0, "10/s, 1 min 30 s left"),
    "cancelled ones do not": ({"finished": 100, "cancelled": 100}, 10.0, "10/s, 1 min 20 s left"),
    "slow ones": ({"finished": 10}, 20.0, "one per 2.0 s, 33 min 0 s left"),
    "half a second each": ({"finished": 100}, 50.0, "one per 500 ms, 7 min 30 s left"),
    "the last second": ({"finished": 990}, 0.99, "1,000/s, 1.0 s left"),
    "too few": ({"finished": 2}, 10.0, ""),
    "three": ({"finished": 3}, 3.0, "one per 1.0 s, 16 min 37 s left"),
    "too soon": ({"finished": 100}, 0.4, ""),
    "all": ({"finished": 1_000}, 10.0, ""),
    "of another run": ({"finished": 100, "earlier": 98}, 10.0, ""),
    "some of another run": ({"finished": 100, "earlier": 50}, 10.0, "5/s, 3 min 0 s left"),
    "of an earlier session": ({"finished": 100, "earlier": 98, "is_own": True}, 10.0, "10/s, 1 min 30 s left"),
}
"""For each case: counts of a fan-out of 1,000 elements, the seconds since its start, and the words."""


@pytest.mark.parametrize("case", PACES)
def test_the_pace_of_a_fan_out(case: str) -> None:
    elements, now, expected = PACES[case]
    started = sum(elements.get(name, 0) for name in ("finished", "failed", "cancelled"))
    row = fan({"started": started, **elements}, width=1_000, when=5.0)
    assert pace(row, tally_of(row), 5.0 + now) == expected


NESTED: dict[str, tuple[dict[str, int], int, dict[str, int], float, str, str]] = {
    "before one of eight has ended": (
        *({"started": 2}, 52, {"started": 20, "finished": 16}, 4.0),
        *("one per 6.5 s, 48.0 s left", "4/s"),
    ),
    "two of eight have ended": (
        *({"started": 4, "finished": 2}, 104, {"started": 60, "finished": 50, "failed": 2}, 13.0),
        *("one per 6.5 s, 39.0 s left", "4/s"),
    ),
    "all have begun": (
        *({"started": 8, "finished": 6}, 208, {"started": 190, "finished": 182}, 45.5),
        *("one per 6.5 s, 6.5 s left", "4/s, 6.5 s left"),
    ),
    "all that remain have begun, and one is left out": (
        *({"started": 7, "finished": 6, "skipped": 1}, 182, {"started": 180, "finished": 169}, 42.25),
        *("one per 6.5 s, 3.3 s left", "4/s, 3.3 s left"),
    ),
    "the first ones are guesses": ({"started": 2}, 52, {"started": 4, "finished": 2}, 4.0, "", ""),
    "those inside are empty": (
        *({"started": 6, "finished": 4}, 0, {}, 4.0),
        *("one per 1.0 s, 4.0 s left", ""),
    ),
}
"""For each case of a fan-out of 8 elements that are fan-outs: the counts of these, the elements in them, the counts of
those, the seconds since the start; the words of the outer fan-out and of those inside."""

IN_EACH = """\
pipeline: each
steps:
- for_each:
    over: ctx.groups
    on_error: continue
    do:
      for_each:
        over: item
        on_error: continue
        do: {tool: {name: half, args: {n: !expr item}}}
        collect: {transform: {value: pipe}}
    collect: {transform: {value: pipe}}
"""


@pytest.mark.parametrize("case", NESTED)
def test_a_fan_out_of_fan_outs_has_a_pace_and_those_inside_no_end_that_is_wrong(case: str) -> None:
    groups, width, elements, now, *expected = NESTED[case]
    rows = listed(Progress(load(IN_EACH)))
    for row, counts in zip(rows, ({"width": 8, "started": 1}, groups | {"width": width}, elements), strict=True):
        for name, value in ({"when": 5.0} | counts).items():
            setattr(row, name, value)
    assert [pace(row, tally_of(row), 5.0 + now) for row in rows[:2]] == expected


def test_the_pace_of_a_fan_out_is_sent_again_when_an_element_inside_has_ended() -> None:
    progress = Progress(load(IN_EACH))
    outer, groups, calls = listed(progress)
    for row, counts in ((outer, {"width": 8}), (groups, {"width": 52}), (calls, {"finished": 16})):
        for name, value in ({"when": 0.0, "started": 2} | counts).items():
            setattr(row, name, value)
    updates = Updates(progress)
    updates.complete(4.0)
    calls.finished = calls.started = 20
    changed = updates.changes(5.0)
    assert changed is not None
    assert [UpdateRow(*row).number for row in changed["rows"]] == [0, 1, 2]


def test_only_a_fan_out_that_runs_has_a_pace() -> None:
    elements = {"started": 100, "finished": 100}
    ended = fan(elements, width=1_000, finished=1)
    assert pace(ended, tally_of(ended), 10.0) == ""
    assert pace(fan(elements, width=1_000), None, 10.0) == ""
    unknown = fan(elements, width=1_000, when=None)
    assert pace(unknown, tally_of(unknown), 10.0) == ""


REPORTS: dict[str, tuple[bool, list[Progressed], str, float | None]] = {
    "nothing": (False, [], "", None),
    "a text": (False, [Progressed(("a",), 0.0, None, None, "page 3")], "page 3", None),
    "an amount": (False, [Progressed(("a",), 0.0, 1_500, None, "")], "1,500", None),
    "a part": (False, [Progressed(("a",), 0.0, 0.25, 10, "page 3")], "0.25 of 10 · page 3", 0.025),
    "a thousand and a part": (False, [Progressed(("a",), 0.0, 1500.25, 12002.0, "")], "1,500 of 12,002", 0.125),
    "more than all": (False, [Progressed(("a",), 0.0, 12, 10, "")], "12 of 10", 1.0),
    "of nothing": (False, [Progressed(("a",), 0.0, 0, 0, "")], "0 of 0", None),
    "of an element": (True, [Progressed(("a", 7), 0.0, 3, 10, "")], "#7: 3 of 10", None),
    "of elements": (
        *(True, [Progressed(("a", number), 0.0, 3, 10, "") for number in (7, 1, 2)]),
        *("#7: 3 of 10, and 2 more", None),
    ),
    "of two elements": (
        *(True, [Progressed(("a", number), 0.0, 3, 10, "") for number in (7, 1)]),
        *("#7: 3 of 10, and 1 more", None),
    ),
}
"""For each case: whether the row has many calls, their reports, the words of the row, and the share of its bar."""


@pytest.mark.parametrize("case", REPORTS)
def test_what_calls_report(case: str) -> None:
    many, reported, words, share = REPORTS[case]
    row = counted(many, started=1, reports={report.at: report for report in reported})
    assert (activity(row), share_of(row)) == (words, share)
    ended = counted(many, started=1, finished=1, reports=row.reports)
    assert (activity(ended), share_of(ended)) == ("", None)


@pytest.mark.parametrize(
    ("placed", "words"),
    [
        ((1_040, "2 processes", 0), "running 1,040 on 2 processes"),
        ((0, "2 processes", 4), "starting 4 workers"),
        ((0, "a cluster", 1), "starting 1 worker"),
    ],
)
def test_which_workers_make_the_calls(placed: tuple[int, str, int], words: str) -> None:
    assert activity(counted(started=1, on_workers=placed)) == words
    assert activity(counted(started=1, finished=1, on_workers=placed)) == ""
    reported = {("a",): Progressed(("a",), 0.0, 3, 10, "")}
    assert activity(counted(started=1, on_workers=placed, reports=reported)) == f"3 of 10 · {words}"


@pytest.mark.parametrize(
    ("cost", "words"),
    [(Decimal("0.0026"), ("1,200 tokens", "≈ $0.0026")), (None, ("1,200 tokens", "cost unknown"))],
)
def test_what_a_step_spent(cost: Decimal | None, words: tuple[str, ...]) -> None:
    assert spent(counted(usage=one_reply(1_000, 200, "m", cost))) == words
    assert spent(counted()) == ()


TAILS = {
    "a line\n": "a line",
    "10 %\r50 %\r90 %": "90 %",
    "10 %\r90 %\r\nnext\r\n": "90 %\nnext",
    "\n".join("abcde"): "a\nb\nc\nd\ne",
    "\n".join("abcdef"): "…b\nc\nd\ne\nf",
    "x" * 400: "x" * 400,
    "y" + "x" * 400: "…" + "x" * 400,
}


@pytest.mark.parametrize("printed", TAILS)
def test_the_end_of_what_a_step_printed(printed: str) -> None:
    assert tails(counted(printed=printed)) == (f"prints: {TAILS[printed]}",)


def test_each_part_of_a_reply_has_its_word() -> None:
    arriving = Arriving(("a",), 1)
    for part, text in (("thinking", "so"), ("text", "an"), ("call", "price("), ("text", "swer")):
        arriving.add(part, text)
    assert tails(counted(printed=" \n", replies={("a",): arriving})) == ("thinking: so", "answer", "calls price(")


def test_the_edges_that_a_walk_took_have_the_numbers_of_their_rounds() -> None:
    progress = Progress(load(EACH))
    inner = ("steps[0]", 3, "do", 0)
    progress.taken_edges = [(("a", 0), "START", "x"), (("a", 1), "x", "y"), (("a", 4), "x", "y"), (inner, "x", "y")]  # type: ignore[assignment]
    assert taken_edges(progress.taken_edges) == {("a", "START", "x"): [1], ("a", "x", "y"): [2, 5]}


@pytest.mark.parametrize(
    ("numbers", "words"),
    [([1, 4], "1, 4"), ([1, 2, 3, 1_000], "1, 2, 3, 1,000"), ([*range(1, 13)], "1, 2, 3, 4, … 12×")],
)
def test_the_rounds_in_which_an_edge_was_taken(numbers: list[int], words: str) -> None:
    assert numbers_of(numbers).words == words


def test_the_activity_of_a_row_is_beside_its_name(registry: agf.Registry) -> None:
    agf.define(INNER, registry=registry)
    text = "- call: {pipeline: inner, pass: {numbers: '[1]'}}\n"
    run = agf.run(ALL + text, registry=registry)
    assert {row.id: does(row) for row in listed(run.progress)} == {
        "steps[0]": "tool half",
        "steps[1]": "tool",
        "steps[2]": "tool half",
        "steps[3]": "transform ctx.two + 1",
        "steps[4]": "for_each 2 items",
        "steps[4].do": "tool",
        "steps[5]": "left, right",
        "steps[5].branches.left": "tool half",
        "steps[5].branches.right": "transform 1",
        "steps[5].collect": "transform left",
        "steps[6]": "tool half",
        "steps[7]": "call",
        "steps[7]/steps[0]": "for_each ctx.numbers",
        "steps[7]/steps[0].do": "tool",
    }


SESSIONS = """\
pipeline: support
steps:
- for_each:
    over: "[1, 2]"
    on_error: abort
    do: {agent: {prompt: Classify, capabilities: {tools: [lookup_order, lookup_customer]}}}
    collect: {transform: {value: pipe}}
"""


def test_the_sessions_of_elements_are_counted(registry: agf.Registry) -> None:
    rows = listed(agf.run(SESSIONS, registry=registry).progress)[2:]
    assert [(shown_name(row), does(row), count_words(row)) for row in rows] == [
        ("4 requests", "model", ""),
        ("lookup_order ×2 · lookup_customer ×2 ✗2", "tools", ""),
    ]
    assert [spent(row)[0].partition(" ")[2] for row in rows if spent(row)] == ["tokens"]


def test_header_and_row_have_one_number_of_requests_at_each_moment(registry: agf.Registry) -> None:
    events = list[Any]()
    run = agf.run(SESSIONS, registry=registry, on_event=events.append)
    progress = Progress(run.flow, linked_flow(run).callees)
    names = set[str]()
    for event in events:
        progress.apply(event)
        (row,) = (row for row in progress.rows.values() if row.is_request and row.turns is not None)
        if row.started:
            names.add(name := shown_name(row))
            # The tokens of a reply come a moment before the end of its request.
            assert int(name.split()[0]) <= progress.usage.requests <= row.finished + row.running, name
            assert row.running or int(name.split()[0]) == progress.usage.requests, name
    assert {name for name in names if "running" in name}
    assert "4 requests" in names


def test_a_call_whose_time_is_that_of_two_attempts_says_so() -> None:
    registry, works = agf.Registry(), list[bool]()

    @agf.tool(registry=registry)
    def early() -> int:
        return 1

    @agf.tool(registry=registry)
    def fragile() -> int:
        if not works:
            raise ValueError("down")
        return 1

    text = "pipeline: again\nsteps: [{tool: {name: early}}, {tool: {name: fragile}}, {tool: {name: early}}]"
    run = agf.run(text, registry=registry, raises=False)
    works.append(True)
    resumed = agf.resume(run.run_id, registry=registry)
    rows = [UpdateRow(*row) for row in Updates(resumed.progress).complete(0.0)["rows"]]
    assert [row.counted for row in rows] == ["", MADE_AGAIN, ""]
    assert [row.brief for row in rows] == [None] * 3


@pytest.mark.parametrize(
    ("counts", "has_none"),
    [
        ({}, True),
        ({"started": 1}, False),
        ({"skipped": 1}, True),
        ({"skipped": 1, "why": "no price"}, True),
        ({"skipped": 1, "by_need": True}, True),
        ({"skipped": 1, "by_need": True, "why": "no price"}, False),
    ],
)
def test_a_row_that_never_ran_is_hidden_unless_it_says_why(counts: dict[str, Any], has_none: bool) -> None:
    assert never_ran(counted(**counts)) == has_none
