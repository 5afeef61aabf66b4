"""Shapes whose parts run in order: compute, sequence, choose, fold, repeat.

The shape `Dag`: each step starts as soon as its inputs are available.

The `Scheduler` of the language knows which nodes are ready; this module only runs them. Ends are
stored one at a time, in their order or in the order that the scheduler asks for. Only the nodes
that an end concerns are checked again, so a plan of a thousand calls is not searched a thousand
times.

The shape `Walk`: nodes run in rounds, along the edges of a graph.

All nodes of a round see the frame of the round before, so none sees what another one writes. The
language's `join` makes one frame of their outcomes, in the order of the nodes' names. Then the
edges are followed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from ..flow import events as ev
from ..flow.step import END, START, Dag, Edge, Frame, Outcome, Scheduler, Skip, Walk, finished
from ..flow.steps import Choose, Compute, Fold, Invoke, Repeat, Sequence, children
from ..flow.values import Value, is_true
from ..journal.records import CallKey
from ..text.diagnostics import Diagnostic, StepError
from .pool import Plan, Pool
from .runner import CallSite, Runner, Scope, ShapeResult, StepResult, clock, is_rescuable
from .sequences import first_of, read_elements
from .streams import separate_prints


async def compute(site: CallSite[Compute]) -> Value:
    return site.step.value.evaluate(site.frame)


async def choose(site: CallSite[Choose]) -> Value:
    step, run = site.step, site.run
    picked = step.pick.evaluate(site.frame)
    labels = step.labels(picked)
    chosen = next((step.cases[label] for label in labels if label in step.cases), step.default)
    if chosen is None:
        message = f"no case is labelled {labels[0]!r} and there is no default"
        raise StepError(
            Diagnostic(
                "step.no-case", message, step.pick.span, f"the cases are {', '.join(step.cases)}"
            )
        )
    for other in children(step):
        if other is not chosen:
            # The rows of the other cases must not look as if they were still to come.
            run.emit(ev.StepSkipped(site.path_of(other), clock(), f"not picked: {labels[0]}"))
    value, _ = await run.run_step(chosen, site.frame, site.scope, site.index)
    return value


async def fold(site: CallSite[Fold]) -> Value:
    step, frame = site.step, site.frame
    items = await read_elements(site)
    if step.most is not None:
        items = first_of(items, step.most)
    site.run.emit(ev.FanOutStarted(site.at, clock(), len(items)))
    value = step.init.evaluate(frame)
    for i in range(len(items)):
        item = await items.take(i)
        # The accumulator last: it wins where a text gives both the same name.
        frame = step.acc.store(step.element.store(frame, Outcome(item)), Outcome(value))
        value, frame = await site.run.run_step(step.body, frame, site.scope, (*site.index, i))
    await items.check_length()
    return value


async def sequence(site: CallSite[Sequence]) -> ShapeResult:
    """Run the steps in order; each sees what the steps before it stored."""
    frame, value = site.frame, None
    for inner in site.step.steps:
        value, frame = await site.run.run_step(inner, frame, site.scope, site.index)
        site.run.reach(site.scope, frame)
    return ShapeResult(value, frame=frame)


async def repeat(site: CallSite[Repeat]) -> ShapeResult:
    """Run ``body`` until ``until`` is true; the result is that of the last iteration."""
    run, step, frame = site.run, site.step, site.frame
    if step.session:
        # Before the prompt is built: a session that may not begin costs nothing.
        run.budget.spawn(step.span)
    value: Value = None
    for i in range(step.limit):
        value, frame = await run.run_step(step.body, frame, site.scope, (*site.index, i))
        run.reach(site.scope, frame)
        if step.until is not None and is_true(step.until.evaluate(frame)):
            break
    else:
        if step.until is not None and step.over is not None:
            report(run, step.over(step.limit, frame))
    return ShapeResult(value, frame=frame)


def report(run: Runner, diagnostic: Diagnostic) -> None:
    """Emit a warning of the definition about its own limits, or raise its error."""
    if diagnostic.severity == "error":
        raise StepError(diagnostic)
    run.emit(ev.Warned(clock(), diagnostic))


async def run_dag(site: CallSite[Dag]) -> ShapeResult:
    """Run every node that becomes ready; the frame when none runs and none is ready."""
    dag = _Run(site)
    await dag.run_all()
    return ShapeResult(None, frame=dag.frame)


class _Run:
    def __init__(self, site: CallSite[Dag]) -> None:
        self.site, self.runner, self.frame = site, site.run, site.frame
        self.scheduler: Scheduler = site.step.open(self.frame)
        self.nodes = self.scheduler.nodes
        steps = {inner.id: inner for inner in site.step.steps}
        self.steps = [steps[node.step] for node in self.nodes]
        self.inside = self.instanced = site.scope._replace(concurrent=True)
        # Instances are a fan-out (decision A15).
        if any(node.instance is not None for node in self.nodes):
            self.instanced = self.inside._replace(depth=site.scope.depth + 1)
            self.runner.budget.deepen(self.instanced.depth, site.step.span)
        self.waiting = set(range(len(self.nodes)))
        """The numbers of the nodes that are neither ready nor skipped."""
        self.ready: OrderedDict[int, Frame] = OrderedDict()
        """Ready and not started, with the frames that they see."""
        self.running = 0
        """How many have a task."""
        self.held: dict[int, Outcome] = {}
        """Ended and not stored, in the order of their ends."""

    async def run_all(self) -> None:
        failure: BaseException | None = None
        self.check(range(len(self.nodes)))
        await self.replay()
        try:
            async with asyncio.TaskGroup() as group:
                self.start_ready(group)
        except BaseExceptionGroup as several:
            failure = several.exceptions[0]
        # Outside of `except`: IPython prints a traceback for an error whose context is a group.
        if failure is not None:
            raise failure
        for number in sorted(self.waiting):
            self.skip(number, Skip("its inputs never became available"))
        self.frame = self.scheduler.close(self.frame)
        self.runner.reach(self.site.scope, self.frame)

    async def replay(self) -> None:
        """Store what an earlier session stored, in its order and before anything new starts: so
        every node sees the same frame as then."""
        keys = [self.key(number) for number in range(len(self.nodes))]
        for number in self.runner.log.order("stored", keys):
            # The journal is not believed blindly: only a node that is ready starts.
            frame = self.ready.pop(number, None)
            if frame is not None:
                self.end(number, await self.start(number, frame))
                self.check(self.scheduler.feeds(number))

    def start_ready(self, group: asyncio.TaskGroup, but: int = 0) -> None:
        """Start the ready nodes, each in a task of its own. ``but``: so many of the last ones are
        left."""
        while len(self.ready) > but:
            group.create_task(self.run_nodes(group, *self.take()))

    def take(self) -> tuple[int, Frame]:
        """The node that starts next: in the order in which they became ready; a set would change it
        from run to run."""
        self.running += 1
        return self.ready.popitem(last=False)

    async def run_nodes(self, group: asyncio.TaskGroup, number: int, frame: Frame) -> None:
        """Run a node, and then the last one that is ready after it: most calls make one ready, and a
        task for each takes a tenth of the call."""
        while True:
            separate_prints(self.runner)
            self.held[number] = await self.start(number, frame)
            self.running -= 1
            # Before `store_ended`: the scheduler chooses among those that have come.
            self.scheduler.come(number)
            self.store_ended()
            self.start_ready(group, 1)
            if not self.ready:
                return
            number, frame = self.take()
            # As a task would: a resumed run, whose calls end at once, starts them in the same order.
            await asyncio.sleep(0)

    def store_ended(self) -> None:
        """Store the ends that may be stored, and check the nodes that they concern."""
        while self.held:
            number = self.scheduler.next()
            if number is None and not self.running and not self.ready:
                number = next(iter(self.held))  # no other node can end before it
            if number is None:
                return
            self.end(number, self.held.pop(number))
            self.check(self.scheduler.feeds(number))

    def check(self, numbers: Iterable[int]) -> None:
        """Move the ready ones of these nodes to `ready`, skip those that never will be, and check
        what these feed."""
        # A list that grows, not a recursion: a chain of skipped nodes may be long.
        queue = list(numbers)
        for number in queue:
            if number not in self.waiting:
                continue
            verdict = self.scheduler.ready(number, self.frame)
            if verdict == "go":
                self.waiting.remove(number)
                self.ready[number] = self.scheduler.enter(number, self.frame)
            elif verdict != "wait":
                self.skip(number, verdict)
                queue += self.scheduler.feeds(number)

    async def start(self, number: int, frame: Frame) -> Outcome:
        step, scope, index, instance = (
            self.steps[number],
            self.inside,
            self.site.index,
            self.nodes[number].instance,
        )
        if instance is not None:
            scope, index = self.instanced, (*index, instance)
        try:
            value, _ = await self.runner.run_step(step, frame, scope, index)
        except StepError as error:
            if not is_rescuable(error):
                raise
            return Outcome(None, None, error, "failed")
        return finished(
            (
                value,
                None,
                None,
                "fired" if type(step) is Invoke and not step.awaited else "finished",
            )
        )

    def skip(self, number: int, reason: Skip) -> None:
        self.waiting.remove(number)
        self.runner.emit(ev.StepSkipped(self.key(number).at, clock(), reason.why))
        self.end(number, Outcome(reason.why, status="skipped"))

    def end(self, number: int, outcome: Outcome) -> None:
        if outcome.status != "skipped":
            # The order of the stores decides what later nodes see, so a resumed run repeats it.
            self.runner.mark("stored", self.key(number))
        self.frame = self.scheduler.store(number, self.frame, outcome)
        self.runner.reach(self.site.scope, self.frame)

    def key(self, number: int) -> CallKey:
        instance = self.nodes[number].instance
        more = () if instance is None else (instance,)
        return CallKey(self.site.path_of(self.steps[number], *more), self.site.scope.tries)


Visits = dict[str, int]
"""How often each node ran."""


async def run_walk(site: CallSite[Walk]) -> ShapeResult:
    """Walk from START until no node is ready; the result is that of the last round."""
    run, step, frame = site.run, site.step, site.frame
    # The structure decides: a walk that never forks runs its plain functions on the thread that
    # waits for the run.
    inside = site.scope._replace(concurrent=site.scope.concurrent or step.forks)
    visits: Visits = {}
    value: Value = None
    rounds, at = 0, (*site.at, 0)
    ready = _after(run, step, at, START, frame)
    while ready := _allowed(run, step, at, ready, visits):
        rounds += 1
        if rounds > step.rounds:
            raise StepError(step.endless(step.rounds))
        for name in ready:
            visits[name] = visits.get(name, 0) + 1
        outcomes = await _round(site, ready, visits, frame, inside)
        frame, value = step.join(frame, outcomes), outcomes[-1][1].value
        run.reach(site.scope, frame)
        at = (*site.at, rounds)
        ready = [target for name in ready for target in _after(run, step, at, name, frame)]
    return ShapeResult(value, frame=frame)


async def _round(
    site: CallSite[Walk], ready: list[str], visits: Visits, frame: Frame, inside: Scope
) -> list[tuple[str, Outcome]]:
    """Run the nodes of a round, at most ``width`` at a time; their outcomes in the order of their
    names."""
    run, step, names = site.run, site.step, sorted(ready)
    values: list[Value] = [None] * len(names)

    def at(i: int) -> ev.StepPath:
        return site.path_of(step.nodes[names[i]], visits[names[i]] - 1)

    async def start(i: int, attempt: int) -> StepResult:
        index = (*site.index, visits[names[i]] - 1)
        return await run.run_step(step.nodes[names[i]], frame, inside, index)

    # What failed is known before anything in the round starts.
    first = [i for i in range(len(names)) if run.log.has_failed(at(i))]
    plan = Plan(len(names), step.width or len(names), first=first)
    await Pool(site, start, values.__setitem__, at).run(plan)
    return list(zip(names, map(Outcome, values), strict=True))


def _allowed(
    run: Runner, step: Walk, at: ev.StepPath, ready: list[str], visits: Visits
) -> list[str]:
    """The nodes to run next, each once. A node over its limit is replaced by the target of its
    exit."""
    allowed: dict[str, None] = {}
    skipped: set[str] = set()
    for name in ready:
        while (limit := step.limits.get(name)) is not None and visits.get(name, 0) >= limit:
            if name in skipped:  # two nodes over their limits have exits to each other
                name = END
                break
            skipped.add(name)
            if step.over is not None:
                report(run, step.over(name))
            full, name = name, step.exits.get(name, END)
            # The way out of a full node is part of the path that is shown.
            run.emit(ev.EdgeTaken(at, clock(), full, name))
        if name != END:
            allowed[name] = None
    return list(allowed)


def _after(run: Runner, step: Walk, at: ev.StepPath, name: str, frame: Frame) -> list[str]:
    """The targets of a node's edges: the unconditional ones, the first whose condition is true,
    else ``otherwise``."""
    edges, taken, chosen = step.leaving.get(name, ()), list[Edge](), False
    for edge in edges:
        if edge.when is None:
            if not edge.otherwise:
                taken.append(edge)
        elif not chosen and is_true(edge.when.evaluate(frame)):
            chosen = True
            taken.append(edge)
    if not chosen:
        taken += [edge for edge in edges if edge.otherwise]
    for edge in taken:
        run.emit(ev.EdgeTaken(at, clock(), name, edge.target))
    return [edge.target for edge in taken]
