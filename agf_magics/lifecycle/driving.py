"""A run is started on the engine's loop or on the caller's, and its end is recorded before any
waiter sees it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial

from ..engine import run as engine
from ..engine.runner import clock
from ..engine.subflows import duration_exceeded
from ..host import host, job
from ..host.held import Held, hold_for
from ..host.prints import watched_stdout
from ..progress.events import Event, Warned
from ..settings import current
from ..text.diagnostics import AgfError, StepError
from ..workers.queue import CallQueue
from .live import live
from .run import Run
from .secret_flow import secret_paths


def wait_for(run: Run, held: Held, wait: Callable[[Run], object] = Run.wait) -> Run:
    """Wait for the end of a run that was started while interrupts are ``held``. An exception
    cancels the run; an interrupt raises nothing."""
    try:
        wait(run)
    except BaseException:
        run.cancel("interrupt")
        raise
    finally:
        held.ended = True
    return run


def was_interrupted(run: Run) -> bool:
    """Whether the run was asked to stop, even if it had completed by then."""
    return run._cancel_reason is not None


def start_on_engine(
    run: Run,
    emit: Callable[[Event], None],
    enter: Callable[[], None] | None = None,
    background: bool = False,
) -> None:
    """Start ``run`` on the engine's loop and return at once."""
    run.background, run._emit = background, emit
    if not background:
        hold_for(run.cancel)
    _hold_context(run)
    live.add(run)
    try:
        run._job = job.Job(
            partial(_main, run),
            enter=enter,
            waited=not background,
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


async def run_here(run: Run, emit: Callable[[Event], None]) -> None:
    """Run ``run`` on the running loop to its end. Raises CancelledError if the awaiting task was
    cancelled, but not if only the run was."""
    run._emit, task, loop = emit, asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    run._stop = lambda: loop.call_soon_threadsafe(task.cancel)
    _hold_context(run)
    live.add(run)
    outcome: tuple[engine.Done] | BaseException
    try:
        outcome = (await host.here(partial(_main, run)),)
    except BaseException as error:
        outcome = error
    run._stop = None
    _end(run, outcome)
    if isinstance(outcome, asyncio.CancelledError) and run._reason is not None:
        task.uncancel()
    elif isinstance(outcome, BaseException) and not isinstance(outcome, AgfError):
        raise outcome


async def _main(run: Run, place: host.Host) -> engine.Done:
    run._place = place
    place.asker = run._asker or (current.ask if place.waited else current.ask_in_background)
    whole = None
    if run._workers is not None:
        from ..workers.elements import Elements  # here: a run without workers does not import it

        queue = CallQueue(run._workers, lambda found: run._emit(Warned(clock(), found)))
        place.queue, whole = queue, Elements(queue.dispatcher)
    with watched_stdout() if run._stream else contextlib.nullcontext():
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
            stream=run._stream,
            budget=run._budget,
            progress=run.progress if run._emit == run.progress.apply else None,
            whole=whole,
        )


def _end(run: Run, outcome: tuple[engine.Done] | BaseException) -> None:
    """Record the end on the run."""
    _release_context(run)
    match outcome:
        case (done,):
            run.output = done.ended.output
            run.calls, run.sessions = done.calls, done.sessions
        case asyncio.CancelledError() as stop:
            run._end_early("cancelled", getattr(stop, "left_running", "left running"))
            run._set_cancelled(stop)
            if run._cancel_reason in (None, "interrupt"):
                live.interrupted.append((run, time.monotonic()))
        case AgfError() as error:
            assert isinstance(error, StepError), "every failure in a run is a step's failure"
            run._end_early("error", error.diagnostic.hint or "left running", error)
            run.error = error
        case BaseException() as bug:
            run._bug = bug
    if run._queue is not None:
        run._queue.close()
    live.end(run)


def _limit(run: Run) -> job.Limit | None:
    """The time after which the run is ended from outside if a tool prevents it from ending."""
    own, cap = run.limits.timeout, run.flow.caps.seconds if run.flow.caps is not None else None
    if own is not None and (cap is None or own <= cap):
        return job.Limit(own, lambda left: engine.timeout_exceeded(run._linked, run.limits, left))
    if cap is not None:
        return job.Limit(cap, lambda left: duration_exceeded(run.flow, left))
    return None


def _hold_context(run: Run) -> None:
    """Lock the run's named context while it runs."""
    if run.context is not None:
        run.context.hold(run.run_id)


def _release_context(run: Run) -> None:
    """Unlock it, without secrets in its log."""
    context, extension = run.context, run.flow.extension
    if context is None:
        return
    if context.holder == run.run_id and context.log is not None and extension is not None:
        paths = secret_paths(run._linked)
        if paths or run.secrets.active:
            context.log = extension.without_secrets(context.log, paths, run.secrets.holds_any)
    context.release(run.run_id)
