"""Laws of every run in every language, tried on small random flows whose tools and agents wait, fail and are cut
short."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.engine.run_options import RunOptions
from agf_magics.flow.progress import events as ev
from agf_magics.flow.step_path import StepPath, format_path
from agf_magics.lifecycle.launch.driving import run_here
from agf_magics.lifecycle.launch.launch import prepare_run
from tests.engine import kept
from tests.engine.virtual_time import run_virtual

ENDS = (ev.StepFinished, ev.StepReplayed, ev.StepFailed, ev.StepCancelled, ev.StepAbandoned)
KINDS = ("quick", "slow", "wrong", "late")
FICKLE = "fickle"


def _together(a: str, b: str) -> str:
    branches = f"{{a: {{tool: {{name: {a}}}}}, b: {{tool: {{name: {b}}}}}}}"
    return f"{{parallel: {{branches: {branches}, collect: {{transform: {{value: pipe}}}}}}}}"


FLOWS = {"both": _together("slow", "quick"), "torn": _together("slow", "late"), "half": _together("slow", FICKLE)}
"""Pipelines that a flow may call. ``both`` has a value. In ``torn`` a failure cancels a branch, and in ``half`` in
every second run."""

kinds = st.sampled_from(KINDS)
called = st.sampled_from(["both", "torn"])
handling = st.sampled_from(["abort", "continue", "retry(1)"])


def world() -> agf.Registry:
    """A registry of tools and agents: ``quick`` and ``slow`` return a list, ``wrong`` and ``late`` (which waits first)
    raise. ``fickle`` raises at its first call and at every second call after it."""
    registry = agf.Registry()
    calls = count()

    def make(kind: str) -> None:
        async def work() -> list[str]:
            wrong = kind in ("wrong", "late") or (kind == FICKLE and next(calls) % 2 == 0)
            await asyncio.sleep({"quick": 0.0, "wrong": 0.0, "slow": 3.0}.get(kind, 2.0))
            if wrong:
                raise ValueError(kind)
            return [kind]

        async def tool(x: Any = None) -> list[str]:
            return await work()

        async def agent(input: Any = None) -> dict[str, Any]:
            return {"o": await work()}

        agf.tool(tool, name=kind, registry=registry)
        agf.agent(agent, name=kind, registry=registry)

    for kind in (*KINDS, FICKLE):
        make(kind)
    for name, step in FLOWS.items():
        agf.define(f"pipeline: {name}\nsteps: [{step}]", registry=registry)
    return registry


# --- flows: each strategy gives a language and a text ---


def _tool(kind: str) -> dict[str, Any]:
    return {"tool": {"name": kind, "args": {"x": 1}}}


def _call(name: str) -> dict[str, Any]:
    return {"call": {"pipeline": name}}


_TRANSFORM = {"transform": {"value": "pipe"}}


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fan_out = st.builds(
        lambda body, error, most: {
            "for_each": {"items": [1, 2, 3], "max_parallel": most, "on_error": error, "do": body, "collect": _TRANSFORM}
        },
        inner,
        handling,
        st.integers(1, 3),
    )
    branches = st.builds(
        lambda a, b, error: {"parallel": {"branches": {"a": a, "b": b}, "on_error": error, "collect": _TRANSFORM}},
        inner,
        inner,
        handling,
    )
    fold = st.builds(lambda body: {"fold": {"items": [1, 2], "init": "0", "do": body, "output": "f"}}, inner)
    return fan_out | branches | fold


def _pipelines(leaves: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[tuple[str, str]]:
    steps = st.lists(st.recursive(leaves, _around, max_leaves=3), min_size=1, max_size=3)
    return steps.map(lambda step_list: ("pipeline", json.dumps({"pipeline": "p", "steps": step_list})))


LEAVES = kinds.map(_tool) | called.map(_call)
pipelines = _pipelines(LEAVES)
fickle = _pipelines(LEAVES | st.sampled_from([_tool(FICKLE), _call("half")]))
"""Pipelines whose outcome depends on the number of earlier calls. The law of resumed runs leaves them out."""


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, str]:
    calls: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 5))):
        before = [f"†state.a{n}" for n in range(number)]
        reads = draw(st.lists(st.sampled_from(before), max_size=2)) if before else []
        call = {"_tool": draw(kinds | called), "_outputPath": f"†state.a{draw(st.integers(0, number))}"}
        calls.append(call | ({"x": draw(st.sampled_from([" || ", " && "])).join(reads)} if reads else {}))
    return "plan", json.dumps({"calls": calls, "ordered": draw(st.booleans())}, ensure_ascii=False)


def _tool_node(kind: str, key: str) -> dict[str, Any]:
    return {"type": "tool", "tool": kind, "variables": {"x": 1}, "state_key": key}


def _subgraph(name: str) -> dict[str, Any]:
    return {"type": "subgraph", "graph": name, "input_mapping": {}, "output_mapping": {"k0": "output"}}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, str]:
    count = draw(st.integers(1, 4))
    names = [f"n{i}" for i in range(count)]
    skips = st.sampled_from([{}, {"on_error": "skip"}])
    nodes = {
        name: draw(st.builds(_tool_node, kinds, st.just(f"k{i}")) | st.builds(_subgraph, called)) | draw(skips)
        for i, name in enumerate(names)
    }
    targets = st.sampled_from([*names, "END"])
    edges = [{"from": "START", "to": to} for to in draw(st.lists(st.sampled_from(names), min_size=1, unique=True))]
    for name in names:
        edges += [{"from": name, "to": to} for to in draw(st.lists(targets, min_size=1, max_size=2, unique=True))]
    whole = {"name": "g", "state": {f"k{i}": "any" for i in range(count)}, "nodes": nodes, "edges": edges}
    return "graph", json.dumps(whole | {"config": {"recursion_limit": 6}})


@st.composite
def policies(draw: st.DrawFn) -> tuple[str, str]:
    agents = [{"agent": kind} for kind in draw(st.lists(kinds, min_size=1, max_size=3, unique=True))]
    match draw(st.sampled_from(["sequential", "parallel", "loop", "batch"])):
        case "sequential":
            config: dict[str, Any] = {"steps": agents}
        case "parallel":
            config = {"agents": agents}
        case "loop":
            config = {"steps": agents, "max_iterations": draw(st.integers(1, 3))}
        case _:
            config = {"agent": agents[0]["agent"], "input_mapping": {"input": "parent.input.xs.[]"}}
    ids = {"agents": "parallel", "max_iterations": "loop", "agent": "batch"}
    kind = next((ids[key] for key in ids if key in config), "sequential")
    return "policy", json.dumps({"id": f"agf.{kind}", "config": config})


flows = pipelines | plans() | graphs() | policies()
GIVEN = {"xs": [1, 2, 3]}


def load_flow(language: str, text: str, registry: agf.Registry) -> agf.Flow | None:
    try:
        flow = agf.load(text, language, registry=registry)
        prepare_run(flow, GIVEN, RunOptions(registry=registry))
    except agf.DefinitionError:
        return None
    return flow


def whole(told: list[ev.Event]) -> bool:
    """Whether each attempt that started ended once, and the end of the run was the last event."""
    started = Counter(event.at for event in told if isinstance(event, ev.StepStarted))
    ended = Counter(event.at for event in told if isinstance(event, ENDS))
    return started == ended and [isinstance(event, ev.RunEnded) for event in told] == [False] * (len(told) - 1) + [True]


MADE = {"pipeline": pipelines, "plan": plans(), "graph": graphs(), "policy": policies()}


@pytest.mark.parametrize("flow_made", MADE.values(), ids=MADE)
def test_most_random_flows_can_run(flow_made: st.SearchStrategy[tuple[str, str]]) -> None:
    can_run: list[bool] = []

    @settings(max_examples=30, database=None, derandomize=True)
    @given(flow_made)
    def look(flow: tuple[str, str]) -> None:
        can_run.append(load_flow(*flow, world()) is not None)

    look()
    assert sum(can_run) > len(can_run) / 2, sum(can_run)


def encloses(outer: StepPath, inner: StepPath) -> bool:
    """Whether the step at ``inner`` is the step at ``outer``, or ran inside it in the same element."""
    last = max(i for i, bit in enumerate(outer) if isinstance(bit, str))
    before, step, index = outer[:last], str(outer[last]), outer[last + 1 :]
    if inner[:last] != before or inner[last + 1 : last + 1 + len(index)] != index:
        return False
    begin = str(inner[last])
    return begin.startswith(step) and begin[len(step) :][:1] in ("", ".", "[")


def unexplained(run: agf.Run, events: list[ev.Event]) -> list[str]:
    """Rows of a run that is ok whose state says otherwise. Such a row is ok, skipped or pending; or, where it never
    finished, kept, failed or cancelled: but then each failure and cancellation belongs to an element that was dropped
    or retried, or to a step whose failure is rescued (a graph's skip, a plan's call)."""
    rows = run.steps.values()
    rescues = {row.key for row in rows if row.step.rescue is not None or row.by_need}
    forgiven = [e.at for e in events if isinstance(e, (ev.ElementDropped, ev.StepRetried))]
    forgiven += [e.at for e in events if isinstance(e, ev.StepFailed) and _key(e.at) in rescues]
    bad = [e for e in events if isinstance(e, (ev.StepFailed, ev.StepCancelled))]
    problems = [
        f"{format_path(e.at)} is not forgiven" for e in bad if not any(encloses(path, e.at) for path in forgiven)
    ]
    for row in rows:
        ends = {type(e) for e in events if isinstance(e, ENDS) and _key(e.at) == row.key}
        failed = {"failed", "kept"} if ev.StepFailed in ends else set()
        allowed = failed | ({"cancelled"} if ev.StepCancelled in ends else set())
        if ev.StepFinished in ends:
            allowed = {"ok"} | ({"kept"} if row.key in rescues and failed else set())
        if row.state not in (allowed or {"skipped", "pending"}):
            problems.append(f"{row.id} is {row.state}")
    return problems


def _key(path: StepPath) -> tuple[str, ...]:
    return tuple(bit for bit in path if isinstance(bit, str))


def each_of(body: str, on_error: str, most: int = 1) -> tuple[str, str]:
    """A pipeline of one ``for_each`` over three elements."""
    fan_out = f"items: [1, 2, 3], max_parallel: {most}, on_error: {on_error}, do: {body}"
    return "pipeline", f"{{pipeline: p, steps: [{{for_each: {{{fan_out}, collect: {{transform: {{value: pipe}}}}}}}}]}}"


SKIPPED = (
    "graph",
    "{name: g, state: {k: any}, edges: [{from: START, to: n}, {from: n, to: END}], nodes: {n: "
    "{type: subgraph, graph: torn, input_mapping: {}, output_mapping: {k: output}, on_error: skip}}}",
)


@settings(max_examples=120)
@given(flows | fickle)
@example(each_of(FLOWS["torn"], "continue"))
@example(each_of(FLOWS["half"], "continue"))
@example(each_of(FLOWS["half"], "retry(1)"))
@example(each_of("{call: {pipeline: half}}", "retry(2)", most=3))
@example(SKIPPED)
def test_every_attempt_that_starts_ends_once(flow_made: tuple[str, str]) -> None:
    registry = world()
    flow = load_flow(*flow_made, registry)
    if flow is None:
        return
    events: list[ev.Event] = []
    run = run_virtual(agf.arun(flow, GIVEN, registry=registry, on_event=events.append, raises=False))
    assert whole(events)
    assert run.status in ("ok", "error")
    assert (run.error is None) == (run.status == "ok")
    assert not [row.id for row in run.steps.values() if row.state in ("running", "left", "waiting")]
    assert run.error or unexplained(run, events) == []


@settings(max_examples=120)
@given(flows | fickle, st.floats(0, 12))
def test_a_run_that_is_cancelled_ends_whenever_that_is(flow_made: tuple[str, str], moment: float) -> None:
    registry = world()
    flow = load_flow(*flow_made, registry)
    if flow is None:
        return
    events: list[ev.Event] = []
    run = prepare_run(flow, GIVEN, RunOptions(registry=registry, on_event=events.append))

    async def main() -> None:
        work = asyncio.ensure_future(run_here(run))
        await asyncio.sleep(moment)
        run.cancel()
        await work

    run_virtual(main())
    assert whole(events)
    assert run.status in ("ok", "error", "cancelled")
    assert not [row.id for row in run.steps.values() if row.running]


@settings(max_examples=25)
@given(flows, st.floats(0, 1))
def test_a_run_that_is_cut_and_resumed_has_the_same_end(flow_made: tuple[str, str], part: float) -> None:
    registry = world()
    flow = load_flow(*flow_made, registry)
    if flow is None:
        return

    def told(run: agf.Run) -> tuple[Any, ...]:
        return run.status, run.output, run.error.diagnostic.message if run.error else None

    with TemporaryDirectory() as folder:
        with kept.journal_in(Path(folder) / "whole") as path:
            expected = told(run_virtual(agf.arun(flow, GIVEN, registry=registry, raises=False)))
            lines = len(kept.lines(path))
            short = kept.cut(path, round(lines * part), Path(folder) / "cut")
        with kept.journal_in(short.parent):
            assert told(run_virtual(kept.take_up(registry=world()))) == expected
