"""Where calls run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..catalog import Tool, Transform
from ..flow.steps import Invoke, Step, every
from ..host.host import Place
from .linked import Linked


def runs_on_workers(callee: object) -> bool:
    """Whether concurrent calls go to the workers of a run that has some: a plain tool without a place of its own, and
    without a secret, which stays in the kernel; and whatever has ``where="worker"``."""
    where = getattr(callee, "where", None)
    if where is not None:
        return bool(where == "worker")
    return type(callee) is Tool and not (callee.is_async or callee.secret or callee.kernel_only)


def place_of(callee: Any, concurrent: bool, waited: bool, has_workers: bool) -> Place:
    """Where a call runs. ``concurrent``: other steps may run at the same time; ``waited``: a thread waits for the run;
    ``has_workers``: the run has workers. The table in docs/design.md, "Engine and host"."""
    if callee.where is not None and (callee.where != "worker" or has_workers):
        return callee.where
    if callee.is_async:
        return "loop"
    if concurrent and has_workers and runs_on_workers(callee):
        return "worker"
    return "kernel" if waited and not concurrent else "thread"


def body_runs_on_workers(body: Step, linked: Linked) -> bool:
    """Whether the calls of a body run on workers, all of them, apart from transforms and flows of such calls."""
    found = list(_called(body, linked))
    return any(runs_on_workers(one) for one in found) and all(
        runs_on_workers(one) or isinstance(one, Transform) for one in found
    )


def _called(body: Step, linked: Linked) -> Iterator[object]:
    """What the steps of a body call; an agent's session is one callee."""
    for step in every(body):
        callee = linked.callees.get(step.id) if isinstance(step, Invoke) else None
        if isinstance(callee, Linked) and callee.agent is None:
            for one in callee.flow.body.steps:
                yield from _called(one, callee)
        elif isinstance(step, Invoke):
            yield callee
