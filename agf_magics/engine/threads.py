"""The threads of one fan-out: they pull calls from a queue and report many ends at once. And calls
that leave this process, as the engine sees them: `workers.queue` implements these protocols.

A hop to a thread and back for each call costs 20 to 60 µs, more than most functions. A thread that
pulls call after call, and wakes the loop when the queue is empty, costs a tenth of that. Each call
that waits has a thread; the fan-out bounds their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .user_code import Call, Result, Workers

C = TypeVar("C", bound=Call)
C_contra = TypeVar("C_contra", bound=Call, contravariant=True)


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


class CallPool(Protocol[C_contra]):
    """The calls of one fan-out: threads of this process (`ThreadPool`), or workers."""

    @property
    def halted(self) -> bool: ...
    def hand(
        self, calls: Sequence[C_contra], first: Sequence[C_contra] = (), resumes: bool = True
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def wanted(self) -> int:
        """The number of calls that should have started and not ended, so that no lane waits."""


class RemoteCalls(Protocol):
    """The calls of one run that workers make."""

    listeners: dict[Callable[[], None], None]
    """Called after each chunk."""

    @property
    def wanted(self) -> int:
        """As `CallPool.wanted`, for the calls of all functions."""

    def hand(self, call: Call, terms: Terms) -> None:
        """Make ``call`` on a worker, under the rights of the present context. Its result is set on
        the present loop."""

    def pool(
        self,
        function: Callable[..., Any],
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        place: Callable[[Placement], None],
    ) -> CallPool[C]:
        """The calls of a fan-out over ``function``.

        ``report`` receives the calls that have ended. ``halts``: after a failure, no further call
        is sent before the next `hand`. ``place`` receives each change of the number of calls that
        are with workers."""

    def elements(
        self, site: Any, inside: Any, keep: Callable[[int, Any], None], items: Any, rest: Any
    ) -> Any:
        """What runs the whole elements of a fan-out on workers, a `pool.Parts`; None: they stay, and
        workers make their calls. ``site`` and ``inside``: of the fan-out, the scope of its elements;
        ``keep(i, value)`` receives their values; ``rest`` makes what runs those of a plan that stay
        after all."""


class ThreadPool(Generic[C]):
    """The threads of one fan-out, which bounds the number of calls that it hands over at the same
    time. A call that is left running keeps its thread, and its slot gets another one."""

    def __init__(self, report: Callable[[list[C]], None], wanted: int, halts: bool = False) -> None:
        """``report`` receives the calls that have ended, on the present loop. ``wanted``: see
        `CallPool`. ``halts``: after a failure, no further call starts before the next `hand`."""
        self._loop = asyncio.get_running_loop()
        self._report, self.wanted = report, wanted
        self._halts = halts
        self._queue: deque[C] = deque()
        self._ended: deque[tuple[C, Result]] = deque()
        self._told = self._closed = False
        """Whether the loop will look at the ended calls; whether the pool has ended."""
        self._stops: list[None] = []
        """An entry for each result that halts the pool."""
        self._reported = self._known = 0
        """How many of them were reported, and how many of those have been handled."""
        self._threads: set[threading.Lock] = set()
        """A lock for each thread, which waits for it while there is nothing to do."""
        self._parked: list[threading.Lock] = []
        """The threads that wait; the last one is woken first."""
        self._busy: set[threading.Lock] = set()
        """Those that take a call or make one."""
        self._waking = threading.Lock()
        """Held while threads are counted and woken."""

    @property
    def halted(self) -> bool:
        """Whether calls wait for a `hand` that resumes after the last failure was reported."""
        return len(self._stops) > self._known

    def hand(self, calls: Sequence[C], first: Sequence[C] = (), resumes: bool = True) -> None:
        """Make ``calls``, after ``first`` and the calls that wait. ``resumes``: the failures that
        were reported have been handled. Raises RuntimeError if there is no thread."""
        # Before a thread can take them: it removes what it has made.
        Workers.shared().away.update(calls, first)
        # A deque: its ends can be used by several threads without a lock.
        self._queue.extendleft(reversed(first))
        self._queue.extend(calls)
        if resumes:
            self._known = self._reported
        self._wake()
        # Some threads are enough: the calls then wait for them.
        if not self._threads:
            self._drop_waiting()
            raise RuntimeError("can't start new thread")

    def _drop_waiting(self) -> None:
        """Remove the calls that have not started."""
        while self._queue:
            with contextlib.suppress(IndexError):
                Workers.shared().away.discard(self._queue.popleft())

    def close(self) -> None:
        """Start no further call. Threads leave when their call has ended."""
        self._closed = True
        self._drop_waiting()
        while self._parked:
            with contextlib.suppress(IndexError):
                self._parked.pop().release()

    # --- on any thread ---

    def _wake(self) -> None:
        """Let as many threads pull as the waiting calls need."""
        # Two that wake at the same time would count the same threads and start too many.
        with self._waking:
            free = len(self._threads) - len(self._parked) - len(self._busy)
            for _ in range(len(self._queue) - free):
                try:
                    self._parked.pop().release()
                except IndexError:
                    if not self._start_thread():
                        return

    def _start_thread(self) -> bool:
        thread = threading.Lock()
        thread.acquire()
        self._threads.add(thread)
        try:
            Workers.shared().start(lambda: self._pull(thread))
        except RuntimeError:  # no more threads: those that there are make the calls
            self._threads.discard(thread)
            return False
        return True

    def _tell(self) -> None:
        """Wake the loop, once for all calls that have ended."""
        if not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the loop has ended before the call
                self._loop.call_soon_threadsafe(self._collect)

    # --- on the threads ---

    def _pull(self, thread: threading.Lock) -> Callable[[], None]:
        away = Workers.shared().away
        while (call := self._take(thread)) is not None:
            result = call.perform()
            # Before the end is queued: a thread that takes the next call looks at `halted` first.
            if self._stops_at(result):
                self._stops.append(None)
            self._ended.append((call, result))
            self._busy.discard(thread)
            # As long as calls wait, the loop is left alone: it then serves many ends in one turn.
            if self.halted or not self._queue:
                self._tell()
            away.discard(call)
            del call, result  # a thread that waits has no references
        return _nothing

    def _stops_at(self, result: Result) -> bool:
        """Whether no further call starts after this result."""
        return self._halts and not result[0]

    def _take(self, thread: threading.Lock) -> C | None:
        """The next call; waits for one. None: the pool is closed."""
        while not self._closed:
            if self._may_start:
                # First: a thread that has taken a call and counts as free would keep the others
                # from being woken.
                self._busy.add(thread)
                with contextlib.suppress(IndexError):  # another thread was faster
                    call = self._queue.popleft()
                    if call.take():
                        return call
                    Workers.shared().away.discard(call)  # it was cancelled
                self._busy.discard(thread)
                continue
            if self._ended:  # no other call reports them
                self._tell()
            # Parked first and looked again after that: a call that is handed over in between finds
            # this thread.
            self._parked.append(thread)
            if self._closed or self._may_start:  # they came before this thread was parked
                try:
                    self._parked.remove(thread)
                except ValueError:  # it has been woken
                    pass
                else:
                    continue
            thread.acquire()
        self._threads.discard(thread)
        return None

    @property
    def _may_start(self) -> bool:
        """Whether a call waits that may start."""
        return bool(self._queue) and not self.halted

    # --- on the loop ---

    def _collect(self) -> None:
        # First: a call that ends from here on needs another turn.
        self._told = False
        ended = list[C]()
        while self._ended:
            call, result = self._ended.popleft()
            # Counted when the fan-out hears of it: only `hand` after that may resume.
            self._reported += self._stops_at(result)
            call.end(result)
            ended.append(call)
        self._report(ended)


def _nothing() -> None:
    """An idle thread has nothing to report."""
