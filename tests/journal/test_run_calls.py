"""The calls of a step in the journal: how they are counted, paged and grouped, in live and in past runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.engine.linking.linked import Linked
from agf_magics.flow.step_path import is_within
from agf_magics.journal.run_calls import RunCalls, is_call_of, numbers_in
from agf_magics.lifecycle.past.calls_of_run import calls_of, elements_of
from agf_magics.lifecycle.run_internals import linked_flow
from tests.engine.kept import journal_in

OUTER = """\
pipeline: outer
steps:
- for_each:
    over: ctx.xs
    on_error: continue
    do:
      for_each:
        items: [1, 2]
        on_error: continue
        do: {call: {pipeline: inner, pass: [item]}}
        collect: {transform: {value: pipe}}
    collect: {transform: {value: pipe}}
- tool: {name: odd, args: {n: 1}}
"""
INNER = """\
pipeline: inner
steps:
- for_each:
    items: [10, 20, 30]
    on_error: continue
    do: {tool: {name: odd, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
"""


def defined(*text: str, registry: agf.Registry, name: str | None = None) -> agf.Flow:
    flow = agf.define(*text, registry=registry, name=name)
    assert flow is not None
    return flow


@pytest.fixture
def run(tmp_path: Path) -> Iterator[agf.Run]:
    registry = agf.Registry()

    async def odd(n: int) -> int:
        if n == 20:
            raise ValueError("twenty")
        return n

    agf.tool(odd, registry=registry)
    agf.define(INNER, registry=registry)
    with journal_in(tmp_path):
        yield agf.run(defined(OUTER, registry=registry), {"xs": [1, 2, 3, 4]}, registry=registry)


def run_calls_of(run: Any) -> RunCalls:
    calls = calls_of(run)
    assert calls is not None
    return calls


def test_a_fan_out_has_the_calls_of_all_its_elements_also_of_called_flows(run: agf.Run) -> None:
    rows = run.steps
    assert run_calls_of(run).count(rows["steps[0]"]) == (24, 8)
    assert run_calls_of(run).count(rows["steps[0].do.do/steps[0]"]) == (24, 8)
    assert run_calls_of(run).count(rows["steps[0].do.do/steps[0].do"]) == (24, 8)
    assert run_calls_of(run).count(rows["steps[1]"]) == (1, 0)


def test_failed_calls_come_first_and_pages_do_not_overlap(run: agf.Run) -> None:
    row, calls = run.steps["steps[0]"], run_calls_of(run)
    pages = [calls.page(row, 10, offset, order="failed") for offset in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 4, 0]
    assert len({record.line for page in pages for record in page}) == 24
    assert [record.what for page in pages for record in page] == ["failed"] * 8 + ["finished"] * 16
    assert all(record.what == "failed" for record in calls.page(row, 100, failed=True))


def test_failed_calls_and_the_others_are_in_the_order_of_their_elements(tmp_path: Path) -> None:
    """However the calls of concurrent elements ended."""
    registry, ended, turns = agf.Registry(), list[int](), {n: asyncio.Event() for n in range(12)}
    turns[11].set()

    async def odd(n: int) -> int:
        await turns[n].wait()  # the last element ends first
        ended.append(n)
        if n:
            turns[n - 1].set()
        if n % 2:
            raise ValueError(n)
        return n

    agf.tool(odd, registry=registry)
    text = "pipeline: p\nsteps:\n- for_each: {over: ctx.xs, max_parallel: 12, on_error: continue, do: {tool: " \
           "{name: odd, args: {n: !expr item}}}, collect: {transform: {value: pipe}}}"  # fmt: skip
    with journal_in(tmp_path):
        run = agf.run(defined(text, registry=registry), {"xs": list(range(12))}, registry=registry)
        page = run_calls_of(run).page(run.steps["steps[0]"], 100, order="failed")
    assert ended == list(range(11, -1, -1))
    assert [record.at[1] for record in page] == [1, 3, 5, 7, 9, 11, 0, 2, 4, 6, 8, 10]


def test_a_call_is_found_by_its_number_and_only_in_its_run(run: agf.Run) -> None:
    calls = run_calls_of(run)
    (first, *_) = calls.page(run.steps["steps[0]"], 1)
    again = calls.call(calls.number(first))
    assert again.at == first.at
    assert calls.call(10**9) is None


def test_elements_are_grouped_by_their_numbers(run: agf.Run) -> None:
    calls, rows = run_calls_of(run), run.steps
    outer = elements_of(calls, rows["steps[0]"], run.flow)
    assert [(group.numbers, group.calls, group.failed) for group in outer] == [((i,), 6, 2) for i in range(4)]
    for group in outer:
        of_element = calls.page(rows["steps[0]"], 100, index=group.numbers)
        assert group.first == calls.number(min(of_element, key=lambda record: record.started or 0))
        assert group.last == calls.number(of_element[-1])
    inner = elements_of(calls, rows["steps[0].do"], run.flow)
    assert [group.numbers for group in inner] == [(i, j) for i in range(4) for j in range(2)]
    assert calls.count(rows["steps[0]"], (2,)) == (6, 2)
    assert all(record.at[1] == 2 for record in calls.page(rows["steps[0]"], 100, index=(2,)))
    assert elements_of(calls, rows["steps[1]"], run.flow) == []


def test_a_past_run_has_the_same_calls(run: agf.Run) -> None:
    past = agf.runs(run.run_id)
    row = past.steps["steps[0]"]
    assert run_calls_of(past).count(row) == (24, 8)
    assert len(run_calls_of(past).spans(row, 5)) == 5
    assert run_calls_of(past).attempts(past.steps["steps[1]"], 5)[0].value_shown == 1


def test_a_resumed_run_continues_to_count_the_attempts(tmp_path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def fails(n: int) -> int:
        raise ValueError(f"no {n}")

    text = """\
pipeline: p
steps:
- for_each:
    items: [1]
    on_error: retry(1)
    do: {tool: {name: fails, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
"""
    with journal_in(tmp_path):
        run = agf.run(defined(text, registry=registry), registry=registry, raises=False)
        again = agf.resume(run.run_id, registry=registry, raises=False)
        calls = run_calls_of(again)
        newest_first = calls.page(again.steps["steps[0].do"], 10)[::-1]
        assert calls.number_attempts(newest_first) == [3, 2, 1]  # the earlier attempt is not listed twice
        assert calls.number_attempts([]) == []
        assert [call["attempt"] for call in agf.runs(run.run_id).calls] == [1, 2, 3]


def test_a_run_without_a_journal_has_no_calls() -> None:
    assert calls_of(agf.run("pipeline: p\nsteps: [{transform: {value: '1'}}]")) is None


def test_names_that_differ_in_case_are_different_steps(tmp_path: Path) -> None:
    text = "pipeline: p\nsteps:\n- parallel:\n    branches:\n      {}\n    collect: {{transform: {{value: pipe}}}}\n"
    registry = agf.Registry()

    async def same(n: int) -> int:
        return n

    agf.tool(same, registry=registry)
    names = {"a": 1, "A": 2, "ab": 3, "a%": 4, "a_": 5}
    branches = "\n      ".join(f'"{name}": {{tool: {{name: same, args: {{n: {n}}}}}}}' for name, n in names.items())
    with journal_in(tmp_path):
        run = agf.run(defined(text.format(branches), registry=registry), registry=registry)
        tools = [row for row in run.steps.values() if row.word == "tool"]
        assert len(tools) == 5
        assert [run_calls_of(run).count(row).total for row in tools] == [1] * 5
        assert [run_calls_of(run).page(row, 5)[0].value_shown for row in tools] == list(names.values())


STEPS = st.sampled_from(["a", "a.do", "a.do.do", "ab", "a[0]", "b"])
PATHS = st.lists(st.tuples(STEPS, st.lists(st.integers(0, 3), max_size=3)), min_size=1, max_size=3)


@given(PATHS, st.lists(STEPS, min_size=1, max_size=3).map(tuple))
def test_a_call_belongs_to_the_steps_above_its_path(parts: list[tuple[str, list[int]]], key: tuple[str, ...]) -> None:
    path = tuple(bit for step, numbers in parts for bit in (step, *numbers))
    bare = tuple(step for step, _ in parts)
    assert is_call_of(path, key) is is_within(bare, key)  # type: ignore[arg-type]
    numbers = numbers_in(path, key, 1)  # type: ignore[arg-type]
    assert numbers is None or is_call_of(path, key, numbers)  # type: ignore[arg-type]


def test_the_elements_of_a_called_flow_have_the_numbers_of_its_calls(run: agf.Run) -> None:
    row = run.steps["steps[0].do.do/steps[0]"]
    inner = elements_of(run_calls_of(run), row, row_flow(run))
    assert len(inner) == 4 * 2 * 3
    assert inner[0].numbers == (0, 0, 0)
    assert run_calls_of(run).count(row, (0, 0, 1)) == (1, 1)


def row_flow(run: agf.Run) -> agf.Flow:
    callee = linked_flow(run).callees["steps[0].do.do"]
    assert isinstance(callee, Linked)
    return callee.flow


WORDS = ["Überweisung an Äpfel GmbH", "Straße", "東京", "𝔘 😀", "C:\\\\u00e4.txt", "plain"]
SEARCHES: dict[str, list[int]] = {
    "überweisung": [0], "ÄPFEL gmbh": [0], "äpfelgmbh": [0], "STRASSE": [1], "straße": [1], "京": [2], "😀": [3],
    "Plain": [5], "é": [], "u00": [4], "ä.txt": [], '"word": "plain"': [5],
}  # fmt: skip


def test_calls_are_found_by_text_of_any_alphabet_and_case(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda word: word, name="say", registry=registry)
    text = (
        "pipeline: p\nsteps:\n- for_each: {over: ctx.words, on_error: abort, "
        "do: {tool: {name: say, args: {word: !expr item}}}, collect: {transform: {value: pipe}}}"
    )
    with journal_in(tmp_path):
        run = agf.run(defined(text, registry=registry), {"words": WORDS}, registry=registry)
        row, calls = run.steps["steps[0]"], run_calls_of(run)
        found = {text: sorted(int(record.at[1]) for record in calls.page(row, 10, text=text)) for text in SEARCHES}
        assert found == SEARCHES
        assert {text: calls.count(row, text=text).total for text in SEARCHES} == {
            t: len(n) for t, n in SEARCHES.items()
        }
