"""The one crossing into user code and back.

What user code raises comes back as a value, whatever it is: a StopIteration set on a future would hang it, a SystemExit
that passes a TaskGroup or a loop would end the engine's thread. Nobody else calls a tool, an agent or their awaitables.

Nearly everything comes to its end without waiting, an ``async def`` too, and a coroutine around each of the engine's
own calls would cost more than all else that a step does. So what may wait is a plain call that gives its outcome, or
`Pending` where there is something to wait for.
"""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, final

from .forks import Forks, end_child

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")

Result = tuple[bool, Any]
"""Whether it succeeded; then its value, else what it raised."""

PLAIN = frozenset({type(None), bool, int, float, str, list, dict, tuple, bytes})
"""Types nobody awaits."""


@final
class Pending(Generic[T]):
    """What is not there yet. Whoever gets it awaits ``rest`` at once, or hands it on."""

    __slots__ = ("awaitable",)

    def __init__(self, rest: Awaitable[T]) -> None:
        self.awaitable = rest


async def resolve(begun: T | Pending[T]) -> T:
    """It, when it is there."""
    return await begun.awaitable if type(begun) is Pending else begun


def then(begun: T | Pending[T], do: Callable[[T], U]) -> U | Pending[U]:
    """What ``do`` makes of it, when it is there."""
    return Pending(_then(begun.awaitable, do)) if type(begun) is Pending else do(begun)


async def _then(rest: Awaitable[T], do: Callable[[T], U]) -> U:
    return do(await rest)


def as_pending(work: Callable[P, Awaitable[T]]) -> Callable[P, Pending[T]]:
    """``work`` as what is called like all that may wait."""
    return lambda *args, **named: Pending(work(*args, **named))


class TimedOut(TimeoutError):
    """A call took longer than it may. Only we make these: a TimeoutError of the tool's own is another thing."""

    def __init__(self, seconds: float, left: str | None = None) -> None:
        super().__init__(f"took longer than {seconds:g} s{f' ({left})' if left else ''}")
        self.seconds = seconds
        self.left = left
        """What could not be stopped and is still running."""


class StillRunning(asyncio.CancelledError):
    """A call was given up: it was told to stop, did not within the grace, and nobody waits for it any more."""

    def __init__(self, left_running: str) -> None:
        super().__init__(left_running)
        self.left_running = left_running
        self.reported = False
        """Whether the step whose call it was has said so: the steps around it were merely cancelled."""


def cross(function: Callable[..., Any], given: Mapping[str, Any]) -> Result:
    """Call ``function`` here and now. A process that ``function`` forked ends here: its parent alone goes on."""
    before = Forks.count
    result: Result
    try:
        result = True, function(**given)
    except RuntimeError as error:
        if "running event loop" in str(error) or "another loop is running" in str(error):
            error.add_note("an event loop runs on this thread: make it `async def` and await, or say where='worker'")
        result = False, error
    except BaseException as error:
        result = False, error
    if Forks.count != before:
        end_child(result)
    return result


def is_awaitable(value: Any) -> bool:
    """Whether it can be awaited."""
    kind = type(value)
    if kind in PLAIN or kind is types.CoroutineType:  # nearly always: one look-up instead of an abstract check
        return kind is types.CoroutineType
    try:
        return inspect.isawaitable(value)
    except Exception:  # somebody's class that will not be asked
        return False


def awaited(result: Result, grace: float) -> Result | Pending[Result]:
    """What a call gave; if that can be awaited, what it comes to, awaited in the task that runs.

    Not in a task of its own: that costs more than the engine's whole share of a step. So whether a CancelledError is
    the tool's failure or ours to pass on is decided by whether this task was cancelled meanwhile; a tool that swallows
    the cancel is cut off ``grace`` seconds later.
    """
    ok, coroutine = result
    if type(coroutine) is not types.CoroutineType:
        if not ok or not is_awaitable(coroutine):
            return result
        coroutine = _waiting_for(coroutine)
    before = Forks.count
    begun: Result | Pending[Result]
    try:
        begun = Pending(_to_its_end(coroutine, coroutine.send(None), grace))
    except StopIteration as end:  # it did not wait at all, and nothing can have been cancelled
        begun = True, end.value
    except BaseException as error:
        begun = False, error
    if Forks.count != before:
        end_child(begun if isinstance(begun, tuple) else (True, None))
    return begun


async def _to_its_end(coroutine: Coroutine[Any, Any, Any], waits: Any, grace: float) -> Result:
    task = asyncio.current_task()
    assert task is not None
    before, forks = task.cancelling(), Forks.count
    try:
        result: Result = True, await _driven(coroutine, waits, task, grace)
    except GeneratorExit as error:
        if not _runs(task):  # nobody raised it: this very coroutine is being thrown away
            raise
        result = False, error
    except BaseException as error:
        result = False, error
    if Forks.count != forks:
        end_child(result)
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


@types.coroutine
def _driven(
    coroutine: Coroutine[Any, Any, Any], waits: Any, task: asyncio.Task[Any], grace: float
) -> Generator[Any, Any, Any]:
    """The rest of ``await coroutine``, spelled out in its own task: one that swallows its cancel can be closed so."""
    before, forks = task.cancelling(), Forks.count
    cut = False
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal cut, timer
        timer = None
        if task.cancelling() > before:  # else it was a timeout of the tool's own
            cut = True
            task.cancel()

    try:
        while True:
            if Forks.count != forks:
                end_child((True, None))  # the child of a fork waits on its parent's loop
            try:
                sent = yield waits
            except GeneratorExit:
                coroutine.close()
                raise
            except asyncio.CancelledError as stop:
                if cut:
                    _close(coroutine)
                    raise
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
            task.uncancel()  # that cancel was only to wake us, or it came too late
        if timer is not None:
            timer.cancel()


async def _waiting_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        coroutine.close()
    except BaseException:
        return  # it would not even be closed; nobody drives it any more


def _runs(task: asyncio.Task[Any]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False
