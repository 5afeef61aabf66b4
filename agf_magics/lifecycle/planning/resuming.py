"""Resumes a planner: resumes its last run, and lets the next ticks follow.

The manifest of a run has the messages of the context before it, so the runs of completed ticks are
not needed.
"""

from __future__ import annotations

import re
from functools import partial

from ...journal.runs import RunHead
from ...languages.plan import Log
from ...languages.plan.load import PlanDialect
from ...text.diagnostics import DefinitionError, Diagnostic
from ..past.past_run import find_past_run
from ..past.past_runs import journaled_runs
from ..past.resume import read_context, resume_run
from .asking import ModelPlanner, request_name
from .ticks import PlannedTick

_TICK = re.compile(r"([0-9]{1,6})(-ask)?")
"""The name of a run, formed from the name of its context."""


def resume_planner(planner: ModelPlanner) -> None:
    """Continue the last planner of a context. Raises DefinitionError if there is none or it cannot
    be continued."""
    ticks = planner.ticks
    runs = _runs(ticks.options.context)
    head, number, is_request = runs[0]
    # The last run is resumed unless it succeeded, and a resumed run counts its own use again.
    for earlier_run, _, asks in runs if head.status == "ok" else runs[1:]:
        ticks.count(asks, earlier_run.tokens or 0, earlier_run.cost)
    if _restore(planner, head) and head.status == "ok" and not is_request:
        message = (
            f"{head.run_id!r} is complete, and this kernel does not have the context of its planner"
        )
        hint = (
            f"load the context: agf.context({ticks.options.context!r}).load(FILE), or start a "
            f"new planner"
        )
        raise DefinitionError(Diagnostic("planner.resume", message, hint=hint))
    if not (_resume_request if is_request else _resume_plan)(planner, head, number):
        ticks.repeat(planner, number + 1)


def _resume_request(planner: ModelPlanner, head: RunHead, number: int) -> bool:
    """Whether the planner has ended after the tick of this request."""
    ticks, reader = planner.ticks, planner.reader(number)
    if head.status == "ok":
        tick: PlannedTick | None = reader.read(find_past_run(head.run_id).output)
    else:
        run = ticks.execute(partial(resume_run, head.run_id, None), planner.registry(reader))
        tick = planner.replied(run, reader)
    return tick is None or ticks.run_plan(number, tick)


def _resume_plan(planner: ModelPlanner, head: RunHead, number: int) -> bool:
    """Whether the planner has ended after this plan."""
    ticks, assignment = planner.ticks, planner.assignment
    if head.status == "ok":
        return False
    fields = dict(ticks.options.secret) or None
    run = ticks.execute(partial(resume_run, head.run_id, fields), ticks.options.registry)
    ticks.runs.append(run)
    plan = run.flow.dialect
    has_output = isinstance(plan, PlanDialect) and plan.plan.has_output
    return ticks.ends(run, PlannedTick(run.flow, has_output, assignment.offer.gives))


def _restore(planner: ModelPlanner, head: RunHead) -> bool:
    """Set the context as it was before the run, if this kernel does not have it. Returns whether
    that was necessary."""
    options = planner.ticks.options
    context = options.registry.contexts.named(options.context)
    if context.log is not None:
        return False
    context.log, context.last = Log(read_context(head.run_id)), head.run_id
    return True


def _runs(context: str) -> list[tuple[RunHead, int, bool]]:
    """The runs of the last planner of this context, the latest first: each with the number of its
    tick, and whether it is a request."""
    runs: list[tuple[RunHead, int, bool]] = []
    for head in journaled_runs():
        before, _, rest = head.name.partition(f"{context}-")
        tick = _TICK.fullmatch(rest) if not before else None
        # A flow of the author may have such a name, too.
        if tick and find_past_run(head.run_id).order.context_name == context:
            runs.append((head, int(tick[1]), tick[2] is not None))
            # The planner began with this request; what is older is of another planner.
            if head.name == request_name(context, 1):
                break
    if runs:
        return runs
    message = f"there is no planner of the context {context!r} in the journal"
    raise DefinitionError(
        Diagnostic("planner.resume", message, hint="without resume=True a new planner starts")
    )
