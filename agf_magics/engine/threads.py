"""The threads of one fan-out: they pull calls from a queue and report many ends at once. And calls
that leave this process, as the engine sees them: `workers.queue` implements these protocols.

A hop to a thread and back for each call costs 20 to 60 µs, more than most functions. A thread that
pulls call after call, and wakes the loop when the queue is empty, costs 2 µs a call.

The number of threads follows demand. One thread pulls while calls are short: with more of them,
Python's lock would only change hands. All get threads as soon as the mean call takes longer than
`SLOW`. A lookout adds a thread if calls wait for a long one; it is a thread too, because a call of
an async tool may block the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
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


SLOW = 0.0001
"""Mean seconds of a call from which on each call gets a thread: several times the price of waking
one."""

SAMPLE = 16
"""The number of calls over which their mean time is taken."""

LONGEST = SAMPLE / 2 * SLOW
"""Seconds that one call counts at most, so that a single delay does not make the mean slow."""

LOOK = 0.001
"""Seconds between two looks for calls that wait for a long one."""

REST = 3
"""Looks without a waiting call after which the lookout sleeps."""

thread_clock = time.monotonic


class ThreadPool(Generic[C]):
    """The threads of one fan-out, which bounds the number of calls that it hands over at the same
    time."""

    def __init__(self, report: Callable[[list[C]], None], wanted: int, halts: bool = False) -> None:
        """``report`` receives the calls that have ended, on the present loop; or none, if a call
        takes long. ``wanted``: see `CallPool`. ``halts``: after a failure, no further call starts
        before the next `hand`."""
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
        self._busy: dict[threading.Lock, C] = {}
        self._calls, self._mean = 0, 0.0
        """The number of calls that have ended, and their mean seconds."""
        self._waking = threading.Lock()
        """Held while threads are counted and woken."""
        self._due: SimpleQueue[None] = SimpleQueue()
        """Wakes the lookout. An interrupt can leave the lock of a `threading.Event` locked."""
        self._looks: bool | None = None
        """Whether the lookout is awake; None: it has not been started."""

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
        # Before threads are woken: one that takes a call at once leaves a single one, which waits.
        may_wait = len(self._queue) + len(self._threads) - len(self._parked) > 1
        self._wake()
        # Some threads are enough: the calls then wait for them.
        if not self._threads:
            self._drop_waiting()
            raise RuntimeError("can't start new thread")
        if may_wait and not self._looks:
            self._wake_lookout()

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
        self._due.put(None)

    # --- on any thread ---

    def _wake(self, stuck: int = 0) -> None:
        """Let as many threads pull as the waiting calls need. ``stuck``: threads that are in a long
        call."""
        # Two that wake at the same time would count the same threads and start too many.
        with self._waking:
            waiting, is_slow = len(self._queue), self._mean > SLOW
            awake = len(self._threads) - len(self._parked)
            count = (
                (waiting if is_slow else min(waiting, 1))
                - awake
                + (len(self._busy) if is_slow else stuck)
            )
            for _ in range(count):
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
        away, queue, busy = Workers.shared().away, self._queue, self._busy
        while (call := self._take(thread)) is not None:
            start = thread_clock()
            # For the lookout, which sees a long call by finding it twice.
            busy[thread] = call
            result = call.perform()
            del busy[thread]
            seconds = thread_clock() - start
            self._calls += 1
            # Not `min`: this runs for each call of the threads.
            sample = self._calls if self._calls < SAMPLE else SAMPLE
            self._mean += ((seconds if seconds < LONGEST else LONGEST) - self._mean) / sample
            # Before the end is queued: a thread that takes the next call looks at `halted` first.
            if self._stops_at(result):
                self._stops.append(None)
            self._ended.append((call, result))
            # As long as calls wait, the loop is left alone: it then serves many ends in one turn.
            if self.halted or not queue:
                self._tell()
            elif self._mean > SLOW:
                self._wake()
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
                try:
                    call = self._queue.popleft()
                except IndexError:  # another thread was faster
                    continue
                if call.take():
                    return call
                Workers.shared().away.discard(call)  # it was cancelled
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

    def _wake_lookout(self) -> None:
        if self._looks is None:
            with contextlib.suppress(RuntimeError):  # no more threads
                Workers.shared().start(self._look)
        self._looks = True
        self._due.put(None)

    def _look(self) -> Callable[[], None]:
        rest, before, reported = 0, set[C](), set[C]()
        while not self._closed:
            # Not a wait for an event: the threads would pay for setting it at each call.
            time.sleep(LOOK)
            now = set(self._busy.values())
            long, before = now & before, now
            if long and (self._ended or not long <= reported):
                self._tell()
            reported, stuck = long, len(long)
            if self._queue and not self.halted:
                rest = 0
                self._wake(stuck)
                continue
            rest += 1
            if rest > REST:
                now, long, before, reported, rest = set(), set(), set(), set(), 0
                self._looks = False
                # A thread can have taken the last call, and not told what it made before.
                if not (self._queue or self._ended or self._closed):
                    self._due.get()
                self._looks = True
        return _nothing

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
