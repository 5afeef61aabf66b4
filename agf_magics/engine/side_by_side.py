"""Shapes whose parts run side by side: a pool of workers that pull from one iterator, never a task per element.

100,000 items are ``limit`` tasks (0.1 us and 40 bytes an item), not 100,000 tasks behind a semaphore (3.4 us, 1,600
bytes). Isolation needs no code here: frames are never changed, so what an element stores is in a frame nobody else has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..flow.frame import GONE, Frame, Outcome, Ran
from ..flow.steps import Branches, Choose, Each, Invoke, Step
from ..flow.values import Value
from ..registry import Agent
from ..text.diagnostics import StepError
from . import events as ev
from .in_order import elements
from .limits import LimitReached
from .link import Linked
from .perform import Index, Performer, Scope, clock


async def each(run: Performer, step: Each, frame: Frame, scope: Scope, index: Index) -> Value:
    """``body`` once per element, ``limit`` at once; ``collect`` over the survivors in the order of the elements."""
    inside = scope._replace(depth=scope.depth + 1, beside=scope.beside or step.limit > 1)
    run.budget.deepen(inside.depth, step.span)
    items = elements(step.over, frame)
    run.emit(ev.FannedOut((*scope.before, step.id, *index), clock(), len(items)))
    run.budget.foresee(len(items) * sessions(step.body, scope.linked), step.span)
    values: list[Value] = [GONE] * len(items)
    store, body = step.element.store, step.body

    async def one(i: int, attempt: int) -> None:
        values[i], _ = await run.step(body, store(frame, Outcome(items[i])), inside, (*index, i), attempt)

    await _pool(run, step, one, len(items), step.limit, lambda i: (*scope.before, body.id, *index, i))
    # A for_each in collect is one inside this one (semantics 10), but nothing runs beside it.
    return await _collect(run, step, frame, Ran(values), inside._replace(beside=scope.beside), index)


async def branches(run: Performer, step: Branches, frame: Frame, scope: Scope, index: Index) -> Value:
    """Every branch at once; ``collect`` over the named values in the order they are declared."""
    inside = scope._replace(beside=True)
    steps = tuple(step.branches.values())
    run.emit(ev.FannedOut((*scope.before, step.id, *index), clock(), len(steps)))
    run.budget.foresee(sum(sessions(branch, scope.linked) for branch in steps), step.span)
    values: list[Value] = [GONE] * len(steps)

    async def one(i: int, attempt: int) -> None:
        values[i], _ = await run.step(steps[i], frame, inside, index, attempt)

    await _pool(run, step, one, len(steps), len(steps), lambda i: (*scope.before, steps[i].id, *index))
    return await _collect(run, step, frame, Ran(values, tuple(step.branches)), scope, index)


async def _collect(run: Performer, step: Each | Branches, frame: Frame, ran: Ran, scope: Scope, index: Index) -> Value:
    value, _ = await run.step(step.collect, step.join.join(frame, ran), scope, index)
    return value


async def _pool(
    run: Performer,
    step: Each | Branches,
    one: Callable[[int, int], Awaitable[None]],
    count: int,
    width: int,
    at: Callable[[int], ev.At],
) -> None:
    """Run ``one(i, attempt)`` for every i below ``count``, at most ``width`` at once, under the step's on_error."""
    numbers = iter(range(count))
    failure: BaseException | None = None

    async def worker() -> None:
        nonlocal failure
        for i in numbers:
            if failure is not None:  # P15: after a failure no further element starts
                return
            attempt = 1
            while True:
                try:
                    await one(i, attempt)
                    break
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    swallows = isinstance(error, StepError) and not isinstance(error, LimitReached)
                    if swallows and attempt <= step.retries:
                        run.emit(ev.StepRetried(at(i), clock(), error))
                        attempt += 1
                    elif swallows and step.on_error == "continue":
                        run.emit(ev.ElementDropped(at(i), clock(), error))
                        break
                    else:
                        failure = failure or error
                        raise

    if min(width, count) <= 1:
        await worker()
        return
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(width, count)):
                group.create_task(worker())
    except BaseExceptionGroup as group:
        failure = failure or group.exceptions[0]
    # Raised outside `except`: IPython prints a whole traceback for an error that has a group as its context.
    if failure is not None:
        raise failure


def sessions(step: Step, linked: Linked) -> int:
    """How many agent sessions ``step`` surely opens, at least, if it runs to its end."""
    match step:
        case Invoke():
            callee = linked.callees.get(step.id)
            if isinstance(callee, Linked):
                own = int(step.kind == "agent")
                return own + sum(sessions(inner, callee) for inner in callee.flow.body.steps)
            return int(isinstance(callee, Agent))
        case Branches():
            return sum(sessions(inner, linked) for inner in (*step.branches.values(), step.collect))
        case Each():  # its list may be empty
            return sessions(step.collect, linked)
        case Choose():
            targets = (*step.cases.values(), *([step.default] if step.default else []))
            return min(sessions(target, linked) for target in targets)
    return 0
