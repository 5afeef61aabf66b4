"""Asks a person after the first rows of a table whether to go on with the other rows."""

from __future__ import annotations

import time
from decimal import Decimal

from ...flow.progress.question import Question, Unanswered
from ...flow.step_path import format_path
from ...flow.steps import Each
from ...journal.calls.started_call import StartedCall
from ...text.diagnostics import Diagnostic
from ..runner import CallSite
from .questions import ask_person


def _dollars(amount: Decimal) -> str:
    """An amount with at least two significant digits: $4.20, $1,200.00, $0.0015."""
    return f"${amount:,.2f}" if amount >= 1 else f"${float(amount):.2g}"


async def ask_to_go_on(site: CallSite[Each], count: int) -> None:
    """Ask whether the other rows of ``count`` shall run, given the price of the first ones.

    Nobody is asked if the person has set a limit, or if no price is known. Raises Unanswered unless
    the answer is yes: the run waits, and keeps its results.
    """
    run = site.run
    first = site.step.first
    journal = site.run.journal
    budget = run.budget
    is_price_known = bool(budget.cost) and not budget.unpriced
    if run.options.dry or budget.limits.max_cost or not is_price_known:
        return
    # Only a yes is journaled, so any record means yes.
    if journal is not None and journal.take_answer(site.key) is not None:
        return
    price = (
        f"the first {first:,} of {count:,} rows cost {_dollars(budget.cost)}: about "
        f"{_dollars(budget.cost * count / first)} for all"
    )
    ok, answer = await ask_person(
        site,  # type: ignore[arg-type]  # no field that only a call has is read
        Question(f"{price}. Go on?", approval=True, where=format_path(site.path)),
    )
    if not ok or answer is not True:
        hint = (
            "--yes goes on without a question, --max-cost DOLLARS sets a limit instead; "
            "%resume RUN --answer yes goes on with this run"
        )
        raise Unanswered(Diagnostic("over.go-on", f"{price}; the other rows wait", None, hint))
    if journal is not None:
        call = StartedCall(site.key, "question", "", time.time(), None, 0)
        await journal.write_answer(call, value=True)
