"""Runs the shape `Walk`, whose nodes run in rounds along the edges of a graph.

All nodes of a round see the frame of the previous round, so none sees the writes of another. The
language's `join` combines their outcomes to one frame, in the order of the nodes' names. Then the
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
"""The number of runs of each node so far, the current round included."""


async def run_walk(site: CallSite[Walk]) -> ShapeResult:
    """Walk from START until no node is ready. The result is that of the last round."""
    run = site.run
    step = site.step
    frame = site.frame
    # A walk that never forks runs its plain functions on the thread that waits for the run.
    inside = site.scope._replace(concurrent=site.scope.concurrent or step.forks)
    visits: Visits = {}
    value: Value = None
    rounds = 0
    round_path = (*site.path, 0)
    ready = await when_read(partial(_follow_edges, run, step, round_path, START, frame))
    while ready := _nodes_to_run(run, step, round_path, ready, visits):
        rounds += 1
        if rounds > step.rounds:
            raise StepError(step.endless(step.rounds))
        for name in ready:
            visits[name] = visits.get(name, 0) + 1
        outcomes = await _round(site, ready, visits, frame, inside)
        frame = await when_read(partial(step.join, frame, outcomes))
        value = outcomes[-1][1].value
        run.reach(site.scope, frame)
        round_path = (*site.path, rounds)
        targets = list[str]()
        for name in ready:
            targets += await when_read(partial(_follow_edges, run, step, round_path, name, frame))
        ready = targets
    return ShapeResult(value, frame=frame)


async def _round(
    site: CallSite[Walk], ready: list[str], visits: Visits, frame: Frame, inside: Scope
) -> list[tuple[str, Outcome]]:
    """Run the nodes of a round, at most ``width`` at a time. Returns their outcomes in the order of
    their names."""
    run = site.run
    step = site.step
    names = sorted(ready)
    # Checked before the round makes any call.
    if (problem := step.clash(names)) is not None:
        raise StepError(problem)
    values: list[Value] = [None] * len(names)

    def path_of(i: int) -> StepPath:
        return site.path_of(step.nodes[names[i]], visits[names[i]] - 1)

    async def start(i: int, attempt: int) -> StepResult:
        index = (*site.index, visits[names[i]] - 1)
        return await run.run_step(step.nodes[names[i]], frame, inside, index)

    # Nodes that failed in an earlier session start first: their failure may stop the others.
    first = [i for i in range(len(names)) if run.log.has_failed(path_of(i))]
    ended = [i for i in first if run.log.has_ended_in_failure(path_of(i))]
    order = StartOrder(len(names), step.width or len(names), ended, first)
    await TaskFanOut(site, start, values.__setitem__, path_of).run(order)
    return list(zip(names, map(Outcome, values), strict=True))


def _nodes_to_run(
    run: Runner, step: Walk, path: StepPath, ready: list[str], visits: Visits
) -> list[str]:
    """The nodes to run next, each once. A node that reached its limit is replaced by the target of
    its exit."""
    allowed: dict[str, None] = {}
    skipped: set[str] = set()
    for name in ready:
        while (limit := step.limits.get(name)) is not None and visits.get(name, 0) >= limit:
            if name in skipped:  # two nodes that reached their limits have exits to each other
                name = END
                break
            skipped.add(name)
            if step.over is not None:
                report(run, step.over(name))
            full_node, name = name, step.exits.get(name, END)
            # The exit is a part of the path that views show.
            run.emit(ev.EdgeTaken(path, clock(), full_node, name))
        if name != END:
            allowed[name] = None
    return list(allowed)


def _follow_edges(run: Runner, step: Walk, path: StepPath, name: str, frame: Frame) -> list[str]:
    """Follow the edges of a node, and return their targets: all unconditional edges, and the first
    edge whose condition is true, or else all edges with ``otherwise``. ``path``: the path of the
    round."""
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
        run.emit(ev.EdgeTaken(path, clock(), name, edge.target))
    return [edge.target for edge in followed]
