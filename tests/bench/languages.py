"""§ 3: what a policy's step, a plan's call and a graph's node cost beside bare asyncio; that none grows with their
number. Paired rounds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import agf_magics as agf
from agf_magics.catalog import Context
from agf_magics.engine.host import Host
from agf_magics.engine.link import link
from agf_magics.engine.run import run as run_linked
from agf_magics.flow.progress import Progress
from agf_magics.flow.step import FlowInput
from agf_magics.flow.steps import Flow
from tests.bench.orchestration import GATHER, gathered
from tests.bench.rounds import Row, paired

STEPS = 300
LIMITS = agf.Limits(spawns=0)


async def inc(n: int) -> int:
    return n + 1


async def step(n: int) -> dict[str, int]:
    return {"n": n + 1}


async def node(state: dict[str, Any]) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def registry() -> agf.Registry:
    found = agf.Registry()
    agf.tool(inc, registry=found)
    agf.tool(node, registry=found)
    for i in range(STEPS):
        agf.agent(step, name=f"a{i}", registry=found)
    return found


def policy(steps: int = STEPS) -> str:
    """Agents one after another, each given what the one before it gave."""
    aliases = [f"a{i}" for i in range(steps)]
    paths = ["parent.input.n", *(f"{alias}.output.n" for alias in aliases)]
    return json.dumps(
        {
            "schema_version": "1.0.0",
            "metadata": {"id": "p", "name": "P", "version": "1.0.0", "description": "d"},
            "interface": {"input": {}, "output": {}},
            "execution_policy": {
                "id": "agf.sequential",
                "config": {
                    "steps": [
                        {"agent": alias, "input_mapping": {"n": path}}
                        for alias, path in zip(aliases, paths, strict=False)
                    ]
                },
            },
        }
    )


def plan_of_chained(calls: int = STEPS) -> str:
    """Calls that each read what the one before it wrote."""
    listed = [{"_tool": "inc", "n": f"†state.x{i} || 0", "_outputPath": f"†state.x{i + 1}"} for i in range(calls)]
    return json.dumps({"name": "chain", "calls": listed})


def plan_of_independent(calls: int = STEPS) -> str:
    listed = [{"_tool": "inc", "n": i, "_outputPath": f"†state.x{i}"} for i in range(calls)]
    return json.dumps({"name": "wide", "calls": listed})


def graph(nodes: int = STEPS) -> str:
    """Functions one after another, each given the state."""
    names = [f"n{i}" for i in range(nodes)]
    return json.dumps(
        {
            "version": "1.0",
            "name": "g",
            "config": {"recursion_limit": nodes + 1},
            "state": {"n": "int"},
            "nodes": {name: {"type": "python", "tool": "node"} for name in names},
            "edges": [
                {"from": source, "to": target}
                for source, target in zip(["START", *names], [*names, "END"], strict=True)
            ],
        }
    )


def graph_of_conditions(nodes: int = STEPS) -> str:
    """Passthroughs, each left by the first of two conditions."""
    names = [f"n{i}" for i in range(nodes)]
    edges = [{"from": "START", "to": names[0]}]
    for name, following in zip(names, [*names[1:], "END"], strict=True):
        edges += [
            {"from": name, "to": "END", "condition": "n > 100000"},
            {"from": name, "to": following, "condition": "n < 100000"},
        ]
    return json.dumps(
        {
            "version": "1.0",
            "name": "g",
            "config": {"recursion_limit": nodes + 1},
            "state": {"n": "int"},
            "nodes": {name: {"type": "passthrough", "output": {"n": "{state.n + 1}"}} for name in names},
            "edges": edges,
        }
    )


def running(flow: Flow, found: agf.Registry) -> Callable[[], Awaitable[Any]]:
    """The engine alone: linked before, events folded, a named context where there is one."""
    linked, problems = link(flow, found)
    problems.refuse()

    async def run() -> Any:
        given = FlowInput({"n": 0}, context=Context("c") if flow.extension is not None else None)
        progress = Progress(linked.flow)
        return await run_linked(linked, given, host=Host(), emit=progress.apply, progress=progress, limits=LIMITS)

    return run


TEXTS: dict[str, tuple[Callable[[int], str], str]] = {
    "policy: a step": (policy, "policy"),
    "plan: a call, each needs the one before": (plan_of_chained, "plan"),
    "plan: a call, none needs another": (plan_of_independent, "plan"),
    "graph: a node": (graph, "graph"),
    "graph: a node and two conditions": (graph_of_conditions, "graph"),
}


def rows() -> list[Row]:
    """Microseconds a step."""
    loop, found = asyncio.new_event_loop(), registry()

    def timed(one: Callable[[], Awaitable[Any]], times: int = 1) -> Callable[[], Any]:
        async def again() -> None:
            for _ in range(times):
                await one()

        return lambda: loop.run_until_complete(again())

    candidates = {GATHER: timed(lambda: gathered(STEPS))}
    for name, (text, language) in TEXTS.items():
        candidates[name] = timed(running(agf.load(text(STEPS), language, registry=found), found))
        few = running(agf.load(text(STEPS // 10), language, registry=found), found)
        candidates[f"{name}; ten times as short, ten times"] = timed(few, 10)
    try:
        return paired(candidates, per=STEPS, rounds=31, clock=time.thread_time)
    finally:
        loop.close()


def main() -> None:
    for row in rows():
        print(f"{row.name:70} {row.micros:7.2f} us  x {row.ratio:5.2f}  normalised {3.5 * row.ratio:5.2f}")


if __name__ == "__main__":
    main()
