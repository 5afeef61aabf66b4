"""The shape `Walk`: nodes run in rounds, along the edges of a graph.

All nodes of a round see the frame of the round before, so none sees what another one writes. The
language's `join` makes one frame of their outcomes, in the order of the nodes' names. Then the
edges are followed.
"""

from __future__ import annotations

from functools import partial

from ...flow.graph_steps import END, START, Edge, Walk
from ...flow.progress import events as ev
from ...flow.protocols import Frame, Outcome
from ...flow.step_path import StepPath
from ...text.diagnostics import StepError
from ...values.value import Value, is_true
from ..late_values import when_read
from ..runner import CallSite, Runner, Scope, ShapeResult, StepResult, clock
from .in_order import report
from .start_order import StartOrder
from .task_fan_out import TaskFanOut

Visits = dict[str, int]
"""The number of runs of each node."""


async def run_walk(site: CallSite[Walk]) -> ShapeResult:
    """Walk from START until no node is ready; the result is that of the last round."""
    run = site.run
    step = site.step
    frame = site.frame
    # The structure decides: a walk that never forks runs its plain functions on the thread that
    # waits for the run.
    inside = site.scope._replace(concurrent=site.scope.concurrent or step.forks)
    visits: Visits = {}
    value: Value = None
    rounds, at = 0, (*site.at, 0)
    ready = await when_read(partial(_after, run, step, at, START, frame))
    while ready := _nodes_to_run(run, step, at, ready, visits):
        rounds += 1
        if rounds > step.rounds:
            raise StepError(step.endless(step.rounds))
        for name in ready:
            visits[name] = visits.get(name, 0) + 1
        outcomes = await _round(site, ready, visits, frame, inside)
        frame, value = await when_read(partial(step.join, frame, outcomes)), outcomes[-1][1].value
        run.reach(site.scope, frame)
        at = (*site.at, rounds)
        targets = list[str]()
        for name in ready:
            targets += await when_read(partial(_after, run, step, at, name, frame))
        ready = targets
    return ShapeResult(value, frame=frame)


async def _round(
    site: CallSite[Walk], ready: list[str], visits: Visits, frame: Frame, inside: Scope
) -> list[tuple[str, Outcome]]:
    """Run the nodes of a round, at most ``width`` at a time; their outcomes in the order of their
    names."""
    run = site.run
    step = site.step
    names = sorted(ready)
    # Before anything of the round is called, asked or paid.
    if (problem := step.clash(names)) is not None:
        raise StepError(problem)
    values: list[Value] = [None] * len(names)

    def at(i: int) -> StepPath:
        return site.path_of(step.nodes[names[i]], visits[names[i]] - 1)

    async def start(i: int, attempt: int) -> StepResult:
        index = (*site.index, visits[names[i]] - 1)
        return await run.run_step(step.nodes[names[i]], frame, inside, index)

    # What failed is known before anything in the round starts.
    first = [i for i in range(len(names)) if run.log.has_failed(at(i))]
    order = StartOrder(len(names), step.width or len(names), first=first)
    await TaskFanOut(site, start, values.__setitem__, at).run(order)
    return list(zip(names, map(Outcome, values), strict=True))


def _nodes_to_run(
    run: Runner, step: Walk, at: StepPath, ready: list[str], visits: Visits
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


def _after(run: Runner, step: Walk, at: StepPath, name: str, frame: Frame) -> list[str]:
    """The targets of a node's edges: the unconditional ones, the first whose condition is true,
    else ``otherwise``."""
    edges = step.leaving.get(name, ())
    followed = list[Edge]()
    chosen = False
    for edge in edges:
        if edge.when is None:
            if not edge.otherwise:
                followed.append(edge)
        elif not chosen and is_true(edge.when.evaluate(frame)):
            chosen = True
            followed.append(edge)
    if not chosen:
        followed += [edge for edge in edges if edge.otherwise]
    for edge in followed:
        run.emit(ev.EdgeTaken(at, clock(), name, edge.target))
    return [edge.target for edge in followed]
