"""Runs the shapes with concurrent parts: `Each`, a step for each element, and `Branches`.

The parts cannot disturb each other: frames are immutable, so each part stores into its own frame.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...flow.progress import events as ev
from ...flow.protocols import DROPPED, FanOutResult, Frame, Outcome
from ...flow.step_path import format_path
from ...flow.steps import WIDTH, Branches, Each, Invoke
from ...journal.records.records import CallKey
from ...text.diagnostics import StepError
from ...values.value import Value
from ..calls.going_on import ask_to_go_on
from ..late_values import when_read
from ..linking.linked import schema_of
from ..linking.session_count import sessions
from ..runner import CallSite, Scope, ShapeResult, StepResult, clock
from .elements import Elements, first_of, read_elements
from .fan_out_parts import FanOutParts, retry_scope
from .in_order import report
from .one_call import body_runs_on_workers, one_call
from .start_order import StartOrder
from .task_fan_out import TaskFanOut
from .worker_fan_out import WorkerFanOut


async def each(site: CallSite[Each]) -> Value:
    """Run ``body`` once per element, at most ``limit`` at a time, then ``collect`` over the
    survivors in order."""
    run = site.run
    step = site.step
    scope = site.scope
    # `Each.scope` is a bool: the calls of a model's reply add no depth.
    inside = scope._replace(
        depth=scope.depth + step.scope, concurrent=scope.concurrent or step.limit != 1
    )
    # Checked before the elements are read, because that may run user code.
    run.budget.deepen(inside.depth, step.span)
    items = await _elements_of(site)
    run.emit(ev.FanOutStarted(site.path, clock(), len(items), items.source))
    # Checked now, because otherwise half of the agents' answers would be paid for and thrown away.
    callees = scope.linked.callees
    may_fail = _may_fail(step)
    run.budget.foresee(len(items) * sessions(step.body, callees, may_fail), step.span)
    # Stored by number, so that the results have the order of the elements.
    values: list[Value] = [DROPPED] * len(items)
    bind = step.element.bind
    body = step.body
    path = site.path_of(body)
    frame = site.frame
    index = site.index

    async def start(i: int, attempt: int) -> StepResult:
        attempt_scope = retry_scope(inside, (*path, i), attempt)
        try:
            inner = bind(frame, items[i])
        except StepError as error:
            # The element fails, not the fan-out, so `on_error` applies.
            return run.fail_unstarted(error, body, frame, attempt_scope, (*index, i), attempt)
        return await run.run_step(body, inner, attempt_scope, (*index, i), attempt)

    # Elements that failed in an earlier session start first: their failure may stop the others.
    first = [i for i in run.log.failed_elements(path) if i < len(items)]
    ended: list[int] = []
    if step.failing.on_error == "abort":
        ended = [i for i in run.log.failed_elements(path, has_ended=True) if i < len(items)]
    order = StartOrder(len(items), step.limit or WIDTH, ended, first)
    fan_out = _choose_parts(site, inside, start, values.__setitem__, items)
    if 0 < step.first < len(items):
        await fan_out.run(order.begin(step.first))
        await ask_to_go_on(site, len(items))
    failures = await fan_out.run(order)
    # A sequence may have grown or shrunk while it was read.
    await items.check_length()
    # A for_each in `collect` is nested in this one (semantics 10), but runs alone.
    collecting = inside._replace(concurrent=scope.concurrent)
    value, _ = await _collect(site, FanOutResult(values, failures=failures), collecting)
    return value


def _may_fail(step: Each | Branches) -> bool:
    """Whether the run goes on if a part of the fan-out fails, perhaps before it opens a session."""
    return step.failing.on_error != "abort" or step.rescue is not None


async def _elements_of(site: CallSite[Each]) -> Elements:
    """The elements up to the limit. With ``ahead``, the arguments of all calls are built first."""
    step = site.step
    items = await read_elements(site)
    cut = step.cut
    if cut is not None and len(items) > cut.most:
        report(site.run, cut.problem(len(items) - cut.most))
        items = first_of(items, cut.most)
    if step.ahead:
        await _build_ahead(site, items)
    return items


def _choose_parts(
    site: CallSite[Each],
    inside: Scope,
    start: Callable[[int, int], Awaitable[StepResult]],
    keep: Callable[[int, Value], None],
    items: Elements,
) -> FanOutParts:
    """The fan-out of the elements: as calls on workers if the body is one such call, else as
    tasks."""
    step = site.step
    call = one_call(site, inside)
    if call is not None:
        return WorkerFanOut(site, inside, call, keep, items)
    is_wide = step.limit is None and body_runs_on_workers(step.body, site.scope.linked)
    workers = site.run.host.queue if is_wide else None
    path = site.path_of(step.body)
    return TaskFanOut(site, start, keep, lambda i: (*path, i), items, workers)


async def branches(site: CallSite[Branches]) -> Value:
    """Run all branches at the same time, then ``collect`` over the named values in the order of
    their declaration."""
    run = site.run
    step = site.step
    scope = site.scope
    inside = scope._replace(concurrent=True)
    steps = tuple(step.branches.values())
    run.emit(ev.FanOutStarted(site.path, clock(), len(steps)))
    callees, may_fail = scope.linked.callees, _may_fail(step)
    run.budget.foresee(sum(sessions(branch, callees, may_fail) for branch in steps), step.span)
    values: list[Value] = [DROPPED] * len(steps)
    names = tuple(step.branches)
    ended_order: list[int] = []
    keys = [CallKey(site.path_of(branch), scope.tries) for branch in steps]

    async def start(i: int, attempt: int) -> StepResult:
        attempt_scope = retry_scope(inside, keys[i].at, attempt)
        return await run.run_step(steps[i], site.frame, attempt_scope, site.index, attempt)

    def keep(i: int, value: Value) -> None:
        values[i] = value
        # A policy may take the first ended branch, so a resumed run needs the same order.
        ended_order.append(i)
        run.mark("ended", keys[i])

    # A resumed or replayed run repeats the order of the ends.
    ended = run.log.order("ended", keys)
    if run.options.recording is not None:
        ended = run.options.recording.order([key.at for key in keys])
    if step.failing.on_error == "abort":
        ends = [i for i, key in enumerate(keys) if run.log.has_ended_in_failure(key.at)]
        ended += [i for i in ends if i not in ended]
    failed = [i for i, key in enumerate(keys) if run.log.has_failed(key.at)]
    starts = StartOrder(len(steps), len(steps), ended, failed)
    failures = await TaskFanOut(site, start, keep, lambda i: keys[i].at).run(starts)
    value, frame = await _collect(site, FanOutResult(values, names, failures, ended_order), scope)
    # With ``leaves``, later steps see what `join` and ``collect`` have stored.
    return ShapeResult(value, frame=frame) if step.leaves else value


async def _collect(
    site: CallSite[Each] | CallSite[Branches], results: FanOutResult, scope: Scope
) -> tuple[Value, Frame]:
    """The value of the fan-out from the values of its parts, and the frame after it. Raises
    StepError for the failures of a fan-out that ran to its end."""
    step, frame = site.step, site.frame
    if step.failing.on_error == "finish" and results.failures:
        raise _several(results)
    if step.collect is not None and step.join is not None:
        joined = await when_read(partial(step.join.join, frame, results))
        return await site.run.run_step(step.collect, joined, scope, site.index)
    if step.gather is not None:
        return step.gather(results), frame
    survivors = _survivors(results)
    return (list(survivors.values()) if results.names is None else survivors), frame


def _survivors(results: FanOutResult) -> dict[Any, Value]:
    """The values that were not dropped, by the branch or the number of the element."""
    names = range(len(results.values)) if results.names is None else results.names
    named = zip(names, results.values, strict=True)
    return {name: value for name, value in named if value is not DROPPED}


async def _build_ahead(site: CallSite[Each], items: Elements) -> None:
    """Build the arguments of every call, so that none is made if one of them cannot be built."""
    step, body = site.step, site.step.body
    assert isinstance(body, Invoke), "only a call has arguments"
    schema = schema_of(body, site.scope.linked)
    for i in range(len(items)):
        try:
            item = await items.take(i)
            # The arguments are thrown away, because those of 100,000 elements would fill the
            # memory.
            frame = step.element.store(site.frame, Outcome(item))
            await when_read(partial(body.args.build, frame, schema))
        except StepError as error:
            # No step has started that would give the error its place.
            error.path = site.path_of(body, i)
            error.where = format_path(error.path)
            raise


def _several(results: FanOutResult) -> StepError:
    """One error for all failures of a fan-out that ran to its end, with the results as
    ``partial``."""
    failures = results.failures
    first = failures[min(failures)]
    if len(failures) > 1:
        # The joint error has the path of the first element, so each failure tells its number.
        element = "element {}: " if results.names is None else ""
        diagnostics = [
            replace(problem, message=element.format(i) + problem.message)
            for i in sorted(failures)
            for problem in failures[i].diagnostics
        ]
        whole = type(first)(*diagnostics)
        whole.path = first.path
        whole.where = first.where
        whole.__cause__ = first.__cause__
        first = whole
    first.partial = _survivors(results)
    return first
