"""A time limit changes only the time: a tool gives the same outcome on the loop and under a limit that it never
reaches."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import agf_magics as agf

Point = namedtuple("Point", "x y")


async def doubled(x: int) -> int:
    return x * 2


async def after_a_turn(x: int) -> int:
    await asyncio.sleep(0)
    return x * 2


def plain(x: int) -> Any:
    return Point(x, (x, {"n": x}))


def fails(x: int) -> int:
    if x == 2:
        raise ValueError(f"no {x}")
    return x


async def fails_after_a_turn(x: int) -> int:
    await asyncio.sleep(0)
    return fails(x)


def stops(x: int) -> int:
    raise StopIteration(x)


async def exits(x: int) -> int:
    raise SystemExit(3)


def gives_a_future(x: int) -> Any:
    future = asyncio.get_running_loop().create_future()
    future.set_result(x + 1)
    return future


def starts_a_loop(x: int) -> Any:
    coroutine = doubled(x)
    try:
        return asyncio.run(coroutine)
    finally:
        coroutine.close()


def too_deep(x: int) -> Any:
    value: list[Any] = [x]
    value.append(value)
    return value


def changes_its_argument(x: list[int]) -> list[int]:
    x.append(0)
    return x


def strict(x: str) -> str:
    return x


TOOLS = [
    doubled, after_a_turn, plain, fails, fails_after_a_turn, stops, exits, gives_a_future, starts_a_loop, too_deep,
    changes_its_argument, strict,
]  # fmt: skip

FLOWS = {
    "linear": "tool: {name: work, args: {x: !expr ctx.n}}",
    "each": "for_each: {over: ctx.xs, max_parallel: LIMIT, on_error: ERRORS, "
    "do: {tool: {name: work, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}",
    "agents": "for_each: {over: ctx.xs, max_parallel: LIMIT, on_error: ERRORS, "
    "do: {agent: {identity: asked, prompt: '{item}'}}, collect: {transform: {value: pipe}}}",
}
ERRORS = ("abort", "continue", "retry(1)")
CASES = [("linear", "abort"), *((flow, errors) for flow in ("each", "agents") for errors in ERRORS)]


def outcome(tool: Callable[..., Any], text: str, **limits: Any) -> Any:
    """Everything that a user can see of a run, without times."""
    registry = agf.Registry()
    agf.tool(tool, name="work", where="loop", registry=registry, **limits)

    @agf.agent(where="loop", tools=(), registry=registry, **limits)
    def asked(prompt: str) -> Any:
        return tool(prompt)

    values: list[Any] = [[1], [2], [3]] if tool is changes_its_argument else [1, 2, 3]
    run = agf.run(text, {"n": values[1], "xs": values}, registry=registry, raises=False)
    rows = [
        (row.id, row.state, row.started, row.finished, row.failed, row.dropped, row.retried, row.value)
        for row in run.steps.values()
    ]
    error = run.error and [
        str(run.error), run.error.where, repr(run.error.__cause__),
        getattr(run.error.__cause__, "__notes__", None),
    ]  # fmt: skip
    warnings = Counter((warning.code, warning.message) for warning in run.warnings)
    return run.status, run.output, run.calls, error, rows, warnings


@pytest.mark.parametrize(("flow", "errors"), CASES)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
def test_a_time_limit_changes_no_outcome(tool: Callable[..., Any], flow: str, errors: str) -> None:
    # A failure that ends the fan-out stops the other elements wherever they are, which depends on timing.
    step = FLOWS[flow].replace("ERRORS", errors).replace("LIMIT", "2" if errors == "continue" else "1")
    text = f"pipeline: p\nsteps: [{{{step}}}]"
    assert outcome(tool, text) == outcome(tool, text, timeout=1_000.0)


def test_a_call_on_the_loop_needs_the_grant_of_its_step() -> None:
    registry, called = agf.Registry(), list[int]()

    @agf.tool(where="loop", registry=registry)
    def work(x: int) -> int:
        called.append(x)
        return x

    @agf.tool(registry=registry)
    def other() -> int:
        return 1

    flow = agf.load("pipeline: p\nsteps:\n  - tool: {name: work, args: {x: 1}}", registry=registry)

    @agf.agent(tools=["other"], registry=registry)
    async def narrow(prompt: str) -> str:
        run = await agf.arun(flow, registry=registry, raises=False)
        return str(run.error)

    around = agf.load("pipeline: q\nsteps:\n  - agent: {identity: narrow, prompt: go}", registry=registry)
    assert "may not use tool 'work'" in agf.run(around, registry=registry).output
    assert not called


def test_short_pauses_on_the_loop_are_short() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(times: int) -> float:
        begin = time.monotonic()
        for _ in range(times):
            await asyncio.sleep(0.001)
        return time.monotonic() - begin

    run = agf.run("pipeline: p\nsteps:\n  - tool: {name: work, args: {times: 20}}", registry=registry)
    assert run.output < 10, "a second each would be 20"
