"""Runs the shape `Dag`, whose steps start as soon as their inputs are available.

The `Scheduler` of the language knows which nodes are ready, and this module runs them. The results
of ended nodes are stored one at a time, in the order of their ends or as the scheduler asks. After
an end, only the affected nodes are checked again, so that a plan of a thousand calls is not
searched a thousand times.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from ...flow.graph_steps import Dag
from ...flow.progress import events as ev
from ...flow.protocols import Frame, Outcome, Scheduler, Skip, finished
from ...flow.steps import Invoke
from ...journal.records.records import CallKey
from ...text.diagnostics import StepError
from ..calls.step_prints import separate_prints
from ..runner import CallSite, ShapeResult, clock, is_rescuable


async def run_dag(site: CallSite[Dag]) -> ShapeResult:
    """Run every node that becomes ready. The result has the frame at the end."""
    dag = _Run(site)
    await dag.run_all()
    return ShapeResult(None, frame=dag.frame)


class _Run:
    """One execution of a `Dag`."""

    def __init__(self, site: CallSite[Dag]) -> None:
        self.site = site
        self.runner = site.run
        self.frame = site.frame
        self.scheduler: Scheduler = site.step.open(self.frame)
        self.nodes = self.scheduler.nodes
        steps = {inner.id: inner for inner in site.step.steps}
        self.steps = [steps[node.step] for node in self.nodes]
        # The scopes of the nodes without and with an instance number.
        self.inside = self.instanced = site.scope._replace(concurrent=True)
        # Instances are a fan-out (decision A15).
        if any(node.instance is not None for node in self.nodes):
            self.instanced = self.inside._replace(depth=site.scope.depth + 1)
            self.runner.budget.deepen(self.instanced.depth, site.step.span)
        self.waiting = set(range(len(self.nodes)))
        """The numbers of the nodes that are neither ready nor skipped."""
        self.ready: OrderedDict[int, Frame] = OrderedDict()
        """The nodes that are ready but not started, with the frames that they see."""
        self.running = 0
        """The number of nodes that have a task."""
        self.not_stored: dict[int, Outcome] = {}
        """The ended nodes that are not stored yet, in the order of their ends."""

    async def run_all(self) -> None:
        failure: BaseException | None = None
        self.check(range(len(self.nodes)))
        await self.replay()
        try:
            async with asyncio.TaskGroup() as group:
                self.start_ready(group)
        except BaseExceptionGroup as several:
            failure = several.exceptions[0]
        # Outside of `except`, because IPython prints a traceback for an error whose context is a
        # group.
        if failure is not None:
            raise failure
        for number in sorted(self.waiting):
            self.skip(number, Skip("its inputs never became available"))
        self.frame = self.scheduler.close(self.frame)
        self.runner.reach(self.site.scope, self.frame)

    async def replay(self) -> None:
        """Store the results of an earlier session in their order, before any new node starts, so
        that every node sees the same frame as before."""
        keys = [self.key(number) for number in range(len(self.nodes))]
        for number in self.runner.log.order("stored", keys):
            # The journal may be wrong, so only a node that is ready starts.
            frame = self.ready.pop(number, None)
            if frame is not None:
                self.end(number, await self.start(number, frame))
                self.check(self.scheduler.successors(number))

    def start_ready(self, group: asyncio.TaskGroup) -> None:
        """Start the ready nodes, each in a separate task."""
        while self.ready:
            # In the order in which the nodes became ready, which a set would not keep.
            number, frame = self.ready.popitem(last=False)
            self.running += 1
            group.create_task(self.run_node(group, number, frame))

    async def run_node(self, group: asyncio.TaskGroup, number: int, frame: Frame) -> None:
        separate_prints(self.runner)
        self.not_stored[number] = await self.start(number, frame)
        self.running -= 1
        # Told before `store_ended`, because the scheduler chooses among the ended nodes.
        self.scheduler.ended(number)
        self.store_ended()
        self.start_ready(group)

    def store_ended(self) -> None:
        """Store the results that may be stored now, and check the nodes that they affect."""
        while self.not_stored:
            number = self.scheduler.next_to_store()
            if number is None and not self.running and not self.ready:
                number = next(iter(self.not_stored))  # no other node can end before this one
            if number is None:
                return
            self.end(number, self.not_stored.pop(number))
            self.check(self.scheduler.successors(number))

    def check(self, numbers: Iterable[int]) -> None:
        """Move the nodes that are ready to `ready`, skip those that never will be, and check the
        successors of skipped nodes."""
        # A growing list instead of recursion, because a chain of skipped nodes may be long.
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
                queue += self.scheduler.successors(number)

    async def start(self, number: int, frame: Frame) -> Outcome:
        """Run a node with its ``frame``. Raises a failure that ends the run."""
        step = self.steps[number]
        scope = self.inside
        index = self.site.index
        instance = self.nodes[number].instance
        if instance is not None:
            scope = self.instanced
            index = (*index, instance)
        try:
            value, _ = await self.runner.run_step(step, frame, scope, index)
        except StepError as error:
            if not is_rescuable(error):
                raise
            return Outcome(None, None, error, "failed")
        if type(step) is Invoke and not step.awaited:
            return finished((value, None, None, "fired"))
        return finished((value, None, None, "finished"))

    def skip(self, number: int, reason: Skip) -> None:
        self.waiting.remove(number)
        self.runner.emit(ev.StepSkipped(self.key(number).at, clock(), reason.why))
        self.end(number, Outcome(reason.why, status="skipped"))

    def end(self, number: int, outcome: Outcome) -> None:
        if outcome.status != "skipped":
            # Later nodes see the stores in this order, so a resumed run must repeat it.
            self.runner.mark("stored", self.key(number))
        self.frame = self.scheduler.store(number, self.frame, outcome)
        self.runner.reach(self.site.scope, self.frame)

    def key(self, number: int) -> CallKey:
        instance = self.nodes[number].instance
        more = () if instance is None else (instance,)
        return CallKey(self.site.path_of(self.steps[number], *more), self.site.scope.tries)
