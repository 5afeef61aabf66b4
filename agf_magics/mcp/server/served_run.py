"""`ServedRun`, one run of a client, on the loop of the server: its progress, its questions, its
end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from ...flow.progress import events as ev
from ...flow.progress.question import Question
from ...flow.step_path import format_path
from ...lifecycle.runs.run import Run, state_of
from .open_question import OpenQuestion

EVERY = 0.2
"""Seconds between two reports of progress."""


class ServedRun:
    """A run, and the calls that wait for it on the loop of the server."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self.open_question = OpenQuestion(self._tell)
        self.done = 0
        """Steps that had finished at the last report of progress."""
        self.at = ""
        """The path of the step that finished last at that report."""
        self._finished = 0
        self._reported = 0.0
        """The time of the last report, on the monotonic clock."""
        self.run: Run | None = None
        """The run; None before `begin`."""
        self.ended: asyncio.Future[None] | None = None

    def begin(self, run: Run, at_end: Callable[[], None]) -> None:
        """Watch ``run``, which was started with `listen` and `open_question`. ``at_end``: called on
        the server's loop when the run has ended."""
        self.run = run
        self.ended = asyncio.ensure_future(self._wait())
        self.ended.add_done_callback(lambda _: at_end())

    async def _wait(self) -> None:
        assert self.run is not None, "it has begun"
        job = state_of(self.run).job
        if job is not None:
            await job.ended()

    def listen(self, event: ev.Event) -> None:
        """Count the steps; on the loop of the engine."""
        if type(event) is ev.StepFinished:
            self._finished += 1
            now = time.monotonic()
            if now - self._reported > EVERY:
                self._reported = now
                self.at = format_path(event.at)
                self.done = self._finished
                self._tell()

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the server's loop is closed
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        return self.ended is not None and self.ended.done()

    async def next(self, reported: int) -> Question | None:
        """Wait for a change, and return the question that is open then. ``reported``: the number of
        finished steps that the caller has reported. Returns at once if more steps have finished, a
        question is open or the run has ended."""
        assert self.ended is not None, "it has begun"
        if not self.has_ended and self.open_question.current is None and self.done <= reported:
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((changed, self.ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        return self.open_question.current
