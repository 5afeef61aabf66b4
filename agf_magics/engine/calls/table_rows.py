"""The rows of a table: the calls of a flow whose outcomes are kept, and the question after the first.

The call of a flow is usually not journaled, since its own calls are. That of a row is: the outcome
is a row of the result, which is read page by page, and a resumed run does not evaluate the row
again. A limit that counts for each row fails that row (decision D53), as does a name that it lacks;
a limit of the whole run ends it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from typing import Any

from ...flow.progress import events as ev
from ...flow.progress.questions import Question, Unanswered
from ...flow.step_path import format_path
from ...flow.steps import Each, Invoke
from ...journal.calls.call_rows import StartedCall
from ...journal.records.failures import error_from
from ...journal.run_journal import Journal
from ...limits.budgets import Budget, LimitReached
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from ..linking.linked import Linked
from ..runner import CallSite, Runner, clock, is_rescuable
from .questions import ask_person

ROW = "row"
"""The kind of the record of a row."""

CallFlow = Callable[[CallSite[Invoke], Linked], Awaitable[Value]]


async def call_row(site: CallSite[Invoke], linked: Linked, call: CallFlow) -> Value:
    """Call the flow for one row by ``call``, and journal its outcome.

    Returns None where the journal has the output: a table of a million rows must not be held in
    memory. Without a journal, the output with the number of its row.
    """
    run, step, journal = site.run, site.step, site.run.journal
    terms = step.exchange.row
    assert terms is not None, "only a row is called like this"
    budget = Budget(run.budget.limits, run.budget, terms.sessions)
    inside = _runner_of_row(run, budget)
    keep: Callable[..., None] | None = None
    if journal is not None:
        record = journal.recorded(site.key)
        if record is not None:
            run.emit(ev.StepReplayed(site.at, clock(), journal.run_id))
            if record.error is not None:
                raise error_from(record.error, (linked.flow.source,))
            return None
        row = terms.given(site.frame)
        started = journal.start_call(step, linked.flow, site.key, row)._replace(kind=ROW)
        keep = partial(_keep, journal, started, budget)
    began = time.time()
    try:
        value = await call(
            CallSite(inside, step, site.frame, site.scope, site.index, site.at), linked
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
            used = {"seconds": time.time() - began, **_used(budget)}
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
    inside.budget, inside.calls = budget, 0
    return inside


def _as_failure(end: StepError) -> StepError:
    """What would end a run as a failure of one row, which the table keeps."""
    error = StepError(*end.diagnostics)
    error.path, error.where = end.path, end.where
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
    if used := _used(budget):
        cost = used["cost"]
        journal.note_use(row.key, budget.tokens, None if cost is None else f"{cost:f}")
    journal.keep_row(row, value, error, secret)


def _used(budget: Budget) -> dict[str, Any]:
    """The tokens and the cost of the models of a row; empty: it asked none."""
    if not (budget.tokens or budget.cost or budget.unpriced):
        return {}
    return {"tokens": budget.tokens, "cost": None if budget.unpriced else budget.cost}


def _dollars(amount: Decimal) -> str:
    """Two digits that count: $4.20, $1,200.00, $0.0015."""
    return f"${amount:,.2f}" if amount >= 1 else f"${float(amount):.2g}"


async def ask_to_go_on(site: CallSite[Each], count: int) -> None:
    """Ask whether the other rows of ``count`` shall run, given the price of the first ones.

    Nobody is asked if the person has set a limit, or if no price is known. Raises Unanswered unless
    the answer is yes: the run waits, and keeps its results.
    """
    run = site.run
    first = site.step.first
    journal = site.run.journal
    paid = run.budget
    if run.options.dry or paid.limits.max_cost or paid.unpriced or not paid.cost:
        return
    # Only a yes is written, so a record is one.
    if journal is not None and journal.answered(site.key) is not None:
        return
    price = (
        f"the first {first:,} of {count:,} rows cost {_dollars(paid.cost)}: about "
        f"{_dollars(paid.cost * count / first)} for all"
    )
    ok, answer = await ask_person(
        site,  # type: ignore[arg-type]  # it reads no field that only a call has
        Question(f"{price}. Go on?", approval=True, where=format_path(site.at)),
    )
    if not ok or answer is not True:
        hint = (
            "--yes goes on without a question, --max-cost DOLLARS sets a limit instead; "
            "%resume RUN --answer yes goes on with this run"
        )
        raise Unanswered(Diagnostic("over.go-on", f"{price}; the other rows wait", None, hint))
    if journal is not None:
        call = StartedCall(site.key, "question", "", time.time(), None, 0)
        await journal.keep_answer(call, True)
