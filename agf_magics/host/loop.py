"""The engine's own event loop, in one daemon thread per process.

Not the notebook's loop, which a waiting cell blocks. The loop beats, so that other threads see
whether it is blocked. If a tool blocks it (``time.sleep`` in an ``async def``), the next run gets a
new loop and a new thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, ClassVar

from . import calls, prints
from .forks import end_child
from .rights import NO_RIGHTS, under

BEAT = 0.25
STUCK = 2.0
"""Seconds without a beat after which the loop is asked for an answer."""
ANSWER = 0.5
"""Seconds for that answer: the process may have been stopped, or a thread may have held the
interpreter's lock."""
_CALLERS = (calls.__file__, prints.__file__)
"""The modules that call user code."""


class EngineLoop:
    """A loop and its thread. Use `current`."""

    _current: ClassVar[EngineLoop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.jobs: set[object] = set()
        """The jobs on the loop, which itself only has weak references to tasks."""
        self._beaten = time.monotonic()
        self._abandoned = False
        self._pid = os.getpid()
        self.thread = threading.Thread(
            target=under, args=(NO_RIGHTS, self._live), name="agf-engine", daemon=True
        )
        self.thread.start()

    @classmethod
    def current(cls) -> EngineLoop:
        """The loop of this process; a new one on first use, after a fork, and if the last one is
        blocked."""
        with cls._lock:
            found = cls._current
            if found is None or not found.thread.is_alive() or found.stuck():
                if found is not None:
                    found._abandoned = True
                found = cls._current = EngineLoop()
            return found

    def stuck(self) -> bool:
        if time.monotonic() - self._beaten < STUCK or self.runs_here():
            return False
        answers: SimpleQueue[None] = (
            SimpleQueue()
        )  # an interrupt can leave an Event locked, for the loop too
        self.loop.call_soon_threadsafe(answers.put, None)
        try:
            answers.get(timeout=ANSWER)
        except Empty:
            return True
        return False

    def runs_here(self) -> bool:
        return threading.current_thread() is self.thread

    def abandon(self) -> None:
        """Let `current` make a new one. If this loop continues, it ends with its last job."""
        with self._lock:
            self._abandoned = True
            if EngineLoop._current is self:
                EngineLoop._current = None

    def blocked_in(self) -> str:
        """The function and line that blocks it, in user code if that is running."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        if frame is None:
            return "a thread that ended"
        found = frame
        inner: FrameType = frame
        while frame is not None:
            if frame.f_code.co_filename in _CALLERS and inner.f_code.co_filename not in _CALLERS:
                found = inner
                break
            inner, frame = frame, frame.f_back
        return f"{found.f_code.co_name}, line {found.f_lineno}"

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._beat)
        while not self._abandoned or self.jobs:
            try:
                self.loop.run_forever()
            except BaseException as error:  # a SystemExit of a task that a tool created
                if os.getpid() != self._pid:
                    end_child((False, error))
        self.loop.run_until_complete(
            self.loop.shutdown_asyncgens()
        )  # closes the connections of models
        self.loop.close()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        if self._abandoned and not self.jobs:
            self.loop.stop()
        else:
            self.loop.call_later(BEAT, self._beat)


def run_apart(main: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    """Run ``main()`` to its end on a thread and a loop of its own, outside of the caller's context,
    and return what it raised. It must not call user code: nothing interrupts it."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(
        target=contextvars.Context().run, args=(work,), name="agf-apart", daemon=True
    )
    thread.start()
    thread.join()
    return raised[0] if raised else None


def start_background(work: Coroutine[Any, Any, None], run: object) -> None:
    """Start a fire-and-forget call of ``run``, which may end after the run (decision C4)."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    _outliving[task] = loop, run
    task.add_done_callback(lambda ended: _outliving.pop(ended, None))


def count_background_calls(run: object = None) -> int:
    """The number of running fire-and-forget calls of ``run``; None: of all runs."""
    return len(_of(run))


def cancel_background_calls(run: object = None) -> int:
    """Cancel the fire-and-forget calls of ``run`` (None: of all runs), from any thread; returns
    their number."""
    found = _of(run)
    for task, loop in found:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and so the call has ended
            loop.call_soon_threadsafe(task.cancel)
    return len(found)


def _of(run: object) -> list[tuple[asyncio.Task[None], asyncio.AbstractEventLoop]]:
    return [
        (task, loop) for task, (loop, by) in list(_outliving.items()) if run is None or by is run
    ]


_outliving: dict[asyncio.Task[None], tuple[asyncio.AbstractEventLoop, object]] = {}


def on_an_engine_loop() -> bool:
    """Whether this thread runs an engine's loop, also an abandoned one."""
    return threading.current_thread().name == "agf-engine"
