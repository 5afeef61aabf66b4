"""Measures the first minute in a fresh kernel, cell by cell, before anything is imported or cached (§ 7 of the page).

Each round starts a real kernel and executes the cells in order. The main figure is the CPU time of the kernel's
process, so that other work on the machine counts as little as possible. The time until the reply is shown beside it.
"""

from __future__ import annotations

import ast
import statistics
import time
from typing import Any, NamedTuple

from jupyter_client.manager import KernelManager

PATIENCE = 120.0
CPU = "__import__('time').process_time()"

CELLS = {
    "%load_ext agf_magics": "%load_ext agf_magics",
    "a tool and an agent": (
        "from agf_magics import agent, tool\n"
        "@tool\ndef size(word: str) -> int:\n    return len(word)\n"
        "@agent\ndef writer(prompt: str) -> str:\n    return prompt"
    ),
    "the first pipeline": (
        "%%pipeline\npipeline: p\nsteps:\n- tool: {name: size, args: {word: !expr ctx.word}, output: n}"
    ),
    "its run": "%run_pipeline p --set word=pear",
    "a schema": "%%pipeline\nschema: Size\nfields: {n: {type: number, minimum: 0}}",
    "its picture": "import agf_magics as agf\nagf.draw('p')",
    "the first policy": (
        "%%policy review\nid: agf.sequential\nconfig:\n  steps:\n"
        "  - agent: writer\n    input_mapping: {prompt: parent.input.prompt}"
    ),
    "the first plan": "%%plan\nname: q\ncalls:\n- {_tool: size, word: pear, _outputPath: †state.n}",
    "the first graph": (
        "%%graph\nname: g\nstate: {n: int}\nnodes: {one: {type: passthrough, output: {n: '{state.n + 1}'}}}\n"
        "edges: [{from: START, to: one}, {from: one, to: END}]"
    ),
}
TAB = "%%pipeline\npipeline: p\nsteps:\n- to"


class Wait(NamedTuple):
    """The wait for a cell in milliseconds: the kernel's CPU time and the time until the reply."""

    name: str
    cpu: float
    reply: float


def waits(rounds: int = 5) -> list[Wait]:
    """The medians over ``rounds`` fresh kernels. One more kernel comes first and writes the caches on disk."""
    taken = [_in_a_kernel() for _ in range(rounds + 1)][1:]
    return [
        Wait(
            name,
            statistics.median(kernel[name][0] for kernel in taken),
            statistics.median(kernel[name][1] for kernel in taken),
        )
        for name in taken[0]
    ]


def _in_a_kernel() -> dict[str, tuple[float, float]]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        _cpu(client)
        waits_by_cell = {name: _timed(client, lambda cell=cell: _good(client, cell)) for name, cell in CELLS.items()}
        waits_by_cell["Tab"] = _timed(client, lambda: client.complete(TAB, len(TAB), reply=True, timeout=PATIENCE))
        return waits_by_cell
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _timed(client: Any, act: Any) -> tuple[float, float]:
    before, start = _cpu(client), time.perf_counter()
    act()
    wall = time.perf_counter() - start
    return (_cpu(client) - before) * 1e3, wall * 1e3


def _good(client: Any, cell: str) -> None:
    reply = client.execute(cell, reply=True, timeout=PATIENCE, store_history=False)["content"]
    assert reply["status"] == "ok", reply


def _cpu(client: Any) -> float:
    reply = client.execute("", reply=True, timeout=PATIENCE, silent=True, user_expressions={"cpu": CPU})
    return float(ast.literal_eval(reply["content"]["user_expressions"]["cpu"]["data"]["text/plain"]))


if __name__ == "__main__":
    for wait in waits():
        print(f"{wait.name:24} {wait.cpu:8.0f} ms CPU {wait.reply:8.0f} ms")
