"""The thread that waits for a run: it makes the calls that belong on it, and handles interrupts.

Python runs signal handlers only on the main thread, so only there can a call be stopped from
outside, by a real SIGINT, which also ends a ``time.sleep(30)``. While the main thread waits, SIGINT
has our handler. It knows who sent the signal: a signal of the person cancels the run; a signal of
ours is for one call, and is dropped if that call has ended. It raises KeyboardInterrupt only inside
a call, so no code of the engine is interrupted.
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
"""Seconds between two checks: on Windows a signal does not wake a wait, and a blocked loop must be
noticed."""


TWICE = 0.2
"""Seconds in which a signal that was sent twice may arrive twice."""


IN_FLIGHT = 1.0
"""Seconds to wait for a signal that was sent; it only stays away if a tool has installed its own
handler."""


class Waiter:
    """One thread's wait for one run."""

    kills = False
    """Whether `interrupt` by force always ends a call."""
    where = ", on the thread that waits for the run"
    """The words for the thread, in the message about a call that is left running."""

    def __init__(
        self, calls: SimpleQueue[ThreadCall | None], cancel: Callable[[str], None]
    ) -> None:
        self.cancel = cancel
        self.user_interrupts = 0
        """The interrupts of the person, counted on the outermost waiter of the thread."""
        self.inside: ThreadCall | None = None
        self.awaited_signal: ThreadCall | None = None
        """The call for which we have sent a signal that has not arrived."""
        self.forced = False
        """Whether that signal must end a call that catches interrupts."""
        self.repeated: float | None = None
        """When that signal was sent again; it may arrive twice, and the second one has no
        meaning."""
        self._calls = calls
        self._lock = threading.Lock()
        self._reachable = False

    def interrupt(self, call: ThreadCall, force: bool = False) -> None:
        """Raise KeyboardInterrupt in ``call``, from another thread, if it still runs and a signal
        can reach it.

        Must be repeated until the call ends: a signal just before the call goes to sleep does not
        wake it. ``force``: also if the call has caught one before: see `_raise_in_all_frames`.
        """
        with self._lock:
            # A call that waits for a run of its own is stopped through that run, which would else
            # go on without a thread that waits for it.
            runs = (
                self.inside is call and call.inner is None and (force or not call.interrupted_once)
            )
            # One signal at a time: the system makes one of two that arrive together, and a signal
            # that is awaited by nobody would count as the person's.
            if runs and self._reachable and self.awaited_signal in (None, call):
                if self.awaited_signal is call:
                    self.repeated = time.monotonic()
                self.awaited_signal = call
                self.forced = force
                signal_main_thread()

    def serve(self, ended: Callable[[], bool], watch: Callable[[], object]) -> None:
        """Make the calls of the run until its end. Raises KeyboardInterrupt at the second
        interrupt.

        ``watch`` is called regularly and may raise, too.
        """
        watched = time.monotonic()
        with self._attending() as outermost:
            while not ended():
                # Also between two calls: many short ones leave no pause.
                if time.monotonic() - watched >= POLL:
                    watch()
                    watched = time.monotonic()
                try:
                    # A SimpleQueue, whose `get` is in C: an interrupt in the `get` of a Queue can
                    # leave its lock locked, and then nobody can add a call.
                    call = self._calls.get(timeout=POLL)
                except Empty:
                    continue
                if call is not None:
                    self._perform(call)
                    del call  # while waiting, there are no references to its arguments
                if outermost.user_interrupts > 1:
                    raise KeyboardInterrupt

    def serve_inside(self, ended: Callable[[], bool]) -> None:
        """Make the calls of the run, such as the question of a person, until ``ended()``, while a
        call on this thread waits for that."""
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
        self._calls.put(None)

    def _perform(self, call: ThreadCall) -> None:
        """Make ``call`` on this thread, unless it was stopped before."""
        if not call.take():
            call.tell(NEVER_BEGAN)
            return
        call.waiter = self
        result = NEVER_BEGAN
        # From here to `tell` an interrupt can come at any line. The task of the call waits for
        # `tell`, so there is a result from the start, and everything that is changed here is undone
        # in `finally`.
        # The kernel's loop, which runs on this thread in a notebook, is hidden: a tool can then
        # call `asyncio.run`, which refuses to start where a loop runs. There is no public function
        # for that.
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        traced = sys.gettrace()
        profiled = sys.getprofile()
        try:
            self.inside = call
            result = call.perform()
            self.inside = None
        except KeyboardInterrupt as late:  # at the start or end of the function
            result = False, late
        finally:
            self.inside = None
            if call.interrupted_once:  # perhaps by `_raise_in_all_frames`
                sys.setprofile(profiled)
                sys.settrace(traced)
            if running is not None:
                asyncio.set_event_loop(running)  # asyncio.run removes it
                asyncio._set_running_loop(running)
            call.tell(result)

    @contextlib.contextmanager
    def _attending(self) -> Iterator[Waiter]:
        """Signals reach the calls of this waiter. Yields the outermost waiter of the thread."""
        # Before the handler is installed: it looks here for whom a signal is meant.
        waiters.stack.append(self)
        try:
            with _handling_sigint():
                self._reachable = on_main_thread() and isinstance(sigint_handler(), OnSigint)
                try:
                    # The outermost one counts the interrupts: a run inside a tool must not take the
                    # second one for its first.
                    yield waiters.stack[0]
                finally:
                    self._close()
        finally:
            waiters.stack.pop()

    def _close(self) -> None:
        """Wait for a signal that is on its way, because it would end the next cell; no signal is
        sent after this."""
        with self._lock:
            self._reachable = False
        # `interrupt` sends under the same lock, so a signal that it has sent is awaited by now.
        until = time.monotonic() + IN_FLIGHT
        # It was sent before, so it arrives now at the latest: a sleep runs the handlers that wait.
        if self.awaited_signal is None and self.repeated is not None:
            time.sleep(0.001)
        while self.awaited_signal is not None and time.monotonic() < until:
            time.sleep(0.001)


class _Waiters(threading.local):
    def __init__(self) -> None:
        self.stack: list[Waiter] = []
        """The waiters of this thread, the outermost first: a tool may start a run and wait for
        it."""
        self.held: DeferredInterrupt | None = None
        """The handler that delays interrupts on this thread."""


waiters = _Waiters()


class OnSigint:
    """The handler while the main thread waits."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self._cancels = False
        """Whether it cancels the runs: a signal of ours that arrives meanwhile must not interrupt
        that. It is sent again if its call continues."""
        self._pid = os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        stack = waiters.stack
        # A tool has put this handler back after the run, or has forked this process.
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
        # Counted before anything that the next interrupt could end.
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
            # Python continues a `get` in C after a handler that raises nothing: the entry lets
            # `serve` count the interrupts at once.
            innermost.wake()
        elif not call.interrupted_once or outermost.user_interrupts > 1:
            call.interrupted = True
            _interrupt_call(call, frame)

    def _is_ours(self, stack: list[Waiter], frame: FrameType | None) -> bool:
        """Whether we have sent the signal, to stop a call; if that call still runs, it ends here."""
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
        _raise_in_all_frames(frame)  # it has caught one before
    call.interrupted_once = True
    raise KeyboardInterrupt


def _raise_in_all_frames(frame: FrameType) -> None:
    """Make the KeyboardInterrupt that will be raised in ``frame`` end the call, even if the call
    catches it.

    It is raised again at the next line of each frame of the call: that line is in the clause that
    has caught it or after the clause, which cannot catch it again. `Waiter._perform` ends the
    tracing. Code in C that does not return to Python cannot be ended in this way.
    """

    def trace(inner: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            raise KeyboardInterrupt
        # Functions that are called from now on run untraced: they may clean up.
        return None if event == "call" else trace

    def again(inner: FrameType, event: str, arg: Any) -> None:
        sys.settrace(trace)  # a trace function that raises is removed, and there are outer frames

    below: FrameType | None = frame
    while below is not None and below.f_code is not cross.__code__:
        below.f_trace = trace
        below = below.f_back
    if below is not None:  # otherwise the frame is not part of the call
        sys.setprofile(again)
        sys.settrace(trace)


@contextlib.contextmanager
def _handling_sigint() -> Iterator[None]:
    """SIGINT has our handler in this block, where it can have one."""
    before = sigint_handler()
    if not on_main_thread() or before is None or isinstance(before, OnSigint):
        yield
        return
    # One handler for nested runs: the outermost one knows all waiters of the thread.
    ours = OnSigint(before)
    signal.signal(signal.SIGINT, ours)
    try:
        yield
    finally:
        if sigint_handler() is ours:  # a tool may have installed its own
            signal.signal(signal.SIGINT, before)
