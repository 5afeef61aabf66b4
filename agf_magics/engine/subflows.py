"""Calls of another flow: under its own limits and a narrower grant, with its steps below the path
of the call."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Mapping
from dataclasses import replace

from ..catalog.attachments import MAX_FILES, MAX_TOTAL, Attachment, read_attachment, refused
from ..flow.frame import FlowInput, FlowResult
from ..flow.steps import Flow, Invoke, Repeat
from ..flow.values import Value
from ..host.deadline import OutOfTime, within
from ..host.limits import LimitReached, Meter
from ..host.loop import start_background
from ..progress import events as ev
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from . import dry_run as dry
from .call import check_result, stopped
from .linked import Linked, named_tools
from .questions import permitted
from .runner import CallSite, Scope, ShapeResult, StepEvents, clock
from .streaming import separate_prints


async def call_flow(site: CallSite[Invoke], linked: Linked) -> Value:
    run, step, scope = site.run, site.step, site.scope
    pipe = step.pipe.evaluate(site.frame) if step.pipe is not None else None
    given = step.args.build(site.frame, linked.flow.accepts if step.wants else None)
    if step.kind == "agent":  # an identity that is a flow counts like any other agent
        if step.spawns and not _is_session(linked.flow):
            run.budget.spawn(step.span)
        given = given if linked.agent is not None else given.get("input", given)
        if step.asking.attach:
            given = {**given, "attach": []} if run.dry else await attach_files(site, given)
    for meter in scope.meters:
        meter.open(scope.calls + 1)
    if step.permit is not None:
        instead = await permitted(site, given)
        if instead is not None and step.instead is not None:
            if step.instead.result in instead:
                return instead[step.instead.result]
            given = {**given, **instead}
    inner, flow_input = _scope_inside(site, linked), FlowInput(given, pipe)
    if not step.awaited and not run.dry:
        start_background(_run_fired(site, inner, flow_input), run.host)
        return None
    if step.while_waiting is not None:
        run.watched[inner.before] = {}
    try:
        ended = await _within_timeout(
            step, within_caps(linked.flow, run.run_flow(inner, flow_input))
        )
    except ev.Unanswered:
        _show_waiting(site, inner)
        raise
    for note in ended.notes:
        run.emit(ev.Warned(clock(), note))
    value = ended.output
    if run.dry:
        value = dry.add_fields(value, step, scope.linked)
    if step.gives is not None:
        check_result(value, step, scope.linked)
    if not step.keeps:
        return value
    return ShapeResult(value, given if linked.agent is None else given.get("input"))


def _show_waiting(site: CallSite[Invoke], inner: Scope) -> None:
    """Show stores of a flow that waits for an answer in the stores of the waiting run."""
    show, frame = site.step.while_waiting, site.run.watched.get(inner.before)
    if show is None or not frame:
        return
    flow = inner.linked.flow
    stores = flow.kept(frame) if flow.kept is not None else flow.end(frame).stores
    site.run.reach(site.scope, show(site.frame, stores))


def _scope_inside(site: CallSite[Invoke], linked: Linked) -> Scope:
    """The scope of the steps of the called flow."""
    step, scope = site.step, site.scope
    grant = scope.grant.narrow(named_tools(step, scope.linked, scope.grant), linked.uses)
    if (
        linked.agent is not None
    ):  # the agent's identity, which narrows the grant further (decision A12)
        grant = grant.narrow(linked.agent.tools, identity=step.name.text or None)
    return scope._replace(
        linked=linked,
        before=site.at,
        grant=grant,
        calls=scope.calls + 1,
        meters=(*scope.meters, *meters_of(linked.flow, scope.calls + 1)),
        # The thread that waits for the run may be gone before a flow ends that is not awaited.
        concurrent=scope.concurrent or not step.awaited,
    )


async def _within_timeout(step: Invoke, work: Awaitable[FlowResult]) -> FlowResult:
    """``work``, within the timeout of the step."""
    if step.timeout is None:
        return await work
    try:
        return await within(step.timeout, work)
    except OutOfTime:
        message = f"{step.name.text or step.word!r} took longer than {step.timeout:g} s"
    raise StepError(
        Diagnostic(
            "step.timeout", message, step.name.span or step.span, "the step sets this timeout"
        )
    )


def meters_of(flow: Flow, calls: int) -> tuple[Meter, ...]:
    """The counters of a definition that limits itself."""
    return () if flow.caps is None else (Meter(flow.name, flow.caps, calls),)


async def within_caps(flow: Flow, work: Awaitable[FlowResult]) -> FlowResult:
    """``work``, within the time that the definition allows itself."""
    if flow.caps is None or flow.caps.seconds is None:
        return await work
    try:
        return await within(flow.caps.seconds, work)
    except OutOfTime:
        error = duration_exceeded(flow)
    raise error


def duration_exceeded(flow: Flow, left_running: str = "") -> LimitReached:
    """A flow took longer than its definition allows. ``left_running``: the calls that could not be
    stopped."""
    assert flow.caps is not None, "only a flow with caps has a duration"
    message = (
        f"{flow.name!r} took longer than the {flow.caps.seconds:g} s that its definition allows"
    )
    return LimitReached(Diagnostic("limit.duration", message, flow.caps.span, left_running or None))


def _is_session(flow: Flow) -> bool:
    """Whether the flow opens a session of a model, which is counted by itself."""
    return any(isinstance(step, Repeat) and step.session for step in flow.body.steps)


async def _run_fired(site: CallSite[Invoke], scope: Scope, given: FlowInput) -> None:
    """A flow that is not awaited. Its steps are neither emitted nor journaled, because the run may
    end before them. The tokens of its models are those of the call."""
    error: StepError | None = None
    separate_prints(site.run)
    silent = copy.copy(site.run)

    def emit_tokens(event: ev.Event) -> None:
        if type(event) is ev.TokensUsed:
            site.run.emit(event._replace(at=site.at))

    silent.emit, silent.journal, silent.stream = emit_tokens, None, False
    silent.steps = StepEvents(silent.emit)
    try:
        await _within_timeout(
            site.step, within_caps(scope.linked.flow, silent.run_flow(scope, given))
        )
    except StepError as failure:
        error = failure
    except asyncio.CancelledError:
        site.run.emit(ev.BackgroundCallEnded(site.at, clock(), stopped(site.step)))
        raise
    site.run.emit(ev.BackgroundCallEnded(site.at, clock(), error))


# --- images and documents for an agent's session ---

READ = "file__read"
"""The tool that an agent must be allowed to use to attach a file."""


async def attach_files(site: CallSite[Invoke], given: Mapping[str, Value]) -> dict[str, Value]:
    """The arguments of a session with descriptions of the attachments; their bytes are in
    ``run.models.files``, so that the journal stores no bytes.

    Raises StepError ``agent.attach``, ``tool.file-path``, ``step.not-allowed`` at the expression.
    """
    each = [
        (part, span)
        for value, span in zip(given["attach"], site.step.asking.attach, strict=True)
        for part in (value if type(value) is list else [value])
    ]
    found, total = list[Attachment](), 0
    for value, span in each:
        if len(found) == MAX_FILES:
            raise _placed(
                refused(f"more than {MAX_FILES} attachments", "divide them among several steps"),
                span,
            )
        if type(value) is str and not site.scope.grant.allows(READ):
            message, hint = (
                f"{site.scope.grant.identity!r} may not attach a file",
                f"allow the tool {READ}",
            )
            raise StepError(Diagnostic("step.not-allowed", message, span, hint))
        ok, read = await site.run.host.call("thread", read_attachment, {"value": value})
        if not ok:
            raise _placed(read, span) if isinstance(read, StepError) else read
        total += len(read.data)
        if total > MAX_TOTAL:
            hint = (
                f"they have at most {MAX_TOTAL:,} bytes: make them smaller, or divide them "
                f"among several steps"
            )
            raise _placed(refused("the attachments are too large together", hint), span)
        found.append(read)
    described = [one.describe() for one in found]
    for one, about in zip(found, described, strict=True):
        site.run.models.files[about["sha256"]] = one.data
    return {**given, "attach": described}


def _placed(error: StepError, span: Span) -> StepError:
    return StepError(replace(error.diagnostic, span=span))
