"""The threads of one fan-out: they pull calls from a queue and report many ends at once.

A hop to a thread and back for each call costs 20 to 60 µs, more than most functions. A thread that pulls call after
call, and wakes the loop when the queue is empty, costs 2 µs a call.

The number of threads follows demand. One thread pulls while calls are short: with more of them, Python's lock would
only change hands. All get threads as soon as the mean call takes longer than `SLOW`. A lookout adds a thread for calls
that wait behind a long one; it is a thread too, because a call of an async tool may block the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .calls import Result
from .threads import Call, Workers

C = TypeVar("C", bound=Call)

SLOW = 0.0001
"""Mean seconds of a call from which on each call gets a thread: several times the price of waking one."""

LONGEST = 16 * SLOW
"""Seconds that one call counts at most, so that a single delay does not make the mean slow."""

LOOK = 0.001
"""Seconds between two looks for calls that wait behind a long one."""

REST = 3
"""Looks without a waiting call after which the lookout sleeps."""

clock = time.monotonic


class ThreadPool(Generic[C]):
    """The threads of one fan-out, which bounds the number of calls that it hands over at the same time."""

    def __init__(self, report: Callable[[list[C]], None], abort: bool = False) -> None:
        """``report`` receives the calls that have ended, on the present loop. ``abort``: after a failure, no further
        call starts before the next `hand`."""
        self._loop = asyncio.get_running_loop()
        self._report = report
        self._abort = abort
        self._queue: deque[C] = deque()
        self._ended: deque[tuple[C, Result]] = deque()
        self._told = self._halted = self._closed = False
        """Whether the loop will look at the ended calls; whether a failure ends the pool; whether it has ended."""
        self._threads: set[threading.Lock] = set()
        """A lock for each thread, which waits for it while there is nothing to do."""
        self._parked: list[threading.Lock] = []
        """The threads that wait; the last one is woken first."""
        self._busy: dict[threading.Lock, C] = {}
        self._calls, self._mean = 0, 0.0
        """The number of calls that have ended, and their mean seconds."""
        self._due = threading.Event()
        """Wakes the lookout."""
        self._looks: bool | None = None
        """Whether the lookout is awake; None: there is none."""

    @property
    def halted(self) -> bool:
        """Whether calls wait for the next `hand` after a failure."""
        return self._halted

    def hand(self, calls: Sequence[C]) -> None:
        """Make ``calls``. Raises RuntimeError if there is no thread to make them."""
        Workers.shared().away.update(calls)
        self._queue.extend(calls)
        self._halted = False
        self._wake()
        if not self._threads:
            self._drop_queue()
            raise RuntimeError("can't start new thread")
        if len(self._queue) > 1 and not self._looks:
            self._wake_lookout()

    def close(self) -> None:
        """Start no further call. Threads leave when their call has ended."""
        self._closed = True
        self._drop_queue()
        while self._parked:
            with contextlib.suppress(IndexError):
                self._parked.pop().release()
        self._due.set()

    def _drop_queue(self) -> None:
        while self._queue:
            with contextlib.suppress(IndexError):
                Workers.shared().away.discard(self._queue.popleft())

    # --- on any thread ---

    def _wake(self, stuck: int = 0) -> None:
        """Let as many threads pull as the waiting calls need. ``stuck``: threads that are in a long call."""
        waiting, is_slow = len(self._queue), self._mean > SLOW
        pulling = len(self._threads) - len(self._parked) - (len(self._busy) if is_slow else stuck)
        for _ in range((waiting if is_slow else min(waiting, 1)) - pulling):
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
            self._busy[thread], start = call, clock()
            result = call.perform()
            del self._busy[thread]
            self._calls += 1
            self._mean += (min(clock() - start, LONGEST) - self._mean) / min(self._calls, 16)
            if self._abort and not result[0]:
                self._halted = True
            self._ended.append((call, result))
            if self._halted or not self._queue:
                self._tell()
            elif self._mean > SLOW:
                self._wake()
            away.discard(call)
            del call, result  # a thread that waits has no references
        return _nothing

    def _take(self, thread: threading.Lock) -> C | None:
        """The next call; waits for one. None: the pool is closed."""
        while not self._closed:
            if self._queue and not self._halted:
                with contextlib.suppress(IndexError):  # another thread was faster
                    call = self._queue.popleft()
                    if call.take():
                        return call
                    Workers.shared().away.discard(call)  # it was cancelled
                continue
            self._parked.append(thread)
            if self._closed or (self._queue and not self._halted):  # they came before this thread was parked
                with contextlib.suppress(ValueError):  # it has been woken
                    self._parked.remove(thread)
                    continue
            thread.acquire()
        self._threads.discard(thread)
        return None

    def _wake_lookout(self) -> None:
        if self._looks is None:
            with contextlib.suppress(RuntimeError):  # no more threads
                Workers.shared().start(self._look)
        self._looks = True
        self._due.set()

    def _look(self) -> Callable[[], None]:
        rest, before = 0, set[C]()
        while not self._closed:
            time.sleep(LOOK)
            now = set(self._busy.values())
            stuck, before = len(now & before), now
            if stuck and self._ended:
                self._tell()
            if self._queue and not self._halted:
                rest = 0
                self._wake(stuck)
                continue
            rest += 1
            if rest > REST:
                now, before, rest = set(), set(), 0
                self._looks = False
                self._due.clear()
                if not self._queue and not self._closed:
                    self._due.wait()
                self._looks = True
        return _nothing

    # --- on the loop ---

    def _collect(self) -> None:
        self._told = False
        found = list[C]()
        while self._ended:
            call, result = self._ended.popleft()
            call.end(result)
            found.append(call)
        if found:
            self._report(found)


def _nothing() -> None:
    """An idle thread has nothing to report."""
