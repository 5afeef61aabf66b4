"""Random pipelines: the half of the flows that nobody has seen while the engine was written.

The same seed gives the same pipelines. Their tools and expressions are trivial, so that the engine is what is timed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import agf_magics as agf
from agf_magics.flow import events as ev
from tests.bench.cases import FRAME
from tests.bench.generated import Writer
from tests.bench.orchestration import GATHER, gathered, work
from tests.bench.rounds import Row, paired

GIVEN = {name: FRAME["ctx"][name] for name in ("n", "m", "limit", "total", "size", "status", "people")}
STEPS = range(20, 60)
"""Steps of the text of one pipeline."""


def steps(random: Random, count: int) -> list[str]:
    """Steps in YAML's flow style."""
    made: list[str] = []
    while len(made) < count:
        kind = random.choice(("tool", "tool", "transform", "transform", "for_each", "parallel", "match"))
        made.append(MAKERS[kind](random))
    return made


def _tool(random: Random) -> str:
    return f"{{tool: {{name: work, args: {{x: !expr ctx.{random.choice('nm')}}}}}}}"


def _transform(random: Random) -> str:
    return f"{{transform: {{value: '{Writer(random).arithmetic(0, None).r1}'}}}}"


def _for_each(random: Random) -> str:
    collect = "{transform: {value: count(pipe)}}"
    limit = random.choice((1, 4, 16))
    do = "{tool: {name: work, args: {x: !expr item.age}}}"
    return f"{{for_each: {{over: ctx.people, max_parallel: {limit}, on_error: abort, do: {do}, collect: {collect}}}}}"


def _parallel(random: Random) -> str:
    branches = ", ".join(f"b{number}: {_tool(random)}" for number in range(random.randrange(2, 5)))
    return f"{{parallel: {{branches: {{{branches}}}, collect: {{transform: {{value: pipe.b0}}}}}}}}"


def _match(random: Random) -> str:
    word = random.choice(("done", "open"))
    one, two = (f"{{pipeline: {name}, pass: [n, m, limit, total, size]}}" for name in ("one", "two"))
    return f"{{match: {{on: ctx.status, cases: {{{word}: {one}}}, default: {two}}}}}"


MAKERS: dict[str, Callable[[Random], str]] = {
    "tool": _tool,
    "transform": _transform,
    "for_each": _for_each,
    "parallel": _parallel,
    "match": _match,
}


def rows(seed: int, count: int = 6) -> list[Row]:
    """Microseconds of CPU time of a step, for each of ``count`` pipelines, after those of asyncio alone."""
    random, registry = Random(seed), agf.Registry()
    agf.tool(work, registry=registry)
    for name, inner in (("one", _tool), ("two", _transform)):
        agf.define(f"pipeline: {name}\nsteps:\n  - {inner(random)}\n", registry=registry)
    loop = asyncio.new_event_loop()
    try:
        per, found = 1000, list[Row]()
        for number in range(1, count + 1):
            text = "pipeline: drawn\nsteps:\n" + "".join(
                f"  - {step}\n" for step in steps(random, random.choice(STEPS))
            )
            flow = agf.load(text, registry=registry)
            done = _finished(flow, registry)
            candidates = {
                GATHER: _timed(loop, lambda: gathered(per)),
                "ours": _timed(loop, lambda flow=flow: agf.arun(flow, GIVEN, registry=registry)),  # type: ignore[misc]
            }
            base, ours = paired(candidates, clock=time.thread_time)
            if not found:
                found.append(Row(GATHER, base.micros / per, 1.0))
            found.append(Row(f"drawn pipeline {number}: {done} steps", ours.micros / done, ours.ratio * per / done))
    finally:
        loop.close()
    return found


def _timed(loop: asyncio.AbstractEventLoop, run: Callable[[], Awaitable[Any]]) -> Callable[[], Any]:
    return lambda: loop.run_until_complete(run())  # type: ignore[arg-type]


def _finished(flow: agf.Flow, registry: agf.Registry) -> int:
    """The number of steps that one run finishes, each element of a fan-out counted."""
    events: list[agf.Event] = []
    agf.run(flow, GIVEN, registry=registry, on_event=events.append)
    return sum(isinstance(event, ev.StepFinished) for event in events)
