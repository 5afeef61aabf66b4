"""The shape `Walk`: nodes run in rounds, along the edges of a graph.

All nodes of a round see the frame of the round before, so none sees what another one writes. The
language's `join` makes one frame of their outcomes, in the order of the nodes' names. Then the
edges are followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..flow.frame import Frame, Outcome, finished
from ..flow.steps import END, START, Edge, Walk
from ..flow.values import Value, is_true
from ..progress import events as ev
from ..text.diagnostics import StepError
from .runner import CallSite, Runner, Scope, ShapeResult
from .sequential import report
from .streaming import separate_prints

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
        if len(ready) == 1:
            (name,) = ready
            value, _ = await run.run_step(
                step.nodes[name], frame, inside, (*site.index, visits[name] - 1)
            )
            frame = step.join(frame, ((name, finished((value, None, None, "finished"))),))
        else:
            outcomes = await _round(site, ready, visits, frame, inside)
            frame = step.join(frame, outcomes)
            value = outcomes[-1][1].value
        run.reach(site.scope, frame)
        at = (*site.at, rounds)
        if len(ready) == 1:
            ready = _after(run, step, at, ready[0], frame)
        else:
            ready = [target for name in ready for target in _after(run, step, at, name, frame)]
    return ShapeResult(value, frame=frame)


async def _round(
    site: CallSite[Walk], ready: list[str], visits: Visits, frame: Frame, inside: Scope
) -> list[tuple[str, Outcome]]:
    """Run the nodes of a round, at most ``width`` at a time; their outcomes in the order of their
    names."""
    run, step = site.run, site.step
    earlier = run.journal.earlier if run.journal is not None else None
    names = iter(sorted(ready))
    if earlier is not None:  # what failed is known before anything in the round starts
        failed = {
            name: earlier.has_failed(site.path_of(step.nodes[name], visits[name] - 1))
            for name in ready
        }
        names = iter(sorted(ready, key=lambda name: (not failed[name], name)))
    found: dict[str, Outcome] = {}
    failure: BaseException | None = None

    async def work() -> None:
        nonlocal failure
        separate_prints(run)
        for name in names:
            if failure is not None:  # no further node of the round starts
                return
            try:
                value, _ = await run.run_step(
                    step.nodes[name], frame, inside, (*site.index, visits[name] - 1)
                )
            except Exception as error:
                failure = failure or error
                raise
            found[name] = Outcome(value)

    width = min(step.width or len(ready), len(ready))
    if width == 1:
        await work()
    else:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(width):
                    group.create_task(work())
        except BaseExceptionGroup as several:
            failure = failure or several.exceptions[0]
    if failure is not None:
        raise failure
    return sorted(found.items())


def _allowed(
    run: Runner, step: Walk, at: ev.StepPath, ready: list[str], visits: Visits
) -> list[str]:
    """The nodes to run next, each once. A node over its limit is replaced by the target of its
    exit."""
    if len(ready) == 1 and ready[0] not in step.limits:
        return ready if ready[0] != END else []
    found: dict[str, None] = {}
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
            run.steps.follow(at, full, name)
        if name != END:
            found[name] = None
    return list(found)


def _after(run: Runner, step: Walk, at: ev.StepPath, name: str, frame: Frame) -> list[str]:
    """The targets of a node's edges: the unconditional ones, the first whose condition is true,
    else ``otherwise``."""
    edges = step.leaving.get(name, ())
    taken = edges if len(edges) == 1 and edges[0].when is None else _taken(edges, frame)
    for edge in taken:
        run.steps.follow(at, name, edge.target)
    return [edge.target for edge in taken]


def _taken(edges: Sequence[Edge], frame: Frame) -> Sequence[Edge]:
    taken, chosen = [], False
    for edge in edges:
        if edge.when is None:
            if not edge.otherwise:
                taken.append(edge)
        elif not chosen and is_true(edge.when.evaluate(frame)):
            chosen = True
            taken.append(edge)
    return taken if chosen else [*taken, *(edge for edge in edges if edge.otherwise)]
