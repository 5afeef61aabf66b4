"""The event loop of the engine, on a daemon thread of its own.

It is not the notebook's loop, which a waiting cell blocks. It beats, so that other threads see
whether it is blocked. If a tool blocks it (``time.sleep`` in an ``async def``), the next run gets a
new loop and a new thread.
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
    """Waits for a lock while there are no files to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._asleep = threading.Lock()
        """Held unless another thread has woken the loop since it last looked."""
        self._asleep.acquire()
        self.watches = False
        """Whether it waits for files."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # One of them is the pipe of the loop, through which it is woken otherwise.
        self.watches = len(self.get_map()) > 1
        if not self.watches:
            self._asleep.acquire(timeout=-1 if timeout is None else max(timeout, 0))
            return []
        # After `watches` is set, which `wake` reads after it has released the lock: so it is seen
        # here, or it also writes into the pipe.
        return super().select(0 if self._asleep.acquire(blocking=False) else timeout)

    def wake(self) -> None:
        # Not `contextlib.suppress`: at the end of the interpreter, when generators that were left
        # open still wake the loop, this module's names are gone.
        try:
            self._asleep.release()
        except RuntimeError:  # it was woken, and has not looked yet
            return


class _Loop(asyncio.SelectorEventLoop):
    """A loop that other threads wake without a system call. Sending into its pipe and reading it
    takes longer than the rest of a change of threads, and each gives the interpreter's lock away:
    the two threads then wait for each other."""

    def __init__(self) -> None:
        self._sleeper = _Selector()
        super().__init__(self._sleeper)

    def _write_to_self(self) -> None:
        self._sleeper.wake()
        if self._sleeper.watches:
            super()._write_to_self()  # type: ignore[misc]  # not in its stub


BEAT = 0.25
"""Seconds between two beats of the loop, which show that nothing blocks it."""

STUCK = 2.0
"""Seconds without a beat after which the loop is asked for an answer."""


ANSWER = 0.5
"""Seconds for that answer: the process may have been stopped, or a thread may have held the
interpreter's lock."""


class EngineLoop:
    """A loop and its thread. Use `current`."""

    _current: ClassVar[EngineLoop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """``loop``: one that runs on this thread, in a browser. Default None: a new one."""
        # On Windows only the other kind of loop can start processes.
        kind = asyncio.new_event_loop if sys.platform == "win32" else _Loop
        self.loop = loop or kind()
        self.jobs: set[object] = set()
        """The jobs on the loop, which itself only has weak references to tasks."""
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
        """The loop of this process; a new one on first use, after a fork, and if the last one is
        blocked. In a browser the page's loop; ``waited`` (default False): a cell waits for the run,
        and drives a loop of its own where it cannot suspend."""
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
        """Whether something blocks the loop. Asks it for an answer if its beat is late."""
        if time.monotonic() - self._beaten < STUCK or threading.current_thread() is self.thread:
            return False
        # An interrupt can leave an Event locked, for the loop too.
        answers: SimpleQueue[None] = SimpleQueue()
        # The beat may be late because the whole process was stopped: only a loop that does not
        # answer is blocked.
        self.loop.call_soon_threadsafe(answers.put, None)
        try:
            answers.get(timeout=ANSWER)
        except Empty:
            return True
        return False

    def abandon(self) -> None:
        """Let `current` make a new one. If this loop continues, it ends with its last job."""
        with self._lock:
            self._abandoned = True
            # Another thread may have replaced it already.
            if EngineLoop._current is self:
                EngineLoop._current = None

    def blocked_in(self) -> str:
        """The function and line that blocks it, in user code if that is running."""
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
        # A SystemExit of a tool's task ends `run_forever`; the other runs on this loop go on.
        while not self._abandoned or self.jobs:
            try:
                self.loop.run_forever()
            except BaseException as error:  # a SystemExit of a task that a tool created
                if os.getpid() != self._pid:
                    end_child((False, error))
        # Closes the connections of models.
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        if self._abandoned and not self.jobs:
            self.loop.stop()
        else:
            self.loop.call_later(BEAT, self._beat)


def on_an_engine_loop() -> bool:
    """Whether this thread runs an engine's loop, also an abandoned one."""
    return threading.current_thread().name == "agf-engine"
