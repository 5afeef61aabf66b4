"""The shape `Invoke`: calls of tools, transforms, functions of vendor policies and persons. Agents (agents.py), models
(requests.py) and flows (subflows.py) have modules of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from ..catalog import Agent, Tool, Transform
from ..flow.steps import Invoke, Name
from ..flow.values import Value, isolate
from ..host.calls import Pending, as_pending, resolve, then
from ..host.limits import LAUNCHES, Grant, granting
from ..host.loop import start_background
from ..progress import events as ev
from ..progress.events import Question
from ..text.diagnostics import Diagnostic, StepError, suggest
from ..text.source import Span
from . import dry_run as dry
from .agents import call_agent, tools_for
from .boundary import AsInput, build_arguments, check_result, checked_arguments
from .external import call_external
from .linked import Built, Callee, Choice, Linked, Person
from .questions import answer, permitted
from .requests import request
from .runner import CallSite, ShapeResult, clock
from .sessions import ModelBinding
from .streaming import separate_prints
from .subflows import call_flow, stopped


def invoke(site: CallSite[Invoke]) -> Value | Pending[Value]:
    """Call what the linker found for the name of the step."""
    callee = site.scope.linked.callees.get(site.step.id)
    return CALL[type(callee)](site, callee)


def _call_chosen(site: CallSite[Invoke], choice: Choice) -> Value | Pending[Value]:
    step = site.step
    assert step.pick is not None, "only such a step has a choice"
    name = step.pick.evaluate(site.frame)
    callee = choice.callees.get(name) if isinstance(name, str) else None
    if callee is None:
        hint = suggest(str(name), choice.callees, "the names to choose from") or "there is nothing to choose from"
        raise StepError(Diagnostic("step.not-among", f"there is no {step.kind} {name!r} here", step.name.span, hint))
    # Messages about the call name the chosen callee.
    chosen = replace(step, name=Name(name, step.name.span))
    if isinstance(callee, Agent):
        chosen = replace(chosen, kind="agent", args=AsInput(step.args), spawns=False)
    return CALL[type(callee)](site.with_step(chosen), callee)


def _call_none(site: CallSite[Invoke], callee: None) -> Value:
    assert site.run.dry, "only a dry run needs no agent"
    site.run.budget.spawn(site.step.span)
    return dry.result(site.step, callee, site.scope.linked)


def prepare_tool_call(site: CallSite[Invoke], tool: Tool) -> dict[str, Value]:
    """The arguments of a call that the step is allowed to make; counts it."""
    run, step, scope = site.run, site.step, site.scope
    if not scope.grant.allows(tool.name):
        raise StepError(_denied(tool.name, scope.grant, step.name.span))
    given: dict[str, Value] = checked_arguments(site, tool, tool.accepts if step.offers or step.wants else None)
    if tool.secret:
        run.secrets.receive(tool, given)
    for meter in scope.meters:
        meter.tool()
    run.calls += 1
    return given


def _call_tool(site: CallSite[Invoke], tool: Tool) -> Value | Pending[Value]:
    given = prepare_tool_call(site, tool)
    if site.run.dry:
        return dry.result(site.step, tool, site.scope.linked)
    if site.step.permit is not None:
        return Pending(_call_permitted(site, tool, given))
    return _call_checked(site, tool, given)


async def _call_permitted(site: CallSite[Invoke], tool: Tool, given: dict[str, Value]) -> Value:
    instead = await permitted(site, given, tool)
    if instead is not None and site.step.instead is not None:
        if site.step.instead.result in instead:
            return instead[site.step.instead.result]
        given = tool.check({**given, **instead})
        site.run.secrets.receive(tool, given)
    return await resolve(_call_checked(site, tool, given))


def _call_checked(site: CallSite[Invoke], tool: Tool, given: dict[str, Value]) -> Value | Pending[Value]:
    step = site.step
    if not step.awaited:
        return Pending(_fire(site, tool, given))
    value = call_external(site, tool, "tool", given)
    if step.gives is None and not step.keeps:
        return value
    return then(value, lambda value: finish_tool_call(site, given, value))


def finish_tool_call(site: CallSite[Invoke], given: dict[str, Value], value: Value) -> Value:
    """The value of a call, checked, with its arguments if the step keeps them."""
    if site.step.gives is not None:
        check_result(value, site.step, site.scope.linked)
    return ShapeResult(value, given) if site.step.keeps else value


async def _fire(site: CallSite[Invoke], tool: Tool, given: dict[str, Value]) -> None:
    run = site.run
    if run.journal is not None and not await run.journal.fire_once(site.step, tool, site.key, given):
        run.emit(ev.StepReplayed(site.at, clock(), run.journal.run_id))
        return
    start_background(_run_fired(site, tool, given), run.host)


async def _run_fired(site: CallSite[Invoke], tool: Tool, given: dict[str, Value]) -> None:
    """A fire-and-forget call. It emits its end, perhaps after the end of the run (decision C4)."""
    error: StepError | None = None
    separate_prints(site.run)
    try:
        # The thread that waits for the run may be gone by then, so the call never runs there.
        await resolve(call_external(site.with_scope(site.scope._replace(concurrent=True)), tool, "tool", given))
    except StepError as failure:
        error = failure
    except asyncio.CancelledError:
        site.run.emit(ev.BackgroundCallEnded(site.at, clock(), stopped(site.step)))
        raise
    site.run.emit(ev.BackgroundCallEnded(site.at, clock(), error))


def _call_transform(site: CallSite[Invoke], transform: Transform) -> Value | Pending[Value]:
    given = build_arguments(site, transform)
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    return call_external(site, of_one(transform), "transform", {"given": given})


@lru_cache(maxsize=256)
def of_one(transform: Transform) -> Transform:
    """The transform with a parameter named ``given``. Cached, because the journal computes one digest per object."""
    return replace(transform, function=lambda given: transform.function(given))


def _call_policy(site: CallSite[Invoke], built: Built) -> Value | Pending[Value]:
    """A function of a vendor policy; it may call the agents of the definition."""
    policy, given = built.policy, build_arguments(site, built.policy)
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    offered = {
        "config": isolate(dict(built.config)),
        "input": given,
        "agents": {alias: _as_function(site, alias, callee) for alias, callee in built.agents.items()},
    }
    return call_external(site, policy, "policy", {name: offered[name] for name in policy.takes})


def _as_function(site: CallSite[Invoke], alias: str, callee: Callee) -> Callable[[Value], Value]:
    """An agent as a vendor policy calls it: with an input object, on the thread or loop of the policy."""
    step, scope = site.step, site.scope

    def call(input: Value) -> Value:
        if not isinstance(callee, Agent):
            message = f"{step.name.text!r} can only call agents that are functions; {alias!r} is not a function"
            hint = "the steps of a builder can call anything: @policy(…, builder=True)"
            raise StepError(Diagnostic("step.policy-agent", message, step.name.span, hint))
        for meter in scope.meters:
            meter.open(scope.calls + 1)
        if step.spawns:
            site.run.budget.spawn(step.span)
        grant = scope.grant.narrow(callee.tools, identity=callee.name)
        tools = tools_for(scope.linked.tools, grant) if "tools" in callee.takes.parameters else None
        arguments = callee.arguments(input=isolate(input), alone="input", tools=tools, identity=callee.name)
        return granting(grant, callee.function, arguments)

    return call


async def _ask(site: CallSite[Invoke], person: Person) -> Value:
    given = build_arguments(site, "the question")
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    choices = tuple(map(str, given.get("choices", ())))
    question = Question(str(given.get("text", "")), choices, where=ev.format_path(site.at))
    return await answer(site, question, site.is_secret)


def _denied(tool: str, grant: Grant, span: Span | None) -> Diagnostic:
    if tool in LAUNCHES:
        return Diagnostic("flow.launch", f"a step cannot launch a pipeline: {tool!r}", span, "nest with a call step")
    allowed = ", ".join(sorted((grant.tools or frozenset()) - LAUNCHES))
    hint = f"it may use {allowed or 'none'}"
    if not allowed:
        hint += ": the document, the agent or the step around it lists none (action_space, tools, capabilities)"
    return Diagnostic("step.not-allowed", f"{grant.identity!r} may not use tool {tool!r}", span, hint)


CALL: dict[type, Callable[..., Value | Pending[Value]]] = {
    Tool: _call_tool,
    Agent: call_agent,
    Transform: _call_transform,
    Built: _call_policy,
    Person: as_pending(_ask),
    Choice: _call_chosen,
    Linked: as_pending(call_flow),
    ModelBinding: as_pending(request),
    type(None): _call_none,
}
