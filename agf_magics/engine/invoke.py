"""The shape `Invoke`, for each kind of callee: how its arguments are built and its reply is read.
The call itself is made in call.py; models (requests.py) and flows (subflows.py) have modules of
their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..catalog import Agent, Tool, Transform, check_reply
from ..flow.schemas import json_schema
from ..flow.steps import Invoke, Name
from ..flow.values import Value, isolate
from ..host.limits import Grant, granting
from ..progress import events as ev
from ..progress.events import Question
from ..text.diagnostics import Diagnostic, StepError, suggest
from . import dry_run as dry
from .call import AsInput, build_arguments, call, call_tool, copy_value
from .failures import with_place
from .linked import Built, Callee, Choice, Linked, Person, named_tools, schema_of
from .questions import answer, permitted
from .requests import request
from .runner import CallSite, ShapeResult
from .sessions import ModelBinding, judged
from .subflows import call_flow


async def invoke(site: CallSite[Invoke]) -> Value:
    """Call what the linker found for the name of the step."""
    callee = site.scope.linked.callees.get(site.step.id)
    return await CALL[type(callee)](site, callee)


async def _call_chosen(site: CallSite[Invoke], choice: Choice) -> Value:
    step = site.step
    assert step.pick is not None, "only such a step has a choice"
    name = step.pick.evaluate(site.frame)
    callee = choice.callees.get(name) if isinstance(name, str) else None
    if callee is None:
        hint = (
            suggest(str(name), choice.callees, "the names to choose from")
            or "there is nothing to choose from"
        )
        raise StepError(
            Diagnostic(
                "step.not-among", f"there is no {step.kind} {name!r} here", step.name.span, hint
            )
        )
    # Messages about the call name the chosen callee.
    chosen = replace(step, name=Name(name, step.name.span))
    if isinstance(callee, Agent):
        chosen = replace(chosen, kind="agent", args=AsInput(step.args), spawns=False)
    return await CALL[type(callee)](site.with_step(chosen), callee)


async def _call_none(site: CallSite[Invoke], callee: None) -> Value:
    assert site.run.dry, "only a dry run needs no agent"
    site.run.budget.spawn(site.step.span)
    return dry.result(site.step, callee, site.scope.linked)


async def _call_transform(site: CallSite[Invoke], transform: Transform) -> Value:
    given = build_arguments(site, transform)
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    return await call(site, of_one(transform), "transform", {"given": given})


@lru_cache(maxsize=256)
def of_one(transform: Transform) -> Transform:
    """The transform with a parameter named ``given``. Cached, because the journal computes one
    digest per object."""
    return replace(transform, function=lambda given: transform.function(given))


# --- agents that are functions ---


async def _call_agent(site: CallSite[Invoke], agent: Agent) -> Value:
    run, step, linked = site.run, site.step, site.scope.linked
    if step.spawns:
        run.budget.spawn(step.span)
    for meter in site.scope.meters:
        meter.open(site.scope.calls + 1)
    built = step.args.build(site.frame, schema_of(step, linked))
    given = built
    if "input" in built:  # everything else is text
        given = {**built, "input": copy_value(built["input"], step, "the agent")}
    if run.dry:
        return dry.result(step, agent, linked)
    if step.permit is not None:
        await permitted(site, given)
    schema = linked.schemas[step.gives.text] if step.gives else None
    wanted = json_schema(schema, linked.schemas) if schema else step.asking.schema
    conforming = None if wanted is None or schema is not None else judged(wanted, agent.name)
    grant = site.scope.grant.narrow(
        agent.tools, named_tools(step, linked, site.scope.grant), identity=step.name.text or None
    )
    registered = {} if step.asking.no_tools else linked.tools_of(step)
    tools = None
    if "tools" in agent.takes.parameters:
        listed = [*(agent.tools or ()), *(name.text for name in step.tools or ())]
        tools = tools_for(registered, grant, listed)
    try:
        arguments = agent.arguments(**given, schema=wanted, tools=tools, identity=grant.identity)
    except StepError as error:
        placed = with_place(error, step)
        # it may be the same error, whose cause is that of user code
        raise placed from placed.__cause__
    value = await call(site, agent, "agent", arguments, grant)
    try:
        value = (
            conforming(value)
            if conforming is not None
            else check_reply(value, schema, linked.schemas)
        )
    except StepError as error:
        placed = with_place(error, step)
        raise placed from placed.__cause__
    if step.asking.calls:  # the calls of a function are its own
        value = {"answer": value, "calls": None}
    return (
        ShapeResult(value, built.get("input")) if step.keeps else value
    )  # user code may have changed its copy


def tools_for(
    tools: Mapping[str, Tool], grant: Grant, listed: Collection[str]
) -> dict[str, Callable[..., Any]]:
    """The tools that an agent function may use; each checks its arguments as the call of a step
    does. ``listed``: the names without which it gets no built-in tool (decision A12)."""

    def offer(tool: Tool) -> Callable[..., Any]:
        def call(**given: Value) -> Any:
            return tool.function(**tool.check(isolate(given)))

        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.description
        return call

    return {
        name: offer(tool)
        for name, tool in tools.items()
        if grant.allows(name) and (name in listed or not tool.listed_only)
    }


# --- functions of vendor policies ---


async def _call_policy(site: CallSite[Invoke], built: Built) -> Value:
    """A function of a vendor policy; it may call the agents of the definition."""
    policy, given = built.policy, build_arguments(site, built.policy)
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    offered = {
        "config": isolate(dict(built.config)),
        "input": given,
        "agents": {
            alias: _as_function(site, alias, callee) for alias, callee in built.agents.items()
        },
    }
    return await call(site, policy, "policy", {name: offered[name] for name in policy.takes})


def _as_function(site: CallSite[Invoke], alias: str, callee: Callee) -> Callable[[Value], Value]:
    """An agent as a vendor policy calls it: with an input object, on the thread or loop of the
    policy."""
    step, scope = site.step, site.scope

    def call(input: Value) -> Value:
        if not isinstance(callee, Agent):
            message = (
                f"{step.name.text!r} can only call agents that are functions; {alias!r} is "
                f"not a function"
            )
            hint = "the steps of a builder can call anything: @policy(…, builder=True)"
            raise StepError(Diagnostic("step.policy-agent", message, step.name.span, hint))
        for meter in scope.meters:
            meter.open(scope.calls + 1)
        if step.spawns:
            site.run.budget.spawn(step.span)
        grant = scope.grant.narrow(callee.tools, identity=callee.name)
        tools = None
        if "tools" in callee.takes.parameters:
            tools = tools_for(scope.linked.tools, grant, callee.tools or ())
        arguments = callee.arguments(
            input=isolate(input), alone="input", tools=tools, identity=callee.name
        )
        return granting(grant, callee.function, arguments)

    return call


# --- persons ---


async def _ask(site: CallSite[Invoke], person: Person) -> Value:
    given = build_arguments(site, "the question")
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    choices = tuple(map(str, given.get("choices", ())))
    question = Question(str(given.get("text", "")), choices, where=ev.format_path(site.at))
    return await answer(site, question, site.is_secret)


CALL: dict[type, Callable[..., Awaitable[Value]]] = {
    Tool: call_tool,
    Agent: _call_agent,
    Transform: _call_transform,
    Built: _call_policy,
    Person: _ask,
    Choice: _call_chosen,
    Linked: call_flow,
    ModelBinding: request,
    type(None): _call_none,
}
