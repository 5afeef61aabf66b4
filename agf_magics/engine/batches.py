"""Elements of a fan-out whose journaled calls return at once: all of a turn share one commit and need no task.

Such an element waits only for its row. So as many as there are slots are called one after the other, their rows are
committed together, and then all of them have ended: the pool does that with a task, a future and two turns of the loop
for each. The first call that waits, fails or has another kind of row is left to the pool, with all elements after it.
At most `limit` calls have started without a durable record, as in the pool: `tests/engine/test_batches.py` compares
both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from ..catalog import Tool
from ..flow.steps import Each, Invoke
from ..flow.values import Value
from ..host.calls import Pending
from ..host.host import TURN
from ..host.limits import granted
from ..journal.call_rows import Cells
from ..journal.recorder import Journal
from ..progress.rows import Row
from ..text.diagnostics import StepError
from .direct import Returned, start_journaled, store_durable
from .pool import Plan, Pool
from .runner import CallSite, Scope, StepResult, clock
from .streaming import separate_prints

Batch = list[tuple[int, Returned, Cells]]
"""Of each element its number, its call and its row."""


def write_together(site: CallSite[Each], inside: Scope, pool: Pool, items: list[Value]) -> None:
    """Let ``pool`` start with elements whose calls return at once."""
    tool = batched_tool(site, inside)
    if tool is not None:
        batches = Batches(site, inside, tool, pool, items)
        pool.before, pool.start = batches.run, batches.start(pool.start)


def batched_tool(site: CallSite[Each], inside: Scope) -> Tool | None:
    """The tool whose journaled calls are the whole body of the fan-out, if they may be made here; else None."""
    run, body, journal = site.run, site.step.body, site.run.journal
    if journal is None or journal.earlier is not None or journal.reuse is not None or inside.meters:
        return None
    if run.direct is None or not (journal.waits and journal.writes_on_threads):  # its rows go elsewhere
        return None
    if type(body) is not Invoke or body.target is not None or body.keeps:
        return None
    tool = inside.linked.direct.get(body.id)
    if type(tool) is not Tool or not tool.reuse or not inside.grant.allows(tool.name):
        return None
    return None if (id(inside.linked.flow), body.id) in run.secrets.steps else tool


class Batches:
    """The elements of one fan-out."""

    def __init__(self, site: CallSite[Each], inside: Scope, tool: Tool, pool: Pool, items: list[Value]) -> None:
        """``inside``: the scope of the elements."""
        body, journal = site.step.body, site.run.journal
        assert isinstance(body, Invoke), "batched_tool has checked it"
        assert journal is not None, "batched_tool has checked it"
        self.site, self.runner, self.keep, self.items = site, site.run, pool.keep, items
        self.journal: Journal = journal
        self.body, self.inside, self.tool, self.path = body, inside, tool, site.path_of(body)
        self.started: dict[int, StepResult | Pending[StepResult] | BaseException] = {}
        """The element that was started and is left to the pool."""
        self.row: Row | None = None

    def start(
        self, start: Callable[[int, int], StepResult | Pending[StepResult]]
    ) -> Callable[[int, int], StepResult | Pending[StepResult]]:
        """The same for an element that may have been started."""

        def start_once(i: int, attempt: int) -> StepResult | Pending[StepResult]:
            made = self.started.pop(i, None)
            if isinstance(made, BaseException):
                raise made
            return start(i, attempt) if made is None else made

        return start_once

    async def run(self, plan: Plan) -> None:
        """Run the first elements of ``plan``, which has the others afterwards."""
        numbers, host = plan.rest, self.runner.host
        separate_prints(self.runner)
        while self.journal.is_open and granted.get() is self.inside.grant:
            if clock() - host.turned > TURN:
                await host.turn()
            batch, left = self._call(numbers, plan.width)
            if batch:
                await self._write(batch)
            if left is not None:
                plan.rest = chain((left,), numbers)
            if left is not None or not batch:
                return

    def _call(self, numbers: Iterator[int], most: int) -> tuple[Batch, int | None]:
        """Call the tool for at most so many elements; the one that does not end at once, if there is one, is left."""
        batch: Batch = []
        host, plain = self.runner.host, self.journal.rows.plain
        while len(batch) < most and clock() - host.turned <= TURN:
            i = next(numbers, None)
            if i is None:
                break
            try:
                made = self._start(i)
            except BaseException as error:  # the pool raises it
                self.started[i] = error
                return batch, i
            if type(made) is not Returned:
                if made is not None:
                    self.started[i] = made
                return batch, i
            cells = plain(made.call, made.value)
            if cells is None:
                self.started[i] = Pending(self._finish_alone(made))
                return batch, i
            batch.append((i, made, cells))
        return batch, None

    def _start(self, i: int) -> Returned | StepResult | Pending[StepResult] | None:
        """Call the tool for element ``i``; None: it cannot be bound, which the pool reports."""
        site, run = self.site, self.runner
        try:
            frame = site.step.element.bind(site.frame, self.items[i])
        except StepError:
            return None
        at, index = (*self.path, i), (*site.index, i)
        row = self.row = run.steps.start(at, clock(), 1, self.row)
        return start_journaled(run, self.body, self.tool, frame, self.inside, index, at, row)

    async def _finish_alone(self, made: Returned) -> StepResult:
        """End a call with another kind of row."""
        site, journal = made.site, self.journal
        done = journal.returned(made.call, made.value)
        if done is None:
            return await self.runner.wait_for(journal.durable(None, made.value), site)
        return await store_durable(site, journal, done, made.value)

    async def _write(self, batch: Batch) -> None:
        """Commit the rows, and end the elements."""
        try:
            await self.journal.write_rows([cells for _, _, cells in batch])
        except BaseException as error:
            for _, made, _ in batch:
                self.runner.fail_step(error, made.site)
            raise
        finish, keep, now = self.runner.steps.finish, self.keep, clock()
        for i, (site, _, value), _ in batch:
            finish(site.row, site.at, now, value)
            keep(i, value)
