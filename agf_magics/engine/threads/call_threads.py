"""`CallThreads`, the threads on which calls of user code run, one for each running call.

The threads are daemon threads. An idle thread is used again, and ends after a while. Only the
fan-outs limit their number: in a pool of a fixed size, a tool that starts another run could wait
for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from .user_code import Result, cross

IDLE = 10.0
"""The seconds after which an idle thread ends."""


def name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


class ThreadCall:
    """A call of user code on another thread, for which a loop waits."""

    __slots__ = (
        "_taken",
        "arguments",
        "context",
        "ended",
        "ended_waits",
        "function",
        "inner",
        "interrupted",
        "interrupted_once",
        "is_over",
        "loop",
        "result",
        "stopped",
        "waiter",
        "was_told",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None = None,
    ) -> None:
        """``context``: the context of the function; None: a copy of the caller's."""
        self.function = function
        self.arguments = arguments
        self.loop = loop
        self.ended: asyncio.Future[None] | None = None
        """The future that wakes the waiting task; it never has the result. None: no task waits."""
        self.result: Result | None = None
        """The result, set on the loop's thread; None: the call has not ended."""
        self.inner: Callable[[str], None] | None = None
        """Cancels the inner run that this call waits for; None: it waits for no run."""
        self.stopped = False
        """Whether `stop` was called."""
        self.was_told = False
        """Whether something that the call waited for ended it for that reason."""
        self.interrupted_once = False
        """Whether a KeyboardInterrupt was raised in the call. Another one would interrupt its
        clean-up."""
        self.interrupted = False
        """Whether that was the person's interrupt, which also cancels the run."""
        self.waiter: Any = None
        """The `Waiter` whose thread makes the call, or the chunk with which it is on a worker. Its
        ``interrupt`` stops the call. None: it cannot be interrupted."""
        self.context = contextvars.copy_context() if context is None else context
        self.is_over = False
        """Whether the function has returned."""
        self.ended_waits: list[Callable[[], None]] = []
        """What is called when it returns."""
        self._taken = [None]
        """A list with one element until somebody takes the call."""

    @property
    def name(self) -> str:
        return name_of(self.function)

    def take(self) -> bool:
        """Take the call, either to run it or to cancel it. Returns whether the caller is the
        first."""
        try:
            self._taken.pop()  # atomic, and cheaper to create than a lock
        except IndexError:
            return False
        return True

    def give_back(self) -> None:
        """Undo `take` for a call that has not started, so that it can be taken again."""
        self._taken.append(None)

    def perform(self) -> Result:
        """Run the call on this thread, in its context."""
        around = running.call
        running.call = self
        try:
            return self.context.run(cross, self.function, self.arguments)
        finally:
            running.call = around

    def tell(self, result: Result) -> None:
        """Report the end of the call, from any thread."""
        self.is_over = True
        self._call_waits()
        with contextlib.suppress(RuntimeError):  # the loop has ended before the call
            self.loop.call_soon_threadsafe(self.end, result)

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call ``call`` when the function has returned, also if the loop does not wait for it any
        more."""
        self.ended_waits.append(call)
        # Looked at after that: the function may return at any moment.
        if self.is_over:
            self._call_waits()

    def _call_waits(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self.ended_waits.pop()()  # atomic: each is called once

    def stop(self) -> None:
        """Stop the inner run that the call waits for, or interrupt the call if a signal can reach
        its thread."""
        self.stopped = True
        inner = self.inner
        if inner is not None:
            self.was_told = True
            inner("the run around it was stopped")
        elif self.waiter is not None:
            self.waiter.interrupt(self)

    def must_stop(self) -> bool:
        """Whether the call is to stop. Asked by what it waits for, which then ends it."""
        self.was_told = self.was_told or self.stopped
        return self.stopped

    def force(self) -> None:
        """Interrupt the call although it has caught an interrupt before."""
        if self.waiter is not None and self.inner is None:
            self.waiter.interrupt(self, force=True)

    def end(self, result: Result) -> None:
        """Set the result and wake the waiting task. Must run on the loop's thread."""
        self.result = result
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class _Running(threading.local):
    """The call that each thread makes; None: it makes none."""

    call: ThreadCall | None = None


running = _Running()


NEVER_BEGAN: Result = (False, asyncio.CancelledError())
"""The result of a call that was cancelled before a thread took it."""


Work = Callable[[], Callable[[], None]]
"""The work of a call thread. It returns a function that the thread calls when it is idle again."""


class CallThreads:
    """The call threads of this process."""

    _shared: ClassVar[CallThreads | None] = None

    def __init__(self) -> None:
        self.away: set[ThreadCall] = set()
        """The calls on these threads, those that were left running included."""
        self._idle: list[SimpleQueue[Work]] = []
        """The queues of the idle threads."""
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @classmethod
    def shared(cls) -> CallThreads:
        """The call threads of this process."""
        threads = cls._shared
        # A fork has none of its parent's threads.
        if threads is None or threads._pid != os.getpid():
            threads = cls._shared = CallThreads()
        return threads

    def hand(self, call: ThreadCall) -> None:
        """Run ``call`` at once. Raises RuntimeError if there are no more threads."""
        self.away.add(call)
        try:
            self.start(lambda: self._make(call))
        except RuntimeError:
            self.away.discard(call)
            raise

    def start(self, work: Work) -> None:
        """Do ``work`` on a separate thread at once. Raises RuntimeError if no thread can be
        started."""
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(
                target=self._serve, args=(queue,), name="agf-worker", daemon=True
            ).start()
        queue.put(work)

    def _make(self, call: ThreadCall) -> Callable[[], None]:
        """Make ``call`` on this thread. Returns the function that reports its end."""
        result = call.perform() if call.take() else NEVER_BEGAN

        def report() -> None:
            call.tell(result)
            self.away.discard(call)

        return report

    def _serve(self, queue: SimpleQueue[Work]) -> None:
        """Do the work in ``queue`` on this thread, until the thread was idle for `IDLE` seconds."""
        while True:
            try:
                work = queue.get(timeout=IDLE)
            except Empty:
                with self._lock:
                    if queue in self._idle:
                        self._idle.remove(queue)
                        return
                continue  # work arrived at the last moment
            report = work()
            # The thread is idle before it reports the end, so that the next call finds it.
            with self._lock:
                self._idle.append(queue)
            report()
            del work, report  # keep no references while idle
