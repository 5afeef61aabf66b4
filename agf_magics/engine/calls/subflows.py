"""Calls another flow: under its own limits and a narrower grant, its steps below the path of the
call.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable
from functools import partial
from typing import Any

from ...flow.flow import Flow, stores_in
from ...flow.progress import events as ev
from ...flow.progress.question import Unanswered
from ...flow.protocols import FlowInput, FlowResult
from ...flow.steps import Invoke
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from ..host.deadline import within
from ..late_values import when_read
from ..linking.linked import Linked, named_tools
from ..run import meters_of, within_own_limits
from ..runner import CallSite, Scope, ShapeResult, clock
from . import dry_run as dry
from .approvals import ask_permission
from .attach import attach_files
from .call import check_result
from .failures import OWN_TIMEOUT
from .fired_calls import fire
from .model_usage import usage_of
from .table_rows import call_row


async def call_linked(site: CallSite[Invoke], linked: Linked) -> Value:
    """Call a flow: once, or as a row of a table."""
    if site.step.exchange.row is not None:
        return await call_row(site, linked, call_flow)
    return await call_flow(site, linked)


async def call_flow(site: CallSite[Invoke], linked: Linked) -> Value:
    """Call the flow ``linked``. Limits and approvals come before the call, the checks of its result
    after it."""
    run = site.run
    step = site.step
    scope = site.scope
    arguments, pipe = await when_read(partial(_build_input, site, linked))
    # An agent that is a flow counts as a session here. A session with a model counts itself.
    if step.kind == "agent" and linked.agent is None:
        if step.asking.counts_as_session:
            run.open_session(step.span)
        arguments = arguments.get("input", arguments)
    if step.asking.attach:
        arguments = (
            {**arguments, "attach": []} if run.options.dry else await attach_files(site, arguments)
        )
    for meter in scope.meters:  # each flow around may limit the depth of calls
        meter.open(scope.calls + 1)
    if step.permit is not None:
        reply = await ask_permission(site, arguments)
        if reply.result is not None:
            return reply.result[0]
        if reply.arguments is not None:
            arguments = reply.arguments
    inner = _scope_inside(site, linked)
    flow_input = FlowInput(arguments, pipe)
    if not step.awaited and not run.options.dry:
        work = partial(_run_silently, scope=inner, flow_input=flow_input)
        return await fire(site, linked.flow, arguments, work)
    if step.exchange.while_waiting is not None:
        # Set only here, so that `Runner.reach` costs nothing for other flows.
        run.watched[inner.before] = {}
    try:
        ended = await _within_limits(step, linked.flow, run.run_flow(inner, flow_input))
    except Unanswered:
        _show_waiting(site, inner)
        raise
    for note in ended.notes:
        run.emit(ev.Warned(clock(), note))
    value = _checked_output(site, ended.output)
    if not step.exchange.keep_arguments:
        return value
    return ShapeResult(value, arguments if linked.agent is None else arguments.get("input"))


def _build_input(site: CallSite[Invoke], linked: Linked) -> tuple[Any, Value]:
    """The arguments and the pipe of the call."""
    step = site.step
    pipe = step.exchange.pipe.evaluate(site.frame) if step.exchange.pipe is not None else None
    schema = linked.flow.declared.accepts if step.exchange.with_schema else None
    return step.args.build(site.frame, schema), pipe


def _checked_output(site: CallSite[Invoke], output: Value) -> Value:
    """``output`` of the called flow. Raises StepError if it does not conform to the schema of the
    step."""
    step = site.step
    linked = site.scope.linked
    value = dry.add_fields(output, step, linked) if site.run.options.dry else output
    if step.gives is not None:
        check_result(value, step, linked)
    return value


def _show_waiting(site: CallSite[Invoke], inner: Scope) -> None:
    """Show stores of a flow that waits for an answer in the stores of the waiting run."""
    show = site.step.exchange.while_waiting
    frame = site.run.watched.get(inner.before)
    if show is None or not frame:
        return
    site.run.reach(site.scope, show(site.frame, stores_in(inner.linked.flow, frame)))


def _scope_inside(site: CallSite[Invoke], linked: Linked) -> Scope:
    """The scope of the steps of the called flow."""
    step = site.step
    scope = site.scope
    named = named_tools(step, scope.linked, scope.grant)
    grant = scope.grant.narrow(named, linked.uses, asked=linked.tools_that_ask)
    # The agent's identity narrows the grant further (decision A12).
    if linked.agent is not None:
        grant = grant.narrow(linked.agent.tools, identity=step.name.text or None)
    return scope._replace(
        linked=linked,
        before=site.path,
        grant=grant,
        calls=scope.calls + 1,
        meters=(*scope.meters, *meters_of(linked.flow, scope.calls + 1)),
        # A background flow may outlive the thread that waits for the run.
        concurrent=scope.concurrent or not step.awaited,
    )


async def _within_limits(step: Invoke, flow: Flow, work: Awaitable[FlowResult]) -> FlowResult:
    """The result of ``work``, within the timeout of the step and the definition's own time
    limit."""

    def late() -> StepError:
        message = f"{step.name.text or step.word!r} took longer than {step.timeout:g} s"
        span = step.place
        return StepError(Diagnostic("step.timeout", message, span, OWN_TIMEOUT))

    return await within(step.timeout, within_own_limits(flow, work), late)


async def _run_silently(site: CallSite[Invoke], scope: Scope, flow_input: FlowInput) -> None:
    """Run a background flow. Its steps are neither emitted nor journaled, because the run may end
    before them. The tokens of its models count for the call, and are journaled with it."""
    # The flow shares host, budget and secrets. It has no listener, journal and rows, because the
    # run may have ended and its page is stored.
    silent = copy.copy(site.run)
    journal = site.run.journal

    def emit_tokens(event: ev.Event) -> None:
        if type(event) is ev.TokensUsed:
            site.run.emit(event._replace(at=site.path))
            if journal is not None:
                journal.note_paid(site.key, event.model, usage_of(event))

    silent.emit = emit_tokens
    silent.journal = None
    silent.stream = False
    await _within_limits(site.step, scope.linked.flow, silent.run_flow(scope, flow_input))
