"""Calls of an agent that is a function: its input copied, its tools those it was granted, its reply held to a
schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..catalog import Agent, Tool, reply
from ..flow.frame import Frame
from ..flow.schemas import Schema, json_schema
from ..flow.steps import Invoke
from ..flow.values import Value, isolate
from ..host.calls import Pending, resolve
from ..host.limits import Grant
from ..text.diagnostics import StepError
from . import dry_run as dry
from .boundary import copied
from .external import call_external, with_place
from .linked import Linked, named_tools, schema_of
from .questions import permitted
from .runner import Index, Runner, Scope, more


def call_agent(
    run: Runner, step: Invoke, agent: Agent, frame: Frame, scope: Scope, index: Index
) -> Value | Pending[Value]:
    if step.spawns:
        run.budget.spawn(step.span)
    for meter in scope.meters:
        meter.open(scope.calls + 1)
    given: dict[str, Value] = step.args.build(frame, schema_of(step, scope.linked))
    if "input" in given:  # the rest is text
        given = {**given, "input": copied(given["input"], step, "the agent")}
    if run.dry:
        return dry.result(step, agent, scope.linked)
    if step.permit is not None:
        return Pending(_agent_if_permitted(run, step, agent, given, frame, scope, index))
    return _agent_called(run, step, agent, given, scope, index)


async def _agent_if_permitted(
    run: Runner, step: Invoke, agent: Agent, given: dict[str, Value], frame: Frame, scope: Scope, index: Index
) -> Value:
    await permitted(run, step, frame, given, (*scope.before, step.id, *index), scope.tries)
    return await resolve(_agent_called(run, step, agent, given, scope, index))


def _agent_called(
    run: Runner, step: Invoke, agent: Agent, given: dict[str, Value], scope: Scope, index: Index
) -> Value | Pending[Value]:
    linked = scope.linked
    schema = linked.schemas[step.gives.text] if step.gives else None
    named = named_tools(step, linked, scope.grant)
    grant = scope.grant.narrow(agent.tools, named, identity=step.name.text or None)
    wanted = json_schema(schema, linked.schemas) if schema else None
    kept = isolate(given.get("input")) if step.keeps else None  # what user code does to its input is its own business
    tools = tools_for(linked.tools_of(step), grant) if "tools" in agent.takes.parameters else None
    try:
        arguments = agent.arguments(**given, schema=wanted, tools=tools, identity=grant.identity)
        value = call_external(run, agent, "agent", step, arguments, scope, grant, index)
        if type(value) is Pending:
            return Pending(_answering(value.awaitable, step, schema, linked, kept))
        value = reply(value, schema, linked.schemas)
    except StepError as error:
        found = with_place(error, step, ())
        raise found from found.__cause__  # it may be the very same, and its cause is what user code raised
    return more((value, kept, None)) if step.keeps else value


async def _answering(rest: Awaitable[Value], step: Invoke, schema: Schema | None, linked: Linked, kept: Value) -> Value:
    try:
        value = reply(await rest, schema, linked.schemas)
    except StepError as error:
        found = with_place(error, step, ())
        raise found from found.__cause__
    return more((value, kept, None)) if step.keeps else value


def tools_for(tools: Mapping[str, Tool], grant: Grant) -> dict[str, Callable[..., Any]]:
    """The tools an agent function may use, each checking its arguments as a step's call would."""

    def offer(tool: Tool) -> Callable[..., Any]:
        def call(**given: Value) -> Any:
            return tool.function(**tool.check(isolate(given)))

        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.description
        return call

    return {name: offer(tool) for name, tool in tools.items() if grant.allows(name)}
