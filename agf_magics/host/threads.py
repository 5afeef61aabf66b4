"""User code on threads: a call on its way to one, and the worker threads.

A worker is a daemon thread per running call; idle ones are reused and end after a while. There is no bound here: a pool
of fixed size starves when a tool starts a run of its own. The bound is the fan-out's.
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

from .calls import Result, cross

IDLE_SECONDS = 10.0
"""How long a worker without work stays."""


class Call:
    """User code to be run on another thread, and its way back to the loop that waits for it."""

    __slots__ = ("_context", "_enter", "_taken", "ended", "function", "given", "inner", "interrupted", "loop", "result",
                 "stopped", "struck", "waiter")  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        given: Mapping[str, Any],
        loop: asyncio.AbstractEventLoop,
        enter: Callable[[], None] | None = None,
    ) -> None:
        self.function = function
        self.given = given
        self.loop = loop
        self.ended: asyncio.Future[None] = loop.create_future()
        """Wakes whoever waits. It never carries what user code gave: see `result`."""
        self.result: Result | None = None
        """Set on the loop's thread."""
        self.inner: Callable[[str], None] | None = None
        """Cancels the run that this call's own thread is waiting for, while it is."""
        self.stopped = False
        """Whether it was told to stop."""
        self.struck = False
        """Whether a KeyboardInterrupt was already raised in it; another one would hit its clean-up."""
        self.interrupted = False
        """Whether that was the person's interrupt, which also cancels the run."""
        self.waiter: Any = None
        """The Waiter that runs it, if one does."""
        self._context = contextvars.copy_context()
        self._enter = enter
        self._taken = threading.Lock()

    @property
    def context(self) -> contextvars.Context:
        """What the code that it runs inherits."""
        return self._context

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    def take(self) -> bool:
        """Whoever is first: the thread that is to run it, or whoever stops it before it began."""
        return self._taken.acquire(blocking=False)

    def perform(self) -> Result:
        """Run it on this thread, in the context it was made in."""
        around, here.call = here.call, self
        try:
            return self._context.run(self._perform)
        finally:
            here.call = around

    def tell(self, result: Result) -> None:
        """Its end, from any thread."""
        # A call that was left running may end after its loop.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._end, result)

    def stop(self) -> None:
        """Ask it to stop: the run its thread waits for, and where a signal reaches the thread, itself."""
        self.stopped = True
        inner = self.inner
        if inner is not None:
            inner("the run around it was stopped")
        elif self.waiter is not None:
            self.waiter.interrupt(self)

    def force(self) -> None:
        """Interrupt it although it has caught an interrupt already; its clean-up is cut short."""
        if self.waiter is not None and self.inner is None:
            self.waiter.interrupt(self, force=True)

    def _perform(self) -> Result:
        if self._enter is not None:
            self._enter()
        return cross(self.function, self.given)

    def _end(self, result: Result) -> None:
        self.result = result
        if not self.ended.done():
            self.ended.set_result(None)


class _Here(threading.local):
    call: Call | None = None
    """The call this thread is running, the innermost."""


here = _Here()

NEVER_BEGAN: Result = (False, asyncio.CancelledError())
"""The end of a call that was stopped before a thread took it: nobody waits for it."""


class Workers:
    """The worker threads of this process."""

    _shared: ClassVar[Workers | None] = None

    def __init__(self) -> None:
        self.away: set[Call] = set()
        """Calls that are with a worker, those left running too."""
        self._idle: list[SimpleQueue[Call]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @classmethod
    def shared(cls) -> Workers:
        found = cls._shared
        if found is None or found._pid != os.getpid():  # a fork has none of its parent's threads
            found = cls._shared = Workers()
        return found

    def hand(self, call: Call) -> None:
        """Run ``call`` at once. Raises RuntimeError when the machine has no thread left."""
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(target=self._serve, args=(queue,), name="agf-worker", daemon=True).start()
        self.away.add(call)
        queue.put(call)

    def _serve(self, queue: SimpleQueue[Call]) -> None:
        while True:
            try:
                call = queue.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if queue in self._idle:
                        self._idle.remove(queue)
                        return
                continue  # a call was handed over at the last moment
            result = call.perform() if call.take() else NEVER_BEGAN
            with self._lock:  # idle before anybody hears of the end: the next call finds this very thread
                self._idle.append(queue)
            call.tell(result)
            self.away.discard(call)
            del call, result  # an idle thread keeps nothing alive
