"""A linked flow: a flow with the meaning of its names for one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..catalog import Agent, ModelAgent, Policy, Tool, Transform
from ..flow.schemas import Schema
from ..flow.steps import Flow, Invoke, every
from ..flow.values import Value
from ..host.limits import Grant
from ..text.source import Span
from .sessions import ModelBinding


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """The person who answers questions."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The callees that a step chooses from while it runs, by name."""

    callees: Mapping[str, Callee]


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A vendor policy that is a function, with its configuration."""

    policy: Policy
    config: Mapping[str, Value]
    agents: Mapping[str, Callee]


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """A flow with the meaning of its names for one run."""

    flow: Flow
    callees: Mapping[str, Callee] = field(default_factory=dict)
    """By the id of the Invoke step."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """Those of the flow's own documents, then those of the registry (decision P13)."""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    """The tools that the definition itself provides for an agent, by the id of the step."""
    uses: frozenset[str] | None = None
    """The tools that the flow and everything below it may use; None: those of its invoker."""
    agent: ModelAgent | None = None
    """The agent whose session this flow is."""
    accepted: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)

    @property
    def answers(self) -> tuple[str, tuple[str, ...] | None] | None:
        """Who answers, and the tools that it may use at most; None: the flow is not an agent's
        session."""
        return (self.agent.name, self.agent.tools) if self.agent is not None else None

    def tools_of(self, step: Invoke) -> Mapping[str, Tool]:
        """The registered tools, and those that the definition brings for ``step``."""
        own = self.own.get(step.id)
        return {**self.tools, **own} if own else self.tools


Callee = Tool | Agent | Transform | Built | Person | Choice | ModelBinding | Linked


def every_callee(linked: Linked) -> Iterator[tuple[Callee, Span | None]]:
    """Each callee of a flow and of the flows that it calls, with the place of its name. Each flow
    is searched once."""
    seen, queue = {id(linked)}, [linked]
    while queue:
        flow = queue.pop()
        places = {
            step.id: step.name.span for step in every(flow.flow.body) if isinstance(step, Invoke)
        }
        for step_id, callee in flow.callees.items():
            for one in callee.callees.values() if isinstance(callee, Choice) else (callee,):
                yield one, places.get(step_id)
                if isinstance(one, Linked) and id(one) not in seen:
                    seen.add(id(one))
                    queue.append(one)


def depends_on_names(linked: Linked) -> bool:
    """Whether linking it again gives the same if all names mean the same: it has no model, whose
    settings may change, and no policy, whose function may return something else."""
    return linked.agent is None and all(
        depends_on_names(callee)
        if isinstance(callee, Linked)
        else isinstance(callee, (Tool, Agent, Transform, Person))
        for callee in linked.callees.values()
    )


def named_tools(step: Invoke, linked: Linked, grant: Grant) -> list[str] | None:
    """The tools that an agent step names; one that the definition makes only if its base is
    allowed. None: all."""
    if step.tools is None:
        return None
    own = linked.own.get(step.id, {})
    bases = {one.name: one.base for one in step.derived if one.name in own}
    return [
        name.text for name in step.tools if name.text not in bases or grant.allows(bases[name.text])
    ]


def schema_of(step: Invoke, linked: Linked) -> Mapping[str, Any] | None:
    """The JSON Schema of the callee's input, for arguments that need it."""
    if not step.wants:
        return None
    if step.id not in linked.accepted:  # once: plans are cached by this object
        callee = linked.callees.get(step.id)
        linked.accepted[step.id] = getattr(
            callee.flow if isinstance(callee, Linked) else callee, "accepts", None
        )
    return linked.accepted[step.id]
