"""Where calls run: one answer for a call (`where`), and one for the calls of a fan-out
(`one_call`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from ..catalog import Tool, Transform
from ..flow.steps import Each, Invoke, Step, every
from ..host.host import Host, Place
from .linked import Linked
from .runner import CallSite, Scope


def runs_on_workers(callee: object) -> bool:
    """Whether concurrent calls go to the workers of a run that has some: a plain tool without a
    place of its own, and without a secret, which stays in the kernel; and whatever has
    ``where="worker"``."""
    where = getattr(callee, "where", None)
    if where is not None:
        return bool(where == "worker")
    return type(callee) is Tool and not (callee.is_async or callee.secret or callee.kernel_only)


def has_effect(callee: object) -> bool:
    """Whether a call must not be repeated without a confirmation (``reuse=False``, decision D7)."""
    return isinstance(callee, Tool) and not callee.reuse


def where(callee: Any, concurrent: bool, host: Host) -> Place:
    """Where a call runs. ``concurrent``: other steps may run at the same time. The table in
    docs/design.md, "Engine and host"."""
    if callee.where is not None and (callee.where != "worker" or host.queue is not None):
        return cast(Place, callee.where)
    if callee.is_async:
        return "loop"
    if concurrent and host.queue is not None and runs_on_workers(callee):
        return "worker"
    return "kernel" if host.waited and not concurrent else "thread"


class OneCall(NamedTuple):
    """A fan-out whose whole body is one call of a tool, and where these calls run."""

    step: Invoke
    tool: Tool
    place: Place
    is_secret: bool
    """Whether its value feeds a secret argument."""
    is_bare: bool
    """Whether the value of the call is the value of the element."""
    is_pooled: bool
    """Whether threads or workers pull the calls, instead of a step for each element."""
    replays: bool
    """Whether recorded calls end without a step: not those with something that only a step does."""


def one_call(site: CallSite[Each], inside: Scope) -> OneCall | None:
    """How the elements of a fan-out run, if its body is one call that nothing is asked about.
    ``inside``: their scope."""
    run, body = site.run, site.step.body
    if type(body) is not Invoke or run.dry or body.permit is not None or not body.awaited:
        return None
    tool, journal = inside.linked.callees.get(body.id), run.journal
    if type(tool) is not Tool:
        return None
    place = where(tool, inside.concurrent, run.host)
    is_secret = (id(inside.linked.flow), body.id) in run.secrets.steps
    is_bare = body.gives is None and body.target is None and not body.keeps
    # The start of a call with an effect is durable before the call: each has its own turn.
    is_pooled = journal is None or not has_effect(tool)
    is_pooled = is_pooled and (place == "worker" or (place == "thread" and not tool.is_async))
    replays = (
        journal is not None
        and (journal.earlier is not None or journal.reuse is not None)
        and not inside.meters
    )
    replays = (
        replays and is_bare and not (tool.secret or is_secret) and inside.grant.allows(tool.name)
    )
    return OneCall(body, tool, place, is_secret, is_bare, is_pooled, replays)


def body_runs_on_workers(body: Step, linked: Linked) -> bool:
    """Whether the calls of a body run on workers, all of them, apart from transforms and flows of
    such calls."""
    callees = [callee for _, callee, _ in calls_of(body, linked)]
    # The calls of an agent are those of its session, which is in the kernel.
    return any(map(runs_on_workers, callees)) and all(
        runs_on_workers(callee)
        or isinstance(callee, Transform)
        or (isinstance(callee, Linked) and callee.agent is None)
        for callee in callees
    )


def calls_of(
    body: Step, linked: Linked, before: tuple[str, ...] = ()
) -> Iterator[tuple[Invoke, Any, tuple[str, ...]]]:
    """The calls of ``body`` and of the flows that it calls: the step, its callee, and the ids in
    its path, after those of ``before``."""
    for step in every(body):
        if isinstance(step, Invoke):
            callee, path = linked.callees.get(step.id), (*before, step.id)
            yield step, callee, path
            if isinstance(callee, Linked):
                for inner in callee.flow.body.steps:
                    yield from calls_of(inner, callee, path)
