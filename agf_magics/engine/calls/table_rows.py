"""Calls a flow for one row of a table, and journals the outcome.

Usually the call of a flow is not journaled, since its inner calls are. For a row of a table it is:
the outcome is a row of the result, which is read page by page, and a resumed run does not evaluate
the row again. A limit for each row fails that row (decision D53), as a missing name does. A limit
of the whole run ends the run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ...flow.progress import events as ev
from ...flow.step_options import RowTerms
from ...flow.steps import Invoke
from ...journal.calls.started_call import ROW, StartedCall
from ...journal.records.failures import error_from
from ...limits.budgets import Budget, LimitReached
from ...text.diagnostics import StepError
from ...values.value import Value
from ..ended_rows import EndedRow
from ..linking.linked import Linked
from ..runner import CallSite, Runner, clock, is_rescuable
from .model_usage import count_again

CallFlow = Callable[[CallSite[Invoke], Linked], Awaitable[Value]]
"""Calls a flow once: `subflows.call_flow`."""


async def call_row(site: CallSite[Invoke], linked: Linked, call: CallFlow) -> None:
    """Call the flow for one row by ``call``, and journal its outcome. If the journal does not get it,
    it stays in memory; the results of a million rows must not."""
    run = site.run
    journal = run.journal
    terms = site.step.exchange.row
    assert terms is not None, "only a row is called like this"
    budget = Budget(run.budget.limits, run.budget, terms.sessions)
    started: StartedCall | None = None
    if journal is not None:
        record = journal.take_recorded(site.key, reads=False)
        if record is not None:
            run.emit(ev.StepReplayed(site.path, clock(), journal.run_id))
            # The row is not evaluated again, and neither are the calls in it.
            count_again(site, journal.log.take_paid_in(site.path))
            if record.error is not None:
                raise error_from(record.error, (linked.flow.source,))
            return
        row = _learned_row(site, terms)
        started = journal.start_call(site.step, linked.flow, site.key, row)._replace(kind=ROW)
    note = partial(_note_outcome, site, started, budget, time.time())
    row_site = CallSite(
        *(_runner_of_row(run, budget), site.step, site.frame, site.scope, site.index, site.path)
    )
    try:
        value = await call(row_site, linked)
    except StepError as failure:
        error = failure
        is_limit_of_row = isinstance(error, LimitReached) and not error.ends_run
        # A name is unknown if this row lacks it and other rows have it.
        if error.is_unknown_name or is_limit_of_row:
            error = _as_failure(error)
        if is_rescuable(error):
            note(None, error)
        if error is failure:
            raise
    else:
        note(value)
        return
    raise error  # outside of `except`, so that the limit is not the context of the failure


def _learned_row(site: CallSite[Invoke], terms: RowTerms) -> Value:
    """The original row, whose secret cells are masked from now on: a table in a file was not searched
    when the run began."""
    row = terms.row_of(site.frame)
    secrets = site.run.secrets
    for name, column in terms.columns.items() if secrets.arguments else ():
        if (site.step.id, name) in secrets.arguments:
            secrets.learn(row.get(column))
    return row


def _runner_of_row(run: Runner, budget: Budget) -> Runner:
    """A copy of ``run`` with the budget of a row. All else is shared."""
    row_runner = Runner.__new__(Runner)
    row_runner.__dict__.update(run.__dict__)
    row_runner.budget = budget
    return row_runner


def _as_failure(end: StepError) -> StepError:
    """An error that would end a run, converted to a failure of one row."""
    error = StepError(*end.diagnostics)
    error.path = end.path
    error.where = end.where
    return error


def _note_outcome(
    site: CallSite[Invoke],
    started: StartedCall | None,
    budget: Budget,
    began: float,
    value: Value,
    error: StepError | None = None,
) -> None:
    """Journal the outcome of a row together with the tokens and the cost of its models, or keep it.
    ``began``: the begin of the row, in seconds since 1970."""
    journal = site.run.journal
    used = _usage(budget)
    ended = EndedRow(value, error, time.time() - began, **used)
    is_journaled = journal is not None and journal.is_open
    site.run.counts.rows.add(site.index[-1], ended, keeps=not is_journaled)
    if journal is None or started is None:
        return
    if used:
        cost = used["cost"]
        journal.note_use(started.key, budget.tokens, None if cost is None else f"{cost:f}")
    is_secret = error is None and site.gives_secret(value)
    journal.write_row(started, value, error, is_secret)


def _usage(budget: Budget) -> dict[str, Any]:
    """The tokens and the cost of a row's models; empty: no model was asked."""
    if not (budget.tokens or budget.cost or budget.unpriced):
        return {}
    return {"tokens": budget.tokens, "cost": None if budget.unpriced else budget.cost}
