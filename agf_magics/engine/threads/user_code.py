"""Calls and awaits user code, and returns its exceptions as values. No other module calls user
code.

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

from ...catalog.tools.outcome_unknown import OutcomeUnknown
from ...catalog.tools.throttle import WhenEnded
from ...values.value import is_awaitable
from .forks import Forks, end_in_child

Result = tuple[bool, Any]
"""Whether the call succeeded, and its value or its exception."""


OTHER_LOOP = (
    "it returned a task of another event loop than the one that would await it: return the "
    "coroutine itself, or make it `async def` and await"
)
"""The error of a tool that returns a future of a foreign loop."""

OWN_CANCELLATION = "it cancelled its own task"
"""The hint for a call that cancelled the task that it runs in."""


class TimedOut(TimeoutError):
    """A call exceeded its time limit. A TimeoutError of the tool itself is not of this class."""

    def __init__(self, seconds: float, more: str = "") -> None:
        """``more``: what the message adds; default: nothing."""
        super().__init__(f"took longer than {seconds:g} s{more and f' ({more})'}")
        self.seconds = seconds
        self.late_result: Result | None = None
        """The result with which the call ended by itself, after the limit; None: it was stopped, or
        goes on."""


class LeftRunning(TimedOut, OutcomeUnknown):
    """A call exceeded its time limit, and did not stop."""

    when_ended: WhenEnded | None = None
    """Tells when the call has ended; None: nobody knows."""


class StillRunning(asyncio.CancelledError):
    """A call did not stop within the grace and is left running."""

    def __init__(self, left_running: str) -> None:
        super().__init__(left_running)
        self.left_running = left_running
        self.when_ended: WhenEnded | None = None
        """Tells when the call has ended; None: nobody knows."""
        self.reported = False
        """Whether the step of the call has reported this error. The steps around it are only
        cancelled."""


class Arrived(asyncio.CancelledError):
    """The step of a call is cancelled when the result of the call has arrived. It is journaled, so that
    a resumed run does not make the call again."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


def cross(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Result:
    """Call ``function`` on this thread. If ``function`` forks the process, the child ends here."""
    before = Forks.count
    result: Result
    try:
        # From here on, exceptions are values: a SystemExit of a tool must not end the engine's
        # thread, and a StopIteration cannot pass through a coroutine.
        result = True, function(**arguments)
    except BaseException as error:
        _explain(error)
        result = False, error
    end_in_child(before, result)
    return result


def _explain(error: BaseException) -> None:
    """Add a note to the error of a function that tries to start a second event loop on a thread."""
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
    # Recognized by the place, because asyncio's words change between versions.
    module = trace.tb_frame.f_globals.get("__name__") if trace is not None else None
    return module in ("asyncio.runners", "asyncio.base_events")


class OwnCancellations:
    """Runs the parts of a call between two waits in its context, and counts how often they cancel
    the task that they run in. The engine never cancels a task from inside a call, so these are the
    call's own and end the call alone."""

    def __init__(self, context: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.context = context
        self.before = task.cancelling()
        """The number of cancellations before the call."""
        self.count = 0

    def run(self, part: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``part`` of the call."""
        task = self.task
        before = task.cancelling()
        try:
            return self.context.run(part, *arguments)
        finally:
            # Less than 0 if `asyncio.timeout` in the call takes back the cancellation of its timer.
            if (change := task.cancelling() - before) or self.count:
                self.count = max(0, self.count + change)

    @property
    def is_cancelled(self) -> bool:
        """Whether the task was cancelled by others."""
        return self.task.cancelling() > self.before + self.count

    async def take_back(self, result: Result) -> Result:
        """The result of the call, whose own cancellations do not reach the steps around it."""
        is_late = False
        try:
            # A cancellation reaches its task at the next wait, and the call may have ended before.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            is_late = True
        for _ in range(self.count):
            self.task.uncancel()
        self.count = 0
        ok, value = result
        # As for a task of its own: a cancelled one that returns before its next wait is cancelled.
        error = asyncio.CancelledError() if is_late and ok else value
        if type(error) is asyncio.CancelledError:
            error.add_note(OWN_CANCELLATION)
            return False, error
        return result


async def call_here(
    function: Callable[..., Any], arguments: Mapping[str, Any], grace: float, context: Context
) -> Result:
    """Call ``function`` in the current task, and await its result as `await_result` does."""
    own = OwnCancellations(context)
    return await _awaited(own.run(cross, function, arguments), grace, own)


async def await_result(result: Result, grace: float, context: Context) -> Result:
    """The result of a call. An awaitable is awaited in the current task, but runs in ``context``,
    the context of the call, so that later steps do not see the variables that it sets.

    A separate task would cost 3 µs more, half of a step. So a CancelledError is the tool's failure
    unless others have cancelled this task meanwhile. A tool that swallows the cancellation is
    closed ``grace`` seconds later.
    """
    ok, value = result
    if not ok or not is_awaitable(value):
        return result
    return await _awaited(result, grace, OwnCancellations(context))


async def _awaited(result: Result, grace: float, own: OwnCancellations) -> Result:
    """`await_result`, after a part of the call that this task has run."""
    ok, value = result
    if not ok or not is_awaitable(value):
        return await own.take_back(result) if own.count else result
    if isinstance(value, asyncio.Future) and value.get_loop() is not asyncio.get_running_loop():
        # asyncio's own message would name the task of the engine
        return False, RuntimeError(OTHER_LOOP)
    # Only a coroutine can be driven, so a future or another awaitable is wrapped.
    coroutine = value if type(value) is types.CoroutineType else _waiting_for(value)
    forks = Forks.count
    try:
        # `asyncio.timeout` inside the tool also cancels this task, and takes that back. Only a
        # count that has grown means a cancellation of the step.
        result = True, await _driven(coroutine, own, grace)
    except GeneratorExit as error:
        # If a coroutine of a tool raises GeneratorExit itself, that is its failure. Otherwise this
        # coroutine is being closed.
        if not _runs(own.task):
            raise
        result = False, error
    except BaseException as error:
        result = False, error
    end_in_child(forks, result)
    if own.count:
        result = await own.take_back(result)
    if own.is_cancelled:
        raise asyncio.CancelledError
    return result


@types.coroutine
def _driven(
    coroutine: Coroutine[Any, Any, Any], own: OwnCancellations, grace: float
) -> Generator[Any, Any, Any]:
    """``await coroutine``, but a coroutine that swallows its cancellation is closed."""
    task = own.task
    forks = Forks.count
    must_close = False
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal must_close, timer
        timer = None
        # Otherwise the tool cancelled itself, or a timeout inside it did.
        if own.is_cancelled:
            must_close = True
            # This wakes the task, so that the generator below gets control.
            task.cancel()

    try:
        waits = own.run(coroutine.send, None)
        while True:
            # A child must not use the loop of its parent.
            end_in_child(forks, (True, None))
            try:
                answer = yield waits
            except GeneratorExit:
                own.context.run(coroutine.close)
                raise
            except asyncio.CancelledError as stop:
                if must_close:
                    with contextlib.suppress(BaseException):
                        own.context.run(coroutine.close)
                    raise
                # All cancellations share one timer, because a second one must not restart the
                # grace.
                timer = timer or task.get_loop().call_later(grace, look)
                waits = own.run(coroutine.throw, stop)
            except BaseException as error:
                waits = own.run(coroutine.throw, error)
            else:
                waits = own.run(coroutine.send, answer)
    except StopIteration as end:
        return end.value
    finally:
        if must_close:
            # The cancellation only woke this task, or came too late. Otherwise the step would look
            # cancelled once too often.
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
