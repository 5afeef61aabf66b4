"""`Waiter`, the wait of a thread for a run: it makes the calls for this thread and handles
interrupts.

Python runs signal handlers only on the main thread. So a call can be stopped from outside only
there, by a real SIGINT, which also ends a ``time.sleep(30)``. While the main thread waits, SIGINT
has our handler. The handler knows who sent the signal: a person's signal cancels the run; our
signal is meant for one call, and is dropped if that call has ended. It raises KeyboardInterrupt
only inside a call, so that no code of the engine is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from ..threads.call_threads import NEVER_BEGAN, ThreadCall
from ..threads.user_code import cross
from .held_interrupt import INTERRUPT, DeferredInterrupt
from .signals import on_main_thread, sigint_handler, signal_main_thread

POLL = 0.1
"""The seconds between two checks. On Windows a signal does not wake a waiting thread, and a blocked
loop must be noticed."""


TWICE = 0.2
"""The seconds in which a signal that was sent twice may arrive twice."""


IN_FLIGHT = 1.0
"""The seconds to wait for a signal that was sent. It fails to arrive only if a tool has installed
its own handler."""


class Waiter:
    """One thread's wait for one run."""

    kills = False
    """Whether a forced `interrupt` always ends a call."""
    where = ", on the thread that waits for the run"
    """The words for the thread, in the message about a call that is left running."""

    def __init__(
        self, calls: SimpleQueue[ThreadCall | None], cancel: Callable[[str], None]
    ) -> None:
        self.cancel = cancel
        self.user_interrupts = 0
        """The number of the person's interrupts, counted on the outermost waiter of the thread."""
        self.inside: ThreadCall | None = None
        """The call that this thread is making; None: it makes none."""
        self.awaited_signal: ThreadCall | None = None
        """The call for which we sent a signal that has not arrived yet; None: there is none."""
        self.forced = False
        """Whether that signal must end even a call that catches interrupts."""
        self.repeated: float | None = None
        """The time when that signal was sent again. It may arrive twice, and the second arrival has
        no meaning."""
        self._calls = calls
        self._lock = threading.Lock()
        self._reachable = False
        """Whether a signal reaches the calls of this waiter now."""

    def interrupt(self, call: ThreadCall, force: bool = False) -> None:
        """Raise KeyboardInterrupt in ``call``, from another thread, if it still runs and a signal
        can reach it.

        This must be repeated until the call ends, because a signal just before the call goes to
        sleep does not wake it. ``force``: whether a call that caught an interrupt before is ended,
        too (see `_raise_in_all_frames`); default False.
        """
        with self._lock:
            # A call that waits for an inner run is stopped through that run, which would otherwise
            # go on without a waiting thread.
            is_running = self.inside is call and call.inner is None
            may_interrupt = is_running and (force or not call.interrupted_once)
            # Only one signal at a time: the system merges two signals that arrive together, and an
            # unexpected signal would count as the person's.
            if may_interrupt and self._reachable and self.awaited_signal in (None, call):
                if self.awaited_signal is call:
                    self.repeated = time.monotonic()
                self.awaited_signal = call
                self.forced = force
                signal_main_thread()

    def serve(self, ended: Callable[[], bool], watch: Callable[[], object]) -> None:
        """Make the calls of the run until its end. Raises KeyboardInterrupt at the second
        interrupt.

        ``ended``: whether the run has ended. ``watch``: is called regularly and may raise, too.
        """
        watched = time.monotonic()
        with self._attending() as outermost:
            while not ended():
                # Called between two calls, too, because many short calls leave no pause.
                if time.monotonic() - watched >= POLL:
                    watch()
                    watched = time.monotonic()
                try:
                    # A SimpleQueue has its `get` in C. An interrupt in the `get` of a Queue could
                    # leave its lock locked, so that nobody could add a call.
                    call = self._calls.get(timeout=POLL)
                except Empty:
                    continue
                if call is not None:
                    self._perform(call)
                    del call  # keep no references to its arguments while waiting
                if outermost.user_interrupts > 1:
                    raise KeyboardInterrupt

    def serve_inside(self, ended: Callable[[], bool]) -> None:
        """Make the calls of the run, such as a question to the person, until ``ended()``, inside a
        call on this thread that waits for it."""
        outer = self.inside
        while not ended():
            with contextlib.suppress(Empty):
                call = self._calls.get(timeout=POLL)
                if call is not None:
                    try:
                        self._perform(call)
                    finally:
                        self.inside = outer

    def wake(self) -> None:
        """Wake the thread, so that it looks whether the run has ended."""
        self._calls.put(None)

    def _perform(self, call: ThreadCall) -> None:
        """Make ``call`` on this thread, unless it was stopped before."""
        if not call.take():
            call.tell(NEVER_BEGAN)
            return
        call.waiter = self
        result = NEVER_BEGAN
        # From here to `tell`, an interrupt can come at any line. The task of the call waits for
        # `tell`, so a result exists from the start, and `finally` undoes all changes.
        # In a notebook, the kernel's loop runs on this thread. It is hidden, so that a tool can
        # call `asyncio.run`, which refuses to start beside a running loop. No public function does
        # this.
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        traced = sys.gettrace()
        profiled = sys.getprofile()
        try:
            self.inside = call
            result = call.perform()
            self.inside = None
        except KeyboardInterrupt as late:  # the interrupt came at the start or end of the function
            result = False, late
        finally:
            self.inside = None
            if call.interrupted_once:  # `_raise_in_all_frames` may have done it
                sys.setprofile(profiled)
                sys.settrace(traced)
            if running is not None:
                asyncio.set_event_loop(running)  # asyncio.run removes it
                asyncio._set_running_loop(running)
            call.tell(result)

    @contextlib.contextmanager
    def _attending(self) -> Iterator[Waiter]:
        """Let signals reach the calls of this waiter. Yields the outermost waiter of the thread."""
        # Added before the handler is installed, which looks here for the target of a signal.
        waiters.stack.append(self)
        try:
            with _handling_sigint():
                self._reachable = on_main_thread() and isinstance(sigint_handler(), OnSigint)
                try:
                    # The outermost waiter counts the interrupts: a run inside a tool must not take
                    # the second interrupt for the first.
                    yield waiters.stack[0]
                finally:
                    self._close()
        finally:
            waiters.stack.pop()

    def _close(self) -> None:
        """Wait for a signal that is on its way, because it would end the next cell. After this, no
        signal is sent."""
        with self._lock:
            self._reachable = False
        # `interrupt` sends under the same lock, so a sent signal is noted by now.
        until = time.monotonic() + IN_FLIGHT
        # The signal arrives now at the latest: a sleep runs the pending handlers.
        if self.awaited_signal is None and self.repeated is not None:
            time.sleep(0.001)
        while self.awaited_signal is not None and time.monotonic() < until:
            time.sleep(0.001)


class _Waiters(threading.local):
    """The waiters of each thread."""

    def __init__(self) -> None:
        self.stack: list[Waiter] = []
        """The waiters of this thread, the outermost first: a tool may start a run and wait for
        it."""
        self.held: DeferredInterrupt | None = None
        """The handler that delays interrupts on this thread."""


waiters = _Waiters()


class OnSigint:
    """The handler of SIGINT while the main thread waits."""

    def __init__(self, before: Any) -> None:
        """``before``: the handler that this one replaces."""
        self.before = before
        self._cancels = False
        """Whether the handler is cancelling the runs. Our own signal must not interrupt that; it is
        sent again if its call continues."""
        self._pid = os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        stack = waiters.stack
        # A tool restored this handler after the run, or forked this process.
        if not stack or os.getpid() != self._pid:
            if callable(self.before):
                self.before(number, frame)
            return
        if self._is_ours(stack, frame):
            return
        # The owner of the process ignores interrupts, and so do its runs.
        if self.before is signal.SIG_IGN:
            return
        outermost = stack[0]
        innermost = stack[-1]
        # Counted first, because the next interrupt may end anything after it.
        outermost.user_interrupts += 1
        if self._cancels:
            return
        self._cancels = True
        try:
            for waiter in stack:
                waiter.cancel(INTERRUPT)
        finally:
            self._cancels = False
        call = innermost.inside
        if call is None:
            # Python continues a `get` in C after a handler that raises nothing. The entry wakes it,
            # so that `serve` counts the interrupts at once.
            innermost.wake()
        elif not call.interrupted_once or outermost.user_interrupts > 1:
            call.interrupted = True
            _interrupt_call(call, frame)

    def _is_ours(self, stack: list[Waiter], frame: FrameType | None) -> bool:
        """Whether we sent the signal, to stop a call. If that call still runs, the interrupt is
        raised in it."""
        for waiter in stack:
            if waiter.awaited_signal is not None:
                call = waiter.awaited_signal
                waiter.awaited_signal = None
                is_running = waiter is stack[-1] and waiter.inside is call and not self._cancels
                if is_running and (waiter.forced or not call.interrupted_once):
                    _interrupt_call(call, frame)
                return True
            if waiter.repeated is not None:
                repeated = waiter.repeated
                waiter.repeated = None
                if time.monotonic() - repeated < TWICE:
                    return True
        return False


def _interrupt_call(call: ThreadCall, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in ``call``, whose running frame is ``frame``."""
    if call.interrupted_once and frame is not None:
        _raise_in_all_frames(frame)  # the call caught an interrupt before
    call.interrupted_once = True
    raise KeyboardInterrupt


def _raise_in_all_frames(frame: FrameType) -> None:
    """Raise KeyboardInterrupt in all frames of the call around ``frame``, so that it ends even if
    it catches the exception.

    The exception is raised again at the next line of each frame. That line is in the clause that
    caught it, or after it, so that the clause cannot catch it again. `Waiter._perform` ends the
    tracing. C code that does not return to Python cannot be ended in this way.
    """

    def trace(inner: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            raise KeyboardInterrupt
        # Functions that are called from now on are not traced, so that they may clean up.
        return None if event == "call" else trace

    def again(inner: FrameType, event: str, arg: Any) -> None:
        sys.settrace(trace)  # Python removes a trace function that raises, but outer frames need it

    below: FrameType | None = frame
    while below is not None and below.f_code is not cross.__code__:
        below.f_trace = trace
        below = below.f_back
    if below is not None:  # otherwise the frame does not belong to the call
        sys.setprofile(again)
        sys.settrace(trace)


@contextlib.contextmanager
def _handling_sigint() -> Iterator[None]:
    """Install our handler of SIGINT for the block, if this is the main thread."""
    before = sigint_handler()
    if not on_main_thread() or before is None or isinstance(before, OnSigint):
        yield
        return
    # Nested runs share the outermost handler, which knows all waiters of the thread.
    ours = OnSigint(before)
    signal.signal(signal.SIGINT, ours)
    try:
        yield
    finally:
        if sigint_handler() is ours:  # a tool may have installed its own
            signal.signal(signal.SIGINT, before)
