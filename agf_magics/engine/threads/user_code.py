"""User code is called and awaited here and nowhere else, and its exceptions become values.

A StopIteration set on a future would hang it, and a SystemExit that passes a TaskGroup or a loop
would end the engine's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextvars import Context
from typing import Any

from ...values.value import is_awaitable
from .forks import Forks, end_in_child

Result = tuple[bool, Any]
"""Whether the call succeeded, and its value or its exception."""


OTHER_LOOP = (
    "it returned a task of another event loop than the one that would await it: return the "
    "coroutine itself, or make it `async def` and await"
)


class TimedOut(TimeoutError):
    """A call exceeded its time limit; unlike a TimeoutError that the tool itself raised."""

    def __init__(self, seconds: float, left_running: str | None = None) -> None:
        super().__init__(
            f"took longer than {seconds:g} s{f' ({left_running})' if left_running else ''}"
        )
        self.seconds = seconds


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
    if type(error) is RuntimeError and _is_asyncio_refusal(error):
        error.add_note(
            "an event loop runs on this thread: make it `async def` and await, or use "
            "where='thread'"
        )


def _is_asyncio_refusal(error: BaseException) -> bool:
    """Whether asyncio refused to run a loop inside the running one."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    # By the place and not by the text: the words of asyncio change between versions.
    module = trace.tb_frame.f_globals.get("__name__") if trace is not None else None
    return module in ("asyncio.runners", "asyncio.base_events")


async def await_result(result: Result, grace: float, context: Context) -> Result:
    """The result of a call; an awaitable is awaited in the present task, and runs in ``context``,
    that of the call: what it sets there is not seen by later steps, as with a plain function.

    Not in a task of its own, which would cost 3 µs more, half of a step. So a CancelledError is the
    tool's failure unless this task was cancelled meanwhile. A tool that swallows the cancellation
    is closed ``grace`` seconds later.
    """
    ok, value = result
    if not ok or not is_awaitable(value):
        return result
    if isinstance(value, asyncio.Future) and value.get_loop() is not asyncio.get_running_loop():
        return False, RuntimeError(OTHER_LOOP)  # asyncio's message names the task of the engine
    # A future, or an object with `__await__`: only a coroutine can be sent to.
    coroutine = value if type(value) is types.CoroutineType else _waiting_for(value)
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    forks = Forks.count
    try:
        # `asyncio.timeout` inside the tool also cancels this task, and takes that back: only a
        # count that has grown is a cancellation of the step.
        result = True, await _driven(coroutine, task, grace, context)
    except GeneratorExit as error:
        # A coroutine of a tool may raise GeneratorExit itself: that is its failure.
        # Here this coroutine is being closed.
        if not _runs(task):
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
    coroutine: Coroutine[Any, Any, Any], task: asyncio.Task[Any], grace: float, context: Context
) -> Generator[Any, Any, Any]:
    """``await coroutine``, which can close a coroutine that swallows its cancellation."""
    before = task.cancelling()
    forks = Forks.count
    cut = False
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal cut, timer
        timer = None
        # Otherwise a timeout of the tool cancelled it.
        if task.cancelling() > before:
            cut = True
            # Wakes the task, so that the generator below gets control.
            task.cancel()

    try:
        waits = context.run(coroutine.send, None)
        while True:
            # A child must not use the loop of its parent.
            end_in_child(forks, (True, None))
            try:
                answer = yield waits
            except GeneratorExit:
                context.run(coroutine.close)
                raise
            except asyncio.CancelledError as stop:
                if cut:
                    with contextlib.suppress(BaseException):
                        context.run(coroutine.close)
                    raise
                # One timer for all cancellations: a second one must not begin the grace again.
                timer = timer or task.get_loop().call_later(grace, look)
                waits = context.run(coroutine.throw, stop)
            except BaseException as error:
                waits = context.run(coroutine.throw, error)
            else:
                waits = context.run(coroutine.send, answer)
    except StopIteration as end:
        return end.value
    finally:
        if cut:
            # That cancellation only woke this task, or came too late: the step would look cancelled
            # once more than it was.
            task.uncancel()
        if timer is not None:
            timer.cancel()


async def _waiting_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _runs(task: asyncio.Task[Any]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False
