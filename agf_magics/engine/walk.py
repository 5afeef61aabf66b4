"""Along edges: the nodes of a `Walk`, round by round.

All nodes of a round see the frame that the round before left, so what they write cannot be seen by each other; the
language's `join` makes one frame of it, in the order of the nodes' names and not of their ends. Then the edges are
followed: that is all there is to a superstep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ..flow.frame import Frame, Outcome
from ..flow.steps import END, START, Edge, Walk
from ..flow.values import Value, is_true
from ..host.calls import Pending
from ..progress import events as ev
from ..text.diagnostics import StepError
from .runner import Index, Runner, Scope, ShapeResult, clock
from .sequential import tell

Visits = dict[str, int]
"""How often each node ran."""


async def along_edges(run: Runner, step: Walk, frame: Frame, scope: Scope, index: Index) -> ShapeResult:
    """From START until no node is ready; its value is the last round's, its frame what the walk left."""
    out: dict[str, list[Edge]] = {}
    for edge in step.edges:
        out.setdefault(edge.source, []).append(edge)
    # Decided from the flow: a walk that never forks runs its plain functions on the thread that waits for it.
    beside = scope.concurrent or any(_forks(edges) for edges in out.values() if len(edges) > 1)
    inside = scope._replace(concurrent=beside)
    at = (*scope.before, step.id, *index)
    visits: Visits = {}
    ready = _after(run, (*at, 0), out.get(START, ()), frame)
    value: Value = None
    rounds = 0
    while ready := _allowed(run, step, (*at, rounds), ready, visits):
        rounds += 1
        if rounds > step.rounds:
            raise StepError(step.endless(step.rounds))
        for name in ready:
            visits[name] = visits.get(name, 0) + 1
        if len(ready) == 1:
            (name,) = ready
            left = run.start_step(step.nodes[name], frame, inside, (*index, visits[name] - 1))
            value, _ = await left.awaitable if type(left) is Pending else left
            frame = step.join(frame, ((name, Outcome(value)),))
        else:
            outcomes = await _round(run, step, ready, visits, frame, inside, index)
            frame = step.join(frame, outcomes)
            value = outcomes[-1][1].value
        run.reach(scope, frame)
        ready = [to for name in ready for to in _after(run, (*at, rounds), out.get(name, ()), frame)]
    return ShapeResult(value, frame=frame)


async def _round(
    run: Runner, step: Walk, ready: list[str], visits: Visits, frame: Frame, inside: Scope, index: Index
) -> list[tuple[str, Outcome]]:
    """Run the nodes of a round, at most ``width`` at once; their outcomes in the order of their names."""
    earlier = run.journal.earlier if run.journal is not None else None
    names = iter(sorted(ready))
    if earlier is not None:  # what ended the round is known before anything in it starts
        ended = {name: earlier.has_failed((*inside.before, step.nodes[name].id, *index, visits[name] - 1))
                 for name in ready}  # fmt: skip
        names = iter(sorted(ready, key=lambda name: (not ended[name], name)))
    found: dict[str, Outcome] = {}

    failure: BaseException | None = None

    async def worker() -> None:
        nonlocal failure
        for name in names:
            if failure is not None:  # no further node of the round starts
                return
            try:
                left = run.start_step(step.nodes[name], frame, inside, (*index, visits[name] - 1))
                value, _ = await left.awaitable if type(left) is Pending else left
            except Exception as error:
                failure = failure or error
                raise
            found[name] = Outcome(value)

    width = min(step.width or len(ready), len(ready))
    if width == 1:
        await worker()
    else:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(width):
                    group.create_task(worker())
        except BaseExceptionGroup as several:
            failure = failure or several.exceptions[0]
    if failure is not None:
        raise failure
    return sorted(found.items())


def _allowed(run: Runner, step: Walk, at: ev.StepPath, ready: list[str], visits: Visits) -> list[str]:
    """The nodes to run next, each once; in the place of one over its limit the node that its exit leads to."""
    if len(ready) == 1 and ready[0] not in step.limits:
        return ready if ready[0] != END else []
    found: dict[str, None] = {}
    skipped: set[str] = set()
    for name in ready:
        while (limit := step.limits.get(name)) is not None and visits.get(name, 0) >= limit:
            if name in skipped:  # the exits of two that are over their limits lead to each other
                name = END
                break
            skipped.add(name)
            if step.over is not None:
                tell(run, step.over(name))
            full, name = name, step.exits.get(name, END)
            run.emit(ev.EdgeTaken(at, clock(), full, name))
        if name != END:
            found[name] = None
    return list(found)


def _after(run: Runner, at: ev.StepPath, edges: Sequence[Edge], frame: Frame) -> list[str]:
    """Where the edges of one node lead: the unconditional ones, the first that is open, else the ``otherwise``."""
    taken = edges if len(edges) == 1 and edges[0].when is None else _taken(edges, frame)
    for edge in taken:
        run.emit(ev.EdgeTaken(at, clock(), edge.source, edge.target))
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


def _forks(edges: Iterable[Edge]) -> bool:
    """Whether several may be taken at once."""
    plain = [edge for edge in edges if edge.when is None]
    return len(plain) > 1 or any(not edge.otherwise for edge in plain)
