"""A row of a table: the call of a flow whose outcome is kept.

The call of a flow is usually not journaled, since its own calls are. That of a row is: the outcome
is a row of the result, which is read page by page, and a resumed run does not evaluate the row
again. A limit that counts for each row fails that row (decision D53), as does a name that it lacks;
a limit of the whole run ends it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ...flow.progress import events as ev
from ...flow.steps import Invoke
from ...journal.calls.started_call import ROW, StartedCall
from ...journal.records.failures import error_from
from ...journal.run_journal import Journal
from ...limits.budgets import Budget, LimitReached
from ...text.diagnostics import StepError
from ...values.value import Value
from ..linking.linked import Linked
from ..runner import CallSite, Runner, clock, is_rescuable

CallFlow = Callable[[CallSite[Invoke], Linked], Awaitable[Value]]


async def call_row(site: CallSite[Invoke], linked: Linked, call: CallFlow) -> Value:
    """Call the flow for one row by ``call``, and journal its outcome.

    Returns None where the journal has the output: a table of a million rows must not be held in
    memory. Without a journal, the output with the number of its row.
    """
    run = site.run
    journal = run.journal
    terms = site.step.exchange.row
    assert terms is not None, "only a row is called like this"
    budget = Budget(run.budget.limits, run.budget, terms.sessions)
    inside = _runner_of_row(run, budget)
    keep: Callable[..., None] | None = None
    if journal is not None:
        record = journal.take_recorded(site.key, reads=False)
        if record is not None:
            run.emit(ev.StepReplayed(site.at, clock(), journal.run_id))
            if record.error is not None:
                raise error_from(record.error, (linked.flow.source,))
            return None
        row = terms.row_of(site.frame)
        started = journal.start_call(site.step, linked.flow, site.key, row)._replace(kind=ROW)
        keep = partial(_keep, journal, started, budget)
    began = time.time()
    try:
        value = await call(
            CallSite(inside, site.step, site.frame, site.scope, site.index, site.at), linked
        )
    except StepError as failure:
        error = failure
        # A name that this row does not have: other rows have it.
        if error.is_unknown_name or (isinstance(error, LimitReached) and not error.ends_run):
            error = _as_failure(error)
        if keep is not None and is_rescuable(error):
            keep(None, error)
        if error is failure:
            raise
    else:
        if keep is None:
            used = {"seconds": time.time() - began, **_usage(budget)}
            return {"row": site.index[-1], "output": value, "used": used}
        keep(value, secret=site.is_secret)
        return None
    finally:
        run.calls += inside.calls
    raise error  # outside of `except`: the limit is no context of the failure


def _runner_of_row(run: Runner, budget: Budget) -> Runner:
    """``run`` with the budget of a row. All else is shared, apart from the number of its calls."""
    inside = Runner.__new__(Runner)
    inside.__dict__.update(run.__dict__)
    inside.budget = budget
    inside.calls = 0
    return inside


def _as_failure(end: StepError) -> StepError:
    """What would end a run as a failure of one row, which the table keeps."""
    error = StepError(*end.diagnostics)
    error.path = end.path
    error.where = end.where
    return error


def _keep(
    journal: Journal,
    row: StartedCall,
    budget: Budget,
    value: Value,
    error: StepError | None = None,
    secret: bool = False,
) -> None:
    """Write the outcome of a row, and what its models have used: with it, but not part of it."""
    if used := _usage(budget):
        cost = used["cost"]
        journal.note_use(row.key, budget.tokens, None if cost is None else f"{cost:f}")
    journal.write_row(row, value, error, secret)


def _usage(budget: Budget) -> dict[str, Any]:
    """The tokens and the cost of the models of a row; empty: it asked none."""
    if not (budget.tokens or budget.cost or budget.unpriced):
        return {}
    return {"tokens": budget.tokens, "cost": None if budget.unpriced else budget.cost}
