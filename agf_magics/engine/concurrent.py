"""Shapes whose parts run side by side: a pool of workers that pull from one iterator, never a task per element.

100,000 items are ``limit`` tasks (0.1 us and 40 bytes an item), not 100,000 tasks behind a semaphore (3.4 us, 1,600
bytes). Isolation needs no code here: frames are never changed, so what an element stores is in a frame nobody else has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from ..catalog import Agent
from ..flow.frame import DROPPED, FanOutResult, Frame, Outcome, finished
from ..flow.steps import Branches, Choose, Each, Invoke, Repeat, Sequence, Step, children
from ..flow.values import Value
from ..host.calls import Pending, resolve
from ..journal.records import again
from ..progress import events as ev
from ..text.diagnostics import StepError
from .linked import Linked, schema_of
from .runner import Index, Runner, Scope, ShapeResult, StepResult, clock, is_rescuable
from .sequential import elements, tell


async def each(run: Runner, step: Each, frame: Frame, scope: Scope, index: Index) -> Value:
    """``body`` once per element, ``limit`` at once; ``collect`` over the survivors in the order of the elements."""
    inside = scope._replace(depth=scope.depth + step.scope, concurrent=scope.concurrent or step.limit > 1)
    run.budget.deepen(inside.depth, step.span)
    items = elements(step.over, frame)
    if step.most is not None and len(items) > step.most:
        if step.cut is not None:
            tell(run, step.cut(len(items) - step.most))
        items = items[: step.most]
    if step.ahead:
        _build_ahead(step, items, frame, scope, index)
    run.emit(ev.FanOutStarted((*scope.before, step.id, *index), clock(), len(items)))
    run.budget.foresee(len(items) * sessions(step.body, scope.linked), step.span)
    values: list[Value] = [DROPPED] * len(items)
    store, body = step.element.store, step.body
    of_body = (*scope.before, body.id, *index)

    def one(i: int, attempt: int) -> StepResult | Pending[StepResult]:
        where = inside if attempt == 1 else _again(inside, (*of_body, i), attempt)
        inner = store(frame, finished((items[i], None, None, "finished")))
        return run.start_step(body, inner, where, (*index, i), attempt)

    earlier = run.journal.earlier if run.journal is not None else None
    first = earlier.failed_elements(of_body) if earlier is not None else []
    plan = _Plan(range(len(items)), step.limit, first=[i for i in first if i < len(items)])
    failures = await _pool(_Pool(run, step, one, values.__setitem__, lambda i: (*of_body, i), scope.tries), plan)
    if step.on_error == "finish":
        told = {i: _numbered(error, i) for i, error in failures.items()} if len(failures) > 1 else failures
        _fail(told, {i: value for i, value in enumerate(values) if value is not DROPPED})
    # A for_each in collect is one inside this one (semantics 10), but nothing runs beside it.
    ran = FanOutResult(values, failures=failures)
    value, _ = await _collect(run, step, frame, ran, inside._replace(concurrent=scope.concurrent), index)
    return value


async def branches(run: Runner, step: Branches, frame: Frame, scope: Scope, index: Index) -> Value:
    """Every branch at once; ``collect`` over the named values in the order they are declared."""
    inside = scope._replace(concurrent=True)
    steps = tuple(step.branches.values())
    run.emit(ev.FanOutStarted((*scope.before, step.id, *index), clock(), len(steps)))
    run.budget.foresee(sum(sessions(branch, scope.linked) for branch in steps), step.span)
    values: list[Value] = [DROPPED] * len(steps)
    names, order = tuple(step.branches), list[int]()
    ats = [(*scope.before, branch.id, *index) for branch in steps]
    journal = run.journal

    def one(i: int, attempt: int) -> StepResult | Pending[StepResult]:
        where = inside if attempt == 1 else _again(inside, ats[i], attempt)
        return run.start_step(steps[i], frame, where, index, attempt)

    def keep(i: int, value: Value) -> None:
        values[i] = value
        order.append(i)
        if journal is not None:
            journal.mark("ended", ats[i], scope.tries)

    plan = _Plan(range(len(steps)), len(steps))
    if journal is not None and journal.earlier is not None:
        done = journal.earlier.order("ended", [(at, scope.tries) for at in ats])
        failed = [i for i, at in enumerate(ats) if i not in done and journal.earlier.has_failed(at)]
        plan = _Plan(range(len(steps)), len(steps), done, failed)
    failures = await _pool(_Pool(run, step, one, keep, ats.__getitem__, scope.tries), plan)
    if step.on_error == "finish":
        _fail(failures, {name: values[i] for i, name in enumerate(names) if values[i] is not DROPPED})
    value, left = await _collect(run, step, frame, FanOutResult(values, names, failures, order), scope, index)
    return ShapeResult(value, frame=left) if step.leaves else value


async def _collect(
    run: Runner, step: Each | Branches, frame: Frame, ran: FanOutResult, scope: Scope, index: Index
) -> tuple[Value, Frame]:
    if step.collect is not None and step.join is not None:
        return await resolve(run.start_step(step.collect, step.join.join(frame, ran), scope, index))
    if step.gather is not None:
        return step.gather(ran), frame
    if ran.names is None:
        return [value for value in ran.values if value is not DROPPED], frame
    return {name: value for name, value in zip(ran.names, ran.values, strict=True) if value is not DROPPED}, frame


def _build_ahead(step: Each, items: list[Value], frame: Frame, scope: Scope, index: Index) -> None:
    """Build the arguments of every call, so that none is made when one of them cannot be."""
    assert isinstance(step.body, Invoke), "only a call has arguments"
    wanted = schema_of(step.body, scope.linked)
    for i, item in enumerate(items):
        try:
            step.body.args.build(step.element.store(frame, Outcome(item)), wanted)
        except StepError as error:
            error.path = (*scope.before, step.body.id, *index, i)
            error.where = ev.format_path(error.path)
            raise


def _numbered(error: StepError, i: int) -> StepError:
    """Which element it was, where several failed: an error of them all has the moment of the first one alone."""
    found = type(error)(*(replace(d, message=f"element {i}: {d.message}") for d in error.diagnostics))
    found.path, found.where, found.__cause__ = error.path, error.where, error.__cause__
    return found


def _fail(failures: Mapping[int, StepError], partial: Value) -> None:
    """What failed while the rest ran to its end, as one error; what did succeed is on it."""
    if not failures:
        return
    first = failures[min(failures)]
    if len(failures) > 1:
        told = (found for i in sorted(failures) for found in failures[i].diagnostics)
        cause, first = first, type(first)(*told)
        first.path, first.where, first.__cause__ = cause.path, cause.where, cause.__cause__
    first.partial = partial
    raise first


class _Plan:
    """In which order a pool begins what it runs. One that was kept and is taken up again begins with what had ended:
    what made the others stop is then known before any of them starts."""

    def __init__(self, numbers: range, width: int, done: list[int] | None = None, first: list[int] | None = None):
        self.count = len(numbers)
        self.width = min(width, len(numbers))
        self.done = done or ()
        """One after another, in the order in which they ended."""
        ahead = {*self.done, *(first or ())}
        self.rest: Iterator[int] = iter([*(first or ()), *(i for i in numbers if i not in ahead)] if ahead else numbers)
        """Side by side."""


async def _pool(pool: _Pool, plan: _Plan) -> dict[int, StepError]:
    """Run everything of ``plan`` under the step's on_error.

    Gives what failed and did not end it, where somebody asks: not what a pipeline drops.
    """
    if plan.done:
        await pool.worker(plan.done)
    if plan.width <= 1:
        await pool.worker(plan.rest)
        return pool.failures
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.width):
                group.create_task(pool.worker(plan.rest))
    except BaseExceptionGroup as several:
        pool.failure = pool.failure or several.exceptions[0]
    # Raised outside `except`: IPython prints a whole traceback for an error that has a group as its context.
    if pool.failure is not None:
        raise pool.failure
    return pool.failures


class _Pool:
    """Workers that pull numbers, and what becomes of a failure."""

    def __init__(
        self,
        run: Runner,
        step: Each | Branches,
        begin: Callable[[int, int], StepResult | Pending[StepResult]],
        keep: Callable[[int, Value], None],
        at: Callable[[int], ev.StepPath],
        tries: str,
    ) -> None:
        """``begin(i, attempt)`` runs number ``i``, ``keep(i, value)`` is told what it came to."""
        self.run, self.step, self.begin, self.keep, self.at, self.tries = run, step, begin, keep, at, tries
        self.failures: dict[int, StepError] = {}
        self.failure: BaseException | None = None
        """What ended it."""

    async def worker(self, numbers: Iterable[int]) -> None:
        for i in numbers:
            if self.failure is not None:  # P15: after a failure no further element starts
                return
            attempt = 1
            while True:
                try:
                    left = self.begin(i, attempt)
                    value, _ = await left.awaitable if type(left) is Pending else left
                    self.keep(i, value)
                    break
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    if not is_rescuable(error):
                        self.failure = self.failure or error
                        raise
                    if not self.again(i, attempt, cast(StepError, error)):
                        break
                    attempt += 1

    def again(self, i: int, attempt: int, error: StepError) -> bool:
        """Whether it is tried once more; where it is not and its failure is not to be left out, raises it."""
        step = self.step
        if attempt <= step.retries:
            self.run.emit(ev.StepRetried(self.at(i), clock(), error))
            self._mark("retried", i, self.tries if attempt == 1 else again(self.tries, self.at(i), attempt))
            return True
        if step.on_error == "abort":
            self.failure = self.failure or error
            raise error
        if step.gather is not None or step.on_error == "finish":
            self.failures[i] = error
        if step.on_error == "continue":
            self.run.emit(ev.ElementDropped(self.at(i), clock(), error))
            self._mark("dropped", i, self.tries)
        return False

    def _mark(self, what: str, i: int, tries: str) -> None:
        if self.run.journal is not None:
            self.run.journal.mark(what, self.at(i), tries)


def _again(scope: Scope, at: ev.StepPath, attempt: int) -> Scope:
    return scope._replace(tries=again(scope.tries, at, attempt))


def sessions(step: Step, linked: Linked) -> int:
    """How many agent sessions ``step`` surely opens, at least, if it runs to its end."""
    match step:
        case Invoke():
            callee = linked.callees.get(step.id)
            if isinstance(callee, Linked):
                inside = sum(sessions(inner, callee) for inner in callee.flow.body.steps)
                return max(inside, int(step.kind == "agent" and step.spawns))
            return int(isinstance(callee, Agent) and step.spawns)
        case Branches() | Sequence():
            return sum(sessions(inner, linked) for inner in children(step))
        case Repeat():
            return max(sessions(step.body, linked), int(step.session))
        case Each():  # its list may be empty
            return sessions(step.collect, linked) if step.collect else 0
        case Choose():
            targets = (*step.cases.values(), *([step.default] if step.default else []))
            return min(sessions(target, linked) for target in targets)
    return 0
