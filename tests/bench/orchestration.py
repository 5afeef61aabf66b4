"""§ 3: what a step and an element cost, with events folded, against the floor and bare asyncio. Paired rounds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import agf_magics as agf
from agf_magics.engine.host import Host
from agf_magics.engine.link import link
from agf_magics.engine.run import run as run_linked
from agf_magics.flow.progress import Progress
from agf_magics.flow.step import FlowInput
from tests.bench.rounds import Row, paired
from tests.fans import fan_out

STEPS, ITEMS = 200, 1000
GATHER = "asyncio.gather + Semaphore, no engine"


async def work(x: int) -> int:
    return x + 1


def plain(x: int) -> int:
    return x + 1


def _registry() -> agf.Registry:
    registry = agf.Registry()
    agf.tool(work, registry=registry)
    agf.tool(plain, registry=registry, where="loop")
    agf.tool(plain, name="threaded", registry=registry)
    return registry


def _linear(step: str) -> str:
    return "pipeline: linear\nsteps:\n" + f"  - {step}\n" * STEPS


def _fan(tool: str) -> str:
    return fan_out(tool, limit=16, collect="count(pipe)")


def _ours(text: str) -> Callable[[], Awaitable[Any]]:
    registry = _registry()
    flow = agf.load(text, registry=registry)
    given = {"n": 1, "xs": list(range(ITEMS))}

    async def run() -> Any:
        return (await agf.arun(flow, given, registry=registry)).output

    return run


async def _awaits() -> None:
    for i in range(STEPS):
        await work(i)


async def gathered(items: int = ITEMS) -> list[int]:
    """What asyncio alone takes for as many items."""
    slots = asyncio.Semaphore(16)

    async def one(x: int) -> int:
        async with slots:
            return await work(x)

    return await asyncio.gather(*(one(x) for x in range(items)))


def _linked(text: str) -> Callable[[], Awaitable[Any]]:
    """The engine alone: linked before, the tree of its progress there."""
    registry = _registry()
    linked, _ = link(agf.load(text, registry=registry), registry)
    given = FlowInput({"n": 1, "xs": list(range(ITEMS))})

    async def run() -> Any:
        progress = Progress(linked.flow)
        return await run_linked(linked, given, host=Host(), emit=progress.apply, progress=progress, limits=agf.Limits())

    return run


def rows() -> tuple[list[Row], list[Row]]:
    """Microseconds a step; microseconds an element."""

    def timed(run: Callable[[], Awaitable[Any]]) -> Callable[[], Any]:
        return lambda: loop.run_until_complete(run())  # type: ignore[arg-type]

    loop = asyncio.new_event_loop()
    try:
        linear = paired(
            {
                "await in a loop (the floor)": timed(_awaits),
                GATHER: timed(lambda: gathered(STEPS)),
                "agf: linear async tool, linked before": timed(
                    _linked(_linear("tool: {name: work, args: {x: !expr ctx.n}}"))
                ),
                "agf: linear async tool": timed(_ours(_linear("tool: {name: work, args: {x: !expr ctx.n}}"))),
                "agf: linear plain tool, where=loop": timed(
                    _ours(_linear("tool: {name: plain, args: {x: !expr ctx.n}}"))
                ),
                "agf: linear transform": timed(_ours(_linear("transform: {value: ctx.n + 1}"))),
                "agf: linear transform, linked before": timed(_linked(_linear("transform: {value: ctx.n + 1}"))),
            },
            per=STEPS,
            clock=time.thread_time,
        )
        fan = paired(
            {
                GATHER: timed(gathered),
                "agf: for_each async tool, linked before": timed(_linked(_fan("work"))),
                "agf: for_each async tool": timed(_ours(_fan("work"))),
                "agf: for_each plain tool, where=loop": timed(_ours(_fan("plain"))),
            },
            per=ITEMS,
            clock=time.thread_time,
        )
        threads = paired(
            {
                GATHER: timed(gathered),
                "agf: for_each plain tool, worker threads": timed(_ours(_fan("threaded"))),
            },
            per=ITEMS,
        )
    finally:
        loop.close()
    return linear, [*fan, *threads[1:]]
