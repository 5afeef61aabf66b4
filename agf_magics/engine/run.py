"""One run, from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..flow.frame import FlowInput, FlowResult
from ..flow.steps import (
    Branches,
    Choose,
    Compute,
    Dag,
    Each,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    Step,
    Walk,
)
from ..flow.values import Value
from ..host.deadline import Deadline, OutOfTime
from ..host.host import Host
from ..host.limits import Budget, LimitReached, Limits, granted, inside
from ..host.prints import printing
from ..host.rights import rights, watch_threads
from ..journal.recorder import Journal
from ..progress import events as ev
from ..progress.progress import Progress
from ..secrets.masking import Secrets
from ..text.diagnostics import Diagnostic, StepError
from .concurrent import branches, each
from .dag import run_dag
from .invoke import invoke
from .linked import Linked
from .pool import WholeElements
from .runner import Runner, Scope, Shape, clock
from .sequential import choose, compute, fold, repeat, sequence
from .subflows import meters_of, within_caps
from .walk import run_walk

SHAPES: Mapping[type[Step], Shape] = {
    Compute: compute,
    Invoke: invoke,
    Choose: choose,
    Sequence: sequence,
    Fold: fold,
    Repeat: repeat,
    Dag: run_dag,
    Walk: run_walk,
    Each: each,
    Branches: branches,
}


class Done(NamedTuple):
    ended: FlowResult
    calls: int
    """Tool calls made; in a dry run, the calls that a real run would make at least."""
    sessions: int
    """Agent sessions opened, or that a real run would open."""


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
    stream: bool = False,
    budget: Budget | None = None,
    progress: Progress | None = None,
    make: type[Runner] = Runner,
    whole: WholeElements | None = None,
) -> Done:
    """Run ``linked`` to its end and emit everything that happens; RunEnded is always the last
    event.

    A run that a tool or an agent starts has the rights of that tool or agent. With a ``journal``
    the run is journaled under its manifest ``work``, and calls that earlier sessions made are not
    repeated. ``secrets`` collects the values of secret arguments. ``stream``: whether the text of
    models is emitted while it arrives. A ``budget`` has what earlier runs have used of the limits.
    ``progress``: the one whose ``apply`` is ``emit``, if nothing else listens: it folds the starts
    and ends of steps without their events. ``make``: the class of the runner. ``whole``: sends
    whole elements of fan-outs to workers.

    Raises StepError if a step fails, and CancelledError if the run is cancelled.
    """
    budget = Budget(limits) if budget is None else budget
    runner = make(SHAPES, host, emit, budget, dry, journal, secrets, stream, progress)
    runner.whole = whole
    emit(ev.RunStarted(linked.flow.name, clock()))
    failure: BaseException | None = None
    watch_threads()
    grant = rights().grant
    outer_grant, outer_inside = granted.set(grant), inside.set(True)
    outer_prints = printing.set(None) if stream else None
    try:
        async with Deadline(limits.timeout, host):
            if journal is not None:
                await journal.start(emit, linked.flow.name, linked.flow.language, work)
            scope = Scope(linked, grant=grant.narrow(linked.uses), meters=meters_of(linked.flow, 0))
            ended = await within_caps(linked.flow, runner.run_flow(scope, given))
    except asyncio.CancelledError:
        _end(runner, "cancelled", None, _stores(runner, linked))
        raise
    except OutOfTime:
        failure = timeout_exceeded(linked, limits)  # without a cause, whose frames would be ours
    except RecursionError:  # of the engine: what user code raises is a failure of its step
        failure = _too_deep(linked)
    except BaseException as error:
        failure = error
    finally:
        granted.reset(outer_grant)
        inside.reset(outer_inside)
        if outer_prints is not None:
            printing.reset(outer_prints)
    if failure is not None:
        stores = _stores(runner, linked)
        if isinstance(failure, StepError) and failure.partial is None:
            failure.partial = stores
        _end(
            runner,
            "waiting" if isinstance(failure, ev.Unanswered) else "error",
            None,
            stores,
            failure,
        )
        raise failure
    for note in ended.notes:
        emit(ev.Warned(clock(), note))
    _end(runner, "ok", ended.output, ended.stores)
    return Done(ended, runner.calls, budget.spawned)


def _end(
    runner: Runner,
    status: str,
    output: Value,
    stores: Mapping[str, Value],
    error: BaseException | None = None,
) -> None:
    if runner.journal is not None:
        runner.journal.end(status, output, stores, error)
    runner.emit(ev.RunEnded(clock(), status, error, stores))


def _stores(runner: Runner, linked: Linked) -> Mapping[str, Value]:
    """The results of a run that did not complete."""
    if runner.reached is None:
        return {}
    kept = linked.flow.kept
    return kept(runner.reached) if kept is not None else linked.flow.end(runner.reached).stores


def timeout_exceeded(linked: Linked, limits: Limits, left_running: str = "") -> StepError:
    """The run exceeded its timeout. ``left_running``: the calls that could not be stopped."""
    message = f"{linked.flow.name!r} took longer than its timeout of {limits.timeout:g} s"
    hint = (
        "--timeout, %config AgfMagics.timeout and, in Python, limits=Limits(timeout=…) set the "
        "timeout of a run"
    )
    return StepError(Diagnostic("limit.timeout", message, None, left_running or hint))


def _too_deep(linked: Linked) -> StepError:
    message = f"{linked.flow.name!r} nests steps and calls of flows deeper than a run can go"
    hint = "put steps one after another instead of inside each other"
    return LimitReached(Diagnostic("limit.nesting", message, linked.flow.span, hint))
