"""The thread that waits for a run: it runs the plain functions the run hands it, and takes the signals.

Python runs signal handlers on the main thread only, so that is the one thread where a call can be stopped from outside,
by a real SIGINT: it ends a ``time.sleep(30)`` too. While the main thread waits, SIGINT has our handler. It alone knows
whose signal it is: the person's cancels the run, ours is for one call and is swallowed when that call is already out.
And it raises KeyboardInterrupt nowhere but inside a call, so nothing here can be torn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from .calls import cross
from .threads import NEVER_BEGAN, Call

POLL = 0.1
"""Seconds: on Windows a wait is not woken by a signal, and the blocked loop is noticed by looking."""

TWICE = 0.2
"""Seconds in which a signal that was sent again may come a second time."""

IN_FLIGHT = 1.0
"""Seconds to wait for a signal that was sent and has not come; it has, unless a tool put its own handler there."""


class Waiter:
    """One thread's wait for one run."""

    def __init__(self, calls: SimpleQueue[Call | None], cancel: Callable[[str], None]) -> None:
        self.cancel = cancel
        self.hits = 0
        """How often the person interrupted; counted on the outermost waiter of the thread."""
        self.inside: Call | None = None
        """The call that is running."""
        self.owed: Call | None = None
        """The call that a signal of ours is on its way to."""
        self.forced = False
        """Whether that signal is to get through to a call that catches interrupts."""
        self.repeated: float | None = None
        """When that signal was sent again: it may come twice, and the second is nobody's."""
        self._calls = calls
        self._lock = threading.Lock()
        self._reachable = False

    def interrupt(self, call: Call, force: bool = False) -> None:
        """Raise KeyboardInterrupt in ``call``, from another thread, if it still runs and a signal reaches it.

        To be repeated until the call has ended: a signal that comes just before the call falls asleep does not wake it.
        ``force``: also where one was raised in it before, and then past the clauses that catch it: see `_get_out`.
        """
        with self._lock:
            runs = self.inside is call and call.inner is None and (force or not call.struck)
            if runs and self._reachable and self.owed in (None, call):
                if self.owed is call:
                    self.repeated = time.monotonic()
                self.owed, self.forced = call, force
                _signal_main_thread()

    def serve(self, ended: threading.Event, watch: Callable[[], None]) -> None:
        """Run what the run hands over until it has ended. Raises KeyboardInterrupt at the second interrupt.

        ``watch`` is called every now and then and may raise as well.
        """
        with self._attending() as outermost:
            while not ended.is_set():
                try:
                    call = self._calls.get(timeout=POLL)
                except Empty:
                    watch()
                    continue
                if call is not None:
                    self._perform(call)
                    del call  # the next one may be long in coming, and this one holds its arguments
                if outermost.hits > 1:
                    raise KeyboardInterrupt

    def wake(self) -> None:
        self._calls.put(None)

    def _perform(self, call: Call) -> None:
        if not call.take():
            call.tell(NEVER_BEGAN)
            return
        call.waiter = self
        result = NEVER_BEGAN
        running, traced, profiled = _hide_loop(), sys.gettrace(), sys.getprofile()
        try:
            self.inside = call
            result = call.perform()
            self.inside = None
        except KeyboardInterrupt as late:  # it came as the function was entered or left
            result = False, late
        finally:
            self.inside = None
            if call.struck:  # perhaps by `_get_out`
                sys.setprofile(profiled)
                sys.settrace(traced)
            if running is not None:
                _show_loop(running)
            call.tell(result)

    @contextlib.contextmanager
    def _attending(self) -> Iterator[Waiter]:
        waiters.stack.append(self)
        try:
            with _handling_sigint():
                self._reachable = _on_main_thread() and isinstance(_handler(), _OnSigint)
                try:
                    yield waiters.stack[0]
                finally:
                    self._close()
        finally:
            waiters.stack.pop()

    def _close(self) -> None:
        """No signal after this; one that is on its way is taken in, or it would end the person's next cell."""
        with self._lock:
            self._reachable = False
        until = time.monotonic() + IN_FLIGHT
        if self.owed is None and self.repeated is not None:
            time.sleep(0.001)  # sent before the lock was ours, so it comes with this at the latest
        while self.owed is not None and time.monotonic() < until:
            time.sleep(0.001)


class _Waiters(threading.local):
    def __init__(self) -> None:
        self.stack: list[Waiter] = []
        """Who waits on this thread, the outermost first: a tool may start a run of its own and wait for it."""
        self.held: Held | None = None
        """What holds interrupts back on this thread, while something does."""


waiters = _Waiters()


class _OnSigint:
    """The handler while the main thread waits."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self._pid = os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        stack = waiters.stack
        if not stack or os.getpid() != self._pid:  # a tool saved this handler and put it back later; or a fork
            if callable(self.before):
                self.before(number, frame)
            return
        top = stack[-1]
        for waiter in stack:
            if waiter.owed is not None:
                call, waiter.owed = waiter.owed, None
                if waiter is top and waiter.inside is call and (waiter.forced or not call.struck):
                    _strike(call, frame if call.struck else None)
                return
            if waiter.repeated is not None:
                repeated, waiter.repeated = waiter.repeated, None
                if time.monotonic() - repeated < TWICE:
                    return
        if self.before is signal.SIG_IGN:
            return
        stack[0].hits += 1
        for waiter in stack:
            waiter.cancel("interrupt")
        if top.inside is None:
            top.wake()
        elif not top.inside.struck or stack[0].hits > 1:
            top.inside.interrupted = True
            _strike(top.inside, frame if top.inside.struck else None)


def _strike(call: Call, deaf: FrameType | None) -> None:
    """Raise KeyboardInterrupt in ``call``. ``deaf``: the frame that runs where the call has caught one before."""
    if deaf is not None:
        _get_out(deaf)
    call.struck = True
    raise KeyboardInterrupt


def _get_out(frame: FrameType) -> None:
    """Let the KeyboardInterrupt that is about to be raised in ``frame`` end the call, whatever catches it.

    Another one is raised at the next line that each frame of the call comes to: that line stands in the clause that
    caught the one before, or after it, where the same clause cannot catch it. `Waiter._perform` ends the tracing. Code
    in C that never comes back to Python cannot be ended so.
    """

    def trace(inner: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            raise KeyboardInterrupt
        return None if event == "call" else trace  # what the call's own code calls now runs untraced

    def again(inner: FrameType, event: str, arg: Any) -> None:
        sys.settrace(trace)  # a trace function that raises is taken out; the frames around are still to be left

    below: FrameType | None = frame
    while below is not None and below.f_code is not cross.__code__:
        below.f_trace = trace
        below = below.f_back
    if below is not None:  # else it is no frame of the call
        sys.setprofile(again)
        sys.settrace(trace)


@contextlib.contextmanager
def _handling_sigint() -> Iterator[None]:
    before = _handler()
    if not _on_main_thread() or before is None or isinstance(before, _OnSigint):
        yield
        return
    ours = _OnSigint(before)
    signal.signal(signal.SIGINT, ours)
    try:
        yield
    finally:
        if _handler() is ours:  # a tool may have put its own there, for good
            signal.signal(signal.SIGINT, before)


class Held:
    """SIGINT from before a run is started until a thread waits for it, and after that until its end is shown.

    Until `hold` an interrupt does what it did before. From then on it raises nothing, so that nothing that was started
    is lost: the first cancels the run. Once the run has `ended`, the second raises KeyboardInterrupt at once, and the
    first when all is shown.
    """

    def __init__(self, before: Any) -> None:
        self.before = before
        self.ended = False
        self.missed = False
        """Whether an interrupt came after the end."""
        self._cancel: Callable[[str], None] | None = None

    def hold(self, cancel: Callable[[str], None]) -> None:
        """From now on an interrupt calls ``cancel``."""
        self._cancel = cancel

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._cancel is None:
            self.before(number, frame)
            return
        if self.ended and self.missed:
            raise KeyboardInterrupt
        self.missed = self.ended
        self._cancel("interrupt")


def hold_for(cancel: Callable[[str], None]) -> None:
    """What is started now and waited for on this thread is cancelled by ``cancel`` when an interrupt comes first."""
    if waiters.held is not None and not waiters.stack:
        waiters.held.hold(cancel)


@contextlib.contextmanager
def held_interrupts() -> Iterator[Held]:
    """Start a run and wait for it in this block: an interrupt that comes in between is not raised, it cancels the run.

    Raises KeyboardInterrupt at the end of the block for an interrupt that came after the run had ended.
    """
    held = Held(_handler())
    if not _on_main_thread() or not callable(held.before) or isinstance(held.before, _OnSigint | Held):
        yield held  # no interrupt comes here, or whoever waits around this handles it
        return
    around = waiters.held
    try:
        waiters.held = held
        signal.signal(signal.SIGINT, held)
        yield held
    finally:
        waiters.held = around
        if _handler() is held:
            signal.signal(signal.SIGINT, held.before)
    if held.missed:
        raise KeyboardInterrupt


@contextlib.contextmanager
def woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let a signal wake ``loop``, which runs on this thread.

    A notebook's handler of SIGINT cancels the cell's task, but the loop sleeps on to its next timer before it looks.
    """
    if not _on_main_thread():
        yield
        return
    ear, mouth = socket.socketpair()
    with ear, mouth:
        ear.setblocking(False)
        mouth.setblocking(False)
        before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        if before == -1:  # else the loop, or whoever owns it, has seen to it
            loop.add_reader(ear, ear.recv, 4096)
        else:
            signal.set_wakeup_fd(before)
        try:
            yield
        finally:
            if before == -1:
                loop.remove_reader(ear)
                signal.set_wakeup_fd(-1)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handler() -> Any:
    return signal.getsignal(signal.SIGINT)


def _signal_main_thread() -> None:
    if sys.platform == "win32":
        import _thread

        _thread.interrupt_main()
    else:
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)


def _hide_loop() -> asyncio.AbstractEventLoop | None:
    """In a notebook the kernel's own loop runs on this thread: out of sight, so that a tool may call `asyncio.run`."""
    running = asyncio._get_running_loop()
    if running is not None:
        asyncio._set_running_loop(None)
    return running


def _show_loop(running: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(running)  # asyncio.run leaves none behind
    asyncio._set_running_loop(running)
