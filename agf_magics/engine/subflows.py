"""Calls of another flow: within its own limits, under a grant that only ever narrows, its steps
under the call's moment."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Awaitable

from ..flow.frame import FlowInput, FlowResult, Frame
from ..flow.steps import Flow, Invoke, Repeat
from ..flow.values import Value
from ..host.deadline import OutOfTime, within
from ..host.limits import LimitReached, Meter
from ..host.loop import later
from ..progress import events as ev
from ..text.diagnostics import Diagnostic, StepError
from . import dry_run as dry
from .boundary import must_conform
from .linked import Linked, named_tools
from .questions import permitted
from .runner import Index, Runner, Scope, ShapeResult, clock


async def call_flow(run: Runner, step: Invoke, linked: Linked, frame: Frame, scope: Scope, index: Index) -> Value:
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
    named = named_tools(step, scope.linked, scope.grant)
    meters = (*scope.meters, *metered(linked.flow, scope.calls + 1))
    grant = scope.grant.narrow(named, linked.uses)
    if linked.agent is not None:  # the identity is the agent's; it only ever narrows (decision A12)
        grant = grant.narrow(linked.agent.tools, identity=step.name.text or None)
    # What nobody waits for never runs on the thread that waits for the run: by then that one may be gone.
    beside = scope.concurrent or not step.awaited
    inner = scope._replace(
        linked=linked, before=at, grant=grant, calls=scope.calls + 1, meters=meters, concurrent=beside
    )
    if not step.awaited and not run.dry:
        later(_forgotten_flow(run, step, inner, FlowInput(given, pipe)), run.host)
        return None
    value = (await _within(step, in_time(linked.flow, run.run_flow(inner, FlowInput(given, pipe))))).output
    if run.dry:
        value = dry.readable(value, step, scope.linked)
    if step.gives is not None:
        must_conform(value, step, scope.linked)
    if not step.keeps:
        return value
    return ShapeResult(value, given if linked.agent is None else given.get("input"))


async def _within(step: Invoke, work: Awaitable[FlowResult]) -> FlowResult:
    """Do ``work`` within the seconds that the step allows."""
    if step.timeout is None:
        return await work
    with contextlib.suppress(OutOfTime):
        return await within(step.timeout, work)
    message = f"{step.name.text or step.word!r} took longer than {step.timeout:g} s"
    raise StepError(Diagnostic("step.timeout", message, step.name.span or step.span, "its step says so"))


def metered(flow: Flow, calls: int) -> tuple[Meter, ...]:
    """What counts for a definition that caps itself."""
    return () if flow.caps is None else (Meter(flow.name, flow.caps, calls),)


async def in_time(flow: Flow, work: Awaitable[FlowResult]) -> FlowResult:
    """Do ``work`` within the seconds that the definition itself allows."""
    if flow.caps is None or flow.caps.seconds is None:
        return await work
    with contextlib.suppress(OutOfTime):
        return await within(flow.caps.seconds, work)
    raise too_long(flow)


def too_long(flow: Flow, left: str = "") -> LimitReached:
    """That a flow has exceeded the time that its definition allows. ``left``: what could not be stopped."""
    assert flow.caps is not None, "a flow without caps has all the time"
    message = f"{flow.name!r} took longer than the {flow.caps.seconds:g} s it may take"
    return LimitReached(Diagnostic("limit.duration", message, flow.caps.span, left or "its own definition says so"))


def _is_session(flow: Flow) -> bool:
    """Whether running it opens a session of a model, which counts as one by itself."""
    return any(isinstance(step, Repeat) and step.session for step in flow.body.steps)


async def _forgotten_flow(run: Runner, step: Invoke, scope: Scope, given: FlowInput) -> None:
    """A flow that nobody waits for: of its steps nothing is told or kept, for the run may be over before them."""
    error: StepError | None = None
    unheard = copy.copy(run)
    unheard.emit, unheard.journal = lambda event: None, None
    try:
        await _within(step, in_time(scope.linked.flow, unheard.run_flow(scope, given)))
    except StepError as failure:
        error = failure
    except asyncio.CancelledError:
        run.emit(ev.BackgroundCallEnded(scope.before, clock(), stopped(step)))
        raise
    run.emit(ev.BackgroundCallEnded(scope.before, clock(), error))


def stopped(step: Invoke) -> StepError:
    """That a call that nobody waited for was cancelled."""
    message = f"{step.name.text or step.word!r} was cancelled before its end"
    return StepError(Diagnostic("run.cancelled", message, step.name.span or step.span))
