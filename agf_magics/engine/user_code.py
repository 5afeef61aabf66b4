"""What user code prints, given to the call that prints it.

`sys.stdout` is wrapped while a run is watched. Everything is still printed where it was; the call
gets a copy. A context variable has the call, so that a call pays for its copy only if it prints. A
thread that a tool starts prints for itself.

Ends a process that a tool forks at the end of the tool's code.

A child of ``os.fork`` has a copy of the engine's state and none of its threads: it would drive the
parent's event loop, write into the parent's journal and wait for threads that do not exist. So each
call of user code compares `Forks.count` before and after, which is faster than getting the process
id.

Calls on other threads, and the worker threads. There is a daemon thread for each running call; idle
threads are reused and end after a while. Only the fan-outs limit their number: in a pool of a fixed
size, a tool that starts a run of its own could wait for ever.

The only place that calls user code and awaits what it returns.

Exceptions of user code become values: a StopIteration set on a future would hang it, and a
SystemExit that passes a TaskGroup or a loop would end the engine's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import sys
import threading
import traceback
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, NoReturn, Protocol

from ..flow.values import ATOMS


class Prints(Protocol):
    """Gets what a call prints, on any thread."""

    def add(self, text: str) -> None: ...


printing: ContextVar[Prints | None] = ContextVar("printing", default=None)
"""Gets what the running user code prints."""


class _Copied:
    """A `sys.stdout` that gives a copy of each text to the call that prints it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> Any:
        written = self._stream.write(text)
        if (prints := printing.get()) is not None and isinstance(text, str):
            prints.add(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Watched:
    """Wraps `sys.stdout` for the first watched run and unwraps it after the last one."""

    def __init__(self) -> None:
        self._runs = 0
        self._copied: _Copied | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self._runs += 1
        # The kernel may have replaced it since the last run.
        if not isinstance(sys.stdout, _Copied):
            self._copied = sys.stdout = _Copied(sys.stdout)
        try:
            yield
        finally:
            self._runs -= 1
            # Other code may have replaced it meanwhile, or holds it and will put it back: then it
            # stays a plain copy.
            if not self._runs and self._copied is not None and sys.stdout is self._copied:
                sys.stdout = self._copied._stream
                self._copied = None


watched_stdout = _Watched()
"""The context of a watched run."""


class Forks:
    """The number of forks between the first process and this one."""

    count = 0


def end_child(result: tuple[bool, Any]) -> NoReturn:
    """Exit with the code of a SystemExit, with 1 and a traceback for another exception, else with
    0. Exit handlers do not run, because they belong to the parent. ``result``: that of the tool."""
    ok, value = result
    code = 0 if ok else 1
    with contextlib.suppress(BaseException):
        if not ok and isinstance(value, SystemExit):
            code = _exit_code(value)
        elif not ok:
            traceback.print_exception(value)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    # Not `sys.exit`: it would unwind into the engine of the parent, whose loop and journal this
    # process has copies of.
    os._exit(code)


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def end_in_child(before: int, result: tuple[bool, Any]) -> None:
    """End this process if it is a child that the tool has forked since `Forks.count` was
    ``before``."""
    if Forks.count != before:
        end_child(result)


def _forked() -> None:
    Forks.count += 1


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)

Result = tuple[bool, Any]
"""Whether the call succeeded, and its value or its exception."""


class TimedOut(TimeoutError):
    """A call exceeded its time limit; unlike a TimeoutError that the tool itself raised."""

    def __init__(self, seconds: float, left_running: str | None = None) -> None:
        super().__init__(
            f"took longer than {seconds:g} s{f' ({left_running})' if left_running else ''}"
        )
        self.seconds = seconds


class OutcomeUnknown(Exception):
    """A call with an effect (``reuse=False``) may or may not have been made: its worker was lost.

    It is no outcome of the call (decision D7): nothing repeats it but a person who knows."""


class StillRunning(asyncio.CancelledError):
    """A call did not stop within the grace; it is left running."""

    def __init__(self, left_running: str) -> None:
        super().__init__(left_running)
        self.left_running = left_running
        self.reported = False
        """Whether the step of the call has reported this; the steps around it are only
        cancelled."""


def cross(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Result:
    """Call ``function`` on this thread. A process that ``function`` forks ends here; only its
    parent continues."""
    before = Forks.count
    result: Result
    try:
        # Exceptions are values from here on: a SystemExit of a tool must not end the engine's
        # thread, and a StopIteration cannot be raised through a coroutine.
        result = True, function(**arguments)
    except BaseException as error:
        _explain(error)
        result = False, error
    end_in_child(before, result)
    return result


def _explain(error: BaseException) -> None:
    """Add a note to the error of a function that starts an event loop of its own where one runs."""
    if type(error) is RuntimeError and _raised_by_asyncio(error):
        error.add_note(
            "an event loop runs on this thread: make it `async def` and await, or use "
            "where='thread'"
        )


def _raised_by_asyncio(error: BaseException) -> bool:
    """Whether asyncio refused to run a loop inside the running one."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    # By the place and not by the text: the words of asyncio change between versions.
    module = trace.tb_frame.f_globals.get("__name__") if trace is not None else None
    return module in ("asyncio.runners", "asyncio.base_events")


def is_awaitable(value: Any) -> bool:
    try:
        # It asks the class for `__await__`, which runs code of a metaclass.
        return type(value) not in ATOMS and inspect.isawaitable(value)
    except Exception:  # a class of a user
        return False


async def awaited(result: Result, grace: float) -> Result:
    """The result of a call; an awaitable is awaited in the present task.

    Not in a task of its own, which would cost 3 µs more, half of a step. So a CancelledError is the
    tool's failure unless this task was cancelled meanwhile. A tool that swallows the cancellation
    is closed ``grace`` seconds later.
    """
    ok, value = result
    if not ok or not is_awaitable(value):
        return result
    # A future, or an object with `__await__`: only a coroutine can be sent to.
    coroutine = value if type(value) is types.CoroutineType else _waiting_for(value)
    task = asyncio.current_task()
    assert task is not None
    before, forks = task.cancelling(), Forks.count
    try:
        # `asyncio.timeout` inside the tool also cancels this task, and takes that back: only a
        # count that has grown is a cancellation of the step.
        result = True, await _driven(coroutine, task, grace)
    except GeneratorExit as error:
        # A coroutine of a tool may raise GeneratorExit itself: that is its failure.
        if not _runs(task):  # this coroutine is being closed
            raise
        result = False, error
    except BaseException as error:
        result = False, error
    end_in_child(forks, result)
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


@types.coroutine
def _driven(
    coroutine: Coroutine[Any, Any, Any], task: asyncio.Task[Any], grace: float
) -> Generator[Any, Any, Any]:
    """``await coroutine``, which can close a coroutine that swallows its cancellation."""
    before, forks = task.cancelling(), Forks.count
    cut = False
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal cut, timer
        timer = None
        if task.cancelling() > before:  # otherwise a timeout of the tool cancelled it
            cut = True
            # Wakes the task, so that the generator below gets control.
            task.cancel()

    try:
        waits = coroutine.send(None)
        while True:
            end_in_child(forks, (True, None))  # a child must not use the loop of its parent
            try:
                sent = yield waits
            except GeneratorExit:
                coroutine.close()
                raise
            except asyncio.CancelledError as stop:
                if cut:
                    with contextlib.suppress(BaseException):
                        coroutine.close()
                    raise
                # One timer for all cancellations: a second one must not begin the grace again.
                timer = timer or task.get_loop().call_later(grace, look)
                waits = coroutine.throw(stop)
            except BaseException as error:
                waits = coroutine.throw(error)
            else:
                waits = coroutine.send(sent)
    except StopIteration as end:
        return end.value
    finally:
        if cut:
            # Else the step would look cancelled once more than it was.
            task.uncancel()  # that cancellation only woke this task, or came too late
        if timer is not None:
            timer.cancel()


async def _waiting_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _runs(task: asyncio.Task[Any]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False


WORKER_IDLE = 10.0
"""Seconds after which an idle worker ends."""


def name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


class Call:
    """A call of user code on another thread, for which a loop waits."""

    __slots__ = (
        "_taken",
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
        return name_of(self.function)

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
        workers = cls._shared
        # A fork has none of its parent's threads.
        if workers is None or workers._pid != os.getpid():
            workers = cls._shared = Workers()
        return workers

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
