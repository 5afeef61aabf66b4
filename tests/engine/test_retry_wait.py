"""Tests of `retry(N, wait: …)`, the pause before each further attempt, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import agf_magics as agf
from tests.engine.virtual_time import run_virtual

EACH = """
pipeline: p
steps:
- for_each:
    items: [a, b]
    max_parallel: 2
    on_error: '{policy}'
    do: {{tool: {{name: fetch, args: {{name: !expr item}}}}}}
    collect: {{transform: {{value: '[pipe, __errors__]'}}}}
"""


@pytest.mark.parametrize(
    ("policy", "starts", "output"),
    [
        ("retry(2, wait: 2s, then: continue)", [0, 2, 4], [[], ["a", "b"]]),
        ("retry(1, wait: 1min, then: continue)", [0, 60], [[], ["a", "b"]]),
        ("retry(2, wait: 500ms, then: continue)", [0, 0.5, 1], [[], ["a", "b"]]),
    ],
)
def test_each_further_attempt_waits(policy: str, starts: list[float], output: Any) -> None:
    registry, times = agf.Registry(), dict[str, list[float]]()

    @agf.tool(registry=registry)
    async def fetch(name: str) -> str:
        times.setdefault(name, []).append(asyncio.get_running_loop().time())
        raise ConnectionError("down")

    run = run_virtual(agf.arun(agf.load(EACH.format(policy=policy), registry=registry), registry=registry))
    values, errors = run.output
    assert [values, ["ab"[error["index"]] for error in errors]] == output
    assert times == {"a": starts, "b": starts}


@pytest.mark.parametrize("step", ["each", "one"])
@pytest.mark.usefixtures("journaled")
def test_a_resumed_run_does_not_wait_between_the_attempts_that_were_made(step: str) -> None:
    registry, calls, fails = agf.Registry(), list[str](), [True]

    @agf.tool(registry=registry)
    async def fetch(name: str) -> str:
        calls.append(name)
        if calls.count(name) < 3:
            raise ConnectionError("down")
        return name

    @agf.tool(registry=registry)
    async def last() -> None:
        if fails:
            raise LookupError("not yet")

    policy = "retry(2, wait: 99min)"
    one = f"pipeline: p\nsteps:\n- tool: {{name: fetch, args: {{name: a}}, on_error: '{policy}'}}\n"
    text = (EACH.format(policy=policy) if step == "each" else one) + "- tool: {name: last}\n"
    failed = run_virtual(agf.arun(agf.load(text, registry=registry), registry=registry, raises=False))
    assert failed.error.code == "step.tool-failed"
    made = len(calls)
    fails.clear()
    run = agf.resume(failed.run_id, registry=registry, limits=agf.Limits(timeout=20), raises=False)
    assert (run.status, len(calls)) == ("ok", made), run.error


def test_a_run_that_is_cancelled_does_not_wait() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def fetch(name: str) -> str:
        raise ConnectionError("down")

    flow = agf.load(EACH.format(policy="retry(1, wait: 99min)"), registry=registry)

    async def run() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await agf.arun(flow, registry=registry)
        return asyncio.get_running_loop().time()

    assert run_virtual(run()) == 5


def test_plain_functions_wait_too() -> None:
    registry, attempts = agf.Registry(), list[str]()

    @agf.tool(registry=registry)
    def fetch(name: str) -> str:
        attempts.append(name)
        if attempts.count(name) < 3:
            raise ConnectionError("down")
        return name.upper()

    flow = agf.load(EACH.format(policy="retry(2, wait: 1ms)"), registry=registry)
    assert agf.run(flow, registry=registry).output == [["A", "B"], []]
    assert sorted(attempts) == ["a", "a", "a", "b", "b", "b"]
