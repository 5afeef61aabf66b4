"""Runs a linked flow from the first event to the result, within its limits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial

from ..flow.expression_warnings import expression_listener
from ..flow.flow import Flow, stores_in
from ..flow.progress import events as ev
from ..flow.progress.question import Unanswered
from ..flow.protocols import FlowInput, FlowResult, Frame
from ..flow.step import Step
from ..journal.run_journal import Journal
from ..journal.secrets.masking import Secrets
from ..limits.budgets import LimitReached, Meter
from ..limits.grants import Grant, granted, inside
from ..limits.limits import TIMEOUT, Limits
from ..text.diagnostics import Diagnostic, StepError
from ..values.extent import extents
from ..values.unread import ReadWhenUsed, read_all
from ..values.value import Value
from .host.deadline import Deadline, OutOfTime, within
from .host.host import Host
from .late_values import when_read
from .linking.linked import Linked
from .run_options import RunOptions
from .runner import RunCounts, Runner, Scope, Shape, clock
from .threads.prints import printing
from .threads.rights import rights, watch_threads


async def run(
    linked: Linked,
    flow_input: FlowInput,
    options: RunOptions,
    *,
    host: Host,
    emit: Callable[[ev.Event], None],
    journal: Journal | None = None,
    secrets: Secrets | None = None,
    on_frame: Callable[[Frame], None] | None = None,
    counts: RunCounts | None = None,
    shapes: Mapping[type[Step], Shape],
) -> FlowResult:
    """Run ``linked`` to its end and emit everything that happens. RunEnded is the last event, but
    for the events of background calls that go on.

    A run that a tool or an agent starts has the rights of that tool or agent. With a ``journal``
    the run is journaled under its manifest, and calls that earlier sessions made are not repeated.
    ``secrets``: collects the values of secret arguments. ``on_frame``: is called with each frame
    that the outermost flow reaches. ``counts``: counts what the run does. ``shapes``: the function
    that runs each kind of step.

    Raises StepError if a step fails, and CancelledError if the run is cancelled.
    """
    runner = Runner(shapes, options, host, emit, journal, secrets, on_frame, counts)
    # No line between this event and the `try` may await or raise: a RunEnded must follow.
    emit(ev.RunStarted(linked.flow.name, clock()))
    failure: BaseException | None = None
    patience: float | None = None
    watch_threads()
    grant = rights().grant
    with _context_of(runner, grant):
        try:
            async with Deadline(runner.budget.limits.timeout, host):
                result = await _run_flow(runner, linked, flow_input, grant)
        except asyncio.CancelledError:
            await _wait_until_recorded(runner)
            _end(runner, "cancelled", None, _stores(runner, linked))
            raise
        except OutOfTime:
            # Without a cause, which would only show frames of the engine.
            failure = timeout_exceeded(linked, runner.budget.limits)
            patience = host.grace
        except RecursionError:  # raised by the engine itself
            failure = _too_deep(linked)
        except BaseException as error:
            failure = error
    # Outside of `except`, so that the failure is not the context of an error below.
    if failure is not None:
        await _fail(runner, linked, failure, patience)
        raise failure
    _warn(runner, result.notes)
    _end(runner, "ok", result.output, result.stores)
    return result


@contextlib.contextmanager
def _context_of(runner: Runner, grant: Grant) -> Iterator[None]:
    """Set the context variables by which the steps of a run and their user code find it."""
    outer_grant = granted.set(grant)
    outer_inside = inside.set(True)
    outer_listener = expression_listener.set(
        lambda warning: runner.warn_once(warning, warning.message)
    )
    # If a tool starts a watched run, the prints of its steps are not those of the tool.
    outer_prints = printing.set(None) if runner.stream else None
    outer_extents = extents.set(runner.extents)
    try:
        yield
    finally:
        granted.reset(outer_grant)
        inside.reset(outer_inside)
        expression_listener.reset(outer_listener)
        extents.reset(outer_extents)
        if outer_prints is not None:
            printing.reset(outer_prints)


async def _run_flow(
    runner: Runner, linked: Linked, flow_input: FlowInput, grant: Grant
) -> FlowResult:
    """Run the steps, between the two writes of the run to its journal."""
    flow = linked.flow
    journal = runner.journal
    if journal is not None:
        # Inside the time limit, because a journal may wait for a slow disk or another process.
        await journal.start(runner.emit)
    narrowed = grant.narrow(linked.uses, asked=linked.tools_that_ask)
    scope = Scope(linked, grant=narrowed, meters=meters_of(flow, 0))
    result = await within_own_limits(flow, runner.run_flow(scope, flow_input))
    if runner.has_unread:
        output = await when_read(partial(read_all, result.output))
        result = result._replace(output=output)
    if journal is not None:
        await journal.before_end(result.output)
    return result


async def _fail(
    runner: Runner, linked: Linked, failure: BaseException, patience: float | None
) -> None:
    """End a failed run. ``patience``: the longest wait for results that are being recorded, in
    seconds; None: no limit."""
    stores = _stores(runner, linked)
    _warn(runner)
    if isinstance(failure, StepError):
        failure.ended_run = True
        # The error of a fan-out that ran to its end has the results of the fan-out already.
        if failure.partial is None:
            failure.partial = ReadWhenUsed(stores) if runner.has_unread else stores
    await _wait_until_recorded(runner, patience)
    status = "waiting" if isinstance(failure, Unanswered) else "error"
    _end(runner, status, None, stores, failure)


def _warn(runner: Runner, notes: Iterable[Diagnostic] = ()) -> None:
    """Emit the warnings that are known only at the end: ``notes``, and those of the run's
    options."""
    for note in (*notes, *runner.options.notes()):
        runner.emit(ev.Warned(clock(), note))


async def _wait_until_recorded(runner: Runner, seconds: float | None = None) -> None:
    """Wait for the results that are being recorded, unless the run is cancelled (again).
    ``seconds``: the longest wait; default None: no limit."""
    if runner.journal is not None:
        with contextlib.suppress(asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout(seconds):
                await runner.journal.storing.all()


def _end(
    runner: Runner,
    status: str,
    output: Value,
    stores: Mapping[str, Value],
    error: BaseException | None = None,
) -> None:
    """Close the journal, and emit the end of the run."""
    if runner.journal is not None:
        # Closed before the event, because its listeners may resume or read the run.
        runner.journal.end(status, output, stores, error)
        runner.journal.unread.end()
    runner.emit(ev.RunEnded(clock(), status, error, stores))


def _stores(runner: Runner, linked: Linked) -> Mapping[str, Value]:
    """The stores of a run that did not complete."""
    if runner.reached is None:
        return {}
    return stores_in(linked.flow, runner.reached)


def timeout_exceeded(linked: Linked, limits: Limits, left_running: str = "") -> StepError:
    """The error for a run that exceeded its timeout. ``left_running``: the words for calls that
    could not be stopped."""
    message = f"{linked.flow.name!r} took longer than its timeout of {limits.timeout:g} s"
    hint = left_running or TIMEOUT.how_to_set
    return StepError(Diagnostic("limit.timeout", message, None, hint))


def _too_deep(linked: Linked) -> StepError:
    message = f"{linked.flow.name!r} nests steps and calls of flows deeper than a run can go"
    hint = "put steps one after another instead of inside each other"
    return LimitReached(Diagnostic("limit.nesting", message, linked.flow.origin.span, hint))


def meters_of(flow: Flow, calls: int) -> tuple[Meter, ...]:
    """The counters of a definition with its own limits; empty if it has none."""
    if flow.declared.own_limits is None:
        return ()
    return (Meter(flow.name, flow.declared.own_limits, calls),)


async def within_own_limits(flow: Flow, work: Awaitable[FlowResult]) -> FlowResult:
    """The result of ``work``, within the definition's own time limit."""
    own_limits = flow.declared.own_limits
    seconds = own_limits.seconds if own_limits is not None else None
    return await within(seconds, work, lambda: duration_exceeded(flow))


def duration_exceeded(flow: Flow, left_running: str = "") -> LimitReached:
    """The error for a flow that took longer than its definition allows. ``left_running``: the words
    for calls that could not be stopped."""
    own_limits = flow.declared.own_limits
    assert own_limits is not None, "only a flow with limits of its own has a duration"
    message = (
        f"{flow.name!r} took longer than the {own_limits.seconds:g} s that its definition allows"
    )
    return LimitReached(
        Diagnostic("limit.duration", message, own_limits.span, left_running or None)
    )
