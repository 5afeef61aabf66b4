"""Calls of agents that are functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..catalog import Agent, Tool, check_reply
from ..flow.frame import Frame
from ..flow.schemas import json_schema
from ..flow.steps import Invoke
from ..flow.values import Value, isolate
from ..host.calls import Pending, resolve, then
from ..host.limits import Grant
from ..text.diagnostics import StepError
from . import dry_run as dry
from .boundary import copy_value
from .external import call_external
from .failures import with_place
from .linked import named_tools, schema_of
from .questions import permitted
from .replies import judged
from .runner import CallSite, Runner, Scope, ShapeResult


def call_agent(site: CallSite[Invoke], agent: Agent) -> Value | Pending[Value]:
    run, step = site.run, site.step
    if step.spawns:
        run.budget.spawn(step.span)
    for meter in site.scope.meters:
        meter.open(site.scope.calls + 1)
    built = step.args.build(site.frame, schema_of(step, site.scope.linked))
    given = _copied(built, step)
    if run.dry:
        return dry.result(step, agent, site.scope.linked)
    unchanged = built.get("input")  # user code may change its copy
    if step.permit is not None:
        return Pending(_call_permitted(site, agent, given, unchanged))
    return _call(site, agent, given, unchanged)


def prepare_direct(
    run: Runner, step: Invoke, agent: Agent, frame: Frame, scope: Scope
) -> tuple[dict[str, Value], Value, Grant]:
    """The arguments, the unchanged input and the grant of a call that needs nothing else."""
    if step.spawns:
        run.budget.spawn(step.span)
    built = step.args.build(frame, schema_of(step, scope.linked))
    grant = _grant_of(step, agent, scope)
    try:
        given = agent.arguments(**_copied(built, step), identity=grant.identity)
    except StepError as error:
        placed = with_place(error, step)
        raise placed from placed.__cause__  # it may be the same error, whose cause is that of user code
    return given, built.get("input"), grant


def _copied(built: dict[str, Value], step: Invoke) -> dict[str, Value]:
    """The arguments with a copy of the input; everything else is text."""
    return {**built, "input": copy_value(built["input"], step, "the agent")} if "input" in built else built


def _grant_of(step: Invoke, agent: Agent, scope: Scope) -> Grant:
    named = named_tools(step, scope.linked, scope.grant)
    return scope.grant.narrow(agent.tools, named, identity=step.name.text or None)


async def _call_permitted(site: CallSite[Invoke], agent: Agent, given: dict[str, Value], unchanged: Value) -> Value:
    await permitted(site, given)
    return await resolve(_call(site, agent, given, unchanged))


def _call(site: CallSite[Invoke], agent: Agent, given: dict[str, Value], unchanged: Value) -> Value | Pending[Value]:
    step, linked = site.step, site.scope.linked
    schema = linked.schemas[step.gives.text] if step.gives else None
    grant = _grant_of(step, agent, site.scope)
    wanted = json_schema(schema, linked.schemas) if schema else step.asking.schema
    conforming = None if wanted is None or schema is not None else judged(wanted, agent.name)
    tools = tools_for(linked.tools_of(step), grant) if "tools" in agent.takes.parameters else None

    def check(value: Value) -> Value:
        try:
            value = conforming(value) if conforming is not None else check_reply(value, schema, linked.schemas)
        except StepError as error:
            placed = with_place(error, step)
            raise placed from placed.__cause__  # it may be the same error, whose cause is that of user code
        if step.asking.calls:  # the calls of a function are its own
            value = {"answer": value, "calls": None}
        return ShapeResult(value, unchanged) if step.keeps else value

    try:
        arguments = agent.arguments(**given, schema=wanted, tools=tools, identity=grant.identity)
    except StepError as error:
        placed = with_place(error, step)
        raise placed from placed.__cause__
    return then(call_external(site, agent, "agent", arguments, grant), check)


def tools_for(tools: Mapping[str, Tool], grant: Grant) -> dict[str, Callable[..., Any]]:
    """The tools that an agent function may use; each checks its arguments as the call of a step does."""

    def offer(tool: Tool) -> Callable[..., Any]:
        def call(**given: Value) -> Any:
            return tool.function(**tool.check(isolate(given)))

        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.description
        return call

    return {name: offer(tool) for name, tool in tools.items() if grant.allows(name)}
