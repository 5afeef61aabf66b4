"""By need: the steps of a `Dag`, each as soon as what it reads is there.

The language's `Agenda` knows what is ready; here is only the running. One end at a time is stored, in the order in
which they come (or in which the agenda will have them), and only those whom it may concern are asked again: a plan of
a thousand calls is not looked through a thousand times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ..flow.frame import Agenda, Frame, Node, Outcome, Skip
from ..flow.steps import Dag, Step
from ..text.diagnostics import StepError
from . import events as ev
from .perform import Index, More, Performer, Scope, clock, swallowed


async def by_need(run: Performer, step: Dag, frame: Frame, scope: Scope, index: Index) -> More:
    """Every node that becomes ready; the frame when nothing runs and nothing is ready any more."""
    drain = _Drain(run, step, frame, scope, index)
    await drain.run_all()
    return More(None, frame=drain.frame)


class _Drain:
    def __init__(self, run: Performer, step: Dag, frame: Frame, scope: Scope, index: Index) -> None:
        self.performer = run
        self.steps: dict[str, Step] = {inner.id: inner for inner in step.steps}
        self.scope, self.inside, self.index = scope, scope._replace(beside=True), index
        self.frame = frame
        self.agenda: Agenda = step.open(frame)
        self.instanced = self.inside
        if any(node.instance is not None for node in self.agenda.nodes):  # they are a fan-out (decision A15)
            self.instanced = self.inside._replace(depth=scope.depth + 1)
            run.budget.deepen(scope.depth + 1, step.span)
        self.waiting: dict[Node, None] = dict.fromkeys(self.agenda.nodes)
        """Neither started nor skipped, in the order of the text."""
        self.running: dict[Node, None] = {}
        self.held: dict[Node, Outcome] = {}
        """Ended and not stored yet."""
        self.ended: dict[Node, Outcome] = {}
        self.ends: asyncio.Queue[tuple[Node, Outcome]] = asyncio.Queue()
        self.entered: dict[Node, Frame] | None = None
        """Nodes that are ready, with what they see, while it is found out what an earlier session did; else None."""

    async def run_all(self) -> None:
        failure: BaseException | None = None
        taken_up = await self.take_up()
        try:
            async with asyncio.TaskGroup() as group:
                for node, frame in taken_up.items():
                    group.create_task(self.one(node, frame))
                self.ask(() if taken_up else self.agenda.nodes, group)
                while self.running:
                    self.hold(*await self.ends.get())
                    while not self.ends.empty():
                        self.hold(*self.ends.get_nowait())
                    self.settle(group)
        except BaseExceptionGroup as several:
            failure = several.exceptions[0]
        if failure is not None:  # out here: an error that has a group as its context is a whole traceback in IPython
            raise failure
        for node in tuple(self.waiting):
            self.skip(node, Skip("what it reads never came"))
        self.frame = self.agenda.close(self.frame, self.ended)
        self.performer.reach(self.scope, self.frame)

    async def take_up(self) -> dict[Node, Frame]:
        """Store what an earlier session stored, in its order, before anything new is started: so every node sees what
        it saw or would have seen. Gives the nodes that are ready now, with what they see."""
        journal = self.performer.journal
        if journal is None or journal.earlier is None:
            return {}
        nodes = tuple(self.agenda.nodes)
        ats = [((*self.scope.before, node.step, *self.at(node)), self.scope.tries) for node in nodes]
        entered = self.entered = {}
        self.ask(nodes, None)
        for i in journal.earlier.order("stored", ats):
            frame = entered.pop(nodes[i], None)
            if frame is not None:
                outcome = await self.outcome(nodes[i], frame)
                del self.running[nodes[i]]
                self.end(nodes[i], outcome)
                self.ask(self.agenda.feeds(nodes[i]), None)
        self.entered = None
        return entered

    def hold(self, node: Node, outcome: Outcome) -> None:
        del self.running[node]
        self.held[node] = outcome

    def settle(self, group: asyncio.TaskGroup) -> None:
        """Store what may be stored, and ask those whom it concerns."""
        while self.held:
            node = self.agenda.commit(tuple(self.held), (*self.running, *self.waiting))
            if node is None and not self.running:
                node = next(iter(self.held))  # nobody is left to wait for
            if node is None:
                return
            self.end(node, self.held.pop(node))
            self.ask(self.agenda.feeds(node), group)

    def ask(self, nodes: Iterable[Node], group: asyncio.TaskGroup | None) -> None:
        """Start what is ready among ``nodes``; what will never be is skipped, and those it feeds are asked in turn."""
        asked = dict.fromkeys(nodes)
        while asked:
            node = next(iter(asked))
            del asked[node]
            if node not in self.waiting:
                continue
            said = self.agenda.ready(node, self.frame, self.ended)
            if isinstance(said, Skip):
                self.skip(node, said)
                asked.update(dict.fromkeys(self.agenda.feeds(node)))
            elif said == "go":
                del self.waiting[node]
                self.running[node] = None
                frame = self.agenda.enter(node, self.frame)
                if self.entered is not None:
                    self.entered[node] = frame
                elif group is not None:
                    group.create_task(self.one(node, frame))

    async def one(self, node: Node, frame: Frame) -> None:
        self.ends.put_nowait((node, await self.outcome(node, frame)))

    async def outcome(self, node: Node, frame: Frame) -> Outcome:
        step = self.steps[node.step]
        try:
            scope = self.inside if node.instance is None else self.instanced
            value, _ = await self.performer.step(step, frame, scope, self.at(node))
            fired = not getattr(step, "awaited", True)
            return Outcome(value, status="fired" if fired else "finished")
        except StepError as error:
            if not swallowed(error):
                raise
            return Outcome(None, None, error, "failed")

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
