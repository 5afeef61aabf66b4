"""`EngineLoop`, the event loop of the engine on its own daemon thread.

The engine does not use the notebook's loop, because a waiting cell blocks that. The engine's loop
beats, so that other threads see whether it is blocked. If a tool blocks it (``time.sleep`` in an
``async def``), the next run gets a new loop and a new thread.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import threading
import time
from queue import Empty, SimpleQueue
from types import FrameType
from typing import ClassVar

from ...compat.browser import IN_BROWSER
from ..threads import user_code
from ..threads.forks import end_child
from ..threads.rights import NO_RIGHTS, under
from .page_loop import OwnLoop, can_suspend


class _Selector(selectors.DefaultSelector):
    """A selector that waits for a lock as long as there are no files to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._asleep = threading.Lock()
        """A lock that is locked unless another thread has woken the loop since the last
        `select`."""
        self._asleep.acquire()
        self.watches = False
        """Whether the selector waits for files."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # One file is the pipe by which the loop is usually woken.
        self.watches = len(self.get_map()) > 1
        if not self.watches:
            self._asleep.acquire(timeout=-1 if timeout is None else max(timeout, 0))
            return []
        # `watches` is set before this line, and `wake` reads it after releasing the lock. So either
        # this line sees the released lock, or `wake` also writes into the pipe.
        return super().select(0 if self._asleep.acquire(blocking=False) else timeout)

    def wake(self) -> None:
        # Not `contextlib.suppress`: at the end of the interpreter, when generators that were left
        # open still wake the loop, this module's names are gone.
        try:
            self._asleep.release()
        except RuntimeError:  # the loop was woken already
            return


class _Loop(asyncio.SelectorEventLoop):
    """A loop that other threads wake without a system call. To write into its pipe and to read it
    takes longer than the rest of a change of threads, and each call releases the interpreter's
    lock, so that the two threads wait for each other."""

    def __init__(self) -> None:
        self._sleeper = _Selector()
        super().__init__(self._sleeper)

    def _write_to_self(self) -> None:
        self._sleeper.wake()
        if self._sleeper.watches:
            super()._write_to_self()  # type: ignore[misc]  # missing in the stub


BEAT = 0.25
"""The seconds between two beats of the loop, which show that nothing blocks it."""

STUCK = 2.0
"""The seconds without a beat after which the loop is asked for an answer."""


ANSWER = 0.5
"""The seconds in which the loop must answer. A beat may also be late because the process was
stopped, or because a thread held the interpreter's lock."""


class EngineLoop:
    """The loop of the engine and its thread. Call `current` to get it."""

    _current: ClassVar[EngineLoop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """``loop``: the loop of this thread, in a browser. Default None: a new loop."""
        # On Windows only the Proactor loop can start processes.
        kind = asyncio.new_event_loop if sys.platform == "win32" else _Loop
        self.loop = loop or kind()
        self.jobs: set[object] = set()
        """The jobs on the loop. The loop itself has only weak references to its tasks."""
        self._beaten = time.monotonic()
        self._abandoned = False
        self._pid = os.getpid()
        self.thread = threading.current_thread()
        if loop is not None:
            return
        self.thread = threading.Thread(
            target=under, args=(NO_RIGHTS, self._live), name="agf-engine", daemon=True
        )
        self.thread.start()

    @classmethod
    def current(cls, waited: bool = False) -> EngineLoop:
        """The loop of this process. A new loop is made at first use, after a fork, and if the last
        loop is blocked. In a browser it is the page's loop. ``waited``: whether a cell waits for
        the run, default False; if the cell cannot suspend, it drives a separate loop."""
        if IN_BROWSER:
            needs_own_loop = waited and not can_suspend()
            return cls(OwnLoop() if needs_own_loop else asyncio.get_event_loop())
        with cls._lock:
            current = cls._current
            # A fork has none of its parent's threads: there `is_alive` is False.
            if current is None or not current.thread.is_alive() or current.stuck():
                if current is not None:
                    current._abandoned = True
                current = cls._current = EngineLoop()
            return current

    def stuck(self) -> bool:
        """Whether something blocks the loop. If the beat is late, the loop is asked for an
        answer."""
        if time.monotonic() - self._beaten < STUCK or threading.current_thread() is self.thread:
            return False
        # Not an Event, because an interrupt can leave it locked, for the loop as well.
        answers: SimpleQueue[None] = SimpleQueue()
        # The whole process may have been stopped, so only a loop that does not answer is blocked.
        self.loop.call_soon_threadsafe(answers.put, None)
        try:
            answers.get(timeout=ANSWER)
        except Empty:
            return True
        return False

    def abandon(self) -> None:
        """Let `current` make a new loop. If this loop continues, it ends with its last job."""
        with self._lock:
            self._abandoned = True
            # Another thread may have replaced it already.
            if EngineLoop._current is self:
                EngineLoop._current = None

    def blocked_in(self) -> str:
        """The function and line that block the loop, in user code if user code is running."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        if frame is None:
            return "a thread that ended"
        blocking = frame
        inner: FrameType = frame
        while frame is not None:
            file = frame.f_code.co_filename
            if file == user_code.__file__ and inner.f_code.co_filename != file:
                blocking = inner
                break
            inner = frame
            frame = frame.f_back
        return f"{blocking.f_code.co_name}, line {blocking.f_lineno}"

    def _live(self) -> None:
        """Run the loop on its thread, until it is abandoned and its last job has ended."""
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._beat)
        # A SystemExit of a tool's task ends `run_forever`, but the other runs on this loop go on.
        while not self._abandoned or self.jobs:
            try:
                self.loop.run_forever()
            except BaseException as error:  # for example the SystemExit of a tool's task
                if os.getpid() != self._pid:
                    end_child((False, error))
        # This closes the connections of models.
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        if self._abandoned and not self.jobs:
            self.loop.stop()
        else:
            self.loop.call_later(BEAT, self._beat)


def on_an_engine_loop() -> bool:
    """Whether this thread runs a loop of the engine, current or abandoned."""
    return threading.current_thread().name == "agf-engine"
