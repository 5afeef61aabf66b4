"""By need: the steps of a `Dag`, each as soon as what it reads is there.

The language's `Scheduler` knows what is ready; here is only the running. One end at a time is stored, in the order in
which they come (or in which the agenda will have them), and only those whom it may concern are asked again: a plan of
a thousand calls is not looked through a thousand times.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Iterable

from ..flow.frame import Frame, Node, Outcome, Scheduler, Skip
from ..flow.steps import Dag, Step
from ..host.calls import Pending, resolve
from ..progress import events as ev
from ..text.diagnostics import StepError
from .runner import Index, Runner, Scope, ShapeResult, StepResult, clock, is_rescuable


async def by_need(run: Runner, step: Dag, frame: Frame, scope: Scope, index: Index) -> ShapeResult:
    """Every node that becomes ready; the frame when nothing runs and nothing is ready any more."""
    drain = _Drain(run, step, frame, scope, index)
    await drain.run_all()
    return ShapeResult(None, frame=drain.frame)


class _Drain:
    def __init__(self, run: Runner, step: Dag, frame: Frame, scope: Scope, index: Index) -> None:
        self.performer = run
        self.steps: dict[str, Step] = {inner.id: inner for inner in step.steps}
        self.scope, self.inside, self.index = scope, scope._replace(concurrent=True), index
        self.frame = frame
        self.agenda: Scheduler = step.open(frame)
        self.instanced = self.inside
        if any(node.instance is not None for node in self.agenda.nodes):  # they are a fan-out (decision A15)
            self.instanced = self.inside._replace(depth=scope.depth + 1)
            run.budget.deepen(scope.depth + 1, step.span)
        self.waiting: dict[Node, None] = dict.fromkeys(self.agenda.nodes)
        """Neither ready nor skipped, in the order of the text."""
        self.entered: OrderedDict[Node, Frame] = OrderedDict()
        """Ready and not started, with what they see."""
        self.running = 0
        self.held: OrderedDict[Node, Outcome] = OrderedDict()
        """Ended and not stored yet, in the order of their ends."""
        self.ended: dict[Node, Outcome] = {}
        self.hired = False
        """Whether there is a worker that has not begun."""

    async def run_all(self) -> None:
        failure: BaseException | None = None
        self.ask(self.agenda.nodes)
        await self.take_up()
        try:
            async with asyncio.TaskGroup() as group:
                self.hire(group)
        except BaseExceptionGroup as several:
            failure = several.exceptions[0]
        if failure is not None:  # out here: an error that has a group as its context is a whole traceback in IPython
            raise failure
        for node in tuple(self.waiting):
            self.skip(node, Skip("what it reads never came"))
        self.frame = self.agenda.close(self.frame, self.ended)
        self.performer.reach(self.scope, self.frame)

    async def take_up(self) -> None:
        """Store what an earlier session stored, in its order, before anything new is started: so every node sees what
        it saw or would have seen."""
        journal = self.performer.journal
        if journal is None or journal.earlier is None:
            return
        nodes = tuple(self.agenda.nodes)
        ats = [((*self.scope.before, node.step, *self.at(node)), self.scope.tries) for node in nodes]
        for i in journal.earlier.order("stored", ats):
            frame = self.entered.pop(nodes[i], None)
            if frame is not None:
                self.end(nodes[i], await resolve(self.begin(nodes[i], frame)))
                self.ask(self.agenda.feeds(nodes[i]))

    def hire(self, group: asyncio.TaskGroup) -> None:
        if self.entered and not self.hired:
            self.hired = True
            group.create_task(self.worker(group))

    async def worker(self, group: asyncio.TaskGroup) -> None:
        """Run what is ready. Whenever this one waits and something is left, another worker is there to begin: so all
        that is ready runs at once, and calls that do not wait cost no task each."""
        self.hired = False
        while self.entered:
            node, frame = self.entered.popitem(last=False)
            outcome = self.begin(node, frame)
            if type(outcome) is Pending:
                self.running += 1
                self.hire(group)
                outcome = await outcome.awaitable
                self.running -= 1
            self.held[node] = outcome
            self.agenda.come(node)
            self.settle()

    def settle(self) -> None:
        """Store what may be stored, and ask those whom it concerns."""
        while self.held:
            node = self.agenda.next()
            if node is None and not self.running and not self.entered:
                node = next(iter(self.held))  # nobody is left to wait for
            if node is None:
                return
            self.end(node, self.held.pop(node))
            self.ask(self.agenda.feeds(node))

    def ask(self, nodes: Iterable[Node]) -> None:
        """Enter what is ready among ``nodes``; what will never be is skipped, and those it feeds are asked in turn."""
        asked = list(nodes)
        for node in asked:
            if node not in self.waiting:
                continue
            said = self.agenda.ready(node, self.frame, self.ended)
            if isinstance(said, Skip):
                self.skip(node, said)
                asked += self.agenda.feeds(node)
            elif said == "go":
                del self.waiting[node]
                self.entered[node] = self.agenda.enter(node, self.frame)

    def begin(self, node: Node, frame: Frame) -> Outcome | Pending[Outcome]:
        step, scope = self.steps[node.step], self.inside if node.instance is None else self.instanced
        try:
            left = self.performer.start_step(step, frame, scope, self.at(node))
        except StepError as error:
            return _failed(error)
        return Pending(_ended(step, left.awaitable)) if type(left) is Pending else _outcome(step, left)

    def skip(self, node: Node, said: Skip) -> None:
        del self.waiting[node]
        at = (*self.scope.before, node.step, *self.at(node))
        self.performer.emit(ev.StepSkipped(at, clock(), said.why))
        self.end(node, Outcome(said.why, status="skipped"))

    def end(self, node: Node, outcome: Outcome) -> None:
        journal = self.performer.journal
        if journal is not None and outcome.status != "skipped":
            journal.mark("stored", (*self.scope.before, node.step, *self.at(node)), self.scope.tries)
        self.frame = self.agenda.store(node, self.frame, outcome)
        self.ended[node] = outcome
        self.performer.reach(self.scope, self.frame)

    def at(self, node: Node) -> Index:
        return self.index if node.instance is None else (*self.index, node.instance)


async def _ended(step: Step, rest: Awaitable[StepResult]) -> Outcome:
    try:
        return _outcome(step, await rest)
    except StepError as error:
        return _failed(error)


def _outcome(step: Step, left: StepResult) -> Outcome:
    return Outcome(left[0], status="finished" if getattr(step, "awaited", True) else "fired")


def _failed(error: StepError) -> Outcome:
    if not is_rescuable(error):
        raise error
    return Outcome(None, None, error, "failed")
