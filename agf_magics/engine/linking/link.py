"""The linker: looks up all names before the first step, also in nested flows.

Later changes of the registry affect the next run, not this one. The problems are warnings when a
flow is defined, because a notebook defines things in any order, and errors when it is run (decision
A5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from ...catalog import ANYBODY, USER, Agent, ModelAgent, Policy, Registry, Tool, Transform
from ...catalog.shelf import Shelf
from ...catalog.tools.derived_tool import derive
from ...flow.flow import Flow
from ...flow.protocols import Name
from ...flow.step import Step
from ...flow.step_options import Lookup
from ...flow.steps import Invoke, Sequence, every
from ...limits.grants import LAUNCHES, OFFERED, RUN_RESULT
from ...schemas.schema import Schema
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.raised import describe_exception
from ...values.value import isolate
from . import link_problems
from .fan_out_checks import warn_repeated_effects, warn_unlimited
from .field_checks import (
    check_arguments,
    check_passed,
    check_permits,
    check_schema,
    foreign_names,
    unknown_gifts,
    unknown_reads,
)
from .linked import BoundPolicy, Callee, Candidates, Linked, ModelBinding, Person
from .model_binding import model_binding, registered_names
from .server_tools import absent, expand, not_connected
from .sessions import session_flow, session_name

MOST_STEPS = 100_000
"""Steps of a flow and of all its calls: ten small flows that call each other can have billions."""

MOST_CALLS = 50
"""Flows that are open inside each other."""

R = TypeVar("R", Transform, Policy)

Files = Callable[[Name, Flow], "Flow | Tool"]
"""Reads a file that a flow names, relative to the file of the flow. Raises DefinitionError."""


def link(
    flow: Flow, registry: Registry, files: Files | None = None, passive: bool = False
) -> tuple[Linked, Diagnostics]:
    """``flow`` with everything that it calls, and all errors and warnings about its names.
    ``passive``: no file is read and no builder of a policy is called, so that what they bring is
    not checked."""
    problems = Diagnostics()
    return _Linker(registry, problems, files, passive).flow(flow, ()), problems


class _Linker:
    """Links one flow and all flows that it calls."""

    def __init__(
        self, registry: Registry, problems: Diagnostics, files: Files | None, passive: bool
    ) -> None:
        self.registry = registry
        """The registry of the flow that is being linked."""
        self.base = registry
        """The registry of the run, without the tools that a definition brings."""
        self.problems = problems
        self.files = files
        self.passive = passive
        self.linking: list[Flow] = []
        """The open flows, the innermost last."""
        self.linked_flows: dict[str, Linked] = {}
        """The linked flows by their keys."""
        self.brought: dict[int, dict[str, Tool]] = {}
        """The tools that a definition brings for an agent step, by the identity of the step."""
        self.absent: tuple[str, ...] = ()
        """The beginnings of the names of tools whose server is not connected, which is reported once
        for each server."""
        self.size: dict[str, tuple[int, int]] = {}
        """The number of steps of each flow with all its calls, and the depth of its calls."""

    def flow(self, flow: Flow, around: tuple[str, ...], registry: Registry | None = None) -> Linked:
        """``flow`` with its callees. ``around``: the keys of the open flows. ``registry``: the
        registry of their names; default None: that of the outer flow."""
        outer = self.registry
        self.registry = registry or outer
        schemas = {**self.registry.schemas, **flow.declared.schemas}
        self.problems.extend(flow.declared.refuses)
        for server in absent(flow.declared.servers, self.registry):
            self.problems.extend((not_connected(server, self.registry),))
            self.absent += (f"{server.alias.text}__", f"{server.ref or server.alias.text}__")
        self.linking.append(flow)
        callees, brought = self.callees(flow, around, schemas)
        self.linking.pop()
        self.problems.extend(unknown_reads(flow, callees))
        self.problems.extend(unknown_gifts(flow, callees))
        self.problems.extend(foreign_names(flow, callees))
        self.problems.extend(warn_unlimited(flow, callees))
        self.problems.extend(warn_repeated_effects(flow, callees))
        tools = dict(self.registry.tools)
        used_tools, tools_that_ask = self.usable_tools(flow)
        self.registry = outer
        return Linked(flow, callees, schemas, tools, brought, used_tools, tools_that_ask)

    def callees(
        self, flow: Flow, around: tuple[str, ...], schemas: Mapping[str, Schema]
    ) -> tuple[dict[str, Callee], dict[str, Mapping[str, Tool]]]:
        """The callees of the steps of ``flow`` and the tools that its definition brings for them,
        by the ids of the steps. Adds the flow to `size`."""
        callees = dict[str, Callee]()
        brought = dict[str, Mapping[str, Tool]]()
        # Each schema is checked once, because thousands of steps may name it.
        checked_schemas = set[str]()
        steps = 0
        deepest_callee = 0
        open_keys = (*around, key_of(flow))
        # All checks share one walk, because a definition may have 100,000 steps.
        for step in every(flow.body):
            steps += 1
            if isinstance(step, Invoke):
                callee = self.callee(step, open_keys)
                if id(step) in self.brought:
                    brought[step.id] = self.brought[id(step)]
                if callee is not None:
                    callees[step.id] = callee
                if isinstance(callee, Linked):
                    # The steps of a callee are added, not walked, because ten flows that call each
                    # other have billions of steps.
                    steps_of_callee, depth_of_callee = self.size[key_of(callee.flow)]
                    steps += steps_of_callee
                    deepest_callee = max(deepest_callee, depth_of_callee)
                gives = step.gives
                if gives is None or gives.text in checked_schemas:
                    continue
                if check_schema(gives, schemas, self.problems):
                    checked_schemas.add(gives.text)
        # A run has a row for each step of each call.
        if steps > MOST_STEPS:
            self.problems.add(link_problems.too_large(flow, steps, MOST_STEPS))
            # With 0 steps, its callers do not report the same problem again.
            steps = 0
        self.size[key_of(flow)] = steps, deepest_callee + 1
        return callees, brought

    def usable_tools(self, flow: Flow) -> tuple[frozenset[str] | None, frozenset[str]]:
        """The tools that ``flow`` may use (None: those of its invoker), and those of them that need
        an approval. An alias means the registered tool with that alias, or else with its name
        (decision B5)."""
        if flow.declared.uses is None:
            return None, flow.declared.asks
        names = {*self.registry.tools, *self.registry.flows}
        # Each tool with whether it asks. A tool that is allowed in both ways does not need to ask.
        asks = {
            (alias if alias in names else registered, use.asks)
            for use in flow.declared.uses
            for alias, registered in expand(use.alias, use.registered, self.registry)
        }
        used = frozenset(name for name, _ in asks)
        return used, frozenset(name for name in used if (name, False) not in asks)

    def callee(self, step: Invoke, around: tuple[str, ...]) -> Callee | None:
        """The callee of ``step``, or all callees that it may choose from. ``around``: the keys of the
        open flows."""
        if step.pick is None:
            return LOOK_UP[step.kind](self, step, around)
        if step.pick.among is None:
            return Candidates(self.registry.offered)
        callees = dict[str, Callee]()
        names = (registered_names(step, name, self.registry) for name in step.pick.among)
        for alias, named in chain.from_iterable(names):
            lookup = step.lookup._replace(file=step.lookup.files.get(alias))
            chosen = replace(step, name=named, lookup=lookup)
            if (callee := LOOK_UP[step.kind](self, chosen, around)) is not None:
                callees[alias] = callee
        check_permits(step, callees, self.problems)
        return Candidates(callees)

    def model(self, step: Invoke, around: tuple[str, ...]) -> ModelBinding:
        return model_binding(step, self.registry, self.problems)

    def session(self, step: Invoke, agent: ModelAgent, around: tuple[str, ...]) -> Linked:
        """The flow of a model's session, without launches, which a run cannot make."""
        outer = self.linking[-1]
        tools = agent.tools
        if tools is None and step.tools is not None:
            tools = tuple(name.text for name in step.tools)
        if step.asking.no_tools:
            tools = ()
        if tools is not None:
            tools = tuple(name for name in tools if not self.is_launch(name))
        schemas = {**self.registry.schemas, **outer.declared.schemas}
        flow = session_flow(replace(agent, tools=tools), step, outer, schemas)
        registry = self.registry.with_tools(self.brought.get(id(step), {}).values())
        return replace(self.flow(flow, around, registry), agent=agent)

    def is_launch(self, name: str) -> bool:
        """Whether a name is that of a launch, which is only for agents outside of runs (decision
        A13)."""
        flow_name = name.removeprefix(OFFERED)
        is_offered_flow = name == RUN_RESULT or (
            flow_name != name and flow_name in self.registry.flows
        )
        return name in LAUNCHES or (is_offered_flow and name not in self.registry.tools)

    def person(self, step: Invoke, around: tuple[str, ...]) -> Person:
        return Person()

    def transform(self, step: Invoke, around: tuple[str, ...]) -> Transform | None:
        return self.look_up(step, self.registry.transforms, "flow.unknown-transform")

    def look_up(self, step: Invoke, shelf: Shelf[R], code: str) -> R | None:
        """The thing that is registered under the name of the step; None, and an error, if nothing
        is."""
        thing = shelf.get(step.name.text)
        if thing is None:
            self.problems.add(shelf.missing(step.name.text, step.name.span, code))
        return thing

    def policy(self, step: Invoke, around: tuple[str, ...]) -> BoundPolicy | Linked | None:
        policy = self.look_up(step, self.registry.policies, "flow.unknown-policy")
        if policy is None:
            return None
        # A passive look at a definition, as while it is typed, must not run code of a user.
        if policy.builder:
            return None if self.passive else self.flow_of_builder(policy, step, around)
        # A definition without a list of agents may call the registered ones (decision B1).
        names = step.tools if step.tools is not None else tuple(map(Name, self.registry.agents))
        agents = dict[str, Callee]()
        for name in names:
            agent = self.agent(replace(step, kind="agent", name=name, tools=None), around)
            if agent is not None:
                agents[name.text] = agent
        return BoundPolicy(policy, step.asking.config, agents)

    def flow_of_builder(
        self, policy: Policy, step: Invoke, around: tuple[str, ...]
    ) -> Linked | None:
        """The flow of the one step that a builder returns."""
        outer = self.linking[-1]
        built: object = None
        why = "it did not return a Step"
        try:
            # A copy, since the builder is user code and the definition is linked again.
            config = isolate(dict(step.asking.config))
            built = policy.function(**dict.fromkeys(policy.takes, config))
        except Exception as error:  # of the builder, which is user code
            why = describe_exception(error)
        if not isinstance(built, Step):
            self.problems.add(link_problems.policy_failed(step, policy.name, why))
            return None
        # The result of the step is that of the policy.
        built = replace(built, target=built.target or step.target)
        body = Sequence(
            id="built", word=step.word, label=policy.name, span=step.name.span, steps=(built,)
        )
        flow = replace(
            outer,
            name=f"{outer.name}/{policy.name}",
            body=body,
            declared=outer.declared._replace(refuses=(), own_limits=None),
            origin=outer.origin._replace(is_built=True),
        )
        return self.flow(flow, around)

    def defined_in_file(self, step: Invoke, around: tuple[str, ...]) -> Tool | Linked | None:
        """The tool or flow in the file of the step; None, and an error, if it cannot be read."""
        assert step.lookup.file is not None
        if self.passive:
            return None
        assert self.files is not None, "a flow that names files is linked with a reader of files"
        try:
            defined = self.files(step.lookup.file, self.linking[-1])
        except DefinitionError as error:
            place = step.lookup.file.span
            self.problems.extend(
                replace(problem, span=problem.span or place) for problem in error.diagnostics
            )
            return None
        return defined if isinstance(defined, Tool) else self.link_called(step, defined, around)

    def flow_in_file(self, step: Invoke, around: tuple[str, ...]) -> Linked | None:
        defined = self.defined_in_file(step, around)
        return defined if isinstance(defined, Linked) else None

    def tool(self, step: Invoke, around: tuple[str, ...]) -> Tool | Agent | Linked | None:
        """The callee of a tool step."""
        name = step.name.text
        if self.is_launch(name):
            self.problems.add(link_problems.launches_a_pipeline(step))
            return None
        tool = self.registry.tools.get(name)
        if tool is None:
            return self.not_a_tool(step, around)
        self.problems.extend(replace(doubt, span=step.name.span) for doubt in tool.warnings)
        self.report_patterns(step, tool.arguments.refused)
        check_arguments(step, tool, self.problems)
        return tool

    def not_a_tool(self, step: Invoke, around: tuple[str, ...]) -> Tool | Agent | Linked | None:
        """The callee of a tool step if no tool has its name: an agent, a flow, or the definition in
        its file."""
        name = step.name.text
        if name.startswith(self.absent):
            return None
        # Only a model calls agents as tools; an author has a step for them.
        if name in self.registry.agents and step.pick is not None:
            return self.agent_as_tool(step, self.registry.agents[name], around)
        if name in self.registry.flows and not step.lookup.only_tools:
            return self.flow_callee(step, around)
        if step.lookup.file is not None:
            defined = self.defined_in_file(step, around)
            if isinstance(defined, Tool):
                check_arguments(step, defined, self.problems)
            return defined
        self.problems.add(link_problems.unknown_tool(step, self.registry))
        return None

    def agent_as_tool(
        self, step: Invoke, agent: Agent | ModelAgent, around: tuple[str, ...]
    ) -> Agent | Linked | None:
        """An agent that a model may call. A model that offers itself, also through others, is a
        cycle."""
        # The key is the name of the session, which is open as long as the agent answers.
        session = session_name(agent.name)
        if session in around:
            subject = f"agent {agent.name!r}"
            self.problems.add(link_problems.calls_itself(step, subject, session, around))
            return None
        return self.answering_callee(step, agent, around)

    def report_patterns(self, step: Invoke, refused: tuple[Diagnostic, ...]) -> None:
        """Refuse patterns of annotations that RE2 does not support (decision D5)."""
        self.problems.extend(replace(fault, span=step.name.span) for fault in refused)

    def agent(self, step: Invoke, around: tuple[str, ...]) -> Agent | Linked | None:
        """The callee that answers ``step``: the agent of its identity, or else the default
        agent."""
        if brought := self.brought_tools(step):
            self.brought[id(step)] = brought
        self.check_tools(step, [*self.registry.tools, *brought, *step.lookup.files])
        name = step.name.text
        # In policies and plans, whose arguments need a schema, `user` is a name like any other, not
        # an alias of the default agent.
        if name and (name != USER or step.exchange.with_schema):
            return self.named_agent(step, around)
        return self.default_agent(step, around)

    def check_tools(self, step: Invoke, names: list[str]) -> None:
        """Report the tools of an agent that are none of ``names``."""
        for tool in step.tools or ():
            if tool.text not in names and not self.is_launch(tool.text):
                self.problems.add(link_problems.unknown_capability(tool, names))

    def default_agent(self, step: Invoke, around: tuple[str, ...]) -> Agent | Linked | None:
        """The callee that answers a step without an identity."""
        default = self.registry.agents.default
        needs_model = step.asking.overrides_agent or step.asking.attach
        takes_model = default is None or (needs_model and not isinstance(default, ModelAgent))
        if takes_model and (step.asking.model or self.registry.model is not None):
            # A model that is configured or named can answer any step that a function would have
            # answered.
            default = ANYBODY
        if default is None:
            self.problems.add(link_problems.no_agent(step))
            return None
        return self.answering_callee(step, default, around)

    def named_agent(self, step: Invoke, around: tuple[str, ...]) -> Agent | Linked | None:
        """The callee that answers for the identity of the step: an agent, a flow, or the definition in
        its file."""
        name = step.name.text
        registered = name in self.registry.agents or name in self.registry.flows
        # A registered agent or flow wins, so that a notebook can replace what a file defines. The
        # person is told.
        if registered and step.lookup.file is not None:
            self.problems.add(link_problems.registered_instead(step))
        if name in self.registry.agents:
            return self.answering_callee(step, self.registry.agents[name], around)
        if name in self.registry.flows:
            if step.asking.overrides_agent or step.asking.attach:
                answers = f"{name!r} is a {self.registry.flows[name].language}"
                self.problems.add(link_problems.needs_model(step, answers, self.registry))
            return self.flow_callee(step, around)
        if step.lookup.file is not None:
            return self.flow_in_file(step, around)
        self.problems.add(link_problems.unknown_agent(step, self.registry))
        return None

    def brought_tools(self, step: Invoke) -> dict[str, Tool]:
        """The tools that the definition brings for an agent; a registered tool with that name is
        used instead."""
        tools = self.registry.tools
        brought = {
            derived.name: derive(derived, tools[derived.base])
            for derived in step.lookup.derived
            if derived.base in tools
        }
        files = step.lookup.files if step.tools is not None else {}
        for name, file in files.items():
            if name in tools:
                continue
            defined = self.defined_in_file(replace(step, lookup=Lookup(file)), ())
            if isinstance(defined, Tool):
                brought[name] = replace(defined, name=name)
        return {name: tool for name, tool in brought.items() if name not in tools}

    def answering_callee(
        self, step: Invoke, agent: Agent | ModelAgent, around: tuple[str, ...]
    ) -> Agent | Linked:
        """``agent`` as the callee of ``step``: a model's agent is the flow of its session."""
        if isinstance(agent, ModelAgent):
            return self.session(step, agent, around)
        if step.asking.overrides_agent or step.asking.attach:
            answers = f"agent {agent.name!r} is a function"
            self.problems.add(link_problems.needs_model(step, answers, self.registry))
        elif step.asking.model:
            self.problems.add(link_problems.ignores_model(step, agent.name))
        if agent.accepts is not None:
            self.report_patterns(step, agent.takes.refused)
        return agent

    def flow_callee(self, step: Invoke, around: tuple[str, ...]) -> Linked | None:
        """The flow with the name of the step, or in its file."""
        name = step.name.text
        flow = self.registry.flows.get(name)
        if flow is None and step.lookup.file is not None:
            return self.flow_in_file(step, around)
        # A flow that calls itself, also by way of others, need not be registered yet: the error is about
        # the cycle, not about the name.
        if flow is None:
            flow = next((calling for calling in self.linking if calling.name == name), None)
        if flow is None:
            self.problems.add(link_problems.unknown_flow(step, self.registry))
            return None
        return self.link_called(step, flow, around)

    def link_called(self, step: Invoke, flow: Flow, around: tuple[str, ...]) -> Linked | None:
        """Link a flow that ``step`` calls; None, and an error, if the call has no end or is too
        deep."""
        key = key_of(flow)
        if key in around:
            self.problems.add(link_problems.calls_itself(step, repr(flow.name), key, around))
            return None
        # Without this limit, Python's stack would end in the middle of a run.
        depth = self.size[key][1] if key in self.linked_flows else 1
        if len(around) + depth > MOST_CALLS:
            self.problems.add(link_problems.too_deep(step, flow, MOST_CALLS))
            return None
        # A flow is linked once, because its size and its problems do not depend on the caller.
        if key not in self.linked_flows:
            # Linked with `base`, because a session does not give its tools to its callees.
            self.linked_flows[key] = self.flow(flow, around, self.base)
        check_passed(step, flow, self.problems)
        return self.linked_flows[key]


def key_of(flow: Flow) -> str:
    """A key among the open flows: two files may define flows of the same name."""
    return flow.name if flow.origin.file is None else f"{flow.name} ({flow.origin.file})"


LOOK_UP: Mapping[str, Callable[[_Linker, Invoke, tuple[str, ...]], Callee | None]] = {
    "tool": _Linker.tool,
    "agent": _Linker.agent,
    "flow": _Linker.flow_callee,
    "transform": _Linker.transform,
    "policy": _Linker.policy,
    "question": _Linker.person,
    "model": _Linker.model,
}
"""The method that looks up the callee of each kind of step."""
