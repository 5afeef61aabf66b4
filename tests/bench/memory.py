"""Measures memory: of an element beyond its result, and of ended runs without references (§ 3 of the page)."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import agf_magics as agf
from tests.bench.flows import graph, plan_of_chained, policy, registry
from tests.fans import fan_out

ITEMS, RUNS = 100_000, 1_000

FAN = fan_out("inc", argument="n", limit=16, collect="count(pipe)")


def element() -> float:
    """The bytes of memory at the peak for each of 100,000 elements, without the list of their results."""
    tools = registry()
    flow = agf.load(FAN, registry=tools)
    fields: dict[str, Any] = {"xs": list(range(ITEMS))}
    asyncio.run(agf.arun(flow, {"xs": [1]}, registry=tools))  # the imports do not count
    gc.collect()
    tracemalloc.start()
    try:
        results = [x + 1 for x in range(ITEMS)]
        of_results = tracemalloc.get_traced_memory()[0]
        del results
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        asyncio.run(agf.arun(flow, fields, registry=tools))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return (peak - before - of_results) / ITEMS


def curve(points: int = 5) -> list[tuple[int, float]]:
    """The megabytes in use after so many runs. A fifth of the runs is in each language, and a fifth is a fan-out."""
    tools = registry()
    texts = [(FAN, "pipeline"), (policy(5), "policy"), (graph(5), "graph"), (plan_of_chained(5), "plan")]
    flows = [agf.load(text, language, registry=tools) for text, language in texts]
    fields = [{"xs": list(range(20))}, {"n": 0}, {"n": 0}, {}]
    gc.collect()
    tracemalloc.start()
    rows = []
    try:
        for number in range(1, RUNS + 1):
            which = number % len(flows)
            if which == 3:
                tools.contexts.named("chain").log = None  # a log keeps all messages
            asyncio.run(agf.arun(flows[which], fields[which], registry=tools))
            if number % (RUNS // points) == 0:
                gc.collect()
                rows.append((number, tracemalloc.get_traced_memory()[0] / 1e6))
    finally:
        tracemalloc.stop()
    return rows


if __name__ == "__main__":
    print(f"{element():.0f} bytes an element")
    for runs, megabytes in curve():
        print(f"{runs:6} runs {megabytes:8.3f} MB")
