"""A run on the engine's loop: how other threads start it, wait for it and cancel it.

The engine's own event loop is in one daemon thread per process. Not the notebook's loop, which a
waiting cell blocks. The loop beats, so that other threads see whether it is blocked. If a tool
blocks it (``time.sleep`` in an ``async def``), the next run gets a new loop and a new thread.

The watchdog is the thread that checks runs that may be stuck: a tool that blocks the engine's loop
also blocks the loop's timers. A run is watched from its start if it has a time limit, otherwise from
its cancellation. The thread that waits for a run checks it too; the watchdog is for background runs,
and for a tool that blocks that thread.

A handler of signals calls `Watchdog.watch`, and an interrupt can end it anywhere. So it must not
use what an interrupt leaves locked, such as a `Condition` or the start of a `Thread` of
`threading`.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import contextvars
import os
import selectors
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from math import inf
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from ..text.late_imports import IN_BROWSER
from . import user_code
from .browser import OwnLoop, can_suspend, run_alone, suspend
from .host import Host
from .interrupts import POLL, Waiter, waiters, woken_by_signals
from .limits import NO_RIGHTS, rights, under
from .user_code import Call, StillRunning, end_child
from .user_code import running as on_this_thread

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
        self._late = inf
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
            Watchdog.shared().watch(self.look, self._late)
        self.started = True
        # The callback inherits the rights of the caller, as its coroutines do: a run that a tool
        # starts may use no more than the tool.
        under(rights(), self._engine.loop.call_soon_threadsafe, self._begin)

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
            Watchdog.shared().watch(self.look, self.asked + UNANSWERED)

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
        until = time.monotonic() + (inf if timeout is None else timeout)
        while not self._ended.wait(max(0.0, min(POLL, until - time.monotonic()))):
            if time.monotonic() >= until:
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

    def look(self) -> bool:
        """End a run that does not end by itself: its loop is blocked after a cancellation, or it is
        long over its time limit. Returns whether it has ended.

        Called regularly by the threads that wait."""
        now = time.monotonic()
        late = now >= self._late + self._host.seconds_asking
        cancelled = self.asked is not None and now - self.asked >= UNANSWERED
        if not (late or cancelled) or self.done:
            return self.done
        # It may wait for an answer of the loop, so only for a run that is due.
        stuck = self._engine.stuck()
        if not stuck and not late:
            return False
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
        return True

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
            Watchdog.shared().forget(self.look)
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
    with contextlib.suppress(asyncio.InvalidStateError):  # several may wake it
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


class _Selector(selectors.DefaultSelector):
    """Waits for a lock while there are no files to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._asleep = threading.Lock()
        """Held unless another thread has woken the loop since it last looked."""
        self._asleep.acquire()
        self.watches = False
        """Whether it waits for files."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # One of them is the pipe of the loop, through which it is woken otherwise.
        self.watches = len(self.get_map()) > 1
        if not self.watches:
            self._asleep.acquire(timeout=-1 if timeout is None else max(timeout, 0))
            return []
        # After `watches` is set, which `wake` reads after it has released the lock: so it is seen
        # here, or it also writes into the pipe.
        return super().select(0 if self._asleep.acquire(blocking=False) else timeout)

    def wake(self) -> None:
        # Not `contextlib.suppress`: at the end of the interpreter, when generators that were left
        # open still wake the loop, this module's names are gone.
        try:
            self._asleep.release()
        except RuntimeError:  # it was woken, and has not looked yet
            return


class _Loop(asyncio.SelectorEventLoop):
    """A loop that other threads wake without a system call. Sending into its pipe and reading it
    takes longer than the rest of a change of threads, and each gives the interpreter's lock away:
    the two threads then wait for each other."""

    def __init__(self) -> None:
        self._sleeper = _Selector()
        super().__init__(self._sleeper)

    def _write_to_self(self) -> None:
        self._sleeper.wake()
        if self._sleeper.watches:
            super()._write_to_self()  # type: ignore[misc]  # not in its stub


BEAT = 0.25


STUCK = 2.0
"""Seconds without a beat after which the loop is asked for an answer."""


ANSWER = 0.5
"""Seconds for that answer: the process may have been stopped, or a thread may have held the
interpreter's lock."""


class EngineLoop:
    """A loop and its thread. Use `current`."""

    _current: ClassVar[EngineLoop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """``loop``: one that runs on this thread, in a browser. Default None: a new one."""
        # On Windows only the other kind of loop can start processes.
        kind = asyncio.new_event_loop if sys.platform == "win32" else _Loop
        self.loop = loop or kind()
        self.jobs: set[object] = set()
        """The jobs on the loop, which itself only has weak references to tasks."""
        self._beaten = time.monotonic()
        self._abandoned = False
        self._pid = os.getpid()
        self.thread = threading.current_thread()
        if loop is not None:
            return
        self.thread = threading.Thread(
            target=under, args=(NO_RIGHTS, self._live), name="agf-engine", daemon=True
        )
        self.thread.start()

    @classmethod
    def current(cls, waited: bool = False) -> EngineLoop:
        """The loop of this process; a new one on first use, after a fork, and if the last one is
        blocked. In a browser the page's loop; ``waited`` (default False): a cell waits for the run,
        and drives a loop of its own where it cannot suspend."""
        if IN_BROWSER:
            own = waited and not can_suspend()
            return cls(OwnLoop() if own else asyncio.get_event_loop())
        with cls._lock:
            current = cls._current
            # A fork has none of its parent's threads: there `is_alive` is False.
            if current is None or not current.thread.is_alive() or current.stuck():
                if current is not None:
                    current._abandoned = True
                current = cls._current = EngineLoop()
            return current

    def stuck(self) -> bool:
        if time.monotonic() - self._beaten < STUCK or threading.current_thread() is self.thread:
            return False
        # An interrupt can leave an Event locked, for the loop too.
        answers: SimpleQueue[None] = SimpleQueue()
        # The beat may be late because the whole process was stopped: only a loop that does not
        # answer is blocked.
        self.loop.call_soon_threadsafe(answers.put, None)
        try:
            answers.get(timeout=ANSWER)
        except Empty:
            return True
        return False

    def abandon(self) -> None:
        """Let `current` make a new one. If this loop continues, it ends with its last job."""
        with self._lock:
            self._abandoned = True
            # Another thread may have replaced it already.
            if EngineLoop._current is self:
                EngineLoop._current = None

    def blocked_in(self) -> str:
        """The function and line that blocks it, in user code if that is running."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        if frame is None:
            return "a thread that ended"
        blocking = frame
        inner: FrameType = frame
        while frame is not None:
            caller = frame.f_code.co_filename
            if caller == user_code.__file__ != inner.f_code.co_filename:
                blocking = inner
                break
            inner, frame = frame, frame.f_back
        return f"{blocking.f_code.co_name}, line {blocking.f_lineno}"

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._beat)
        # A SystemExit of a tool's task ends `run_forever`; the other runs on this loop go on.
        while not self._abandoned or self.jobs:
            try:
                self.loop.run_forever()
            except BaseException as error:  # a SystemExit of a task that a tool created
                if os.getpid() != self._pid:
                    end_child((False, error))
        # Closes the connections of models.
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        if self._abandoned and not self.jobs:
            self.loop.stop()
        else:
            self.loop.call_later(BEAT, self._beat)


def run_apart(main: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    """Run ``main()`` to its end on a thread and a loop of its own, outside of the caller's context,
    and return what it raised. It must not call user code: nothing interrupts it."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            (run_alone if IN_BROWSER else asyncio.run)(main())
        except BaseException as error:
            raised.append(error)

    if IN_BROWSER:
        work()
    else:
        # An empty context: the caller may be a tool, whose grant and prints are not those of this
        # work.
        start = contextvars.Context().run
        thread = threading.Thread(target=start, args=(work,), name="agf-apart", daemon=True)
        thread.start()
        thread.join()
    return raised[0] if raised else None


def start_background(work: Coroutine[Any, Any, None], run: object) -> None:
    """Start a fire-and-forget call of ``run``, which may end after the run (decision C4)."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    # A loop has weak references to its tasks only: an unreferenced task may be collected while it
    # waits.
    _outliving[task] = loop, run
    task.add_done_callback(lambda ended: _outliving.pop(ended, None))


def count_background_calls(run: object = None) -> int:
    """The number of running fire-and-forget calls of ``run``; None: of all runs."""
    return len(_of(run))


def cancel_background_calls(run: object = None) -> int:
    """Cancel the fire-and-forget calls of ``run`` (None: of all runs), from any thread; returns
    their number."""
    running = _of(run)
    for task, loop in running:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and so the call has ended
            loop.call_soon_threadsafe(task.cancel)
    return len(running)


def _of(run: object) -> list[tuple[asyncio.Task[None], asyncio.AbstractEventLoop]]:
    return [
        # A copy: calls end on other threads meanwhile.
        (task, loop)
        for task, (loop, by) in _outliving.copy().items()
        if run is None or by is run
    ]


_outliving: dict[asyncio.Task[None], tuple[asyncio.AbstractEventLoop, object]] = {}


def on_an_engine_loop() -> bool:
    """Whether this thread runs an engine's loop, also an abandoned one."""
    return threading.current_thread().name == "agf-engine"


AGAIN = 0.25
"""Seconds between two checks of a run that is due."""


Look = Callable[[], bool]
"""Checks a run; whether it needs no further check."""


class Watchdog:
    """The watchdog of this process. Use `shared`."""

    _shared: ClassVar[Watchdog | None] = None

    def __init__(self) -> None:
        self._requests: SimpleQueue[tuple[Look, float | None]] = SimpleQueue()
        """What to check and when, by the monotonic clock; None: no longer."""
        self._started = False
        self._pid = os.getpid()

    @classmethod
    def shared(cls) -> Watchdog:
        watchdog = cls._shared
        # A fork has none of its parent's threads.
        if watchdog is None or watchdog._pid != os.getpid():
            watchdog = cls._shared = Watchdog()
        return watchdog

    def watch(self, look: Look, when: float) -> None:
        """Call ``look`` at ``when`` (by the monotonic clock) or sooner, and from then on until it
        says True."""
        if IN_BROWSER:
            return  # nothing runs beside a blocked loop
        # A SimpleQueue and `_thread`: a signal handler comes here, and the lock of a Queue or of
        # the start of a Thread may be held by the very code that it interrupts.
        self._requests.put((look, when))
        # Without a lock: a second thread that starts at the same moment does no harm.
        if not self._started:
            _thread.start_new_thread(under, (NO_RIGHTS, self._serve))
            self._started = True

    def forget(self, look: Look) -> None:
        """Do not call ``look`` again."""
        if not IN_BROWSER:
            self._requests.put((look, None))

    def _serve(self) -> None:
        due: dict[Look, float] = {}
        while True:
            wait = max(0.0, min(due.values()) - time.monotonic()) if due else None
            try:
                look, when = self._requests.get(timeout=wait)
            except Empty:
                _check(due)
                continue
            if when is None:
                due.pop(look, None)
            else:
                due[look] = min(when, due.get(look, when))
            del look  # a waiting thread has no references


def _check(due: dict[Look, float]) -> None:
    """Call the looks that are due."""
    for look in [look for look, when in due.items() if when <= time.monotonic()]:
        if look():
            del due[look]
        else:
            due[look] = time.monotonic() + AGAIN
