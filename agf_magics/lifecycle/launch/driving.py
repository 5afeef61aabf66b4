"""Drives a prepared run to its end: on the engine's loop, on the current thread, or awaited."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ...compat.browser import IN_BROWSER
from ...engine import run as engine
from ...engine.host import host, job
from ...engine.host.held_interrupt import INTERRUPT, DeferredInterrupt
from ...engine.host.hold_interrupts import hold_for
from ...engine.host.prompts import Prompts
from ...engine.host.running_loop import here
from ...engine.recording import replaying
from ...engine.run import duration_exceeded
from ...engine.runner import clock
from ...engine.shapes.step_functions import SHAPES
from ...engine.threads.prints import watched_stdout
from ...flow.progress.events import (
    Event,
    ModelText,
    RunEnded,
    StepFinished,
    StepPrinted,
    Warned,
)
from ...flow.progress.progress import AFTER_END
from ...flow.protocols import FlowResult
from ...journal.codec.encoding import preview
from ...pictures.call_words import name_place
from ...settings.folders import keep_journal
from ...settings.settings import current
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...text.raised import describe_exception
from ...values.unread import LostError, ReadWhenUsed, read_all
from ..runs.live import live
from ..runs.run import Run, RunCancelled, RunInterrupted, state_of
from ..runs.state import RunState


def make_emitter(run: Run) -> Callable[[Event], None]:
    """A function that applies each event to the progress of ``run`` and passes it to its listener,
    to its queue and to its trace without secrets. A listener that raises is dropped with a
    warning."""
    state = state_of(run)
    progress = state.progress
    secrets = state.secrets
    queue = state.queue
    spans = None
    if current.tracing is not None or current.settings.tracing:
        from .tracing import start_trace

        spans = start_trace(run)
    put = queue.put if queue is not None else None
    listeners = list(filter(None, (put, _listener(state), spans)))
    if not listeners:
        return progress.apply

    def emit(event: Event) -> None:
        if progress.ended is not None and type(event) not in AFTER_END:
            return
        progress.apply(event)
        journal = state.journal
        event = _with_values(event) if journal is not None and journal.unread else event
        masked = secrets.event(event) if secrets.active else event
        for notify in list(listeners):
            try:
                notify(masked)
            except (KeyboardInterrupt, asyncio.CancelledError, GeneratorExit):
                raise  # of the person, or of the loop
            # Also what is no `Exception`: SystemExit, the outcomes of pytest.
            except BaseException as error:
                listeners.remove(notify)
                name = "tracing" if notify is spans else "on_event"
                message = f"{name} raised {describe_exception(error)}; it is not called again"
                warning = Diagnostic("run.listener", message, severity="warning")
                progress.apply(Warned(clock(), warning))

    return emit


def _listener(state: RunState) -> Callable[[Event], object] | None:
    """The person's function for the events of a run. If only the page of the run asked for what
    arrives in pieces, the function does not get it."""
    on_event, options = state.options.on_event, state.options
    if on_event is None or options.stream or not options.shown:
        return on_event
    return lambda event: None if isinstance(event, ModelText | StepPrinted) else on_event(event)


def _with_values(event: Event) -> Event:
    """``event`` with its stored values read, for a listener that looks at them."""
    match event:
        case StepFinished(_, _, value):
            try:
                return event._replace(value=read_all(value))
            except LostError:  # a step that needs the value makes the call again
                return event._replace(value=preview(value))
        case RunEnded():
            return event._replace(stores=ReadWhenUsed(event.stores))
    return event


def wait_for(run: Run, held: DeferredInterrupt, wait: Callable[[Run], object] = Run.wait) -> Run:
    """Wait for the end of a run that was started while interrupts are ``held``. An exception
    cancels the run. Raises RunInterrupted after its end if a person has interrupted it, so that no
    code goes on that only handles errors (decision D140)."""
    try:
        wait(run)
    except BaseException:
        run.cancel(INTERRUPT)
        raise
    finally:
        held.ended = True
    if state_of(run).is_interrupted:
        raise RunInterrupted(run)
    return run


def start_on_engine(run: Run) -> None:
    """Start ``run`` on the engine's loop and return at once."""
    state = state_of(run)
    state.emit = make_emitter(run)
    if not run.background:
        hold_for(run.cancel)
    _hold_context(state)
    live.add(run)
    try:
        if state.options.enter is not None:
            # Here, and not on the loop: the cell of a run in the background may have ended before
            # the loop comes to it, and what is shown then belongs to no cell.
            state.options.enter(run)
        state.job = job.Job(
            partial(_main, state),
            waited=not run.background,
            over=partial(_end, run),
            limit=_limit(state),
            cancelling=state.tell_cancelling,
        )
        state.job.start()
        if state.reason is not None:
            state.job.cancel(state.reason)
    except BaseException:
        if state.is_started:
            run.cancel("the start was interrupted")
        else:
            _release_context(state)
            live.end(run)
        raise


async def run_here(run: Run) -> None:
    """Run ``run`` on the running loop to its end. Raises the CancelledError of the awaiting task
    if that was cancelled, but not if only the run was."""
    state = state_of(run)
    state.emit = make_emitter(run)
    loop = asyncio.get_running_loop()
    _hold_context(state)
    live.add(run)
    # The run gets a separate task: anyio cancels the awaiting task again and again until it ends,
    # so that calls would lose their time to stop. The context of the caller also stays unchanged.
    task = loop.create_task(_outcome_of(state))

    def cancel() -> None:
        task.cancel()
        state.tell_cancelling()

    state.stop = lambda: loop.call_soon_threadsafe(cancel)
    stop = await _finish(task, cancel)
    state.stop = None
    outcome = asyncio.CancelledError() if task.cancelled() else task.result()
    _end(run, outcome)
    if stop is not None:
        raise stop  # the same object: anyio recognizes its cancellation by the message
    if isinstance(outcome, BaseException) and not isinstance(
        outcome, AgfError | asyncio.CancelledError
    ):
        raise outcome


async def _outcome_of(state: RunState) -> tuple[FlowResult] | BaseException:
    """The result of a run, in a tuple, or its error as a value: a KeyboardInterrupt that leaves a
    task ends the loop, too."""
    try:
        return (await here(partial(_main, state)),)
    except BaseException as error:
        return error


async def _finish(
    task: asyncio.Task[Any], cancel: Callable[[], None]
) -> asyncio.CancelledError | None:
    """Wait until ``task`` ends, and ``cancel`` it if the current task is cancelled. Returns the
    error that cancelled the current task; None: it was not cancelled."""
    stop: asyncio.CancelledError | None = None
    try:
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                # anyio repeats its cancellation with the same message, which does not count as a
                # second cancellation. A person's cancellation has no message.
                if stop is None or not error.args or error.args != stop.args:
                    cancel()
                stop = stop or error
    finally:
        task.cancel()  # has an effect only if the loop was closed around the run
    return stop


async def _main(state: RunState, place: host.Host) -> FlowResult:
    """Run the flow of a run on the loop. ``place``: the host that makes its calls."""
    state.place = place
    options = state.options
    recording = options.recording
    place.asker = options.ask or (current.ask if place.waited else current.ask_in_background)
    replaying.set(recording)
    # With a recording of the tools, calls that it lacks are made in this process: there are few.
    if state.workers is not None and (recording is None or not recording.replays_tools):
        from ...workers.call_queue import CallQueue

        place.queue = CallQueue(state.workers, lambda warning: state.emit(Warned(clock(), warning)))
    is_watched = options.stream or options.shown
    with watched_stdout() if is_watched else contextlib.nullcontext(), Prompts(place)():
        return await engine.run(
            state.linked,
            state.flow_input,
            options,
            host=place,
            emit=state.emit,
            journal=state.journal,
            secrets=state.secrets,
            counts=state.counts,
            shapes=SHAPES,
        )


def _end(run: Run, outcome: tuple[FlowResult] | BaseException) -> None:
    """Record the end on the run."""
    state = state_of(run)
    _release_context(state)
    match outcome:
        case (done,):
            state.output = done.output
        case asyncio.CancelledError() as stop:
            state.end_early("cancelled", getattr(stop, "left_running", "left running"))
            state.error = _cancellation(run, stop)
            if state.is_interrupted or state.cancel_reason is None:
                live.interrupted.append((run, time.monotonic()))
        case AgfError() as error:
            assert isinstance(error, StepError), "every failure in a run is a step's failure"
            state.end_early("error", error.diagnostic.hint or "left running", error)
            name_place(state.progress.rows, error)
            state.error = error
        case BaseException() as bug:
            state.end_early("error", "left running", bug)  # raised by our code around the engine
            state.bug = bug
    if state.queue is not None:
        state.queue.put(None)
    live.end(run)
    if IN_BROWSER and state.journal is not None:
        keep_journal(state.journal.store)


def _cancellation(run: Run, stop: asyncio.CancelledError) -> RunCancelled:
    """The error of a cancelled run: where it stopped, and why unless it was simply cancelled."""
    stopped = [row for row in run.progress.rows.values() if row.state in ("cancelled", "left")]
    where = f" in step {stopped[-1].name!r}" if stopped else ""
    reason = state_of(run).cancel_reason
    why = f" ({reason})" if reason not in (None, "cancelled") else ""
    message = f"run of {run.name!r} was cancelled{where}{why}"
    hint = getattr(stop, "left_running", None)
    error = RunCancelled(Diagnostic("run.cancelled", message, hint=hint))
    error.run = run
    return error


def _limit(state: RunState) -> job.Limit | None:
    """The time after which the run is ended from outside if a tool prevents it from ending."""
    timeout = state.limits.timeout
    caps = state.flow.declared.own_limits
    limits = list[job.Limit]()
    if timeout is not None:
        exceeded = partial(engine.timeout_exceeded, state.linked, state.limits)
        limits.append(job.Limit(timeout, exceeded))
    if caps is not None and caps.seconds is not None:
        limits.append(job.Limit(caps.seconds, partial(duration_exceeded, state.flow)))
    return min(limits, key=lambda limit: limit.seconds, default=None)


def _hold_context(state: RunState) -> None:
    """Lock the run's named context while it runs."""
    if (context := state.flow_input.context) is not None:
        context.hold(state.run_id)


def _release_context(state: RunState) -> None:
    """Unlock the run's named context, with the secrets removed from its log."""
    if (context := state.flow_input.context) is not None:
        if context.holder == state.run_id:
            context.log = state.log_to_keep()
        context.release(state.run_id)
