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
        self.waiting: dict[Node, None] = dict.fromkeys(self.agenda.nodes)
        """Neither started nor skipped, in the order of the text."""
        self.running: dict[Node, None] = {}
        self.held: dict[Node, Outcome] = {}
        """Ended and not stored yet."""
        self.ended: dict[Node, Outcome] = {}
        self.ends: asyncio.Queue[tuple[Node, Outcome]] = asyncio.Queue()

    async def run_all(self) -> None:
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                self.ask(self.agenda.nodes, group)
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

    def ask(self, nodes: Iterable[Node], group: asyncio.TaskGroup) -> None:
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
                group.create_task(self.one(node, self.agenda.enter(node, self.frame)))

    async def one(self, node: Node, frame: Frame) -> None:
        step = self.steps[node.step]
        try:
            value, _ = await self.performer.step(step, frame, self.inside, self.at(node))
            fired = not getattr(step, "awaited", True)
            outcome = Outcome(value, status="fired" if fired else "finished")
        except StepError as error:
            if not swallowed(error):
                raise
            outcome = Outcome(None, None, error, "failed")
        self.ends.put_nowait((node, outcome))

    def skip(self, node: Node, said: Skip) -> None:
        del self.waiting[node]
        at = (*self.scope.before, node.step, *self.at(node))
        self.performer.emit(ev.StepSkipped(at, clock(), said.why))
        self.end(node, Outcome(said.why, status="skipped"))

    def end(self, node: Node, outcome: Outcome) -> None:
        self.frame = self.agenda.store(node, self.frame, outcome)
        self.ended[node] = outcome
        self.performer.reach(self.scope, self.frame)

    def at(self, node: Node) -> Index:
        return self.index if node.instance is None else (*self.index, node.instance)
