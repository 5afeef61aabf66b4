"""A run on the engine's loop: how other threads start it, wait for it and cancel it.

The thread that waits for a run: it makes the calls that belong on it, and handles interrupts.

Python runs signal handlers only on the main thread, so only there can a call be stopped from
outside, by a real SIGINT, which also ends a ``time.sleep(30)``. While the main thread waits, SIGINT
has our handler. It knows who sent the signal: a signal of the person cancels the run; a signal of
ours is for one call, and is dropped if that call has ended. It raises KeyboardInterrupt only inside
a call, so no code of the engine is interrupted.

Interrupts of a cell that starts a run: before its thread waits for the run, and after the run
has ended.

While the thread waits, `Waiter` handles them. Before and after that, an interrupt would lose a
run that has started or a page that is not shown.
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
from collections.abc import Awaitable, Callable, Iterator
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Generic, NamedTuple, TypeVar

from ..text.late_imports import IN_BROWSER
from .host import Host
from .limits import held
from .loop import EngineLoop, OwnLoop, Watchdog, can_suspend, on_an_engine_loop, suspend
from .threads import NEVER_BEGAN, Call
from .threads import running as on_this_thread
from .user_code import StillRunning, cross

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
    """For the message about a call that is left running."""

    def __init__(self, calls: SimpleQueue[Call | None], cancel: Callable[[str], None]) -> None:
        self.cancel = cancel
        self.hits = 0
        """The interrupts of the person, counted on the outermost waiter of the thread."""
        self.inside: Call | None = None
        self.owed: Call | None = None
        """The call for which we have sent a signal that has not arrived."""
        self.forced = False
        """Whether that signal must end a call that catches interrupts."""
        self.repeated: float | None = None
        """When that signal was sent again; it may arrive twice, and the second one has no
        meaning."""
        self._calls = calls
        self._lock = threading.Lock()
        self._reachable = False

    def interrupt(self, call: Call, force: bool = False) -> None:
        """Raise KeyboardInterrupt in ``call``, from another thread, if it still runs and a signal
        can reach it.

        Must be repeated until the call ends: a signal just before the call goes to sleep does not
        wake it. ``force``: also if the call has caught one before: see `_get_out`.
        """
        with self._lock:
            # A call that waits for a run of its own is stopped through that run, which would else
            # go on without a thread that waits for it.
            runs = self.inside is call and call.inner is None and (force or not call.struck)
            # One signal at a time: the system makes one of two that arrive together, and a signal
            # that is owed to nobody would count as the person's.
            if runs and self._reachable and self.owed in (None, call):
                if self.owed is call:
                    self.repeated = time.monotonic()
                self.owed, self.forced = call, force
                _signal_main_thread()

    def serve(self, ended: Callable[[], bool], watch: Callable[[], None]) -> None:
        """Make the calls of the run until its end. Raises KeyboardInterrupt at the second
        interrupt.

        ``watch`` is called regularly and may raise, too.
        """
        with self._attending() as outermost:
            while not ended():
                try:
                    # A SimpleQueue, whose `get` is in C: an interrupt in the `get` of a Queue can
                    # leave its lock locked, and then nobody can add a call.
                    call = self._calls.get(timeout=POLL)
                except Empty:
                    watch()
                    continue
                if call is not None:
                    self._perform(call)
                    del call  # while waiting, there are no references to its arguments
                if outermost.hits > 1:
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

    def _perform(self, call: Call) -> None:
        if not call.take():
            call.tell(NEVER_BEGAN)
            return
        call.waiter = self
        result = NEVER_BEGAN
        # From here to `tell` an interrupt can come at any line. The task of the call waits for
        # `tell`, so there is a result from the start, and everything that is changed here is undone
        # in `finally`.
        running, traced, profiled = _hide_loop(), sys.gettrace(), sys.getprofile()
        try:
            self.inside = call
            result = call.perform()
            self.inside = None
        except KeyboardInterrupt as late:  # at the start or end of the function
            result = False, late
        finally:
            self.inside = None
            if call.struck:  # perhaps by `_get_out`
                sys.setprofile(profiled)
                sys.settrace(traced)
            if running is not None:
                asyncio.set_event_loop(running)  # asyncio.run removes it
                asyncio._set_running_loop(running)
            call.tell(result)

    @contextlib.contextmanager
    def _attending(self) -> Iterator[Waiter]:
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
        # `interrupt` sends under the same lock, so a signal that it has sent is owed by now.
        until = time.monotonic() + IN_FLIGHT
        # It was sent before, so it arrives now at the latest: a sleep runs the handlers that wait.
        if self.owed is None and self.repeated is not None:
            time.sleep(0.001)
        while self.owed is not None and time.monotonic() < until:
            time.sleep(0.001)


class _Waiters(threading.local):
    def __init__(self) -> None:
        self.stack: list[Waiter] = []
        """The waiters of this thread, the outermost first: a tool may start a run and wait for
        it."""


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
        top = stack[-1]
        for waiter in stack:
            if waiter.owed is not None:
                call, waiter.owed = waiter.owed, None
                if self._cancels:
                    return
                if waiter is top and waiter.inside is call and (waiter.forced or not call.struck):
                    _strike(call, frame if call.struck else None)
                return
            if waiter.repeated is not None:
                repeated, waiter.repeated = waiter.repeated, None
                if time.monotonic() - repeated < TWICE:
                    return
        # The owner of the process ignores interrupts, and so do its runs.
        if self.before is signal.SIG_IGN:
            return
        # Counted before anything that the next interrupt could end.
        stack[0].hits += 1
        if self._cancels:
            return
        self._cancels = True
        try:
            for waiter in stack:
                waiter.cancel("interrupt")
        finally:
            self._cancels = False
        if top.inside is None:
            # Python continues a `get` in C after a handler that raises nothing: the entry lets
            # `serve` count the interrupts at once.
            top.wake()
        elif not top.inside.struck or stack[0].hits > 1:
            top.inside.interrupted = True
            _strike(top.inside, frame if top.inside.struck else None)


def _strike(call: Call, deaf: FrameType | None) -> None:
    """Raise KeyboardInterrupt in ``call``. ``deaf``: the running frame, if the call has caught one
    before."""
    if deaf is not None:
        _get_out(deaf)
    call.struck = True
    raise KeyboardInterrupt


def _get_out(frame: FrameType) -> None:
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


@contextlib.contextmanager
def woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let signals wake ``loop``, which runs on this thread.

    A notebook's handler of SIGINT cancels the task of the cell, but the loop would sleep until its
    next timer.
    """
    if not on_main_thread() or IN_BROWSER:
        yield
        return
    ear, mouth = socket.socketpair()
    with ear, mouth:
        # A full pipe must not block the handler, and an empty one not the loop.
        ear.setblocking(False)
        mouth.setblocking(False)
        before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        if before == -1:  # otherwise the loop or its owner does that
            loop.add_reader(ear, ear.recv, 4096)
        else:
            signal.set_wakeup_fd(before)
        try:
            yield
        finally:
            if before == -1:
                loop.remove_reader(ear)
                signal.set_wakeup_fd(-1)


def on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def sigint_handler() -> Any:
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
    """Hide the kernel's loop, which runs on this thread in a notebook, so that a tool can call
    `asyncio.run`."""
    # asyncio has no public function for this: `asyncio.run` refuses to start where a loop runs.
    running = asyncio._get_running_loop()
    if running is not None:
        asyncio._set_running_loop(None)
    return running


class Held:
    """The handler of SIGINT before a thread waits for a run, and after that until the end of the
    run is shown.

    Before `hold`, interrupts work as usual. After it they raise nothing, so that a started run is
    not lost: the first one cancels the run. After the run has `ended`, the first one raises
    KeyboardInterrupt when everything is shown, and the second one at once.
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
        # Only after the end: before it the second interrupt is the waiter's, which leaves the run.
        if self.ended and self.missed:
            raise KeyboardInterrupt
        # The first one after the end is kept for later: the result is being shown.
        self.missed = self.ended
        self._cancel("interrupt")


class _Interrupts(threading.local):
    def __init__(self) -> None:
        self.held: Held | None = None
        """What delays interrupts on this thread."""


thread = _Interrupts()


def hold_for(cancel: Callable[[str], None]) -> None:
    """An interrupt before this thread waits for the run that starts now calls ``cancel``."""
    # Inside a run its own handler is in effect, and cancels this run with the outer one.
    if thread.held is not None and not waiters.stack:
        thread.held.hold(cancel)


@contextlib.contextmanager
def held_interrupts() -> Iterator[Held]:
    """For a block that starts a run and waits for it: an interrupt in between cancels the run
    instead of raising.

    Raises KeyboardInterrupt at the end of the block for an interrupt after the end of the run.
    """
    held = Held(sigint_handler())
    if (
        not on_main_thread()
        or not callable(held.before)
        or isinstance(held.before, OnSigint | Held)
    ):
        yield held  # no interrupt arrives here, or an outer handler handles it
        return
    # Set in the `try`: an interrupt between these lines leaves neither of them behind.
    around = thread.held
    try:
        thread.held = held
        signal.signal(signal.SIGINT, held)
        yield held
    finally:
        thread.held = around
        if sigint_handler() is held:
            signal.signal(signal.SIGINT, held.before)
    if held.missed:
        raise KeyboardInterrupt


T = TypeVar("T")

UNANSWERED = 2.0
"""Seconds after a cancellation before the loop is checked."""

LATE = 4.0
"""Seconds after its time limit at which a run is ended from outside: more than its calls have to
stop (`Host.grace` and `FORCE`)."""


class Limit(NamedTuple):
    seconds: float
    exceeded: Callable[[str], BaseException]
    """Makes the error of a job that took longer, from a text about the calls that are left
    running."""


class End:
    """Is set once. An interrupt in `threading.Event.wait` can leave the lock of the event locked,
    and ``set`` would then wait for ever; this ``set`` never waits."""

    def __init__(self) -> None:
        self._set = False
        # A bare lock: only `release` is left of the event, which never waits.
        self._closed = threading.Lock()
        self._closed.acquire()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Must be called once."""
        self._set = True
        self._closed.release()

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most ``seconds``; whether it is set."""
        if not self._set and self._closed.acquire(timeout=seconds):
            self._closed.release()
        return self._set


class Job(Generic[T]):
    """A run on the engine's loop, driven from another thread."""

    def __init__(
        self,
        main: Callable[[Host], Awaitable[T]],
        *,
        enter: Callable[[], None] | None = None,
        waited: bool = True,
        over: Callable[[tuple[T] | BaseException], None] | None = None,
        limit: Limit | None = None,
    ) -> None:
        """``enter`` is called once, in the context of the run, before anything else. ``waited``: a
        thread will call `Job.wait` and run the calls that belong on it. ``over`` is called with the
        result, on any thread, before the threads that wait continue. ``limit``: when the job is
        ended from outside; None: never."""
        if waited:
            _refuse_on_a_loop()
        self.reason: str | None = None
        self.asked: float | None = None
        """When it was cancelled, by the monotonic clock."""
        self._over = over
        self._limit = limit
        self._late = float("inf")
        self.started = False
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._host = Host(self._calls if waited else None)
        self._ended = End()
        self._outcome: tuple[T] | BaseException = asyncio.CancelledError()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], object]] = []
        self._task: asyncio.Task[None] | None = None
        self._main, self._enter = main, enter
        self._engine = EngineLoop.current(waited)

    def start(self) -> None:
        if self._limit is not None:
            self._late = time.monotonic() + self._limit.seconds + LATE
            # Before the run is on the loop: a tool may block the loop at once.
            Watchdog.shared().watch(self._watched, self._late)
        self.started = True
        # The callback inherits the rights of the caller, as its coroutines do: a run that a tool
        # starts may use no more than the tool.
        with held():
            self._engine.loop.call_soon_threadsafe(self._begin)

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def cancel(self, reason: str) -> None:
        """Cancel it, from any thread. Only the first time counts: another one would interrupt its
        clean-up."""
        if self.asked is None and not self.done and self.started:
            # Set first: `look` counts from here if the loop is blocked and the line below has no
            # effect.
            self.reason, self.asked = reason, time.monotonic()
            with contextlib.suppress(RuntimeError):  # the loop is closed, so the job has ended
                self._engine.loop.call_soon_threadsafe(self._cancel)
            Watchdog.shared().watch(self._watched, self.asked + UNANSWERED)

    def wait(self) -> T:
        """Wait for the end and run the calls that belong on this thread; return the value or raise
        the error.

        The first interrupt cancels the run and all runs around it; the second raises
        KeyboardInterrupt. Raises StillRunning if a blocked loop cannot end the run.
        """
        _refuse_on_a_loop()
        around = on_this_thread.call
        if around is not None:
            # From now on the call that waits here is stopped through this run; it may have been
            # stopped before, when there was nothing to pass that on to.
            around.inner = self.cancel
            if around.stopped:
                self.cancel("the run around it was stopped")
        try:
            if IN_BROWSER:
                self._wait_on_loop()
            else:
                Waiter(self._calls, self.cancel).serve(self._ended.is_set, self.look)
        except KeyboardInterrupt:
            self.cancel("interrupt")
            raise
        finally:
            if around is not None:
                around.inner = None
        # The interrupt of a person ends the runs around this one too: the value is not returned to
        # a tool that would go on with it.
        interrupted = bool(waiters.stack) and waiters.stack[0].hits > 0
        if around is not None and (around.stopped or interrupted):
            around.interrupted = around.interrupted or interrupted
            raise KeyboardInterrupt  # the call that waits ends, too
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome[0]

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of a background job; whether it has ended. An interrupt only ends the
        waiting."""
        if self.done:
            return True
        _refuse_on_a_loop()
        if IN_BROWSER:
            return self._join_on_loop(timeout)
        around = on_this_thread.call
        until = None if timeout is None else time.monotonic() + timeout
        while not self._ended.wait(
            POLL if until is None else max(0.0, min(POLL, until - time.monotonic()))
        ):
            if until is not None and time.monotonic() >= until:
                return False
            self.look()
            if around is not None and around.stopped:
                raise KeyboardInterrupt  # the call that waits ends
        return True

    def every(
        self, seconds: float, tick: Callable[[], object], close: Callable[[], object]
    ) -> None:
        """Call ``tick`` on the loop again and again until the end, then ``close``."""

        def again() -> None:
            if not self.done:
                tick()
                self._engine.loop.call_later(seconds, again)

        if self.done:
            close()
        else:
            self._listeners.append(close)
            loop = self._engine.loop
            loop.call_soon_threadsafe(loop.call_later, seconds, again)

    def _wait_on_loop(self) -> None:
        loop = self._engine.loop
        if isinstance(loop, OwnLoop):
            loop.drive(self.ended())
            loop.close()
        else:
            suspend(self.ended())

    def _join_on_loop(self, timeout: float | None) -> bool:
        if not can_suspend():
            message = (
                "a run in the background cannot be waited for in this browser, which has no "
                "JSPI: use `await run`"
            )
            raise RuntimeError(message)

        async def ended() -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ended(), timeout)

        suspend(ended())
        return self.done

    async def ended(self) -> None:
        """Wait for the end on the running loop; cancelling this only ends the waiting."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_wake, future)

        # Before `done` is asked: a run that ends in between would never wake this.
        self._listeners.append(notify)
        try:
            while not self.done:
                # With a timeout, because a blocked loop of the engine never notifies: then `look`
                # ends the run from here.
                await asyncio.wait((future,), timeout=UNANSWERED)
                self.look()
        finally:
            self._listeners.remove(notify)

    def look(self) -> None:
        """End a run that does not end by itself: its loop is blocked after a cancellation, or it is
        long over its time limit. Called regularly by the threads that wait."""
        now = time.monotonic()
        late = now >= self._late + self._host.seconds_asking
        cancelled = self.asked is not None and now - self.asked >= UNANSWERED
        if not (late or cancelled) or self.done:
            return
        # It may wait for an answer of the loop, so only for a run that is due.
        stuck = self._engine.stuck()
        if not stuck and not late:
            return
        where = f"blocked in {self._engine.blocked_in()}" if stuck else "it does not stop"
        left = f"left running: {where}"
        if late and self._limit is not None and self.asked is None:
            self._finish(self._limit.exceeded(left))
        else:
            self._finish(StillRunning(left))
        if stuck:
            self._engine.abandon()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._engine.loop.call_soon_threadsafe(self._cancel)

    def _watched(self) -> bool:
        self.look()
        return self.done

    def _begin(self) -> None:
        if self.done:  # the loop was blocked, and the job was ended before it started
            return
        self._engine.jobs.add(self)
        self._task = self._engine.loop.create_task(self._run(self._main, self._enter))
        # A task that is cancelled before its first step runs nothing of `_run`.
        self._task.add_done_callback(self._end)

    async def _run(
        self, main: Callable[[Host], Awaitable[T]], enter: Callable[[], None] | None
    ) -> None:
        try:
            if enter is not None:
                enter()
            outcome: tuple[T] | BaseException = (await main(self._host),)
        except BaseException as error:
            outcome = error
        if isinstance(outcome, BaseException):
            # The frames of the engine's loop: nobody reads them, and they hold the values of the
            # run.
            outcome.__context__ = None
        self._finish(outcome)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._engine.jobs.discard(self)
        self._finish(self._outcome)  # it was cancelled before it started

    def _finish(self, outcome: tuple[T] | BaseException) -> None:
        """Set the end, on the loop or from outside; the first one counts."""
        with self._lock:
            if self.done:
                return
            self._outcome = outcome
            # `over` before the end is set: those who wait must see what it stores.
            try:
                if self._over is not None:
                    self._over(outcome)
            finally:
                self._ended.set()
        if self._limit is not None or self.asked is not None:
            # The watchdog holds the run as long as it watches it.
            Watchdog.shared().forget(self._watched)
        self._calls.put(None)
        # A copy: a listener may leave on its own thread meanwhile.
        for notify in list(self._listeners):
            notify()

    def _cancel(self) -> None:
        # First: a tool may swallow the cancellation of the task.
        self._host.stop()
        if self._task is not None:
            self._task.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _refuse_on_a_loop() -> None:
    if on_an_engine_loop():
        message = (
            "a run cannot be waited for on the loop that drives runs: use `await agf.arun(...)`"
        )
        raise RuntimeError(message)


async def here(main: Callable[[Host], Awaitable[T]]) -> T:
    """Run ``main`` on the running loop. Cancelling the task that awaits this cancels the run."""
    # The signal of a notebook's ■ sets a flag that only a turn of the loop sees.
    with woken_by_signals(asyncio.get_running_loop()):
        return await main(Host())
