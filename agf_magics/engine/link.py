"""The linker: looks up all names before the first step, also in nested flows.

Later changes of the registry affect the next run, not this one. The findings are warnings when a
flow is defined, because a notebook defines things in any order, and errors when it is run (decision
A5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..catalog import ANYBODY, USER, Agent, ModelAgent, Policy, Registry, Tool, Transform
from ..catalog.tools import Arguments, derive
from ..flow.step import Lookup
from ..flow.steps import Flow, Invoke, Name, Sequence, Step, every
from ..flow.values import isolate
from ..text.diagnostics import DefinitionError, Diagnostics, join_hints, suggest
from .checks import (
    check_arguments,
    check_passed,
    check_schema,
    foreign_names,
    unknown_gifts,
    unknown_reads,
)
from .limits import LAUNCHES, OFFERED, RUN_RESULT
from .linked import (
    Built,
    Callee,
    Choice,
    Linked,
    ModelBinding,
    Person,
    model_binding,
    registered_name,
    session_flow,
    session_name,
)

MOST_STEPS = 100_000
"""Steps of a flow and of all its calls: ten small flows that call each other can have billions."""

MOST_CALLS = 50
"""Flows that are open inside each other."""

Files = Callable[[Name, Flow], "Flow | Tool"]
"""Reads a file that a flow names, relative to the file of the flow. Raises DefinitionError."""


def link(
    flow: Flow, registry: Registry, files: Files | None = None, passive: bool = False
) -> tuple[Linked, Diagnostics]:
    """``flow`` with everything that it calls, and all errors and warnings about its names.
    ``passive``: no file is read and no builder of a policy is called, so that what they bring is
    not checked."""
    found = Diagnostics()
    return _Linker(registry, found, files, passive).flow(flow, ()), found


class _Linker:
    def __init__(
        self, registry: Registry, found: Diagnostics, files: Files | None, passive: bool
    ) -> None:
        self.registry = self.base = registry
        self.found, self.files, self.passive = found, files, passive
        self.linking: list[Flow] = []
        """The open flows, the innermost last."""
        self.done: dict[str, Linked] = {}
        self.seen: dict[str, Tool] = {}
        """Registered tools without findings of their own, by the name of a step that calls them."""
        self.own: dict[int, dict[str, Tool]] = {}
        """The tools that a definition brings for an agent step, by the identity of the step."""
        self.size: dict[str, tuple[int, int]] = {}
        """The number of steps of each flow with all its calls, and the depth of its calls."""

    def flow(self, flow: Flow, around: tuple[str, ...], registry: Registry | None = None) -> Linked:
        """``flow`` with its callees. ``registry``: to look them up in, if another one than that of
        the outer flow."""
        outer, self.registry = self.registry, registry or self.registry
        try:
            return self._flow(flow, around)
        finally:
            self.registry = outer

    def _flow(self, flow: Flow, around: tuple[str, ...]) -> Linked:
        schemas = {**self.registry.schemas, **flow.schemas}
        callees, own = dict[str, Callee](), dict[str, Mapping[str, Tool]]()
        self.found.extend(flow.refuses)
        self.linking.append(flow)
        sound = set[str]()  # thousands of steps may name the same schema
        steps, open_inside, inside = 0, 0, (*around, key_of(flow))
        for step in every(flow.body):
            steps += 1
            if isinstance(step, Invoke):
                callee = self.callee(step, inside)
                own |= {step.id: self.own[id(step)]} if id(step) in self.own else {}
                if callee is not None:
                    callees[step.id] = callee
                if isinstance(callee, Linked):
                    more, deeper = self.size[key_of(callee.flow)]
                    steps, open_inside = steps + more, max(open_inside, deeper)
                gives = step.gives
                if gives and gives.text not in sound and check_schema(gives, schemas, self.found):
                    sound.add(gives.text)
        if steps > MOST_STEPS:  # a run has a row for each step of each call
            message = (
                f"{flow.name!r} has {steps:,} steps with all that it calls; at most "
                f"{MOST_STEPS:,} are allowed"
            )
            self.found.error(
                "flow.too-large",
                message,
                flow.span,
                "a for_each or a fold repeats a step without a copy",
            )
            steps = 0  # not reported again for its callers
        self.size[key_of(flow)] = steps, open_inside + 1
        self.linking.pop()
        self.found.extend(unknown_reads(flow, callees))
        self.found.extend(unknown_gifts(flow, callees))
        self.found.extend(foreign_names(flow, callees))
        return Linked(flow, callees, schemas, dict(self.registry.tools), own, self.uses(flow))

    def uses(self, flow: Flow) -> frozenset[str] | None:
        """The tools that ``flow`` may use. An alias means the registered tool of that alias, else
        of its name (B5)."""
        if flow.uses is None:
            return None
        known = {*self.registry.tools, *self.registry.flows}
        return frozenset(
            one.alias if one.alias in known else one.registered or one.alias for one in flow.uses
        )

    def callee(self, step: Invoke, around: tuple[str, ...]) -> Callee | None:
        if step.pick is None:
            return LOOK_UP[step.kind](self, step, around)
        if step.pick.among is None:
            return Choice(self.registry.offered)
        callees = dict[str, Callee]()
        for name in step.pick.among:
            named = registered_name(step, name, self.registry)
            lookup = step.lookup._replace(file=step.lookup.files.get(name.text))
            one = replace(step, name=named, lookup=lookup)
            if (callee := LOOK_UP[step.kind](self, one, around)) is not None:
                callees[name.text] = callee
        return Choice(callees)

    def model(self, step: Invoke, around: tuple[str, ...]) -> ModelBinding:
        return model_binding(step, self.registry, self.found)

    def session(self, step: Invoke, agent: ModelAgent, around: tuple[str, ...]) -> Linked:
        """The flow of a model's session, without launches, which a run cannot make."""
        outer, tools = self.linking[-1], agent.tools
        if tools is None and step.tools is not None:
            tools = tuple(name.text for name in step.tools)
        if step.asking.no_tools:
            tools = ()
        allowed = (
            None if tools is None else tuple(name for name in tools if not self.launches(name))
        )
        flow = session_flow(
            replace(agent, tools=allowed), step, outer, {**self.registry.schemas, **outer.schemas}
        )
        registry = self.registry.with_tools(self.own.get(id(step), {}).values())
        return replace(self.flow(flow, around, registry), agent=agent)

    def launches(self, name: str) -> bool:
        """Whether a name is that of a launch, which is only for agents outside of runs (decision
        A13)."""
        called = name.removeprefix(OFFERED)
        offered = name == RUN_RESULT or (called != name and called in self.registry.flows)
        return name in LAUNCHES or (offered and name not in self.registry.tools)

    def person(self, step: Invoke, around: tuple[str, ...]) -> Person:
        return Person()

    def transform(self, step: Invoke, around: tuple[str, ...]) -> Transform | None:
        if step.name.text not in self.registry.transforms:
            self.found.add(
                self.registry.transforms.missing(
                    step.name.text, step.name.span, "flow.unknown-transform"
                )
            )
        return self.registry.transforms.get(step.name.text)

    def policy(self, step: Invoke, around: tuple[str, ...]) -> Built | Linked | None:
        policy = self.registry.policies.get(step.name.text)
        if policy is None:
            self.found.add(
                self.registry.policies.missing(
                    step.name.text, step.name.span, "flow.unknown-policy"
                )
            )
            return None
        if policy.builder:
            return None if self.passive else self.built(policy, step, around)
        # A definition without a list of agents may call the registered ones (decision B1).
        named = step.tools if step.tools is not None else tuple(map(Name, self.registry.agents))
        agents = {
            name.text: self.agent(replace(step, kind="agent", name=name, tools=None), around)
            for name in named
        }
        return Built(
            policy,
            step.asking.config,
            {name: agent for name, agent in agents.items() if agent is not None},
        )

    def built(self, policy: Policy, step: Invoke, around: tuple[str, ...]) -> Linked | None:
        """The flow of the one step that a builder returns."""
        outer, why = self.linking[-1], "it did not return a Step"
        try:
            config = isolate(dict(step.asking.config))
            made = policy.function(**dict.fromkeys(policy.takes, config))
        except Exception as error:  # of user code
            made, why = None, f"{type(error).__name__}: {error}"
        if not isinstance(made, Step):
            message = f"policy {policy.name!r} could not be built: {why}"
            self.found.error(
                "flow.policy-failed",
                message,
                step.name.span,
                "a builder takes config and returns a Step",
            )
            return None
        made = replace(
            made, target=made.target or step.target
        )  # the result of the step is that of the policy
        body = Sequence(
            id="built", word=step.word, label=policy.name, span=step.name.span, steps=(made,)
        )
        built = replace(
            outer,
            name=f"{outer.name}/{policy.name}",
            body=body,
            refuses=(),
            caps=None,
            is_built=True,
        )
        return self.flow(built, around)

    def file(self, step: Invoke, around: tuple[str, ...]) -> Tool | Linked | None:
        """The tool or flow in the file of the step; None, and an error, if it cannot be read."""
        assert step.lookup.file is not None
        if self.passive:
            return None
        assert self.files is not None, "a flow that names files is linked with a reader of files"
        try:
            found = self.files(step.lookup.file, self.linking[-1])
        except DefinitionError as error:
            self.found.extend(
                replace(d, span=d.span or step.lookup.file.span) for d in error.diagnostics
            )
            return None
        return found if isinstance(found, Tool) else self.open(step, found, around)

    def flow_in_file(self, step: Invoke, around: tuple[str, ...]) -> Linked | None:
        found = self.file(step, around)
        return found if isinstance(found, Linked) else None

    def tool(self, step: Invoke, around: tuple[str, ...]) -> Tool | Agent | Linked | None:
        name = step.name.text
        seen = self.seen.get(name) if self.registry is self.base else None
        if seen is not None:
            check_arguments(step, seen, self.found)
            return seen
        tool = self.registry.tools.get(name)
        if self.launches(name):
            called = name.removeprefix(OFFERED)
            hint = "nest with a call step" + (
                f": call: {{pipeline: {called}}}" if called != name else ""
            )
            self.found.error(
                "flow.launch", f"a step cannot launch a pipeline: {name!r}", step.name.span, hint
            )
            return None
        if tool is None and name in self.registry.agents and step.pick is not None:
            return self.agent_as_tool(step, self.registry.agents[name], around)
        if tool is None and name in self.registry.flows and not step.lookup.only_tools:
            return self.called(step, around)
        if tool is None and step.lookup.file is not None:
            found = self.file(step, around)
            if isinstance(found, Tool):
                check_arguments(step, found, self.found)
            return found
        if tool is None:
            known = [*self.registry.tools, *(() if step.lookup.only_tools else self.registry.flows)]
            near = join_hints(
                suggest(name, known), suggest("", self.registry.tools, "registered tools")
            )
            if name in self.registry.flows:
                near = (
                    f"{name!r} is a {self.registry.flows[name].language}: call: {{pipeline: "
                    f"{name}}}"
                )
            self.found.error(
                "flow.unknown-tool", f"no tool {name!r} is registered", step.name.span, near
            )
            return None
        if tool.arguments.problems:
            self.found.extend(replace(doubt, span=step.name.span) for doubt in tool.warnings)
        if tool.arguments.refused:
            self.patterns(step, tool.arguments)
        elif not tool.arguments.problems and self.registry is self.base:
            self.seen[name] = tool
        check_arguments(step, tool, self.found)
        return tool

    def agent_as_tool(
        self, step: Invoke, agent: Agent | ModelAgent, around: tuple[str, ...]
    ) -> Agent | Linked | None:
        """An agent that a model may call. A model that offers itself, also through others, is a
        cycle."""
        session = session_name(agent.name)
        if session in around:
            chain = " → ".join((*around[around.index(session) :], session))
            self.found.error(
                "flow.call-cycle", f"agent {agent.name!r} calls itself: {chain}", step.name.span
            )
            return None
        return self.answers(step, agent, around)

    def patterns(self, step: Invoke, takes: Arguments) -> None:
        """Refuse patterns of annotations that RE2 does not support (decision D5)."""
        self.found.extend(replace(fault, span=step.name.span) for fault in takes.refused)

    def agent(self, step: Invoke, around: tuple[str, ...]) -> Agent | Linked | None:
        if own := self.own_tools(step):
            self.own[id(step)] = own
        known = [*self.registry.tools, *own, *step.lookup.files]
        for tool in step.tools or ():
            if tool.text not in known and not self.launches(tool.text):
                hint = suggest(tool.text, known, "registered tools")
                self.found.error(
                    "flow.unknown-capability",
                    f"no tool {tool.text!r} is registered",
                    tool.span,
                    hint,
                )
        name = step.name.text
        if name and (name != USER or step.exchange.wants):  # `user` is not an alias of a policy
            registered = name in self.registry.agents or name in self.registry.flows
            if registered and step.lookup.file is not None:
                message = f"the registered {name!r} is used, not {step.lookup.file.text!r}"
                self.found.warn("flow.registered-instead", message, step.lookup.file.span)
            if name in self.registry.agents:
                return self.answers(step, self.registry.agents[name], around)
            if name in self.registry.flows:
                if step.asking.wins or step.asking.attach:
                    self.no_model(step, f"{name!r} is a {self.registry.flows[name].language}")
                return self.called(step, around)
            if step.lookup.file is not None:
                return self.flow_in_file(step, around)
            hint = suggest(name, self.registry.agents, "registered agents")
            self.found.error(
                "flow.unknown-agent", f"no agent {name!r} is registered", step.name.span, hint
            )
            return None
        default = self.registry.default_agent
        if default is None or (
            (step.asking.wins or step.asking.attach) and not isinstance(default, ModelAgent)
        ):
            default = ANYBODY if step.asking.model or self.registry.model is not None else None
        if default is None:
            hint = (
                "@agent def answer(prompt: str) -> str: ... defines one; %config "
                "AgfMagics.model lets a model answer"
            )
            self.found.error(
                "flow.no-agent", "no agent is registered to answer this step", step.span, hint
            )
            return None
        return self.answers(step, default, around)

    def no_model(self, step: Invoke, what: str) -> None:
        message = f"{what} and has no model"
        key, span = (
            ("model", step.asking.span) if step.asking.wins else ("attach", step.asking.attach[0])
        )
        hint = (
            f"remove {key}, or name an agent of agf.model_agent; without an identity the model "
            f"answers itself"
        )
        self.found.error("flow.agent-model", message, span, hint)

    def own_tools(self, step: Invoke) -> dict[str, Tool]:
        """The tools that the definition brings for an agent; a registered tool with that name is
        used instead."""
        tools = self.registry.tools
        found = {
            one.name: derive(one, tools[one.base])
            for one in step.lookup.derived
            if one.base in tools
        }
        for name, file in step.lookup.files.items() if step.tools is not None else ():
            held = self.file(replace(step, lookup=Lookup(file)), ()) if name not in tools else None
            found |= {name: replace(held, name=name)} if isinstance(held, Tool) else {}
        return {name: tool for name, tool in found.items() if name not in tools}

    def answers(
        self, step: Invoke, agent: Agent | ModelAgent, around: tuple[str, ...]
    ) -> Agent | Linked:
        if isinstance(agent, ModelAgent):
            return self.session(step, agent, around)
        if step.asking.wins or step.asking.attach:
            self.no_model(step, f"agent {agent.name!r} is a function")
        elif step.asking.model:
            message = f"{step.asking.model!r} is not asked: the function {agent.name!r} answers"
            hint = "register no default agent, or name a model with agf.model_agent and identity"
            self.found.warn("flow.model-ignored", message, step.asking.span, hint)
        if agent.accepts is not None:
            self.patterns(step, agent.takes)
        return agent

    def called(self, step: Invoke, around: tuple[str, ...]) -> Linked | None:
        name = step.name.text
        flow = self.registry.flows.get(name)
        if flow is None and step.lookup.file is not None:
            return self.flow_in_file(step, around)
        if flow is None and name == self.linking[-1].name and name in around:
            flow = self.linking[-1]  # it calls itself and is not registered yet
        if flow is None:
            hint = join_hints(
                suggest(name, self.registry.flows, "registered flows"), "define it before you run"
            )
            self.found.error(
                "flow.unknown-flow", f"no flow {name!r} is registered", step.name.span, hint
            )
            return None
        return self.open(step, flow, around)

    def open(self, step: Invoke, flow: Flow, around: tuple[str, ...]) -> Linked | None:
        name = key_of(flow)
        if name in around:
            chain = " → ".join((*around[around.index(name) :], name))
            self.found.error(
                "flow.call-cycle", f"{flow.name!r} calls itself: {chain}", step.name.span
            )
            return None
        if len(around) + (self.size[name][1] if name in self.done else 1) > MOST_CALLS:
            message = f"{flow.name!r} would be open inside more than {MOST_CALLS} other flows"
            self.found.error(
                "flow.too-large", message, step.name.span, "call it from an outer flow"
            )
            return None
        if name not in self.done:
            self.done[name] = self.flow(
                flow, around, self.base
            )  # a session does not give its tools to its callees
        check_passed(step, flow, self.found)
        return self.done[name]


def key_of(flow: Flow) -> str:
    """A key among the open flows: two files may define flows of the same name."""
    return flow.name if flow.file is None else f"{flow.name} ({flow.file})"


LOOK_UP: Mapping[str, Callable[[_Linker, Invoke, tuple[str, ...]], Callee | None]] = {
    "tool": _Linker.tool,
    "agent": _Linker.agent,
    "flow": _Linker.called,
    "transform": _Linker.transform,
    "policy": _Linker.policy,
    "question": _Linker.person,
    "model": _Linker.model,
}
