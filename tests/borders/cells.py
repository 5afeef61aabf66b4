"""A simulated kernel with cells, in which each cell defines its tools and agents again."""

from __future__ import annotations

import textwrap
from typing import Any

import agf_magics as agf
from agf_magics.flow.steps import Invoke

TEXTS = {
    "pipeline": "{pipeline: flow, steps: [{tool: {name: t, args: {x: 1}, output: r}}]}",
    "policy": "{id: agf.sequential, config: {steps: [{agent: t, input_mapping: {x: parent.input.x}}]}}",
    "plan": "{name: flow, calls: [{_tool: t, x: 1, _outputPath: †state.r}], output: †state.r}",
    "graph": "{name: flow, state: {r: any}, nodes: {n: {type: tool, tool: t, variables: {x: 1}, state_key: r}}, "
    "edges: [{from: START, to: n}]}",
}


class Kernel:
    """A kernel with the cells that it has run."""

    def __init__(self, cell: str, language: str = "pipeline", text: str = "") -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.registry = agf.Registry()
        self.cell(cell)
        agf.define(text or TEXTS[language], language, name="flow", registry=self.registry)

    def cell(self, text: str) -> None:
        before = {name: self.names.get(name) for name in "tuv"}
        exec(compile(textwrap.dedent(text), "<cell>", "exec"), self.names)
        for name in "tuv":
            if self.names.get(name) is not before[name]:
                agf.tool(self.names[name], name=name, registry=self.registry)
                agf.agent(self.names[name], name=name, registry=self.registry)

    def run(self, reuse: bool = False) -> agf.Run:
        return agf.run("flow", {"x": 1, "xs": [1, 2, 3, 4]}, registry=self.registry, reuse=reuse)

    def stale(self, run: agf.Run) -> tuple[str, ...]:
        return agf.stale(run, registry=self.registry).again


def calls_made(run: agf.Run) -> int:
    """The calls that a run made itself, without those whose results it reused."""
    return sum(row.started - row.earlier for row in run.steps.values() if isinstance(row.step, Invoke))
