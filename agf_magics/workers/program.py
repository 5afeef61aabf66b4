"""Which fan-outs send whole elements to workers, and what such an element reads of its frame.

An element can run on a worker if its body needs nothing of the kernel: no person, no model, no
secret, no limit that is counted there. Otherwise its calls are sent one by one. `reason_to_stay`
says why, in one word for each condition.

What a worker needs to run elements of one fan-out: the step, the callees, the frame, the
limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Listed
from dataclasses import replace
from typing import Any, NamedTuple

from ..catalog import Tool, Transform
from ..engine.limits import Limits, shortest
from ..engine.linked import Linked
from ..engine.pool import calls_of
from ..engine.runner import CallSite, Index, Scope
from ..flow.step import DROPPED, Frame, Ref, Step, finished
from ..flow.steps import Dag, Each, Flow, Invoke, Origin, Repeat, Sequence, Walk, every, own_reads
from ..journal.secrets import Secrets
from ..text.diagnostics import Source
from .pickles import dump_program

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
    needs = {
        "dry": run.dry,
        "sequential": not inside.concurrent,
        "caps": inside.meters,
        "reuse": run.journal is not None and run.journal.reuse is not None,
    }
    reason = _first(needs) or reason_of_body(body, inside.linked)
    if reason is not None:
        return reason
    outer = count < MANY * lanes and _has_fan_out(body, inside.linked)
    return _first({"secret": reads_secret(site, run.secrets), "outer": outer})


def _first(reasons: Mapping[str, object]) -> str | None:
    """The first reason that holds."""
    return next((reason for reason, holds in reasons.items() if holds), None)


def reason_of_body(body: Step, linked: Linked) -> str | None:
    """Why ``body`` stays in the kernel; None: it does not need it."""
    calls = list(calls_of(body, linked))
    reasons = (_reason_of_call(step, callee) for step, callee, _ in calls)
    count = sum(isinstance(callee, Tool) for _, callee, _ in calls)
    return next(filter(None, reasons), None if count >= FEWEST else "no call")


def _reason_of_call(step: Invoke, callee: Any) -> str | None:
    reasons: dict[str, object] = {
        step.kind: step.kind not in CALLED,
        # Its record and its limits are those of the kernel.
        "row": step.exchange.row is not None,
        "approval": step.permit is not None,
        "pick": step.pick is not None,
        "not awaited": not step.awaited,
    }
    if isinstance(callee, Linked):
        reasons |= {
            "agent": callee.agent is not None,
            "caps": callee.flow.declared.caps is not None,
            "context": callee.flow.dialect.context is not None,
            "timeout": step.timeout is not None,
        }
    elif isinstance(callee, Tool | Transform):
        if isinstance(callee, Tool):
            reasons |= {
                "secret": callee.secret,
                "effect": not callee.reuse,
                "context": callee.context,
                # A chunk of calls is placed where they are.
                "resources": callee.resources,
                # The gate is in the kernel: on each worker, a rate would count by itself.
                "throttle": callee.throttle,
                "place": callee.kernel_only,
            }
        reasons["place"] = reasons.get("place") or callee.where is not None or callee.is_async
    else:
        reasons["callee"] = True
    return _first(reasons)


def time_limit_of(body: Step, linked: Linked, limit: float | None) -> float | None:
    """Seconds that each call of ``body`` may take at most; None: one has no limit. ``limit``: that
    of all steps of the run."""
    most = 0.0
    for step, callee, _ in calls_of(body, linked):
        if not isinstance(callee, Linked):
            seconds = shortest(limit, step.timeout, callee.timeout)
            if seconds is None:
                return None
            most = max(most, seconds)
    return most


def _has_fan_out(body: Step, linked: Linked) -> bool:
    """Whether ``body`` or a flow that it calls has a fan-out of its own."""
    flows = [callee.flow for _, callee, _ in calls_of(body, linked) if isinstance(callee, Linked)]
    bodies = [body, *(flow.body for flow in flows)]
    return any(isinstance(step, Each) for inner in bodies for step in every(inner))


# --- what an element reads ---


def reads_secret(site: CallSite[Each], secrets: Secrets) -> bool:
    """Whether a secret may travel with an element: one that the run already has, or a name that
    feeds one."""
    if secrets.active or secrets.steps:
        return True
    if not secrets.names:
        return False
    # Not known: then anything may be read, also a secret.
    reads = reads_of(site.step.body, site.scope.linked.flow)
    if reads is None:
        return True
    names = {bit for ref in (*reads, *site.step.over.reads()) for bit in ref.path}
    return not names.isdisjoint(secrets.names) or _reads_all_stores(reads, site.scope.linked.flow)


def reads_of(body: Step, flow: Flow) -> list[Ref] | None:
    """Everything that ``body``, a step of ``flow``, reads of its frame; None: that is not known."""
    if not flow.dialect.reads_are_complete:
        return None
    reads: list[Ref] = []
    for step in every(body):
        match step:
            case Invoke() if step.permit is not None or step.exchange.while_waiting is not None:
                return None
            case Invoke() if step.exchange.pipe is not None:
                reads += step.exchange.pipe.reads()
            case Dag() | Walk():
                return None
            case Repeat() if step.over is not None:
                return None
        reads += own_reads(step)
    return reads


def _reads_all_stores(reads: Iterable[Ref], flow: Flow) -> bool:
    """Whether an expression reads the stores as a whole: ``ctx``."""
    return any(flow.dialect.stores[: len(ref.path)] == ref.path for ref in reads)


def pruned(frame: Frame, step: Each, flow: Flow) -> Frame:
    """``frame`` with only the values that the body reads. The names stay, because errors list
    them."""
    kept: Frame = {**frame, **dict.fromkeys(_replaced(frame, step))}
    reads = reads_of(step.body, flow)
    if reads is None or len(flow.dialect.stores) > 1:
        return kept
    # None, and not left out: an error about a wrong name lists the right ones.
    for name in kept.keys() - {ref.path[0] for ref in reads} - set(flow.dialect.stores):
        kept[name] = None
    for place in flow.dialect.stores:
        stores = frame.get(place)
        if isinstance(stores, dict) and not _reads_all_stores(reads, flow):
            names = {ref.path[1] for ref in reads if ref.path[0] == place}
            kept[place] = {name: value if name in names else None for name, value in stores.items()}
    return kept


def _replaced(frame: Frame, step: Each) -> list[str]:
    """The names in ``frame`` that the element takes."""
    try:
        within = step.element.store(frame, finished((DROPPED, None, None, "finished")))
    except Exception:
        # Only an element of its own form can be stored.
        return []
    return [name for name in frame if within.get(name) is DROPPED]


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

VERSION = 2
"""Of the programs and answers."""


class ElementProgram(NamedTuple):
    step: Each
    linked: Linked
    frame: Frame
    scope: Scope
    """Of the elements; its ``linked`` is empty, because a scope is pickled by its class and
    values."""
    around: Index
    """The numbers around the fan-out."""
    limits: Limits
    most: int
    """Bytes of one value in the journal; 0: the run is not journaled."""
    events: bool
    """Whether every event travels, for a listener; otherwise starts and ends are counted."""
    stream: bool
    sources: tuple[Source, ...]
    """Those of the definitions: answers name them by their number."""


def version_of_workers() -> tuple[str, str, int]:
    """What a worker must have in common with the kernel: this package, Python, the form of
    programs."""
    package: Any = sys.modules[__name__.partition(".")[0]]
    return package.__version__, sys.version.split()[0], VERSION


def sources_of(step: Each, linked: Linked) -> tuple[Source, ...]:
    callees = [callee for _, callee, _ in calls_of(step.body, linked)]
    flows = [each.flow for each in (linked, *callees) if isinstance(each, Linked)]
    return tuple({id(flow.source): flow.source for flow in flows}.values())


def make_program(
    site: CallSite[Each], inside: Scope, sources: tuple[Source, ...], modules: Listed[str]
) -> bytes:
    """The program of a fan-out, pickled; ``modules`` travel by value. Raises whatever pickling
    raises."""
    run, step, linked = site.run, site.step, inside.linked
    program = ElementProgram(
        replace(step, over=None, join=None, collect=None, gather=None, cut=None),  # type: ignore[arg-type]
        reduced(linked, [step.body], without_text=True),
        pruned(site.frame, step, linked.flow),
        inside._replace(linked=None, meters=()),  # type: ignore[arg-type]
        site.index,
        run.budget.limits,
        run.journal.most if run.journal is not None else 0,
        run.progress is None,  # whether something listens to the events of the run
        run.stream,
        sources,
    )
    return dump_program(program, modules)


def reduced(linked: Linked, steps: Iterable[Step], without_text: bool = False) -> Linked:
    """``linked`` with only what ``steps`` of it need. ``without_text``: its own flow is not run."""
    own = [inner for step in steps for inner in every(step)]
    callees: dict[str, Any] = {}
    for step in own:
        callee = linked.callees.get(step.id)
        if callee is not None:
            callees[step.id] = (
                reduced(callee, callee.flow.body.steps) if isinstance(callee, Linked) else callee
            )
    named = any(isinstance(step, Invoke) and step.gives is not None for step in own)
    return replace(
        linked,
        flow=_bare(linked.flow)
        if without_text
        else replace(linked.flow),  # without what `Flow.linked` caches
        callees=callees,
        schemas=linked.schemas if named else {},
        tools={},
        own={},
        accepted={},
    )


def _bare(flow: Flow) -> Flow:
    """A flow of which only one step is run."""
    return Flow(
        name=flow.name,
        language=flow.language,
        source=flow.source,
        origin=Origin(flow.origin.span),
        body=Sequence(id=flow.body.id, word=flow.body.word, steps=()),
        start=_not_run,
        end=_not_run,
    )


def _not_run(_: object) -> Any:
    raise AssertionError("a worker runs a step of this flow, never the flow")


def on_one_thread(linked: Linked, steps: Iterable[Step], call: Wrap) -> Linked:
    """``linked`` on a worker: every function is called on the thread of its chunk. ``steps``: those
    of it that run; ``call``: wraps a function."""
    callees: dict[str, Any] = {}
    for name, callee in linked.callees.items():
        if isinstance(callee, Linked):
            callees[name] = on_one_thread(callee, callee.flow.body.steps, call)
        elif isinstance(callee, Tool | Transform):
            # ``loop``: the engine of the chunk calls it where it is, without a thread
            # and a wait.
            callees[name] = replace(callee, function=call(callee.function), where="loop")
    return replace(linked, callees=callees)
