"""§ 4: what an element costs when the stores it does not read are large. Paired rounds."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import agf_magics as agf
from agf_magics.engine.host import Host
from agf_magics.engine.link import link
from agf_magics.engine.run import run as run_linked
from agf_magics.flow.progress import Progress
from agf_magics.flow.step import FlowInput
from tests.bench.rounds import Row, paired
from tests.fans import fan_out

ITEMS = 300


async def work(x: int) -> int:
    return x


def _store(size: int) -> dict[str, Any]:
    """About ``size`` bytes of JSON that nobody reads."""
    return {f"k{i}": {"name": f"name {i}", "values": [i, i + 1, i + 2]} for i in range(size // 40)}


def rows() -> list[Row]:
    """Microseconds an element without and with a large store beside it, then the copy that is not made."""
    registry = agf.Registry()
    agf.tool(work, registry=registry)
    linked, _ = link(agf.load(fan_out(collect="count(pipe)"), registry=registry), registry)
    loop = asyncio.new_event_loop()

    def fan(size: int) -> Callable[[], Any]:
        given = FlowInput({"xs": list(range(ITEMS)), "big": _store(size)})

        async def once() -> Any:
            progress = Progress(linked.flow)
            return await run_linked(
                linked, given, host=Host(), emit=progress.apply, progress=progress, limits=agf.Limits()
            )

        return lambda: loop.run_until_complete(once())

    try:
        elements = paired({"no large store": fan(0), "1 MB beside it, unread": fan(1_000_000)}, per=ITEMS)
    finally:
        loop.close()
    big = _store(1_000_000)
    return [*elements, *paired({"copy.deepcopy of that store, an element": lambda: copy.deepcopy(big)}, rounds=5)]
