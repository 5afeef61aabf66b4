"""Calls of agents that are functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..catalog import Agent, Tool, check_reply
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
from .runner import CallSite, ShapeResult


def call_agent(site: CallSite[Invoke], agent: Agent) -> Value | Pending[Value]:
    run, step = site.run, site.step
    if step.spawns:
        run.budget.spawn(step.span)
    for meter in site.scope.meters:
        meter.open(site.scope.calls + 1)
    given: dict[str, Value] = step.args.build(site.frame, schema_of(step, site.scope.linked))
    if "input" in given:  # everything else is text
        given = {**given, "input": copy_value(given["input"], step, "the agent")}
    if run.dry:
        return dry.result(step, agent, site.scope.linked)
    if step.permit is not None:
        return Pending(_call_permitted(site, agent, given))
    return _call(site, agent, given)


async def _call_permitted(site: CallSite[Invoke], agent: Agent, given: dict[str, Value]) -> Value:
    await permitted(site, given)
    return await resolve(_call(site, agent, given))


def _call(site: CallSite[Invoke], agent: Agent, given: dict[str, Value]) -> Value | Pending[Value]:
    step, linked = site.step, site.scope.linked
    schema = linked.schemas[step.gives.text] if step.gives else None
    named = named_tools(step, linked, site.scope.grant)
    grant = site.scope.grant.narrow(agent.tools, named, identity=step.name.text or None)
    wanted = json_schema(schema, linked.schemas) if schema else step.asking.schema
    conforming = None if wanted is None or schema is not None else judged(wanted, agent.name)
    unchanged = isolate(given.get("input")) if step.keeps else None  # user code may change its input
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
