"""Calls: whom a step calls, and how a tool, a transform, a vendor's policy and a person are; agents and other
flows have files of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from ..catalog import Agent, Tool, Transform
from ..flow.frame import Frame
from ..flow.steps import Invoke, Name
from ..flow.values import Value, isolate
from ..host.calls import Pending, as_pending, resolve, then
from ..host.limits import LAUNCHES, Grant, granting
from ..host.loop import later
from ..progress import events as ev
from ..progress.events import Question
from ..secrets.placeholders import substitute_secrets
from ..text.diagnostics import Diagnostic, StepError, suggest
from ..text.source import Span
from . import dry_run as dry
from .agents import call_agent, tools_for
from .boundary import given_to, must_conform
from .external import call_external, with_place
from .linked import Built, Callee, Choice, Linked, Person
from .questions import answer, permitted
from .requests import request
from .runner import Index, Runner, Scope, ShapeResult, clock
from .sessions import ModelBinding
from .subflows import call_flow, stopped


def invoke(run: Runner, step: Invoke, frame: Frame, scope: Scope, index: Index) -> Value | Pending[Value]:
    """Call what linking found for the step's name, and hold its result to the step's schema."""
    callee = scope.linked.callees.get(step.id)
    return CALL[type(callee)](run, step, callee, frame, scope, index)


def _picked(
    run: Runner, step: Invoke, choice: Choice, frame: Frame, scope: Scope, index: Index
) -> Value | Pending[Value]:
    assert step.pick is not None, "a choice is made while it runs"
    name = step.pick.evaluate(frame)
    callee = choice.callees.get(name) if isinstance(name, str) else None
    if callee is None:
        hint = suggest(str(name), choice.callees, "the names to choose from") or "there is nothing to choose from"
        raise StepError(Diagnostic("step.not-among", f"there is no {step.kind} {name!r} here", step.name.span, hint))
    chosen = replace(step, name=Name(name, step.name.span))  # what is said of the call is said of what was chosen
    return CALL[type(callee)](run, chosen, callee, frame, scope, index)


def _nobody(run: Runner, step: Invoke, callee: None, frame: Frame, scope: Scope, index: Index) -> Value:
    assert run.dry, "only a dry run needs no agent"
    run.budget.spawn(step.span)
    return dry.result(step, callee, scope.linked)


def _tool(run: Runner, step: Invoke, tool: Tool, frame: Frame, scope: Scope, index: Index) -> Value | Pending[Value]:
    if not scope.grant.allows(tool.name):
        raise StepError(_denied(tool.name, scope.grant, step.name.span))
    given = given_to(step, frame, tool, tool.accepts if step.offers or step.wants else None)
    try:
        given = tool.check(substitute_secrets(tool, given, run.models.placeholders) if tool.secret else given)
    except StepError as error:
        raise with_place(error, step, step.args.names or ()) from None
    if tool.secret:
        run.secrets.receive(tool, given)
    for meter in scope.meters:
        meter.tool()
    run.calls += 1
    if run.dry:
        return dry.result(step, tool, scope.linked)
    if step.permit is not None:
        return Pending(_tool_if_permitted(run, step, tool, given, frame, scope, index))
    return _tool_called(run, step, tool, given, scope, index)


async def _tool_if_permitted(
    run: Runner, step: Invoke, tool: Tool, given: dict[str, Value], frame: Frame, scope: Scope, index: Index
) -> Value:
    instead = await permitted(run, step, frame, given, (*scope.before, step.id, *index), scope.tries, tool)
    if instead is not None and step.instead is not None:
        if step.instead.result in instead:
            return instead[step.instead.result]
        given = tool.check({**given, **instead})
        run.secrets.receive(tool, given)
    return await resolve(_tool_called(run, step, tool, given, scope, index))


def _tool_called(
    run: Runner, step: Invoke, tool: Tool, given: dict[str, Value], scope: Scope, index: Index
) -> Value | Pending[Value]:
    if not step.awaited:
        return Pending(_fired(run, step, tool, given, scope, index))
    value = call_external(run, tool, "tool", step, given, scope, scope.grant, index)
    if step.gives is None and not step.keeps:
        return value

    def held(value: Value) -> Value:
        if step.gives is not None:
            must_conform(value, step, scope.linked)
        return ShapeResult(value, given) if step.keeps else value

    return then(value, held)


async def _fired(run: Runner, step: Invoke, tool: Tool, given: dict[str, Value], scope: Scope, index: Index) -> None:
    at = (*scope.before, step.id, *index)
    if run.journal is not None and not await run.journal.once(step, tool, at, scope.tries, given):
        run.emit(ev.StepReplayed(at, clock(), run.journal.run_id))
        return
    later(_forgotten(run, tool, "tool", step, given, scope, index), run.host)


def _transform(
    run: Runner, step: Invoke, transform: Transform, frame: Frame, scope: Scope, index: Index
) -> Value | Pending[Value]:
    given = given_to(step, frame, transform)
    if run.dry:
        return dry.result(step, None, scope.linked)
    return call_external(run, _of_one(transform), "transform", step, {"given": given}, scope, scope.grant, index)


@lru_cache(maxsize=256)
def _of_one(transform: Transform) -> Transform:
    """It takes one value, whatever its parameter is called. The same one at each call: the journal looks into what is
    called, and holds it, once."""
    return replace(transform, function=lambda given: transform.function(given))


def _built(run: Runner, step: Invoke, built: Built, frame: Frame, scope: Scope, index: Index) -> Value | Pending[Value]:
    """A vendor's policy that is a function: it may call the agents of the definition."""
    policy, given = built.policy, given_to(step, frame, built.policy)
    if run.dry:
        return dry.result(step, None, scope.linked)
    offered = {
        "config": isolate(dict(built.config)),
        "input": given,
        "agents": {alias: _callable(run, step, alias, callee, scope) for alias, callee in built.agents.items()},
    }
    arguments = {name: offered[name] for name in policy.takes}
    return call_external(run, policy, "policy", step, arguments, scope, scope.grant, index)


def _callable(run: Runner, step: Invoke, alias: str, callee: Callee, scope: Scope) -> Callable[[Value], Value]:
    """An agent as a vendor's policy calls it, with an input object, on the thread or the loop it runs on itself."""

    def call(input: Value) -> Value:
        if not isinstance(callee, Agent):
            message = f"{step.name.text!r} can call agents that are functions, and {alias!r} is none"
            hint = "the steps of a builder may run anything: @policy(…, builder=True)"
            raise StepError(Diagnostic("step.policy-agent", message, step.name.span, hint))
        for meter in scope.meters:
            meter.open(scope.calls + 1)
        if step.spawns:
            run.budget.spawn(step.span)
        grant = scope.grant.narrow(callee.tools, identity=callee.name)
        tools = tools_for(scope.linked.tools, grant) if "tools" in callee.takes.parameters else None
        arguments = callee.arguments(input=isolate(input), alone="input", tools=tools, identity=callee.name)
        return granting(grant, callee.function, arguments)

    return call


async def _forgotten(
    run: Runner, callee: Tool, what: str, step: Invoke, given: dict[str, Value], scope: Scope, index: Index
) -> None:
    """A call that nobody waits for: its end is told by an event of its own, also after the run's (decision C4)."""
    error: StepError | None = None
    try:
        # Never on the thread that waits for the run: by then that one may be gone.
        await resolve(
            call_external(run, callee, what, step, given, scope._replace(concurrent=True), scope.grant, index)
        )
    except StepError as failure:
        error = failure
    except asyncio.CancelledError:
        run.emit(ev.BackgroundCallEnded((*scope.before, step.id, *index), clock(), stopped(step)))
        raise
    run.emit(ev.BackgroundCallEnded((*scope.before, step.id, *index), clock(), error))


async def _asked(run: Runner, step: Invoke, person: Person, frame: Frame, scope: Scope, index: Index) -> Value:
    """Ask a person; the answer is the step's value."""
    given = given_to(step, frame, "the question")
    if run.dry:
        return dry.result(step, None, scope.linked)
    at = (*scope.before, step.id, *index)
    question = Question(
        str(given.get("text", "")), tuple(map(str, given.get("choices", ()))), False, ev.format_path(at)
    )
    secret = (id(scope.linked.flow), step.id) in run.secrets.steps
    return await answer(run, step, question, at, scope.tries, secret)


def _denied(tool: str, grant: Grant, span: Span | None) -> Diagnostic:
    if tool in LAUNCHES:
        return Diagnostic("flow.launch", f"a step cannot launch a pipeline: {tool!r}", span, "nest with a call step")
    may = ", ".join(sorted((grant.tools or frozenset()) - LAUNCHES)) or "none"
    hint = f"it may use {may}"
    if may == "none":
        hint += ": the document, the agent or the step around it lists none (action_space, tools, capabilities)"
    return Diagnostic("step.not-allowed", f"{grant.identity!r} may not use tool {tool!r}", span, hint)


CALL: dict[type, Callable[..., Value | Pending[Value]]] = {
    Tool: _tool,
    Agent: call_agent,
    Transform: _transform,
    Built: _built,
    Person: as_pending(_asked),
    Choice: _picked,
    Linked: as_pending(call_flow),
    ModelBinding: as_pending(request),
    type(None): _nobody,
}
