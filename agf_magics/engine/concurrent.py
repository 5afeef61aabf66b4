"""Shapes whose parts run concurrently: a fixed number of workers takes them from one iterator.

100,000 elements are ``limit`` tasks (0.1 µs and 40 bytes an element), not 100,000 tasks behind a semaphore (3.4 µs,
1,600 bytes). Isolation needs no code: frames are immutable, so each element stores into a frame of its own.
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
from ..journal.records import CallKey, again
from ..progress import events as ev
from ..serialization.codec import preview
from ..text.diagnostics import Diagnostic, StepError
from .linked import Linked, schema_of
from .runner import CallSite, Scope, ShapeResult, StepResult, clock, is_rescuable
from .sequential import elements, report


async def each(site: CallSite[Each]) -> Value:
    """Run ``body`` once per element, ``limit`` at a time, then ``collect`` over the survivors in order."""
    run, step, scope = site.run, site.step, site.scope
    inside = scope._replace(depth=scope.depth + step.scope, concurrent=scope.concurrent or step.limit > 1)
    run.budget.deepen(inside.depth, step.span)
    items = elements(step.over, site.frame)
    if step.most is not None and len(items) > step.most:
        if step.cut is not None:
            report(run, step.cut(len(items) - step.most))
        items = items[: step.most]
    if step.ahead:
        _build_ahead(site, items)
    run.emit(ev.FanOutStarted(site.at, clock(), len(items)))
    run.budget.foresee(len(items) * sessions(step.body, scope.linked), step.span)
    values: list[Value] = [DROPPED] * len(items)
    store, body = step.element.store, step.body
    path = site.path_of(body)

    def start(i: int, attempt: int) -> StepResult | Pending[StepResult]:
        where = inside if attempt == 1 else _retry_scope(inside, (*path, i), attempt)
        inner = store(site.frame, finished((items[i], None, None, "finished")))
        return run.start_step(body, inner, where, (*site.index, i), attempt)

    earlier = run.journal.earlier if run.journal is not None else None
    first = earlier.failed_elements(path) if earlier is not None else []
    pool = _Pool(site, start, values.__setitem__, lambda i: (*path, i), items)
    failures = await pool.run(_Plan(len(items), step.limit, first=[i for i in first if i < len(items)]))
    if step.on_error == "finish":
        numbered = {i: _numbered(error, i) for i, error in failures.items()} if len(failures) > 1 else failures
        _fail(numbered, {i: value for i, value in enumerate(values) if value is not DROPPED})
    # A for_each in `collect` is nested in this one (semantics 10), but no other step runs at the same time.
    value, _ = await _collect(
        site, FanOutResult(values, failures=failures), inside._replace(concurrent=scope.concurrent)
    )
    return value


async def branches(site: CallSite[Branches]) -> Value:
    """Run all branches at the same time, then ``collect`` over the named values in the order of their declaration."""
    run, step, scope = site.run, site.step, site.scope
    inside = scope._replace(concurrent=True)
    steps = tuple(step.branches.values())
    run.emit(ev.FanOutStarted(site.at, clock(), len(steps)))
    run.budget.foresee(sum(sessions(branch, scope.linked) for branch in steps), step.span)
    values: list[Value] = [DROPPED] * len(steps)
    names, order = tuple(step.branches), list[int]()
    keys = [CallKey(site.path_of(branch), scope.tries) for branch in steps]
    journal = run.journal

    def start(i: int, attempt: int) -> StepResult | Pending[StepResult]:
        where = inside if attempt == 1 else _retry_scope(inside, keys[i].at, attempt)
        return run.start_step(steps[i], site.frame, where, site.index, attempt)

    def keep(i: int, value: Value) -> None:
        values[i] = value
        order.append(i)
        if journal is not None:
            journal.mark("ended", keys[i])

    plan = _Plan(len(steps), len(steps))
    if journal is not None and journal.earlier is not None:
        done = journal.earlier.order("ended", keys)
        failed = [i for i, key in enumerate(keys) if i not in done and journal.earlier.has_failed(key.at)]
        plan = _Plan(len(steps), len(steps), done, failed)
    failures = await _Pool(site, start, keep, lambda i: keys[i].at).run(plan)
    if step.on_error == "finish":
        _fail(failures, {name: values[i] for i, name in enumerate(names) if values[i] is not DROPPED})
    value, frame = await _collect(site, FanOutResult(values, names, failures, order), scope)
    return ShapeResult(value, frame=frame) if step.leaves else value


async def _collect(site: CallSite[Each] | CallSite[Branches], found: FanOutResult, scope: Scope) -> tuple[Value, Frame]:
    step, frame = site.step, site.frame
    if step.collect is not None and step.join is not None:
        return await resolve(site.run.start_step(step.collect, step.join.join(frame, found), scope, site.index))
    if step.gather is not None:
        return step.gather(found), frame
    if found.names is None:
        return [value for value in found.values if value is not DROPPED], frame
    named = zip(found.names, found.values, strict=True)
    return {name: value for name, value in named if value is not DROPPED}, frame


def _build_ahead(site: CallSite[Each], items: list[Value]) -> None:
    """Build the arguments of every call, so that none is made if one of them cannot be built."""
    step, body = site.step, site.step.body
    assert isinstance(body, Invoke), "only a call has arguments"
    wanted = schema_of(body, site.scope.linked)
    for i, item in enumerate(items):
        try:
            body.args.build(step.element.store(site.frame, Outcome(item)), wanted)
        except StepError as error:
            error.path = site.path_of(body, i)
            error.where = ev.format_path(error.path)
            raise


def _numbered(error: StepError, i: int) -> StepError:
    """The error with the number of its element: an error of several elements only has the path of the first."""
    found = type(error)(*(replace(d, message=f"element {i}: {d.message}") for d in error.diagnostics))
    found.path, found.where, found.__cause__ = error.path, error.where, error.__cause__
    return found


def _fail(failures: Mapping[int, StepError], partial: Value) -> None:
    """Raise the failures of a fan-out that ran to its end as one error, which has the results as ``partial``."""
    if not failures:
        return
    first = failures[min(failures)]
    if len(failures) > 1:
        cause, first = first, type(first)(*(found for i in sorted(failures) for found in failures[i].diagnostics))
        first.path, first.where, first.__cause__ = cause.path, cause.where, cause.__cause__
    first.partial = partial
    raise first


class _Plan:
    """The order in which a pool starts its parts.

    A resumed run starts with those that ended, so that the failure that stopped the others is known before they start.
    """

    def __init__(self, count: int, width: int, done: list[int] | None = None, first: list[int] | None = None):
        self.count, self.width = count, min(width, count)
        self.done = done or ()
        """In order, in the order of their ends."""
        ahead = {*self.done, *(first or ())}
        rest = [*(first or ()), *(i for i in range(count) if i not in ahead)] if ahead else range(count)
        self.rest: Iterator[int] = iter(rest)
        """Concurrently."""


class _Pool:
    def __init__(
        self,
        site: CallSite[Each] | CallSite[Branches],
        start: Callable[[int, int], StepResult | Pending[StepResult]],
        keep: Callable[[int, Value], None],
        at: Callable[[int], ev.StepPath],
        items: list[Value] | None = None,
    ) -> None:
        """``start(i, attempt)`` runs part ``i``; ``keep(i, value)`` receives its value; ``at(i)`` is its path."""
        self.site, self.start, self.keep, self.at, self.items = site, start, keep, at, items
        self.failures: dict[int, StepError] = {}
        """Failures that do not end the fan-out, if the step needs them."""
        self.failure: BaseException | None = None
        """The failure that ends the fan-out."""
        self.dropped = 0

    async def run(self, plan: _Plan) -> dict[int, StepError]:
        if plan.done:
            await self._work(plan.done)
        if plan.width <= 1:
            await self._work(plan.rest)
        else:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(plan.width):
                        group.create_task(self._work(plan.rest))
            except BaseExceptionGroup as several:
                self.failure = self.failure or several.exceptions[0]
            # Raised outside of `except`: IPython prints a whole traceback for an error whose context is a group.
            if self.failure is not None:
                raise self.failure
        if self.dropped and self.dropped == plan.count:
            self._warn_all_dropped()
        return self.failures

    async def _work(self, numbers: Iterable[int]) -> None:
        for i in numbers:
            if self.failure is not None:  # P15: after a failure no further element starts
                return
            attempt = 1
            while True:
                try:
                    result = self.start(i, attempt)
                    value, _ = await result.awaitable if type(result) is Pending else result
                    self.keep(i, value)
                    break
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    if not is_rescuable(error):
                        self.failure = self.failure or error
                        raise
                    if not self._retries(i, attempt, cast(StepError, error)):
                        break
                    attempt += 1

    def _retries(self, i: int, attempt: int, error: StepError) -> bool:
        """Whether to try again. Raises the error if it ends the fan-out."""
        step, run, tries = self.site.step, self.site.run, self.site.scope.tries
        if attempt <= step.retries:
            run.emit(ev.StepRetried(self.at(i), clock(), error))
            self._mark("retried", i, tries if attempt == 1 else again(tries, self.at(i), attempt))
            return True
        if step.on_error == "abort":
            self.failure = self.failure or error
            raise error
        if step.gather is not None or step.on_error == "finish":
            self.failures[i] = error
        if step.on_error == "continue":
            element = preview(run.secrets.shown(self.items[i])) if self.items is not None else None
            run.emit(ev.ElementDropped(self.at(i), clock(), error, element))
            self._mark("dropped", i, tries)
            self.dropped += 1
        return False

    def _mark(self, what: str, i: int, tries: str) -> None:
        if self.site.run.journal is not None:
            self.site.run.journal.mark(what, CallKey(self.at(i), tries))

    def _warn_all_dropped(self) -> None:
        """Warn that nothing is left; once for a step, which may be inside another fan-out."""
        step, run = self.site.step, self.site.run
        if id(step) not in run.all_dropped:
            run.all_dropped.add(id(step))
            parts = "elements" if self.items is not None else "branches"
            message = f"{step.word or step.label}: all {parts} failed and were dropped ({self.dropped:,})"
            run.emit(ev.Warned(clock(), Diagnostic("run.all-dropped", message, step.span, severity="warning")))


def _retry_scope(scope: Scope, at: ev.StepPath, attempt: int) -> Scope:
    return scope._replace(tries=again(scope.tries, at, attempt))


def sessions(step: Step, linked: Linked) -> int:
    """The number of agent sessions that ``step`` opens at least, if it completes."""
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
