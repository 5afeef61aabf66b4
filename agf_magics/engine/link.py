"""Names looked up once, before the first step, through nested flows.

A run uses what was linked: a tool that deletes its own registration, or a cell that is run meanwhile, changes the next
run and not this one. What is wrong here is a warning when a flow is defined, because a notebook defines things in any
order, and refuses the run (decision A5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..flow.schemas import Schema, cycle
from ..flow.steps import Flow, Invoke, Name, every
from ..registry import USER, Agent, Registry, Tool
from ..text.diagnostics import Diagnostic, Diagnostics, suggest
from .limits import LAUNCHES

MOST_STEPS = 100_000
"""Steps of a flow with all it calls, each call counted: ten small flows that call each other come to billions."""

MOST_CALLS = 50
"""Flows open inside each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """A flow and what its names mean for one run."""

    flow: Flow
    callees: Mapping[str, Tool | Agent | Linked] = field(default_factory=dict)
    """By the id of the Invoke step."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """The registry's, with the flow's own document set on top (decision P13)."""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Every tool that was registered: what an agent may be offered."""


def link(flow: Flow, registry: Registry) -> tuple[Linked, Diagnostics]:
    """``flow`` with everything it calls, and what is wrong with its names: errors and warnings, all of them."""
    found = Diagnostics()
    return _Linker(registry, found).flow(flow, ()), found


class _Linker:
    def __init__(self, registry: Registry, found: Diagnostics) -> None:
        self.registry = registry
        self.found = found
        self.done: dict[str, Linked] = {}
        self.size: dict[str, tuple[int, int]] = {}
        """How many steps a flow comes to with all it calls, and how many flows open inside each other."""

    def flow(self, flow: Flow, around: tuple[str, ...]) -> Linked:
        schemas = {**self.registry.schemas, **flow.schemas}
        callees: dict[str, Tool | Agent | Linked] = {}
        steps, open_inside = 0, 0
        for step in every(flow.body):
            steps += 1
            if isinstance(step, Invoke):
                callee = LOOK_UP[step.kind](self, step, (*around, flow.name))
                if callee is not None:
                    callees[step.id] = callee
                if isinstance(callee, Linked):
                    more, deeper = self.size[callee.flow.name]
                    steps, open_inside = steps + more, max(open_inside, deeper)
                self.result(step, schemas)
        if steps > MOST_STEPS:  # each call stands for its own steps in the tree of a run: calls of calls of calls
            message = f"{flow.name!r} comes to {steps:,} steps with all it calls; {MOST_STEPS:,} are allowed"
            self.found.error("flow.too-large", message, flow.span, "a for_each or a fold repeats a step without a copy")
            steps = 0  # told once, not again by whoever calls it
        self.size[flow.name] = steps, open_inside + 1
        return Linked(flow, callees, schemas, dict(self.registry.tools))

    def tool(self, step: Invoke, around: tuple[str, ...]) -> Tool | Linked | None:
        name = step.name.text
        if name in LAUNCHES:
            self.found.error(
                "flow.launch", f"a step cannot launch a pipeline: {name!r}", step.name.span, "nest with a call step"
            )
            return None
        tool = self.registry.tools.get(name)
        if tool is None and name in self.registry.flows:
            return self.called(step, around)
        if tool is None:
            hint = suggest(name, [*self.registry.tools, *self.registry.flows], "registered tools")
            self.found.error("flow.unknown-tool", f"no tool {name!r} is registered", step.name.span, hint)
            return None
        if doubts := tool.warnings:
            self.found.extend(replace(doubt, span=step.name.span) for doubt in doubts)
        self.arguments(step, tool)
        return tool

    def arguments(self, step: Invoke, tool: Tool) -> None:
        """A call names the arguments its tool has, and those it cannot do without."""
        given, takes = dict(step.args.names), tool.arguments
        for name, span in given.items():
            if name not in takes.parameters and not takes.more:
                near = suggest(name, takes.parameters)
                hint = " ".join(filter(None, (near, f"it takes {takes.takes or 'none'}")))
                self.found.error("flow.unknown-argument", f"tool {tool.name!r} has no argument {name!r}", span, hint)
        for name, parameter in takes.parameters.items():
            if name not in given and parameter.default is parameter.empty:
                message = f"tool {tool.name!r} needs {name!r}"
                hint = f"it takes {takes.takes}"
                self.found.error("flow.missing-argument", message, step.name.span, hint)

    def agent(self, step: Invoke, around: tuple[str, ...]) -> Agent | Linked | None:
        for tool in step.tools or ():
            if tool.text not in self.registry.tools and tool.text not in LAUNCHES:
                hint = suggest(tool.text, self.registry.tools, "registered tools")
                self.found.warn("flow.unknown-capability", f"no tool {tool.text!r} is registered", tool.span, hint)
        name = step.name.text
        if name and name != USER:
            if name in self.registry.agents:
                return self.registry.agents[name]
            if name in self.registry.flows:
                return self.called(step, around)
            hint = suggest(name, self.registry.agents, "registered agents")
            self.found.error("flow.unknown-agent", f"no agent {name!r} is registered", step.name.span, hint)
            return None
        default = self.registry.default_agent
        if default is None:
            hint = "define one in Python: @agent def answer(prompt: str) -> str: ..."
            self.found.error("flow.no-agent", "no agent is registered to answer this step", step.span, hint)
        return default

    def called(self, step: Invoke, around: tuple[str, ...]) -> Linked | None:
        name = step.name.text
        if name in around:
            chain = " → ".join((*around[around.index(name) :], name))
            self.found.error("flow.call-cycle", f"{name!r} calls itself: {chain}", step.name.span)
            return None
        flow = self.registry.flows.get(name)
        if flow is None:
            known = suggest(name, self.registry.flows, "registered pipelines")
            hint = f"{known}; define it before you run" if known else "define it before you run"
            self.found.error("flow.unknown-flow", f"no pipeline {name!r} is registered", step.name.span, hint)
            return None
        if len(around) + (self.size[name][1] if name in self.done else 1) > MOST_CALLS:
            message = f"{name!r} would be open inside more than {MOST_CALLS} other flows"
            self.found.error("flow.too-large", message, step.name.span, "call it from further up")
            return None
        if name not in self.done:
            self.done[name] = self.flow(flow, around)
        self.passed(step, flow)
        return self.done[name]

    def passed(self, step: Invoke, flow: Flow) -> None:
        """A call hands over what its callee surely reads."""
        given = [name for name, _ in step.args.names]
        for ref in flow.inputs:
            if ref.certain and ref.path[-1] not in given:
                near = suggest(ref.path[-1], given)
                self.found.add(
                    Diagnostic(
                        "flow.not-passed",
                        f"{flow.name!r} reads {ref.path[-1]!r}, which this step does not pass",
                        step.name.span,
                        near or f"pass: [{', '.join([*given, ref.path[-1]])}]",
                        related=(("read here", ref.span),) if ref.span else (),
                    )
                )

    def result(self, step: Invoke, schemas: Mapping[str, Schema]) -> None:
        if step.gives is None:
            return
        self.schema(step.gives, schemas)

    def schema(self, name: Name, schemas: Mapping[str, Schema]) -> None:
        if name.text not in schemas:
            hint = suggest(name.text, schemas, "schemas") or f"declare it: a document with schema: {name.text}"
            self.found.error("flow.unknown-schema", f"no schema {name.text!r}", name.span, hint)
        elif chain := cycle(schemas):
            self.found.error("schema.cycle", f"schemas refer to each other: {' → '.join(chain)}", name.span)


LOOK_UP = {"tool": _Linker.tool, "agent": _Linker.agent, "flow": _Linker.called}
