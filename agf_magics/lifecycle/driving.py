"""The runs of this process.

A run is started on the engine's loop or on the caller's, and its end is recorded before any waiter
sees it. While it runs, it has a line of the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TextIO

from ..engine import host, job
from ..engine import runner as engine
from ..engine.concurrent import SHAPES
from ..engine.interrupts import Held, hold_for
from ..engine.runner import clock, duration_exceeded
from ..engine.user_code import watched_stdout
from ..flow.events import Event, Warned
from ..text.diagnostics import AgfError, StepError
from ..text.late_imports import IN_BROWSER
from ..workers.queue import CallQueue
from .input import replaying
from .persistence import keep_journal
from .run import Run
from .settings import current

JUST_NOW = 2.0
"""The longest time between the interrupt and the request to exit when a kernel is shut down, in
seconds."""


class Live:
    """The running runs, and the last background runs that have ended."""

    MAX_ENDED = 100

    def __init__(self) -> None:
        self._running: dict[str, Run] = {}
        self._ended: dict[str, Run] = {}
        self.interrupted: deque[tuple[Run, float]] = deque(maxlen=8)
        """The last runs that an interrupt cancelled, each with its end by the monotonic clock."""

    @property
    def running(self) -> tuple[Run, ...]:
        """All running runs, in the order of their starts."""
        return tuple(self._running.values())

    @property
    def ended(self) -> tuple[Run, ...]:
        """The last `MAX_ENDED` runs that ran in the background or left fire-and-forget calls, in
        the order of their ends."""
        return tuple(self._ended.values())

    def __iter__(self) -> Iterator[Run]:
        return iter((*self.ended, *self.running))

    def find(self, run_id: str) -> Run | None:
        return self._running.get(run_id) or self._ended.get(run_id)

    def add(self, run: Run) -> None:
        self._running[run.run_id] = run

    def end(self, run: Run) -> None:
        if (run.background or run._fired) and run.progress.ended is not None:
            self._ended[run.run_id] = run
            for old in list(self._ended)[: -self.MAX_ENDED]:
                self._ended.pop(old, None)
        self._running.pop(run.run_id, None)

    def forget(self) -> None:
        """Forget the runs that have ended."""
        self._ended.clear()
        self.interrupted.clear()

    def leave_open(self) -> None:
        """Prepare for the exit of the process. A kernel restart interrupts the kernel first, so a
        run that was interrupted just now counts as interrupted, not as cancelled by the user."""
        now = time.monotonic()
        for run in (
            *self.running,
            *(run for run, ended in list(self.interrupted) if now - ended < JUST_NOW),
        ):
            run._leave_open()


live = Live()
"""The one of this process. Its dicts are changed by single operations and read as snapshots: any
thread may read."""


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
        outcome = (await job.here(partial(_main, run)),)
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
    replaying.set(run._recording)
    recording = run._recording
    # A call that is not recorded is made here: there may be few.
    if run._workers is not None and (recording is None or not recording.replays_tools):
        place.queue = CallQueue(run._workers, lambda warning: run._emit(Warned(clock(), warning)))
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
    if IN_BROWSER and run.journal is not None:
        keep_journal(run.journal.store)


def _limit(run: Run) -> job.Limit | None:
    """The time after which the run is ended from outside if a tool prevents it from ending."""
    timeout, cap = run.limits.timeout, run.flow.caps.seconds if run.flow.caps is not None else None
    if timeout is not None and (cap is None or timeout <= cap):
        return job.Limit(
            timeout, lambda left: engine.timeout_exceeded(run._linked, run.limits, left)
        )
    if cap is not None:
        return job.Limit(cap, lambda left: duration_exceeded(run.flow, left))
    return None


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


_BEGIN = "\r\x1b[2K"
"""Goes to the begin of the line and empties it."""


class LiveLine:
    """It is written only into a terminal, and only while a run has it: what is left is the end of
    the run, which others write."""

    SECONDS = 0.25

    def __init__(self, file: TextIO) -> None:
        self._file, self._is_terminal, self._shown = file, file.isatty(), ""

    def show(self, run: Run) -> None:
        if not self._is_terminal or run.done or run.progress.asked:
            return self.clear()
        from ..pictures.page import live_line  # here: most processes have no such line

        text = live_line(run.progress, clock())[: shutil.get_terminal_size().columns - 1]
        if text != self._shown:
            self._shown = text
            self._file.write(f"{_BEGIN}{text}")
            self._file.flush()

    def clear(self) -> None:
        if self._shown:
            self._shown = ""
            self._file.write(_BEGIN)
            self._file.flush()
