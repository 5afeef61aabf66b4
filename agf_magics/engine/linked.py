"""A flow and what its names mean for one run: what linking gives, and all that runs it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..catalog import Agent, ModelAgent, Policy, Tool, Transform
from ..flow.schemas import Schema
from ..flow.steps import Flow, Invoke
from ..flow.values import Value
from ..host.limits import Grant
from .sessions import ModelBinding


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """Whom a question is put to."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What a call may choose from while it runs, by name."""

    callees: Mapping[str, Callee]


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A vendor's policy that is a function, with the configuration it is called with."""

    policy: Policy
    config: Mapping[str, Value]
    agents: Mapping[str, Callee]
    """What it may call, by alias."""


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """A flow and what its names mean for one run."""

    flow: Flow
    callees: Mapping[str, Callee] = field(default_factory=dict)
    """By the id of the Invoke step."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """The registry's, with the flow's own document set on top (decision P13)."""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Every tool that was registered: what an agent may be offered."""
    own: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    """The tools that the definition itself brings for an agent, by the id of the step."""
    uses: frozenset[str] | None = None
    """The registered tools that the flow allows itself and all that it calls; None: those of its invoker."""
    agent: ModelAgent | None = None
    """Whose session it is, where it answers for an agent that is a model."""
    accepted: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """What `schema_of` has found."""


Callee = Tool | Agent | Transform | Built | Person | Choice | ModelBinding | Linked
"""What a name may mean."""


def named_tools(step: Invoke, linked: Linked, grant: Grant) -> list[str] | None:
    """The tools that an agent step names; one that the definition makes only if its base is allowed. None: all."""
    if step.tools is None:
        return None
    own = linked.own.get(step.id, {})
    bases = {one.name: one.base for one in step.derived if one.name in own}
    return [name.text for name in step.tools if name.text not in bases or grant.allows(bases[name.text])]


def schema_of(step: Invoke, linked: Linked) -> Mapping[str, Any] | None:
    """JSON Schema of what the callee takes, for arguments that ask for it."""
    if not step.wants:
        return None
    if step.id not in linked.accepted:  # looked up once a run, and then the same object: plans are made for it
        callee = linked.callees.get(step.id)
        linked.accepted[step.id] = getattr(callee.flow if isinstance(callee, Linked) else callee, "accepts", None)
    return linked.accepted[step.id]
