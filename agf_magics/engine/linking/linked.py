"""A linked flow: for each name of a flow the registered thing that it means in one run."""

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
    """A model that answers a step, and what it may call."""

    model: Model
    tools: Mapping[str, Tool | Flow | Agent | ModelAgent]
    """The tools by the names that the model uses."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def answers(self) -> tuple[str, tuple[str, ...] | None]:
        """As `Linked.answers`."""
        return self.name, tuple(self.tools)


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """The person who answers questions."""


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
    """A flow with the meaning of its names for one run."""

    flow: Flow
    callees: Mapping[str, Callee] = field(default_factory=dict)
    """The callees by the id of the Invoke step."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """Those of the flow's own documents, then those of the registry (decision P13)."""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    definition_tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    """The tools that the definition itself provides for an agent, by the id of the step."""
    uses: frozenset[str] | None = None
    """The tools that the flow and everything below it may use; None: those of its invoker."""
    tools_that_ask: frozenset[str] = frozenset()
    """Those of them that only a step of the flow may use that asks a person."""
    agent: ModelAgent | None = None
    """The agent whose session this flow is."""
    accepted: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)

    @property
    def answers(self) -> tuple[str, tuple[str, ...] | None] | None:
        """Who answers, and the tools that it may use at most; None: the flow is not an agent's
        session."""
        return (self.agent.name, self.agent.tools) if self.agent is not None else None

    @cached_property
    def reachable(self) -> list[Linked]:
        """This flow and all flows that it may run, each once. A run asks four times."""
        # By identity: a flow that is called a thousand times is one object of the linker.
        reached = {id(self)}
        queue = [self]
        for flow in queue:  # it grows
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
        """The registered tools, and those that the definition brings for ``step``."""
        brought = self.definition_tools.get(step.id)
        return {**self.tools, **brought} if brought else self.tools


Callee = Tool | Agent | Transform | BoundPolicy | Person | Candidates | ModelBinding | Linked


def callees_of(callee: Callee | None) -> tuple[Callee, ...]:
    """What a call may call: the one that it names, or all that it chooses from."""
    if isinstance(callee, Candidates):
        return tuple(callee.callees.values())
    return () if callee is None else (callee,)


def flows_of(callee: Callee | None) -> tuple[Linked, ...]:
    """The flows that a call may run."""
    return tuple(flow for flow in callees_of(callee) if isinstance(flow, Linked))


def flow_at(linked: Linked, calls: Iterable[str]) -> Linked | None:
    """The flow to which the calls with these ids lead; of several that a call chooses from the
    first. None: they lead to none."""
    flow: Linked | None = linked
    for call in calls:
        flow = next(iter(flows_of(flow.callees.get(call))), None) if flow is not None else None
    return flow


def named_tools(step: Invoke, linked: Linked, grant: Grant) -> list[str] | None:
    """The tools that an agent step names; one that the definition makes only if its base is
    allowed. None: all."""
    if step.tools is None:
        return None
    brought = linked.definition_tools.get(step.id, {})
    bases = {
        derived.name: derived.base for derived in step.lookup.derived if derived.name in brought
    }
    return [
        name.text for name in step.tools if name.text not in bases or grant.allows(bases[name.text])
    ]


def accepts_of(callee: object) -> Any:
    """The JSON Schema of a callee's input; None: it has none, or there is no callee."""
    return getattr(interface_of(callee), "accepts", None)


def interface_of(callee: object) -> object:
    """What has the schemas of a callee's input and output, if it has any."""
    return callee.flow.declared if isinstance(callee, Linked) else callee


def schema_of(step: Invoke, linked: Linked) -> Mapping[str, Any] | None:
    """The JSON Schema of the callee's input, for arguments that need it."""
    if not step.exchange.with_schema:
        return None
    if step.id not in linked.accepted:  # once: plans are cached by this object
        linked.accepted[step.id] = accepts_of(linked.callees.get(step.id))
    return linked.accepted[step.id]
