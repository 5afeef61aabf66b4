"""Which fan-outs send whole elements to workers, and what such an element reads of its frame.

An element can run on a worker if its body needs nothing of the kernel: no person, no model, no
secret, no limit that is counted there. Otherwise its calls are sent one by one. `reason_to_stay`
says why, in one word for each condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..catalog import Tool, Transform
from ..engine.linked import Linked
from ..engine.place import calls_of
from ..engine.runner import CallSite, Scope
from ..flow.frame import DROPPED, Frame, Ref, finished
from ..flow.steps import (
    Branches,
    Choose,
    Compute,
    Each,
    Flow,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    Step,
    every,
)
from ..secrets.masking import Secrets

MANY = 4
"""Elements for each lane, from which on a fan-out around another one sends whole elements."""

FEWEST = 1
"""Calls in a body, from which on an element travels: an expression alone takes less time than its
trip."""

HEAVY_ELEMENT = 10_000
"""Bytes of an element and its answer, above which calls are sent instead."""

CALLED = ("tool", "flow", "transform")
"""The kinds of calls that an element on a worker may make."""


def reason_to_stay(site: CallSite[Each], inside: Scope, count: int, lanes: int) -> str | None:
    """Why the ``count`` elements of a fan-out do not travel whole; None: they do. ``lanes``: those
    of the workers."""
    run, body = site.run, site.step.body
    if run.dry:
        return "dry"
    if not inside.concurrent:
        return "sequential"
    if inside.meters:
        return "caps"
    if run.journal is not None and run.journal.reuse is not None:
        return "reuse"
    reason = reason_of_body(body, inside.linked)
    if reason is not None:
        return reason
    if reads_secret(site, run.secrets):
        return "secret"
    if count < MANY * lanes and has_fan_out(body, inside.linked):
        return "outer"
    return None


def reason_of_body(body: Step, linked: Linked) -> str | None:
    """Why ``body`` stays in the kernel; None: it does not need it."""
    count = 0
    for step, callee, _ in calls_of(body, linked):
        reason = _reason_of_call(step, callee)
        if reason is not None:
            return reason
        count += isinstance(callee, Tool)
    if count < FEWEST:
        return "no call"
    if any(isinstance(step, Repeat) and step.session for step in steps_of(body, linked)):
        return "model"
    return None


def _reason_of_call(step: Invoke, callee: Any) -> str | None:
    if step.kind not in CALLED:
        return step.kind
    if step.permit is not None:
        return "approval"
    if step.pick is not None or step.among is not None:
        return "pick"
    if not step.awaited:
        return "not awaited"
    if isinstance(callee, Linked):
        return _reason_of_flow(step, callee)
    if isinstance(callee, Tool):
        if callee.secret:
            return "secret"
        if not callee.reuse:
            return "effect"
        if callee.resources:
            return "resources"
    elif not isinstance(callee, Transform):
        return "callee"
    if getattr(callee, "resources", None):
        return "resources"  # a chunk of calls is placed where they are
    return (
        "place" if callee.where is not None or callee.is_async or _is_for_kernel(callee) else None
    )


def _reason_of_flow(step: Invoke, callee: Linked) -> str | None:
    flow = callee.flow
    if callee.agent is not None:
        return "agent"
    if flow.caps is not None:
        return "caps"
    if flow.extension is not None and flow.extension.context is not None:
        return "context"
    return "timeout" if step.timeout is not None else None


def _is_for_kernel(callee: Tool | Transform) -> bool:
    return bool(getattr(callee, "kernel_only", False))


def time_limit_of(body: Step, linked: Linked, limit: float | None) -> float | None:
    """Seconds that each call of ``body`` may take at most; None: one has no limit. ``limit``: that
    of all steps of the run."""
    most = 0.0
    for step, callee, _ in calls_of(body, linked):
        if not isinstance(callee, Linked):
            limits = [one for one in (limit, step.timeout, callee.timeout) if one is not None]
            if not limits:
                return None
            most = max(most, min(limits))
    return most


def steps_of(body: Step, linked: Linked) -> Iterator[Step]:
    """The steps of ``body`` and of the flows that it calls."""
    for step in every(body):
        yield step
        callee = linked.callees.get(step.id)
        if isinstance(callee, Linked):
            for inner in callee.flow.body.steps:
                yield from steps_of(inner, callee)


def flows_of(body: Step, linked: Linked) -> Iterator[Flow]:
    """The flows that ``body`` calls."""
    for _, callee, _ in calls_of(body, linked):
        if isinstance(callee, Linked):
            yield callee.flow


def has_fan_out(body: Step, linked: Linked) -> bool:
    return any(isinstance(step, Each) for step in steps_of(body, linked))


# --- what an element reads ---


def reads_secret(site: CallSite[Each], secrets: Secrets) -> bool:
    """Whether a secret may travel with an element: one that the run already has, or a name that
    feeds one."""
    if secrets.active or secrets.steps:
        return True
    if not secrets.names:
        return False
    reads = reads_of(site.step.body, site.scope.linked.flow)
    if reads is None:
        return True
    names = {bit for ref in (*reads, *site.step.over.reads()) for bit in ref.path}
    return not names.isdisjoint(secrets.names) or _reads_all_stores(reads, site.scope.linked.flow)


def reads_of(body: Step, flow: Flow) -> list[Ref] | None:
    """Everything that ``body``, a step of ``flow``, reads of its frame; None: that is not known."""
    if not flow.reads_are_complete:
        return None
    found: list[Ref] = []
    for step in every(body):
        refs = _reads_of_step(step)
        if refs is None:
            return None
        found += refs
    return found


def _reads_of_step(step: Step) -> Iterable[Ref] | None:
    match step:
        case Invoke():
            pipe = step.pipe.reads() if step.pipe is not None else ()
            return (
                (*step.args.reads(), *pipe)
                if step.permit is None and step.while_waiting is None
                else None
            )
        case Compute():
            return step.value.reads()
        case Sequence() | Branches():
            return ()
        case Each():
            return step.over.reads()
        case Fold():
            return (*step.over.reads(), *step.init.reads())
        case Repeat() if step.over is None:
            return step.until.reads() if step.until is not None else ()
        case Choose():
            return step.pick.reads()
    return None


def _reads_all_stores(reads: Iterable[Ref], flow: Flow) -> bool:
    """Whether an expression reads the stores as a whole: ``ctx``."""
    return any(flow.stores[: len(ref.path)] == ref.path for ref in reads)


def pruned(frame: Frame, step: Each, flow: Flow) -> Frame:
    """``frame`` with only the values that the body reads. The names stay, because errors list
    them."""
    kept: Frame = {**frame, **dict.fromkeys(_replaced(frame, step))}
    reads = reads_of(step.body, flow)
    if reads is None or len(flow.stores) > 1:
        return kept
    for name in kept.keys() - {ref.path[0] for ref in reads} - set(flow.stores):
        kept[name] = None
    for place in flow.stores:
        stores = frame.get(place)
        if isinstance(stores, dict) and not _reads_all_stores(reads, flow):
            names = {ref.path[1] for ref in reads if ref.path[0] == place}
            kept[place] = {name: value if name in names else None for name, value in stores.items()}
    return kept


def _replaced(frame: Frame, step: Each) -> list[str]:
    """The names in ``frame`` that the element takes."""
    try:
        within = step.element.store(frame, finished((DROPPED, None, None, "finished")))
    except Exception:  # only an element of its own form can be stored
        return []
    return [name for name in frame if within.get(name) is DROPPED]
