"""One run: its life and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..flow.frame import FlowInput, FlowResult
from ..flow.steps import Branches, Choose, Compute, Dag, Each, Fold, Invoke, Repeat, Sequence, Step, Walk
from ..flow.values import Value
from ..host.calls import as_pending
from ..host.deadline import Deadline, OutOfTime
from ..host.host import Host
from ..host.limits import Budget, LimitReached, Limits, granted, inside
from ..host.rights import rights, watch_threads
from ..journal.recorder import Journal
from ..progress import events as ev
from ..secrets.masking import Secrets
from ..text.diagnostics import Diagnostic, StepError
from .concurrent import branches, each
from .dag import by_need
from .invoke import invoke
from .linked import Linked
from .runner import Runner, Scope, Shape, clock
from .sequential import choose, compute, fold, repeat, sequence
from .subflows import in_time, metered
from .walk import along_edges

SHAPES: Mapping[type[Step], Shape] = {
    Invoke: invoke,
    Compute: compute,
    Choose: choose,
    Sequence: as_pending(sequence),
    Fold: as_pending(fold),
    Repeat: as_pending(repeat),
    Dag: as_pending(by_need),
    Walk: as_pending(along_edges),
    Each: as_pending(each),
    Branches: as_pending(branches),
}


class Done(NamedTuple):
    """A run that came to its end."""

    ended: FlowResult
    calls: int
    """Tool calls made; in a dry run, the calls a real one would make at least."""
    sessions: int
    """Agent sessions opened, or that would be."""


async def run(
    linked: Linked,
    given: FlowInput,
    *,
    host: Host,
    emit: Callable[[ev.Event], None],
    limits: Limits,
    dry: bool = False,
    journal: Journal | None = None,
    work: str = "",
    secrets: Secrets | None = None,
) -> Done:
    """Run ``linked`` to its end and tell ``emit`` of everything that happens; RunEnded is the last of it, always.

    A run that a tool or an agent starts may use what that one was granted.

    With a ``journal`` it is kept, and what that has of earlier sessions is not done again; ``work`` is the work order.
    ``secrets`` learns what its tools receive as secret.

    Raises StepError when a step failed, CancelledError when the run was cancelled.
    """
    budget = Budget(limits)
    performer = Runner(SHAPES, host, emit, budget, dry, journal, secrets)
    emit(ev.RunStarted(linked.flow.name, clock()))
    failure: BaseException | None = None
    watch_threads()
    grant = rights().grant
    around, within = granted.set(grant), inside.set(True)
    try:
        async with Deadline(limits.timeout, host):
            if journal is not None:
                await journal.begin(emit, linked.flow.name, linked.flow.language, work)
            scope = Scope(linked, grant=grant.narrow(linked.uses), meters=metered(linked.flow, 0))
            ended = await in_time(linked.flow, performer.run_flow(scope, given))
    except asyncio.CancelledError:
        _end(performer, "cancelled", None, _kept(performer, linked))
        raise
    except OutOfTime:
        failure = too_long(linked, limits)  # without a cause: its frames would be ours
    except RecursionError:  # ours: what user code raises is a step's failure
        failure = _too_deep(linked)
    except BaseException as error:
        failure = error
    finally:
        granted.reset(around)
        inside.reset(within)
    if failure is not None:
        kept = _kept(performer, linked)
        if isinstance(failure, StepError) and failure.partial is None:
            failure.partial = kept
        _end(performer, "waiting" if isinstance(failure, ev.Unanswered) else "error", None, kept, failure)
        raise failure
    for note in ended.notes:
        emit(ev.Warned(clock(), note))
    _end(performer, "ok", ended.output, ended.stores)
    return Done(ended, performer.calls, budget.spawned)


def _end(
    performer: Runner, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None = None
) -> None:
    """Keep and tell how it ended."""
    if performer.journal is not None:
        performer.journal.end(status, output, stores, error)
    performer.emit(ev.RunEnded(clock(), status, error, stores))


def _kept(performer: Runner, linked: Linked) -> Mapping[str, Value]:
    if performer.reached is None:
        return {}
    kept = linked.flow.kept
    return kept(performer.reached) if kept is not None else linked.flow.end(performer.reached).stores


def too_long(linked: Linked, limits: Limits, left: str = "") -> StepError:
    """That the run has exceeded its timeout. ``left``: what could not be stopped and is still running."""
    message = f"{linked.flow.name!r} took longer than the {limits.timeout:g} s a run may take"
    hint = "%config AgfMagics.timeout sets it (in Python: limits=Limits(timeout=…))"
    return StepError(Diagnostic("limit.timeout", message, linked.flow.span, left or hint))


def _too_deep(linked: Linked) -> StepError:
    message = f"{linked.flow.name!r} calls flows inside each other, with steps inside steps, deeper than a run can go"
    hint = "let steps follow each other where they need not stand inside each other"
    return LimitReached(Diagnostic("limit.nesting", message, linked.flow.span, hint))
