"""Calls of user code on other threads, and the worker threads.

There is a daemon thread for each running call; idle threads are reused and end after a while. Only
the fan-outs limit their number: in a pool of a fixed size, a tool that starts a run of its own
could wait for ever.

Calls that leave this process, as the engine sees them: `workers.queue` implements both
protocols.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from .user_code import Result, cross

WORKER_IDLE = 10.0
"""Seconds after which an idle worker ends."""


class Call:
    """A call of user code on another thread, for which a loop waits."""

    __slots__ = (
        "_taken",
        "began",
        "context",
        "ended",
        "function",
        "given",
        "inner",
        "interrupted",
        "loop",
        "result",
        "stopped",
        "struck",
        "waiter",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        given: Mapping[str, Any],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None = None,
    ) -> None:
        """``context``: that of the function; None: a copy of the caller's."""
        self.function = function
        self.given = given
        self.loop = loop
        self.ended: asyncio.Future[None] | None = None
        """Wakes the task that waits, if there is one; it never carries the result."""
        self.began: float | None = None
        """When a `ThreadPool` began it, by the monotonic clock."""
        self.result: Result | None = None
        """Set on the loop's thread."""
        self.inner: Callable[[str], None] | None = None
        """Cancels the run that this call waits for."""
        self.stopped = False
        self.struck = False
        """Whether a KeyboardInterrupt was raised in it; another one would interrupt its
        clean-up."""
        self.interrupted = False
        """Whether that was the interrupt of the person, which also cancels the run."""
        self.waiter: Any = None
        self.context = contextvars.copy_context() if context is None else context
        self._taken = [None]

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    def take(self) -> bool:
        """Whether the caller is first: the thread that runs it, or the task that cancels it
        before."""
        try:
            self._taken.pop()  # atomic, and cheaper to create than a lock
        except IndexError:
            return False
        return True

    def give_back(self) -> None:
        """Undo `take`: the call has not started, and can be taken again."""
        self._taken.append(None)

    def perform(self) -> Result:
        """Run it on this thread, in the context in which it was created."""
        around, running.call = running.call, self
        try:
            return self.context.run(cross, self.function, self.given)
        finally:
            running.call = around

    def tell(self, result: Result) -> None:
        """Report its end, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended before the call
            self.loop.call_soon_threadsafe(self.end, result)

    def stop(self) -> None:
        """Stop the run that it waits for, or interrupt it if a signal can reach its thread."""
        self.stopped = True
        inner = self.inner
        if inner is not None:
            inner("the run around it was stopped")
        elif self.waiter is not None:
            self.waiter.interrupt(self)

    def force(self) -> None:
        """Interrupt it although it has caught an interrupt before."""
        if self.waiter is not None and self.inner is None:
            self.waiter.interrupt(self, force=True)

    def end(self, result: Result) -> None:
        """Set its result and wake the task that waits. On the loop's thread."""
        self.result = result
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class _Running(threading.local):
    call: Call | None = None


running = _Running()

NEVER_BEGAN: Result = (False, asyncio.CancelledError())
"""The result of a call that was cancelled before a thread took it."""


Work = Callable[[], Callable[[], None]]
"""What a worker thread does; then, as an idle thread, it calls the function that this returned."""


class Workers:
    """The worker threads of this process."""

    _shared: ClassVar[Workers | None] = None

    def __init__(self) -> None:
        self.away: set[Call] = set()
        """Calls on worker threads, also those that were left running."""
        self._idle: list[SimpleQueue[Work]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @classmethod
    def shared(cls) -> Workers:
        found = cls._shared
        if found is None or found._pid != os.getpid():  # a fork has none of its parent's threads
            found = cls._shared = Workers()
        return found

    def hand(self, call: Call) -> None:
        """Run ``call`` at once. Raises RuntimeError if there are no more threads."""
        self.away.add(call)
        try:
            self.start(lambda: self._make(call))
        except RuntimeError:
            self.away.discard(call)
            raise

    def start(self, work: Work) -> None:
        """Do ``work`` on a thread of its own at once. Raises RuntimeError if there are no more
        threads."""
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(
                target=self._serve, args=(queue,), name="agf-worker", daemon=True
            ).start()
        queue.put(work)

    def _make(self, call: Call) -> Callable[[], None]:
        result = call.perform() if call.take() else NEVER_BEGAN

        def report() -> None:
            call.tell(result)
            self.away.discard(call)

        return report

    def _serve(self, queue: SimpleQueue[Work]) -> None:
        while True:
            try:
                work = queue.get(timeout=WORKER_IDLE)
            except Empty:
                with self._lock:
                    if queue in self._idle:
                        self._idle.remove(queue)
                        return
                continue  # work arrived at the last moment
            report = work()
            with (
                self._lock
            ):  # idle before the end is reported, so that the next call finds this thread
                self._idle.append(queue)
            report()
            del work, report  # an idle thread has no references


C = TypeVar("C", bound=Call)


class Terms(NamedTuple):
    """How calls are made; only calls with the same terms share a chunk."""

    timeout: float | None = None
    """Seconds of each call, counted on its worker."""
    has_effect: bool = False
    """Whether a call travels alone and is never sent twice."""
    limit: int | None = None
    """The number of concurrent calls that the author allows; None: one for each lane."""
    resources: tuple[tuple[str, float], ...] = ()
    """What a call needs of its worker."""


class Placement(NamedTuple):
    """How many elements of a fan-out are with workers."""

    elements: int
    where: str
    """The name of the workers."""
    starting: int = 0
    """How many workers are being started, before the first one is there."""


class CallPool(Protocol[C]):
    """The calls of one fan-out: threads of this process (`thread_pool.ThreadPool`), or workers."""

    @property
    def halted(self) -> bool: ...
    @property
    def is_quick(self) -> bool: ...
    @property
    def running(self) -> list[C]: ...
    def hand(self, calls: Sequence[C], first: Sequence[C] = (), resumes: bool = True) -> None: ...
    def take_back(self) -> list[C]: ...
    def close(self) -> None: ...


class WidePool(CallPool[C], Protocol[C]):
    @property
    def wanted(self) -> int:
        """The number of calls that should have started and not ended, so that no lane waits."""


class RemoteCalls(Protocol):
    """The calls of one run that workers make."""

    @property
    def wanted(self) -> int:
        """As `WidePool.wanted`, for the calls of all functions."""

    def hand(self, call: Call, terms: Terms) -> None:
        """Make ``call`` on a worker, under the rights of the present context. Its result is set on
        the present loop."""

    def pool(
        self,
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        place: Callable[[Placement], None],
    ) -> WidePool[C]:
        """The calls of a fan-out.

        ``report`` receives the calls that have ended. ``halts``: after a failure, no further call
        is sent before the next `hand`. ``place`` receives each change of the number of calls that
        are with workers."""

    def elements(
        self, site: Any, inside: Any, keep: Callable[[int, Any], None], items: Any, rest: Any
    ) -> Any:
        """What runs the whole elements of a fan-out on workers, a `pool.Parts`; None: they stay, and
        workers make their calls. ``site`` and ``inside``: of the fan-out, the scope of its elements;
        ``keep(i, value)`` receives their values; ``rest`` runs those that stay after all."""

    def on_change(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` after each chunk, until the function that this returns is called."""
