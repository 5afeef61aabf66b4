"""`Linked`, a flow whose names are bound to registered things for one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...catalog import Agent, Model, ModelAgent, Policy, Tool, Transform
from ...flow.flow import Flow
from ...flow.steps import Invoke, calls
from ...limits.grants import Grant
from ...schemas.schema import Schema
from ...text.source import Span
from ...values.value import Value


@dataclass(frozen=True, slots=True, eq=False)
class ModelBinding:
    """A model that answers a step, with the tools that it may call."""

    model: Model
    tools: Mapping[str, Tool | Flow | Agent | ModelAgent]
    """The tools by the names that the model uses."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def answers(self) -> tuple[str, tuple[str, ...] | None]:
        """The name of the model and its tools, as `Linked.answers` returns them."""
        return self.name, tuple(self.tools)


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """The callee of a question: the person who answers."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The callees that a step chooses from while it runs, by name."""

    callees: Mapping[str, Callee]


@dataclass(frozen=True, slots=True, eq=False)
class BoundPolicy:
    """A vendor policy that is a function, with its configuration."""

    policy: Policy
    config: Mapping[str, Value]
    agents: Mapping[str, Callee]


@dataclass(frozen=True, eq=False)
class Linked:
    """A flow with the things that its names mean in one run."""

    flow: Flow
    callees: Mapping[str, Callee] = field(default_factory=dict)
    """The callees by the id of the Invoke step."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """The schemas: those of the flow's own documents, then those of the registry (decision P13)."""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """The registered tools."""
    definition_tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    """The tools that the definition itself provides for an agent, by the id of the step."""
    uses: frozenset[str] | None = None
    """The tools that the flow and everything below it may use; None: the tools of its invoker."""
    tools_that_ask: frozenset[str] = frozenset()
    """The tools among ``uses`` that only a step of the flow that asks a person may use."""
    agent: ModelAgent | None = None
    """The agent whose session this flow is; None: the flow is no session."""
    accepted: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The results of `schema_of`, by the id of the step."""

    @property
    def answers(self) -> tuple[str, tuple[str, ...] | None] | None:
        """The name of the answering agent, and the tools that it may use; None: the flow is not an
        agent's session."""
        return (self.agent.name, self.agent.tools) if self.agent is not None else None

    @cached_property
    def reachable(self) -> list[Linked]:
        """This flow and all flows that it may run, each once. It is cached, because a run asks four
        times."""
        # Compared by identity: the linker makes one object for a flow that is called many times.
        reached = {id(self)}
        queue = [self]
        for flow in queue:  # the queue grows while it is read
            called = (inner for callee in flow.callees.values() for inner in flows_of(callee))
            for inner in called:
                if id(inner) not in reached:
                    reached.add(id(inner))
                    queue.append(inner)
        return queue

    @cached_property
    def every_callee(self) -> tuple[tuple[Callee, Span | None], ...]:
        """Each callee of this flow and of the flows that it may run, with the place of its name."""
        return tuple(
            (callee, step.name.span)
            for flow in self.reachable
            for step in calls(flow.flow.body)
            for callee in callees_of(flow.callees.get(step.id))
        )

    def tools_of(self, step: Invoke) -> Mapping[str, Tool]:
        """The registered tools, and the tools that the definition provides for ``step``."""
        brought = self.definition_tools.get(step.id)
        return {**self.tools, **brought} if brought else self.tools


Callee = Tool | Agent | Transform | BoundPolicy | Person | Candidates | ModelBinding | Linked
"""The thing that a step calls."""


def callees_of(callee: Callee | None) -> tuple[Callee, ...]:
    """The callees of a call: the one that it names, or all that it can choose from."""
    if isinstance(callee, Candidates):
        return tuple(callee.callees.values())
    return () if callee is None else (callee,)


def flows_of(callee: Callee | None) -> tuple[Linked, ...]:
    """The flows that a call may run."""
    return tuple(flow for flow in callees_of(callee) if isinstance(flow, Linked))


def flow_at(linked: Linked, calls: Iterable[str]) -> Linked | None:
    """The flow to which the calls with these ids lead; the first one, if a call chooses from
    several. None: they lead to no flow."""
    flow: Linked | None = linked
    for call in calls:
        flow = next(iter(flows_of(flow.callees.get(call))), None) if flow is not None else None
    return flow


def named_tools(step: Invoke, linked: Linked, grant: Grant) -> list[str] | None:
    """The names of the tools that an agent step names; None: all tools. A derived tool counts only
    if its registered tool is allowed."""
    if step.tools is None:
        return None
    brought = linked.definition_tools.get(step.id, {})
    derived_tools = [derived for derived in step.lookup.derived if derived.name in brought]
    bases = {derived.name: derived.base for derived in derived_tools}
    names = [name.text for name in step.tools]
    return [name for name in names if name not in bases or grant.allows(bases[name])]


def accepts_of(callee: object) -> Any:
    """The JSON Schema of a callee's input; None: there is no schema or no callee."""
    return getattr(interface_of(callee), "accepts", None)


def interface_of(callee: object) -> object:
    """The object with the schemas of a callee's input and output, if there is one."""
    return callee.flow.declared if isinstance(callee, Linked) else callee


def schema_of(step: Invoke, linked: Linked) -> Mapping[str, Any] | None:
    """The JSON Schema of the step's callee, for arguments that need it; None: unknown."""
    if not step.exchange.with_schema:
        return None
    if step.id not in linked.accepted:  # stored, because plans are cached by this object
        linked.accepted[step.id] = accepts_of(linked.callees.get(step.id))
    return linked.accepted[step.id]
