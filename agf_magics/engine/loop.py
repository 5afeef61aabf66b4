"""The engine's own event loop, in one daemon thread per process.

Not the notebook's loop, which a waiting cell blocks. The loop beats, so that other threads see
whether it is blocked. If a tool blocks it (``time.sleep`` in an ``async def``), the next run gets a
new loop and a new thread.

The thread that checks runs that may be stuck: a tool that blocks the engine's loop also blocks
the loop's timers.

A run is watched from its start if it has a time limit, otherwise from its cancellation. The thread
that waits for a run checks it too; the watchdog is for background runs, and for a tool that blocks
that thread.

A handler of signals calls `Watchdog.watch`, and an interrupt can end it anywhere. So it must not
use what an interrupt leaves locked, such as a `Condition` or the start of a `Thread` of
`threading`.

Time limits of a run and of the flows in it. They pause while a person thinks about a question
(`Host.ask`).

Python without threads, in a browser (Pyodide): what stands in for the engine's thread.

The loop of a run is the page's own. Whoever must wait for it, as `agf.run` does, lets the browser
suspend the cell (JSPI); other tasks of the page continue meanwhile. Where the browser cannot do
that, a run that a cell waits for gets a loop of its own, which the waiting cell drives: it knows
timers and tasks, and no promises of the page.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import contextvars
import json
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, ClassVar, TypeVar

from ..text.late_imports import IN_BROWSER
from . import user_code
from .host import FORCE, Clock, Host, pausing, time_limits
from .limits import NO_RIGHTS, under
from .user_code import end_child


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


def _new_loop() -> asyncio.AbstractEventLoop:
    # There only the other kind of loop can start processes.
    return asyncio.new_event_loop() if sys.platform == "win32" else _Loop()


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
        self.loop = loop or _new_loop()
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
    if IN_BROWSER:
        try:
            run_alone(main())
        except BaseException as error:
            return error
        return None

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(
        # An empty context: the caller may be a tool, whose grant and prints are not those of this
        # work.
        target=contextvars.Context().run,
        args=(work,),
        name="agf-apart",
        daemon=True,
    )
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


D = TypeVar("D")


class OutOfTime(Exception):
    """A run exceeded its time limit."""


class Deadline:
    """Cancels the task that runs its block after ``seconds`` (None: never); then the block raises
    OutOfTime.

    Unlike `asyncio.timeout`, a tool cannot get around it: if a tool catches the cancellation and
    calls ``Task.uncancel``, the task is cancelled again, no further step starts, and the block
    fails even if nothing is raised in it.
    """

    def __init__(self, seconds: float | None, host: Host) -> None:
        self._seconds = seconds
        self._host = host
        self._sent = 0
        """How often the task was cancelled."""
        self._clock: Clock | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._loop = asyncio.get_running_loop()
        # The host pauses, too: the watchdog's limit of the run counts the same time.
        around: tuple[Clock | Host, ...] = (*time_limits.get(), self._host)
        if self._seconds is not None:
            self._clock = Clock(self._seconds, self._set_timer)
            around = (*around, self._clock)
        self._outer = time_limits.set(around)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        time_limits.reset(self._outer)
        if self._clock is None:
            return
        self._clock.closed = True
        # Also if no timer fired: a tool that blocks the loop keeps its timers from running.
        expired = self._sent > 0 or (kind is None and self._loop.time() > self._clock.ends)
        self._set_timer(None)
        # Our own cancellations are taken back, so that `cancelling` tells those of others.
        for _ in range(self._sent):
            self._task.uncancel()
        ours = kind is None or (
            issubclass(kind, asyncio.CancelledError) and self._task.cancelling() <= self._before
        )
        if expired and ours:
            raise OutOfTime

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._expire) if when is not None else None

    def _expire(self) -> None:
        self._sent += 1
        # Before the task is cancelled: a call that is stopped asks whether it may be forced.
        self._host.stop(late=True)
        self._task.cancel()
        # Later than a call has to stop: another cancellation would end its grace.
        self._set_timer(self._loop.time() + self._host.grace + 2 * FORCE)


async def within(seconds: float | None, work: Awaitable[D], late: Callable[[], Exception]) -> D:
    """Await ``work``. Raises ``late()`` if it takes longer than ``seconds`` (None: no limit), also
    if it blocks the loop meanwhile."""
    if seconds is None:
        return await work
    try:
        async with pausing(seconds) as expired:
            done = await work
    except TimeoutError:
        assert expired(), "what user code raises is a StepError here, not a TimeoutError"
        raise late() from None
    if expired():
        raise late()
    return done


T = TypeVar("T")


def can_suspend() -> bool:
    """Whether the code that runs now can wait for the loop of the page."""
    from pyodide.ffi import can_run_sync  # type: ignore[import-not-found]

    return bool(can_run_sync())


def suspend(work: Coroutine[Any, Any, T]) -> T:
    """Wait for ``work`` while the loop of the page continues."""
    from pyodide.ffi import run_sync

    result: T = run_sync(work)
    return result


DEEPEST_JSON = 1_000
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


def bound_json(decoder: type[json.JSONDecoder] = json.JSONDecoder) -> None:
    """Refuse JSON that nests too deeply with a RecursionError, as Python does elsewhere.

    In a page its decoder goes on until the stack of the browser ends, which no Python can catch:
    the session is lost, with all that it holds. So the bound is that of the whole process.
    """
    decode = decoder.decode

    def bounded(self: json.JSONDecoder, text: str, *rest: Any) -> Any:
        if text.count("[") + text.count("{") > DEEPEST_JSON and _depth(text) > DEEPEST_JSON:
            raise RecursionError(f"JSON nests deeper than {DEEPEST_JSON:,} levels")
        return decode(self, text, *rest)

    decoder.decode = bounded  # type: ignore[method-assign,assignment]


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        deepest = max(deepest, depth)
    return deepest


class OwnLoop(asyncio.BaseEventLoop):
    """A loop of timers and tasks, without sockets and signals. `drive` runs it inside the page's
    loop."""

    def __init__(self) -> None:
        super().__init__()
        # What `BaseEventLoop` asks for events; its own subclasses set it in the same way.
        self._selector = self

    def select(self, timeout: float | None) -> list[Any]:
        """Sleep until the next timer."""
        if timeout is None:
            raise RuntimeError(
                "this waits for the page, which a cell can only await in this browser: "
                "use `await agf.arun(...)`"
            )
        # Not `sleep(0)`: with JSPI that suspends too, and other tasks would see no running loop.
        if timeout > 0:
            time.sleep(timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No other thread has to wake this loop."""

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end, although another loop of this thread runs."""
        around = asyncio._get_running_loop()
        task = asyncio.current_task(around) if around is not None else None
        # While the outer loop is the running one: Python 3.14 checks it here and below.
        if around is not None and task is not None:
            asyncio._leave_task(around, task)
        asyncio._set_running_loop(None)
        try:
            return self.run_until_complete(work)
        finally:
            asyncio._set_running_loop(around)
            if around is not None and task is not None:
                asyncio._enter_task(around, task)


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work``, which calls no code of a user, to its end in a context of its own."""
    loop = OwnLoop()
    try:
        return contextvars.Context().run(loop.drive, work)
    finally:
        loop.close()
