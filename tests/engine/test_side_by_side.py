"""Fan-outs in cases that vector rows cannot describe: which elements start, which are cancelled, and what is
reported."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from typing import Any

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.limits.budgets import LimitReached
from agf_magics.pictures.pages.parts import unstopped
from tests.engine.virtual_time import run_virtual
from tests.fans import fan_out


def fan(
    registry: agf.Registry, xs: list[Any], on_event: Any = None, limit: int = 4, on_error: str = "abort"
) -> agf.Run:
    flow = agf.load(fan_out(limit=limit, on_error=on_error), registry=registry)
    run: agf.Run = run_virtual(agf.arun(flow, {"xs": xs}, registry=registry, on_event=on_event, raises=False))
    return run


def test_after_a_failure_no_further_element_starts_and_running_ones_are_cancelled() -> None:
    registry, started, cancelled = agf.Registry(), [], []

    @agf.tool(registry=registry)
    async def work(x: int) -> int:
        started.append(x)
        if x == 1:
            raise ValueError("no")
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(x)
            raise
        return x

    run = fan(registry, list(range(50)))
    assert run.status == "error"
    assert started == [
        0,
        1,
    ]  # two of four workers had not started an element when the failure came, and start none
    assert sorted([*cancelled, 1]) == sorted(started)
    assert run.error.path == ("steps[0].do", 1)
    assert isinstance(run.error.__cause__, ValueError)


def test_continue_drops_and_keeps_the_order() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(x: int) -> int:
        await asyncio.sleep(1 / (x + 1))
        if x % 3 == 0:
            raise ValueError(x)
        return x

    run = fan(registry, list(range(10)), on_error="continue")
    assert run.output == [1, 2, 4, 5, 7, 8]
    row = run.steps["steps[0].do"]
    assert (row.finished, row.dropped, row.state) == (6, 4, "ok")
    assert sorted((path, element) for path, _, element in run.progress.failures) == [
        (("steps[0].do", i), i) for i in (0, 3, 6, 9)
    ]


def test_a_breached_cap_is_neither_retried_nor_dropped() -> None:
    registry = agf.Registry()
    agf.agent(lambda prompt: prompt, name="echo", registry=registry)
    text = """
pipeline: p
steps:
  - for_each:
      over: ctx.xs
      on_error: {on_error}
      do: {{match: {{on: item, cases: {{ask: {{pipeline: asks}}}}, default: {{pipeline: quiet}}}}}}
      collect: {{transform: {{value: pipe}}}}
"""
    agf.define("pipeline: asks\nsteps:\n  - agent: {prompt: hello}", registry=registry)
    agf.define("pipeline: quiet\nsteps:\n  - transform: {value: \"'-'\"}", registry=registry)
    for on_error in ("continue", "retry(5)"):
        flow = agf.load(text.format(on_error=on_error), registry=registry)
        limits = agf.Limits(spawns=2)
        run = run_virtual(
            agf.arun(flow, {"xs": ["ask", "x", "ask", "ask"]}, registry=registry, limits=limits, raises=False)
        )
        assert isinstance(run.error, LimitReached)
        assert run.error.code == "limit.spawns"


def test_siblings_cannot_see_what_another_did_to_its_arguments() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(x: list[int]) -> int:
        x.append(99)
        return len(x)

    text = fan_out(limit=2).replace("item", "ctx.shared")
    flow = agf.load(text, registry=registry)
    run = run_virtual(agf.arun(flow, {"xs": [1, 2, 3], "shared": [1]}, registry=registry))
    assert run.output == [2, 2, 2]
    assert run.stores["shared"] == [1]


def test_an_element_costs_little_memory_beyond_its_result() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(x: int) -> None:
        return None

    xs = list(range(10_000))
    fan(registry, xs[:100])
    flow = agf.load(fan_out(limit=8, collect="count(pipe)"), registry=registry)

    async def measured() -> tuple[agf.Run, int]:
        gc.collect()
        tracemalloc.start()
        run = await agf.arun(flow, {"xs": xs}, registry=registry)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return run, most

    run, most = asyncio.run(measured())
    assert run.output == len(xs)
    # This allows the copy of the input and the list of results, but not a task, a row or an event for each element.
    assert most / len(xs) < 300


def test_opaque_values_travel_by_reference() -> None:
    registry = agf.Registry()
    opaque = object()

    @agf.tool(registry=registry)
    async def work(x: object) -> object:
        assert x is opaque
        return x

    assert fan(registry, [opaque, opaque]).output == [opaque, opaque]


def test_a_failure_inside_a_dropped_element_did_not_fail_the_run() -> None:
    registry = agf.Registry()
    text = """
pipeline: p
steps:
  - for_each:
      over: ctx.xs
      on_error: continue
      do:
        parallel:
          branches: {inverse: {transform: {value: 1 / ctx.zero}}, same: {transform: {value: ctx.zero}}}
          collect: {transform: {value: pipe}}
      collect: {transform: {value: pipe}}
"""
    run = run_virtual(agf.arun(agf.load(text, registry=registry), {"xs": [1, 2], "zero": 0}, registry=registry))
    assert run.output == []
    assert run.steps["steps[0].do.branches.inverse"].failed == 2
    assert [run.steps[id].state for id in ("steps[0]", "steps[0].collect")] == ["ok", "ok"]
    assert run.steps["steps[0].do"].dropped == 2


def test_the_step_that_ended_a_run_is_failed_in_the_tree() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(x: int) -> float:
        return 1 / x

    run = fan(registry, [1, 0], on_error="retry(1)")
    assert run.status == "error"
    assert run.steps["steps[0].do"].state == "failed"
    assert run.steps["steps[0].do"].retried == 1


def test_a_small_value_with_too_many_shared_parts_is_refused_where_it_is_made() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(x: Any) -> int:
        return 1

    text = """
pipeline: p
steps:
  - fold: {over: ctx.xs, init: "[]", do: {transform: {value: "[acc, acc]"}}, output: huge}
  - tool: {name: work, args: {x: !expr huge}}
"""
    flow = agf.load(text, registry=registry)
    run = run_virtual(agf.arun(flow, {"xs": list(range(40))}, registry=registry, raises=False))
    assert run.error.code == "step.too-deep"
    assert "5,000,000 parts" in run.error.diagnostic.message
    assert run.error.where == "steps[0].do#21"
    assert len(run._repr_mimebundle_()["text/plain"]) < 100_000


def test_a_failed_run_keeps_the_results_that_it_had() -> None:
    registry = agf.Registry()
    text = "pipeline: p\nsteps:\n  - transform: {value: ctx.n + 1, output: m}\n  - transform: {value: 1 / 0}\n"
    run = run_virtual(agf.arun(agf.load(text, registry=registry), {"n": 1}, registry=registry, raises=False))
    assert run.status == "error"
    assert run.stores == {"n": 1, "m": 2}


def test_a_dry_run_needs_no_agent_and_calls_nothing() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def work(x: int) -> list[int]:
        raise AssertionError("never called")

    text = """
schema: Review
fields: {passed: {type: bool}, notes: {type: string}}
---
pipeline: p
steps:
  - tool: {name: work, args: {x: 1}, output: xs}
  - for_each:
      {over: xs, on_error: abort, do: {tool: {name: work, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}
  - agent: {prompt: "Review {xs}", schema: Review, output: review}
  - transform: {value: "review.passed and 'OK' or 'NO'"}
"""
    run = run_virtual(agf.arun(agf.load(text, registry=registry), registry=registry, dry=True))
    assert run.output in ("OK", "NO")
    assert run.note == "dry run, nothing was called: a real run makes at least 2 tool calls and 1 agent session"


def test_a_failed_branch_does_not_excuse_a_branch_whose_name_begins_alike() -> None:
    registry = agf.Registry()
    text = """
pipeline: p
steps:
  - parallel:
      on_error: continue
      branches: {a: {transform: {value: 1 / 0}}, ab: {transform: {value: "1"}}}
      collect: {match: {on: "'ab'", cases: {a: {pipeline: q}, ab: {pipeline: q}}}}
"""
    agf.define("pipeline: q\nsteps:\n  - transform: {value: '1'}\n", registry=registry)
    run = agf.run(agf.load(text, registry=registry), registry=registry)
    assert not run.steps["steps[0].branches.ab"].excused
    assert run.steps["steps[0].collect.cases.a"].state == "skipped"
    assert run.steps["steps[0].collect.cases.ab"].state == "ok"
    assert run.steps["steps[0].collect.cases.a/steps[0]"].state == "skipped"


def test_only_the_step_of_a_call_that_does_not_stop_is_left_running() -> None:
    registry, gate, events = agf.Registry(), threading.Event(), list[ev.Event]()
    has_ended = threading.Event()

    def told(event: ev.Event) -> None:
        events.append(event)
        if isinstance(event, ev.AbandonedCallEnded):
            has_ended.set()

    @agf.tool(registry=registry, where="thread")
    def work(x: int) -> None:
        gate.wait()

    try:
        flow = agf.load(fan_out(limit=4), registry=registry)
        # This is long enough for the call to begin.
        limits = agf.Limits(timeout=0.5)
        run = agf.run(flow, {"xs": [1]}, registry=registry, on_event=told, limits=limits, raises=False)
        left = [(row.id, row.state) for row in run.progress.rows.values() if row.left]
        words = unstopped(run.progress)
    finally:
        gate.set()
    assert run.error.code == "limit.timeout"
    assert [event.at[0] for event in events if isinstance(event, ev.StepAbandoned)] == ["steps[0].do"]
    assert [event.at[0] for event in events if isinstance(event, ev.StepCancelled)] == ["steps[0]"]
    assert left == [("steps[0].do", "left")]
    assert words == ["1 call left running"]
    assert has_ended.wait(60)  # the end of the function is told, too
    assert unstopped(run.progress) == ["1 call left running has ended"]
    assert not run.progress.unstopped


def test_plain_tools_of_two_branches_run_at_the_same_time() -> None:
    registry, both = agf.Registry(), threading.Barrier(2)

    @agf.tool(registry=registry)
    def meet(name: str) -> str:
        both.wait(30)  # the kernel's thread alone could make only one of the calls
        return name

    branches = "a: {tool: {name: meet, args: {name: a}}}, b: {tool: {name: meet, args: {name: b}}}"
    collect = "{transform: {value: '[pipe.a, pipe.b]'}}"
    text = f"pipeline: p\nsteps:\n- parallel: {{branches: {{{branches}}}, collect: {collect}}}\n"
    assert agf.run(text, registry=registry).output == ["a", "b"]
