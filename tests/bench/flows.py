"""Makes texts in the languages with any number of calls, and the functions that they call."""

from __future__ import annotations

import json
from typing import Any

import agf_magics as agf

MOST = 300
"""The number of agents in `registry`."""


def policy(steps: int) -> str:
    """A policy of agents in sequence. Each gets what the previous one returned."""
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


def plan_of_chained(calls: int) -> str:
    """A plan of calls in sequence. Each reads what the previous one wrote."""
    listed = [{"_tool": "inc", "n": f"†state.x{i} || 0", "_outputPath": f"†state.x{i + 1}"} for i in range(calls)]
    return json.dumps({"name": "chain", "calls": listed})


def plan_of_independent(calls: int) -> str:
    """A plan of calls that read nothing of each other."""
    listed = [{"_tool": "inc", "n": i, "_outputPath": f"†state.x{i}"} for i in range(calls)]
    return json.dumps({"name": "wide", "calls": listed})


def graph(nodes: int) -> str:
    """A graph of functions in sequence. Each gets the state."""
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


def inc(n: int) -> int:
    return n + 1


def step(n: int) -> dict[str, int]:
    return {"n": n + 1}


def node(state: dict[str, Any]) -> dict[str, int]:
    return {"n": state["n"] + 1}


def registry() -> agf.Registry:
    """A registry of the plain functions that these texts call."""
    registry = agf.Registry()
    agf.tool(inc, registry=registry)
    agf.tool(node, registry=registry)
    for i in range(MOST):
        agf.agent(step, name=f"a{i}", registry=registry)
    return registry
