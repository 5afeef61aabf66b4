"""The shape `Dag`: each step starts as soon as its inputs are available.

The `Scheduler` of the language knows which nodes are ready; this module only runs them. Ends are stored one at a time,
in their order or in the order that the scheduler asks for. Only the nodes that an end concerns are checked again, so a
plan of a thousand calls is not searched a thousand times.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Iterable

from ..flow.frame import Frame, Node, Outcome, Scheduler, Skip
from ..flow.steps import Dag, Step
from ..host.calls import Pending, resolve
from ..journal.records import CallKey
from ..progress import events as ev
from ..text.diagnostics import StepError
from .runner import CallSite, ShapeResult, StepResult, clock, is_rescuable
from .streaming import separate_prints


async def run_dag(site: CallSite[Dag]) -> ShapeResult:
    """Run every node that becomes ready; the frame when none runs and none is ready."""
    dag = _Run(site)
    await dag.run_all()
    return ShapeResult(None, frame=dag.frame)


class _Run:
    def __init__(self, site: CallSite[Dag]) -> None:
        self.site, self.runner, self.frame = site, site.run, site.frame
        self.steps: dict[str, Step] = {inner.id: inner for inner in site.step.steps}
        self.scheduler: Scheduler = site.step.open(self.frame)
        self.inside = self.instanced = site.scope._replace(concurrent=True)
        if any(node.instance is not None for node in self.scheduler.nodes):  # instances are a fan-out (decision A15)
            self.instanced = self.inside._replace(depth=site.scope.depth + 1)
            self.runner.budget.deepen(self.instanced.depth, site.step.span)
        self.waiting: dict[Node, None] = dict.fromkeys(self.scheduler.nodes)
        """Neither ready nor skipped, in the order of the text."""
        self.ready: OrderedDict[Node, Frame] = OrderedDict()
        """Ready and not started, with the frames that they see."""
        self.running = 0
        self.held: OrderedDict[Node, Outcome] = OrderedDict()
        """Ended and not stored, in the order of their ends."""
        self.ended: dict[Node, Outcome] = {}
        self.has_idle_worker = False

    async def run_all(self) -> None:
        failure: BaseException | None = None
        self.check(self.scheduler.nodes)
        await self.replay()
        try:
            async with asyncio.TaskGroup() as group:
                self.add_worker(group)
        except BaseExceptionGroup as several:
            failure = several.exceptions[0]
        if failure is not None:  # outside of `except`: IPython prints a traceback for an error whose context is a group
            raise failure
        for node in tuple(self.waiting):
            self.skip(node, Skip("its inputs never became available"))
        self.frame = self.scheduler.close(self.frame, self.ended)
        self.runner.reach(self.site.scope, self.frame)

    async def replay(self) -> None:
        """Store what an earlier session stored, in its order and before anything new starts: so every node sees the
        same frame as then."""
        journal = self.runner.journal
        if journal is None or journal.earlier is None:
            return
        nodes = tuple(self.scheduler.nodes)
        for i in journal.earlier.order("stored", [self.key(node) for node in nodes]):
            frame = self.ready.pop(nodes[i], None)
            if frame is not None:
                self.end(nodes[i], await resolve(self.start(nodes[i], frame)))
                self.check(self.scheduler.feeds(nodes[i]))

    def add_worker(self, group: asyncio.TaskGroup) -> None:
        if self.ready and not self.has_idle_worker:
            self.has_idle_worker = True
            group.create_task(self.work(group))

    async def work(self, group: asyncio.TaskGroup) -> None:
        """Run ready nodes. Before it waits, it adds another worker if nodes are left: so all ready nodes run at the
        same time, and calls that do not wait need no tasks."""
        separate_prints(self.runner)
        self.has_idle_worker = False
        while self.ready:
            node, frame = self.ready.popitem(last=False)
            outcome = self.start(node, frame)
            if type(outcome) is Pending:
                self.running += 1
                self.add_worker(group)
                outcome = await outcome.awaitable
                self.running -= 1
            self.held[node] = outcome
            self.scheduler.come(node)
            self.store_ended()

    def store_ended(self) -> None:
        """Store the ends that may be stored, and check the nodes that they concern."""
        while self.held:
            node = self.scheduler.next()
            if node is None and not self.running and not self.ready:
                node = next(iter(self.held))  # no other node can end before it
            if node is None:
                return
            self.end(node, self.held.pop(node))
            self.check(self.scheduler.feeds(node))

    def check(self, nodes: Iterable[Node]) -> None:
        """Move the ready ones among ``nodes`` to `ready`, skip those that never will be, and check what these feed."""
        queue = list(nodes)
        for node in queue:
            if node not in self.waiting:
                continue
            verdict = self.scheduler.ready(node, self.frame, self.ended)
            if isinstance(verdict, Skip):
                self.skip(node, verdict)
                queue += self.scheduler.feeds(node)
            elif verdict == "go":
                del self.waiting[node]
                self.ready[node] = self.scheduler.enter(node, self.frame)

    def start(self, node: Node, frame: Frame) -> Outcome | Pending[Outcome]:
        step, scope = self.steps[node.step], self.inside if node.instance is None else self.instanced
        index = self.site.index if node.instance is None else (*self.site.index, node.instance)
        try:
            result = self.runner.start_step(step, frame, scope, index)
        except StepError as error:
            return _failed(error)
        return Pending(_wait(step, result.awaitable)) if type(result) is Pending else _outcome(step, result)

    def skip(self, node: Node, reason: Skip) -> None:
        del self.waiting[node]
        self.runner.emit(ev.StepSkipped(self.key(node).at, clock(), reason.why))
        self.end(node, Outcome(reason.why, status="skipped"))

    def end(self, node: Node, outcome: Outcome) -> None:
        if self.runner.journal is not None and outcome.status != "skipped":
            self.runner.journal.mark("stored", self.key(node))
        self.frame = self.scheduler.store(node, self.frame, outcome)
        self.ended[node] = outcome
        self.runner.reach(self.site.scope, self.frame)

    def key(self, node: Node) -> CallKey:
        instance = () if node.instance is None else (node.instance,)
        return CallKey(self.site.path_of(self.steps[node.step], *instance), self.site.scope.tries)


async def _wait(step: Step, rest: Awaitable[StepResult]) -> Outcome:
    try:
        return _outcome(step, await rest)
    except StepError as error:
        return _failed(error)


def _outcome(step: Step, result: StepResult) -> Outcome:
    return Outcome(result[0], status="finished" if getattr(step, "awaited", True) else "fired")


def _failed(error: StepError) -> Outcome:
    if not is_rescuable(error):
        raise error
    return Outcome(None, None, error, "failed")
