"""Calls: a tool, an agent, another flow; what goes into user code is copied and checked, what comes back too."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from ..flow.frame import Frame, Given
from ..flow.schemas import conform, json_schema
from ..flow.steps import Invoke
from ..flow.values import TooDeep, Value, isolate, settle
from ..registry import Agent, Tool, reply, shown_text
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from . import dry
from .calls import TimedOut
from .limits import LAUNCHES, Grant, granted
from .link import Linked
from .perform import Index, Performer, Scope


def invoke(run: Performer, step: Invoke, frame: Frame, scope: Scope, index: Index) -> Awaitable[Value]:
    """Call what linking found for the step's name, and hold its result to the step's schema."""
    callee = scope.linked.callees.get(step.id)
    return CALL[type(callee)](run, step, callee, frame, scope, index)


async def _nobody(run: Performer, step: Invoke, callee: None, frame: Frame, scope: Scope, index: Index) -> Value:
    assert run.dry, "only a dry run needs no agent"
    run.budget.spawn(step.span)
    return dry.result(step, callee, scope.linked)


async def _tool(run: Performer, step: Invoke, tool: Tool, frame: Frame, scope: Scope, index: Index) -> Value:
    if not scope.grant.allows(tool.name):
        raise StepError(_denied(tool.name, scope.grant, step.name.span))
    given = _given(step, frame, repr(tool.name))
    try:
        given = tool.check(given)
    except StepError as error:
        raise _placed(error, step, step.args.names) from None
    run.calls += 1
    if run.dry:
        return dry.result(step, tool, scope.linked)
    value = await _outside(run, tool, "tool", step, given, scope, scope.grant)
    if step.gives is not None:
        _must_conform(value, step, scope.linked)
    return value


async def _agent(run: Performer, step: Invoke, agent: Agent, frame: Frame, scope: Scope, index: Index) -> Value:
    run.budget.spawn(step.span)
    given, linked = _given(step, frame, "the agent"), scope.linked
    schema = linked.schemas[step.gives.text] if step.gives else None
    if run.dry:
        return dry.result(step, agent, linked)
    named = [name.text for name in step.tools] if step.tools is not None else None
    grant = scope.grant.narrow(agent.tools, named, identity=step.name.text or None)
    wanted = json_schema(schema, linked.schemas) if schema else None
    try:
        arguments = agent.arguments(**given, schema=wanted, tools=_offered(linked, grant), identity=grant.identity)
        value = await _outside(run, agent, "agent", step, arguments, scope, grant)
        return reply(value, schema, linked.schemas)
    except StepError as error:
        raise _placed(error, step, ()) from None


async def _called(run: Performer, step: Invoke, linked: Linked, frame: Frame, scope: Scope, index: Index) -> Value:
    pipe = step.pipe.evaluate(frame) if step.pipe is not None else None
    # An agent step whose identity is a flow is counted and limited as one that an agent answers.
    if step.kind == "agent":
        run.budget.spawn(step.span)
    named = [name.text for name in step.tools] if step.tools is not None else None
    inner = scope._replace(linked=linked, before=(*scope.before, step.id, *index), grant=scope.grant.narrow(named))
    value = (await run.flow(inner, Given(step.args.build(frame), pipe))).output
    if step.gives is not None:
        _must_conform(value, step, scope.linked)
    return value


def _given(step: Invoke, frame: Frame, whose: str) -> dict[str, Value]:
    """The arguments, copied."""
    try:
        found: dict[str, Value] = isolate(step.args.build(frame))
    except TooDeep as error:
        span = step.name.span or step.span
        raise StepError(Diagnostic("step.too-deep", f"arguments of {whose}: {error}", span)) from None
    return found


async def _outside(
    run: Performer, callee: Tool | Agent, what: str, step: Invoke, given: dict[str, Value], scope: Scope, grant: Grant
) -> Value:
    """Cross into user code and come back with a settled value."""
    alone = run.host.waited and not scope.beside
    place = callee.where or ("loop" if callee.is_async else "kernel" if alone else "worker")
    before = granted.get()
    narrower = granted.set(grant) if grant is not before else None
    try:
        ok, value = await run.host.call(place, callee.function, given, callee.timeout)
    finally:
        if narrower is not None:
            granted.reset(narrower)
    if ok:
        span = step.name.span or step.span
        try:
            return settle(value)
        except TooDeep as error:
            message = f"{what} {callee.name!r} returned something that cannot be kept: {error}"
            raise StepError(Diagnostic("step.too-deep", message, span)) from None
        except Exception as error:  # somebody's class that cannot be looked into; a thread that writes on
            message = f"{what} {callee.name!r} returned something that cannot be kept: {said(error)}"
            raise StepError(Diagnostic(f"step.{what}-failed", message, span)) from error
    raise _failure(callee, what, step, given, value)


def _failure(
    callee: Tool | Agent, what: str, step: Invoke, given: dict[str, Value], raised: BaseException
) -> StepError:
    """What user code raised, as the step's failure."""
    span = step.name.span or step.span
    if isinstance(raised, TimedOut):
        hint = f"@{what}(timeout=…) sets how long it may take"
        return StepError(Diagnostic("step.timeout", f"{what} {callee.name!r} {raised}", span, hint))
    if isinstance(callee, Tool) and callee.secret:
        whole = "".join(traceback.format_exception(raised))
        if shown_text(callee, given, whole) != whole:  # then the exception itself is not shown either: no cause
            message = f"{what} {callee.name!r} failed: {said(raised, lambda text: shown_text(callee, given, text))}"
            return StepError(Diagnostic("step.tool-failed", message, span))
    if isinstance(raised, StepError) and all(isinstance(d, Diagnostic) for d in getattr(raised, "diagnostics", [None])):
        return _placed(_anew(raised), step, ())
    hint = "; ".join(map(str, getattr(raised, "__notes__", ())))
    message = f"{what} {callee.name!r} failed: {said(raised)}"
    failure = StepError(Diagnostic(f"step.{what}-failed", message, span, hint or None))
    failure.__cause__ = raised
    return failure


def _offered(linked: Linked, grant: Grant) -> dict[str, Callable[..., Any]]:
    """The tools an agent function may use, each checking its arguments as a step's call would."""

    def offer(tool: Tool) -> Callable[..., Any]:
        def call(**given: Value) -> Any:
            return tool.function(**tool.check(isolate(given)))

        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.description
        return call

    return {name: offer(tool) for name, tool in linked.tools.items() if grant.allows(name)}


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
    may = ", ".join(sorted(grant.tools or ())) or "none"
    return Diagnostic("step.not-allowed", f"{grant.identity!r} may not use tool {tool!r}", span, f"it may use {may}")


def _placed(error: StepError, step: Invoke, names: tuple[tuple[str, Span | None], ...]) -> StepError:
    """An error from below that knows no place in the definition, at the step's name (or the argument it is about)."""
    found = error.diagnostic
    if found.span is not None:
        return error
    about = next((span for name, span in names if span is not None and repr(name) in found.message), None)
    placed = Diagnostic(found.code, found.message, about or step.name.span or step.span, found.hint)
    again = _anew(error)
    again.diagnostics = (placed,)
    return again


def _anew(error: StepError) -> StepError:
    """The same error as this run's own: a run inside a tool has said where in its own steps it happened."""
    again = type(error).__new__(type(error), *error.args)  # a subclass of somebody's has an __init__ of its own
    again.__dict__.update({**error.__dict__, "at": None, "where": None})
    again.__cause__ = error.__cause__
    return again


def said(error: BaseException, shown: Callable[[str], str] = str, most: int = 500) -> str:
    """An exception of user code in a line: its class and its text, if it has one."""
    try:
        text = shown(str(error))
    except BaseException as worse:
        text = f"(its text cannot be had: {type(worse).__name__})"
    text = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


CALL: dict[type, Callable[..., Awaitable[Value]]] = {
    Tool: _tool,
    Agent: _agent,
    Linked: _called,
    type(None): _nobody,
}
