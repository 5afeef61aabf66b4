"""Calls: a tool, an agent, another flow; what goes into user code is copied and checked, what comes back too."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..flow.frame import Ended, Frame, Given
from ..flow.schemas import Schema, conform, json_schema
from ..flow.steps import Flow, Invoke, Name, Repeat
from ..flow.values import TooDeep, Value, isolate
from ..registry import Agent, Policy, Tool, Transform, reply
from ..text.diagnostics import Diagnostic, StepError, suggest
from ..text.source import Span
from . import dry
from . import events as ev
from .asking import answer, permitted
from .calls import Waits, arrived, then, waiting
from .events import Question
from .limits import LAUNCHES, Grant, LimitReached, Meter, granting
from .linked import Built, Callee, Choice, Linked, Person, schema_of
from .loop import later
from .outside import outside, placed
from .perform import Index, More, Performer, Scope, clock, more
from .requests import request
from .sessions import Answerer
from .withheld import revealed


def invoke(run: Performer, step: Invoke, frame: Frame, scope: Scope, index: Index) -> Value | Waits[Value]:
    """Call what linking found for the step's name, and hold its result to the step's schema."""
    callee = scope.linked.callees.get(step.id)
    return CALL[type(callee)](run, step, callee, frame, scope, index)


def _picked(
    run: Performer, step: Invoke, choice: Choice, frame: Frame, scope: Scope, index: Index
) -> Value | Waits[Value]:
    assert step.pick is not None, "a choice is made while it runs"
    name = step.pick.evaluate(frame)
    callee = choice.callees.get(name) if isinstance(name, str) else None
    if callee is None:
        hint = suggest(str(name), choice.callees, "the names to choose from") or "there is nothing to choose from"
        raise StepError(Diagnostic("step.not-among", f"there is no {step.kind} {name!r} here", step.name.span, hint))
    chosen = replace(step, name=Name(name, step.name.span))  # what is said of the call is said of what was chosen
    return CALL[type(callee)](run, chosen, callee, frame, scope, index)


def _nobody(run: Performer, step: Invoke, callee: None, frame: Frame, scope: Scope, index: Index) -> Value:
    assert run.dry, "only a dry run needs no agent"
    run.budget.spawn(step.span)
    return dry.result(step, callee, scope.linked)


def _tool(run: Performer, step: Invoke, tool: Tool, frame: Frame, scope: Scope, index: Index) -> Value | Waits[Value]:
    if not scope.grant.allows(tool.name):
        raise StepError(_denied(tool.name, scope.grant, step.name.span))
    given = _given(step, frame, tool, tool.accepts if step.offers or step.wants else None)
    try:
        given = tool.check(revealed(tool, given, run.models.withheld) if tool.secret else given)
    except StepError as error:
        raise placed(error, step, step.args.names or ()) from None
    for meter in scope.meters:
        meter.tool()
    run.calls += 1
    if run.dry:
        return dry.result(step, tool, scope.linked)
    if step.permit is not None:
        return Waits(_tool_if_permitted(run, step, tool, given, frame, scope, index))
    return _tool_called(run, step, tool, given, scope, index)


async def _tool_if_permitted(
    run: Performer, step: Invoke, tool: Tool, given: dict[str, Value], frame: Frame, scope: Scope, index: Index
) -> Value:
    instead = await permitted(run, step, frame, given, (*scope.before, step.id, *index), scope.tries, tool)
    if instead is not None and step.instead is not None:
        if step.instead.result in instead:
            return instead[step.instead.result]
        given = tool.check({**given, **instead})
    return await arrived(_tool_called(run, step, tool, given, scope, index))


def _tool_called(
    run: Performer, step: Invoke, tool: Tool, given: dict[str, Value], scope: Scope, index: Index
) -> Value | Waits[Value]:
    if not step.awaited:
        return Waits(_fired(run, step, tool, given, scope, index))
    value = outside(run, tool, "tool", step, given, scope, scope.grant, index)
    if step.gives is None and not step.keeps:
        return value

    def held(value: Value) -> Value:
        if step.gives is not None:
            _must_conform(value, step, scope.linked)
        return More(value, given) if step.keeps else value

    return then(value, held)


async def _fired(run: Performer, step: Invoke, tool: Tool, given: dict[str, Value], scope: Scope, index: Index) -> None:
    at = (*scope.before, step.id, *index)
    if run.journal is not None and not await run.journal.once(step, tool, at, scope.tries, given):
        run.emit(ev.StepKept(at, clock(), run.journal.run_id))
        return
    later(_forgotten(run, tool, "tool", step, given, scope, index))


def _transform(
    run: Performer, step: Invoke, transform: Transform, frame: Frame, scope: Scope, index: Index
) -> Value | Waits[Value]:
    given = _given(step, frame, transform)
    if run.dry:
        return dry.result(step, None, scope.linked)
    return outside(run, _of_one(transform), "transform", step, {"given": given}, scope, scope.grant, index)


@lru_cache(maxsize=256)
def _of_one(transform: Transform) -> Transform:
    """It takes one value, whatever its parameter is called. The same one at each call: the journal looks into what is
    called, and holds it, once."""
    return replace(transform, function=lambda given: transform.function(given))


def _built(
    run: Performer, step: Invoke, built: Built, frame: Frame, scope: Scope, index: Index
) -> Value | Waits[Value]:
    """A vendor's policy that is a function: it may call the agents of the definition."""
    policy, given = built.policy, _given(step, frame, built.policy)
    if run.dry:
        return dry.result(step, None, scope.linked)
    offered = {
        "config": isolate(dict(built.config)),
        "input": given,
        "agents": {alias: _callable(run, step, alias, callee, scope) for alias, callee in built.agents.items()},
    }
    arguments = {name: offered[name] for name in policy.takes}
    return outside(run, policy, "policy", step, arguments, scope, scope.grant, index)


def _callable(run: Performer, step: Invoke, alias: str, callee: Callee, scope: Scope) -> Callable[[Value], Value]:
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
        arguments = callee.arguments(input=isolate(input), alone="input")
        return granting(grant, callee.function, arguments)

    return call


def _agent(
    run: Performer, step: Invoke, agent: Agent, frame: Frame, scope: Scope, index: Index
) -> Value | Waits[Value]:
    if step.spawns:
        run.budget.spawn(step.span)
    for meter in scope.meters:
        meter.open(scope.calls + 1)
    given: dict[str, Value] = step.args.build(frame, schema_of(step, scope.linked))
    if "input" in given:  # the rest is text
        given = {**given, "input": _copied(given["input"], step, "the agent")}
    if run.dry:
        return dry.result(step, agent, scope.linked)
    if step.permit is not None:
        return Waits(_agent_if_permitted(run, step, agent, given, frame, scope, index))
    return _agent_called(run, step, agent, given, scope, index)


async def _agent_if_permitted(
    run: Performer, step: Invoke, agent: Agent, given: dict[str, Value], frame: Frame, scope: Scope, index: Index
) -> Value:
    await permitted(run, step, frame, given, (*scope.before, step.id, *index), scope.tries)
    return await arrived(_agent_called(run, step, agent, given, scope, index))


def _agent_called(
    run: Performer, step: Invoke, agent: Agent, given: dict[str, Value], scope: Scope, index: Index
) -> Value | Waits[Value]:
    linked = scope.linked
    schema = linked.schemas[step.gives.text] if step.gives else None
    named = [name.text for name in step.tools] if step.tools is not None else None
    grant = scope.grant.narrow(agent.tools, named, identity=step.name.text or None)
    wanted = json_schema(schema, linked.schemas) if schema else None
    kept = isolate(given.get("input")) if step.keeps else None  # what user code does to its input is its own business
    tools = _offered(linked, grant) if "tools" in agent.takes.parameters else None
    try:
        arguments = agent.arguments(**given, schema=wanted, tools=tools, identity=grant.identity)
        value = outside(run, agent, "agent", step, arguments, scope, grant, index)
        if type(value) is Waits:
            return Waits(_answering(value.rest, step, schema, linked, kept))
        value = reply(value, schema, linked.schemas)
    except StepError as error:
        found = placed(error, step, ())
        raise found from found.__cause__  # it may be the very same, and its cause is what user code raised
    return more((value, kept, None)) if step.keeps else value


async def _answering(rest: Awaitable[Value], step: Invoke, schema: Schema | None, linked: Linked, kept: Value) -> Value:
    try:
        value = reply(await rest, schema, linked.schemas)
    except StepError as error:
        found = placed(error, step, ())
        raise found from found.__cause__
    return more((value, kept, None)) if step.keeps else value


async def _called(run: Performer, step: Invoke, linked: Linked, frame: Frame, scope: Scope, index: Index) -> Value:
    pipe = step.pipe.evaluate(frame) if step.pipe is not None else None
    # An agent step whose identity is a flow is counted and limited as one that an agent answers.
    given = step.args.build(frame, linked.flow.accepts if step.wants else None)
    if step.kind == "agent":
        if step.spawns and not _is_session(linked.flow):
            run.budget.spawn(step.span)
        given = given if linked.agent is not None else given.get("input", given)
    for meter in scope.meters:
        meter.open(scope.calls + 1)
    at = (*scope.before, step.id, *index)
    if step.permit is not None:
        instead = await permitted(run, step, frame, given, at, scope.tries)
        if instead is not None and step.instead is not None:
            if step.instead.result in instead:
                return instead[step.instead.result]
            given = {**given, **instead}
    named = [name.text for name in step.tools] if step.tools is not None else None
    meters = (*scope.meters, *metered(linked.flow, scope.calls + 1))
    grant = scope.grant.narrow(named)
    if linked.agent is not None:  # the identity is the agent's; it only ever narrows (decision A12)
        grant = grant.narrow(linked.agent.tools, identity=step.name.text or None)
    # What nobody waits for never runs on the thread that waits for the run: by then that one may be gone.
    beside = scope.beside or not step.awaited
    inner = scope._replace(linked=linked, before=at, grant=grant, calls=scope.calls + 1, meters=meters, beside=beside)
    if not step.awaited and not run.dry:
        later(_forgotten_flow(run, step, inner, Given(given, pipe)))
        return None
    value = (await _within(step, in_time(linked.flow, run.flow(inner, Given(given, pipe))))).output
    if run.dry:
        value = dry.readable(value, step, scope.linked)
    if step.gives is not None:
        _must_conform(value, step, scope.linked)
    if not step.keeps:
        return value
    return More(value, given if linked.agent is None else given.get("input"))


async def _within(step: Invoke, work: Awaitable[Ended]) -> Ended:
    """Do ``work`` within the seconds that the step allows."""
    if step.timeout is None:
        return await work
    try:
        async with asyncio.timeout(step.timeout) as deadline:
            return await work
    except TimeoutError:
        assert deadline.expired(), "what user code raises is no bare TimeoutError here"
    message = f"{step.name.text or step.word!r} took longer than {step.timeout:g} s"
    raise StepError(Diagnostic("step.timeout", message, step.name.span or step.span, "its step says so"))


def metered(flow: Flow, calls: int) -> tuple[Meter, ...]:
    """What counts for a definition that caps itself."""
    return () if flow.caps is None else (Meter(flow.name, flow.caps, calls),)


async def in_time(flow: Flow, work: Awaitable[Ended]) -> Ended:
    """Do ``work`` within the seconds that the definition itself allows."""
    if flow.caps is None or flow.caps.seconds is None:
        return await work
    try:
        async with asyncio.timeout(flow.caps.seconds) as deadline:
            return await work
    except TimeoutError:
        assert deadline.expired(), "what user code raises is no bare TimeoutError here"
    message = f"{flow.name!r} took longer than the {flow.caps.seconds:g} s it may take"
    raise LimitReached(Diagnostic("limit.duration", message, flow.caps.span, "its own definition says so"))


def _is_session(flow: Flow) -> bool:
    """Whether running it opens a session of a model, which counts as one by itself."""
    return any(isinstance(step, Repeat) and step.session for step in flow.body.steps)


def _given(
    step: Invoke, frame: Frame, callee: Tool | Transform | Policy | str, wanted: Mapping[str, Any] | None = None
) -> Any:
    """The arguments, copied."""
    return _copied(step.args.build(frame, wanted), step, callee)


def _copied(value: Value, step: Invoke, callee: Tool | Transform | Policy | str) -> Value:
    try:
        return isolate(value)
    except TooDeep as error:
        span = step.name.span or step.span
        whose = callee if isinstance(callee, str) else repr(callee.name)
        raise StepError(Diagnostic("step.too-deep", f"arguments of {whose}: {error}", span)) from None


async def _forgotten(
    run: Performer, callee: Tool, what: str, step: Invoke, given: dict[str, Value], scope: Scope, index: Index
) -> None:
    """A call that nobody waits for: its end is told by an event of its own, also after the run's (decision C4)."""
    error: StepError | None = None
    try:
        # Never on the thread that waits for the run: by then that one may be gone.
        await arrived(outside(run, callee, what, step, given, scope._replace(beside=True), scope.grant, index))
    except StepError as failure:
        error = failure
    run.emit(ev.FiredEnded((*scope.before, step.id, *index), clock(), error))


async def _forgotten_flow(run: Performer, step: Invoke, scope: Scope, given: Given) -> None:
    """A flow that nobody waits for: of its steps nothing is told or kept, for the run may be over before them."""
    error: StepError | None = None
    unheard = copy.copy(run)
    unheard.emit, unheard.journal = lambda event: None, None
    try:
        await _within(step, in_time(scope.linked.flow, unheard.flow(scope, given)))
    except StepError as failure:
        error = failure
    run.emit(ev.FiredEnded(scope.before, clock(), error))


def _offered(linked: Linked, grant: Grant) -> dict[str, Callable[..., Any]]:
    """The tools an agent function may use, each checking its arguments as a step's call would."""

    def offer(tool: Tool) -> Callable[..., Any]:
        def call(**given: Value) -> Any:
            return tool.function(**tool.check(isolate(given)))

        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.description
        return call

    return {name: offer(tool) for name, tool in linked.tools.items() if grant.allows(name)}


async def _asked(run: Performer, step: Invoke, person: Person, frame: Frame, scope: Scope, index: Index) -> Value:
    """Ask a person; the answer is the step's value."""
    given = _given(step, frame, "the question")
    if run.dry:
        return dry.result(step, None, scope.linked)
    at = (*scope.before, step.id, *index)
    question = Question(str(given.get("text", "")), tuple(map(str, given.get("choices", ()))), False, ev.at_text(at))
    secret = run.journal is not None and (id(scope.linked.flow), step.id) in run.journal.secret.steps
    return await answer(run, step, question, at, scope.tries, secret)


def _must_conform(value: Value, step: Invoke, linked: Linked) -> None:
    assert step.gives is not None
    faults = conform(linked.schemas[step.gives.text], value, linked.schemas)
    if faults:
        reasons = "; ".join(fault.message for fault in faults[:5])
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        message = f"the result of {step.name.text!r} does not conform to {step.gives.text!r}: {reasons}{more}"
        raise StepError(Diagnostic("step.schema", message, step.gives.span))


def _denied(tool: str, grant: Grant, span: Span | None) -> Diagnostic:
    if tool in LAUNCHES:
        return Diagnostic("flow.launch", f"a step cannot launch a pipeline: {tool!r}", span, "nest with a call step")
    may = ", ".join(sorted((grant.tools or frozenset()) - LAUNCHES)) or "none"
    return Diagnostic("step.not-allowed", f"{grant.identity!r} may not use tool {tool!r}", span, f"it may use {may}")


CALL: dict[type, Callable[..., Value | Waits[Value]]] = {
    Tool: _tool,
    Agent: _agent,
    Transform: _transform,
    Built: _built,
    Person: waiting(_asked),
    Choice: _picked,
    Linked: waiting(_called),
    Answerer: waiting(request),
    type(None): _nobody,
}
