"""Elements of a fan-out whose call is a recorded one: they end without a task, a slot or a wait.

An element whose body is one plain tool call needs nothing but the value of that call. So a resumed
run stores the recorded value, and a run that reuses results builds the arguments, takes the result
and copies its row. Everything that is special is left to the pool, which does the same in a quarter
of the speed: a failure, a value that is not JSON, a secret, a limit of calls, an error in the
arguments. `tests/engine/test_replayed.py` compares both.

Shapes whose parts run concurrently. Isolation needs no code: frames are immutable, so each
element stores into a frame of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..flow import events as ev
from ..flow.step import DROPPED, Dag, FanOutResult, Frame, Outcome, Step, Walk
from ..flow.steps import (
    WIDTH,
    Branches,
    Choose,
    Compute,
    Each,
    Fold,
    Invoke,
    Repeat,
    Sequence,
)
from ..flow.values import Value
from ..journal.collected import NO_RESULT, Copies
from ..journal.records import CallKey, ReplayLog
from ..text.diagnostics import StepError
from .host import TURN
from .invoke import invoke
from .linked import schema_of, sessions
from .order import choose, compute, fold, repeat, report, run_dag, run_walk, sequence
from .pool import OneCall, Parts, Plan, Pool, body_runs_on_workers, one_call, retry_scope
from .runner import CallSite, Scope, Shape, ShapeResult, StepResult, clock
from .sequences import Elements, first_of, read_elements
from .table_rows import ask_to_go_on
from .threaded import ThreadedPool


class Replay:
    """Replays the recorded elements of one fan-out."""

    def __init__(
        self,
        site: CallSite[Each],
        inside: Scope,
        fan_out: OneCall,
        items: Elements,
        keep: Callable[[int, Value], None],
    ) -> None:
        """``inside``: the scope of the elements. ``keep(i, value)`` receives the value of element
        ``i``."""
        journal, body, tool = site.run.journal, fan_out.step, fan_out.tool
        assert journal is not None, "one_call has checked it"
        self.site, self.run, self.body, self.tool, self.items, self.keep = (
            site,
            site.run,
            body,
            tool,
            items,
            keep,
        )
        self.path = site.path_of(body)
        self.copies: Copies | None = None
        self.source = journal.run_id
        if journal.earlier is not None:
            self.record_of = self._recorded(journal.earlier, inside.tries)
        elif (
            journal.reuse is not None
            and items.is_quick  # the pool reads the others
            and not (body.exchange.offers or body.exchange.wants)
        ):
            self.copies = Copies(journal, journal.reuse, body, tool, self.path, inside.tries)
            self.record_of, self.source = self._reused(self.copies), journal.reuse.run_id
        else:
            self.record_of = lambda i: NO_RESULT

    def rest(self, numbers: Iterator[int], ends: Callable[[], bool]) -> Iterator[int]:
        """The elements that are left to the pool. The others are replayed between two of them, in
        their order.

        ``ends``: whether the fan-out has failed, so that no further element starts. After `TURN`
        seconds an element is left to the pool, which lets the loop run.
        """
        while True:
            # A secret that the run has got since must be masked: the pool does that.
            stops = ends() or (self.copies is not None and not self.copies.is_possible)
            i = next(numbers, None) if stops else self._replay(numbers)
            if i is None:
                return
            yield i

    def _replay(self, numbers: Iterator[int]) -> int | None:
        """Replay elements until one has no usable record, for which nothing is done; returns its
        number, None after the last one. Nothing else runs meanwhile, so what they have in common is
        done once for all of them."""
        record_of, keep, host, now = self.record_of, self.keep, self.run.host, clock()
        replayed, values = list[int](), list[Value]()
        left = None
        try:
            for i in numbers:
                value = record_of(i) if now - host.turned <= TURN else NO_RESULT
                if value is NO_RESULT:
                    left = i
                    break
                keep(i, value)
                replayed.append(i)
                values.append(value)
                now = clock()
        finally:  # an interrupt may come at any line
            self.run.calls += len(replayed)
            if self.copies is not None:
                self.copies.write()
            self._tell(replayed, values, now)
        return left

    def _tell(self, replayed: list[int], values: list[Value], when: float) -> None:
        # The events of 30,000 elements take a quarter of the time of a run that reuses them.
        if self.run.progress is not None:
            if replayed:
                at = (*self.path, replayed[-1])
                self.run.progress.replay(at, len(replayed), when)
            return
        for i, value in zip(replayed, values, strict=True):
            at = (*self.path, i)
            self.run.emit(ev.StepStarted(at, when))
            self.run.emit(ev.StepReplayed(at, when, self.source))
            self.run.emit(ev.StepFinished(at, when, value))

    def _recorded(self, earlier: ReplayLog, tries: str) -> Callable[[int], Value]:
        """A function of an element that takes the value of its call in an earlier session, or
        `NO_RESULT`."""
        values, path = earlier.values, self.path
        return lambda i: values.pop(((*path, i), tries), NO_RESULT)

    def _reused(self, copies: Copies) -> Callable[[int], Value]:
        """The same for the result of an equal call in another run."""
        items, frame, bind = self.items, self.site.frame, self.site.step.element.bind
        build, arguments = self.body.args.build, self.tool.arguments
        take, isolate = copies.take, self.run.large.isolate

        def reused(i: int) -> Value:
            try:
                return take(i, arguments.validate(isolate(build(bind(frame, items[i]), None))))
            # The pool builds them again, for an error that is readable and has a place.
            except Exception:
                return NO_RESULT

        return reused


async def each(site: CallSite[Each]) -> Value:
    """Run ``body`` once per element, at most ``limit`` at a time, then ``collect`` over the
    survivors in order."""
    run, step, scope = site.run, site.step, site.scope
    inside = scope._replace(
        depth=scope.depth + step.scope, concurrent=scope.concurrent or step.limit != 1
    )
    # Before the elements are read: a fan-out that may not begin runs no code of theirs.
    run.budget.deepen(inside.depth, step.span)
    items = await _elements_of(site)
    run.emit(ev.FanOutStarted(site.at, clock(), len(items)))
    # All or nothing: half of the agents' answers would be paid for and thrown away.
    run.budget.foresee(len(items) * sessions(step.body, scope.linked.callees), step.span)
    # By number, so that the results are in the order of the elements, whatever ends first.
    values: list[Value] = [DROPPED] * len(items)
    bind, body = step.element.bind, step.body
    path, frame, index = site.path_of(body), site.frame, site.index

    async def start(i: int, attempt: int) -> StepResult:
        where = retry_scope(inside, (*path, i), attempt)
        try:
            inner = bind(frame, items[i])
        except StepError as error:
            # A failure of the element, not of the fan-out: `on_error` applies to it.
            return run.fail_unstarted(error, body, frame, where, (*index, i), attempt)
        return await run.run_step(body, inner, where, (*index, i), attempt)

    def in_kernel(plan: Plan) -> Parts:
        """What runs the elements of ``plan`` here, where workers at most make their calls."""
        pool: Parts
        fan_out, keep = one_call(site, inside), values.__setitem__
        if fan_out is not None and fan_out.is_pooled:
            pool = ThreadedPool(site, inside, fan_out, keep, items)
        else:
            is_wide = step.limit is None and body_runs_on_workers(body, scope.linked)
            workers = queue if is_wide else None
            pool = Pool(site, start, keep, lambda i: (*path, i), items, workers)
        if fan_out is not None and fan_out.replays:
            # Only those of which no usable record is found are left to the pool.
            replay = Replay(site, inside, fan_out, items, keep)
            plan.rest = replay.rest(plan.rest, lambda: pool.failure is not None)
        return pool

    # What failed before is known before other elements start, which a failure would stop.
    first = [i for i in run.log.failed_elements(path) if i < len(items)]
    plan, queue = Plan(len(items), step.limit or WIDTH, first=first), run.host.queue
    pool: Parts | None = None
    if queue is not None:
        pool = queue.elements(site, inside, values.__setitem__, items, in_kernel)
    if pool is None:
        pool = in_kernel(plan)
    if 0 < step.first < len(items):
        await pool.run(plan.begin(step.first))
        await ask_to_go_on(site, len(items))
    failures = await pool.run(plan)
    # A sequence may have grown or shrunk while it was read.
    await items.check_length()
    # A for_each in `collect` is nested in this one (semantics 10), but no other step runs at the
    # same time.
    value, _ = await _collect(
        site, FanOutResult(values, failures=failures), inside._replace(concurrent=scope.concurrent)
    )
    return value


async def _elements_of(site: CallSite[Each]) -> Elements:
    """The elements that are used, after the arguments of all were built where the step says so."""
    step, items = site.step, await read_elements(site)
    cut = step.cut
    if cut is not None and len(items) > cut.most:
        report(site.run, cut.finding(len(items) - cut.most))
        items = first_of(items, cut.most)
    if step.ahead:
        await _build_ahead(site, items)
    return items


async def branches(site: CallSite[Branches]) -> Value:
    """Run all branches at the same time, then ``collect`` over the named values in the order of
    their declaration."""
    run, step, scope = site.run, site.step, site.scope
    inside = scope._replace(concurrent=True)
    steps = tuple(step.branches.values())
    run.emit(ev.FanOutStarted(site.at, clock(), len(steps)))
    run.budget.foresee(sum(sessions(branch, scope.linked.callees) for branch in steps), step.span)
    values: list[Value] = [DROPPED] * len(steps)
    names, order = tuple(step.branches), list[int]()
    keys = [CallKey(site.path_of(branch), scope.tries) for branch in steps]

    async def start(i: int, attempt: int) -> StepResult:
        where = retry_scope(inside, keys[i].at, attempt)
        return await run.run_step(steps[i], site.frame, where, site.index, attempt)

    def keep(i: int, value: Value) -> None:
        values[i] = value
        # Kept, because a policy may take the first that ended; a resumed run has the same order.
        order.append(i)
        run.mark("ended", keys[i])

    done = run.log.order("ended", keys)
    if run.recording is not None:
        done = run.recording.order([key.at for key in keys])
    failed = [i for i, key in enumerate(keys) if i not in done and run.log.has_failed(key.at)]
    plan = Plan(len(steps), len(steps), done, failed)
    failures = await Pool(site, start, keep, lambda i: keys[i].at).run(plan)
    value, frame = await _collect(site, FanOutResult(values, names, failures, order), scope)
    return ShapeResult(value, frame=frame) if step.leaves else value


async def _collect(
    site: CallSite[Each] | CallSite[Branches], results: FanOutResult, scope: Scope
) -> tuple[Value, Frame]:
    step, frame = site.step, site.frame
    if step.failing.on_error == "finish" and results.failures:
        raise _several(results)
    if step.collect is not None and step.join is not None:
        return await site.run.run_step(
            step.collect, step.join.join(frame, results), scope, site.index
        )
    if step.gather is not None:
        return step.gather(results), frame
    kept = _kept(results)
    return (list(kept.values()) if results.names is None else kept), frame


def _kept(results: FanOutResult) -> dict[Any, Value]:
    """The values by their branch or the number of their element, without those that were
    dropped."""
    names = range(len(results.values)) if results.names is None else results.names
    named = zip(names, results.values, strict=True)
    return {name: value for name, value in named if value is not DROPPED}


async def _build_ahead(site: CallSite[Each], items: Elements) -> None:
    """Build the arguments of every call, so that none is made if one of them cannot be built."""
    step, body = site.step, site.step.body
    assert isinstance(body, Invoke), "only a call has arguments"
    wanted = schema_of(body, site.scope.linked)
    for i in range(len(items)):
        try:
            item = await items.take(i)
            # Built and thrown away: kept, the arguments of 100,000 elements would take the memory.
            body.args.build(step.element.store(site.frame, Outcome(item)), wanted)
        except StepError as error:
            # No step has started, so nobody else gives the error its place.
            error.path = site.path_of(body, i)
            error.where = ev.format_path(error.path)
            raise


def _several(results: FanOutResult) -> StepError:
    """The failures of a fan-out that ran to its end as one error, which has the results as
    ``partial``."""
    failures = results.failures
    first = failures[min(failures)]
    if len(failures) > 1:
        # An error of several elements has the path of the first, so each tells its number.
        element = "element {}: " if results.names is None else ""
        diagnostics = [
            replace(problem, message=element.format(i) + problem.message)
            for i in sorted(failures)
            for problem in failures[i].diagnostics
        ]
        whole = type(first)(*diagnostics)
        whole.path, whole.where, whole.__cause__ = first.path, first.where, first.__cause__
        first = whole
    first.partial = _kept(results)
    return first


SHAPES: Mapping[type[Step], Shape] = {
    Compute: compute,
    Invoke: invoke,
    Choose: choose,
    Sequence: sequence,
    Fold: fold,
    Repeat: repeat,
    Dag: run_dag,
    Walk: run_walk,
    Each: each,
    Branches: branches,
}
"""The function that runs each kind of step."""
