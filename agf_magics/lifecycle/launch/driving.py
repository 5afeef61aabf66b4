"""A prepared run is driven to its end: on the engine's loop, on this thread, or awaited."""

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
from ...engine.host import loop as loop_module
from ...engine.host.held_interrupt import INTERRUPT, Held
from ...engine.host.hold_interrupts import hold_for
from ...engine.host.prompts import Prompts
from ...engine.run import duration_exceeded
from ...engine.runner import clock
from ...engine.shapes.step_functions import SHAPES
from ...engine.threads.prints import watched_stdout
from ...flow.progress.events import Event, Warned
from ...flow.progress.progress import AFTER_END
from ...settings.folders import keep_journal
from ...settings.settings import current
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...text.raised import describe_exception
from ..input.options import replaying
from ..runs.live import live
from ..runs.run import Run, RunInterrupted


def make_emitter(run: Run) -> Callable[[Event], None]:
    """A function that applies each event to the progress of ``run`` and passes it to its listener,
    to its queue and to its trace without secrets. A listener that raises is dropped with a
    warning."""
    progress, secrets, queue = run.progress, run.secrets, run._queue
    spans = None
    if current.tracing is not None or current.settings.tracing:
        from .tracing import start_trace

        spans = start_trace(run)
    put = queue.put if queue is not None else None
    listeners = list(filter(None, (put, run._options.on_event, spans)))
    if not listeners:
        return progress.apply

    def emit(event: Event) -> None:
        if progress.ended is not None and type(event) not in AFTER_END:
            return
        progress.apply(event)
        shown = secrets.event(event) if secrets.active else event
        for notify in list(listeners):
            try:
                notify(shown)
            except Exception as error:
                listeners.remove(notify)
                what = "tracing" if notify is spans else "on_event"
                message = f"{what} raised {describe_exception(error)}; it is not called again"
                progress.apply(
                    Warned(clock(), Diagnostic("run.listener", message, severity="warning"))
                )

    return emit


def wait_for(run: Run, held: Held, wait: Callable[[Run], object] = Run.wait) -> Run:
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
    if run._interrupted:
        raise RunInterrupted(run)
    return run


def start_on_engine(run: Run) -> None:
    """Start ``run`` on the engine's loop and return at once."""
    run._emit = make_emitter(run)
    if not run.background:
        hold_for(run.cancel)
    _hold_context(run)
    live.add(run)
    try:
        run._job = job.Job(
            partial(_main, run),
            enter=partial(run._options.enter, run) if run._options.enter else None,
            waited=not run.background,
            over=partial(_end, run),
            limit=_limit(run),
        )
        run._job.start()
        if run._reason is not None:
            run._job.cancel(run._reason)
    except BaseException:
        if run._is_started:
            run.cancel("the start was interrupted")
        else:
            _release_context(run)
            live.end(run)
        raise


async def run_here(run: Run) -> None:
    """Run ``run`` on the running loop to its end. Raises the CancelledError of the awaiting task
    if that was cancelled, but not if only the run was."""
    run._emit = make_emitter(run)
    loop = asyncio.get_running_loop()
    _hold_context(run)
    live.add(run)
    # A task of its own: anyio cancels the awaiting task again and again until it ends, and calls
    # that stop would lose their grace. And the context of the caller stays as it is.
    task = loop.create_task(_outcome_of(run))
    run._stop = lambda: loop.call_soon_threadsafe(task.cancel)
    stop = await _finish(task)
    run._stop = None
    outcome = asyncio.CancelledError() if task.cancelled() else task.result()
    _end(run, outcome)
    if stop is not None:
        raise stop  # itself: anyio knows its cancellation by its message
    if isinstance(outcome, BaseException) and not isinstance(
        outcome, AgfError | asyncio.CancelledError
    ):
        raise outcome


async def _outcome_of(run: Run) -> tuple[engine.Done] | BaseException:
    """What came of it. As a value: a KeyboardInterrupt that leaves a task ends the loop, too."""
    try:
        return (await loop_module.here(partial(_main, run)),)
    except BaseException as error:
        return error


async def _finish(task: asyncio.Task[Any]) -> asyncio.CancelledError | None:
    """Wait until ``task`` ends, and cancel it if this one is cancelled; with what cancelled it."""
    stop: asyncio.CancelledError | None = None
    try:
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                # The same again is no second cancellation of a person, who gives no message.
                if stop is None or not error.args or error.args != stop.args:
                    task.cancel()
                stop = stop or error
    finally:
        task.cancel()  # of no effect unless the loop was closed around it
    return stop


async def _main(run: Run, place: host.Host) -> engine.Done:
    run._place = place
    options, recording = run._options, run._options.recording
    place.asker = options.ask or (current.ask if place.waited else current.ask_in_background)
    replaying.set(recording)
    # A call that is not recorded is made here: there may be few.
    if run._workers is not None and (recording is None or not recording.replays_tools):
        from ...workers.call_queue import CallQueue

        place.queue = CallQueue(run._workers, lambda warning: run._emit(Warned(clock(), warning)))
    with watched_stdout() if options.stream else contextlib.nullcontext(), Prompts(place)():
        return await engine.run(
            run._linked,
            run._given,
            host=place,
            emit=run._emit,
            limits=run.limits,
            dry=run.dry,
            journal=run.journal,
            work=run.work,
            secrets=run.secrets,
            stream=options.stream,
            budget=options.budget,
            progress=run.progress if run._emit == run.progress.apply else None,
            recording=recording,
            notes=run._notes,
            shapes=SHAPES,
        )


def _end(run: Run, outcome: tuple[engine.Done] | BaseException) -> None:
    """Record the end on the run."""
    _release_context(run)
    match outcome:
        case (done,):
            run._output = done.ended.output
            run.calls, run.sessions = done.calls, done.sessions
        case asyncio.CancelledError() as stop:
            run._end_early("cancelled", getattr(stop, "left_running", "left running"))
            run._set_cancelled(stop)
            if run._interrupted or run._cancel_reason is None:
                live.interrupted.append((run, time.monotonic()))
        case AgfError() as error:
            assert isinstance(error, StepError), "every failure in a run is a step's failure"
            run._end_early("error", error.diagnostic.hint or "left running", error)
            run.error = error
        case BaseException() as bug:
            run._bug = bug
    if run._queue is not None:
        run._queue.put(None)
    live.end(run)
    if IN_BROWSER and run.journal is not None:
        keep_journal(run.journal.store)


def _limit(run: Run) -> job.Limit | None:
    """The time after which the run is ended from outside if a tool prevents it from ending."""
    timeout, caps, limits = run.limits.timeout, run.flow.declared.caps, list[job.Limit]()
    if timeout is not None:
        exceeded = partial(engine.timeout_exceeded, run._linked, run.limits)
        limits.append(job.Limit(timeout, exceeded))
    if caps is not None and caps.seconds is not None:
        limits.append(job.Limit(caps.seconds, partial(duration_exceeded, run.flow)))
    return min(limits, key=lambda limit: limit.seconds, default=None)


def _hold_context(run: Run) -> None:
    """Lock the run's named context while it runs."""
    if run.context is not None:
        run.context.hold(run.run_id)


def _release_context(run: Run) -> None:
    """Unlock it, without secrets in its log."""
    if (context := run.context) is not None:
        if context.holder == run.run_id:
            context.log = run._log_to_keep()
        context.release(run.run_id)
