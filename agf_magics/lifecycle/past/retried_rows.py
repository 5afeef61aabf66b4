"""Chooses the rows of a table that run again: those that failed in an earlier run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...text.diagnostics import DefinitionError, Diagnostic
from .past_run import find_past_run

if TYPE_CHECKING:
    from ..table_runs.over import Over


def choose_rows(table: object, retried: str | None = None, **options: Any) -> Over:
    """A table with options; ``retried``: of the run with this id only the rows that failed.

    Without a table, these rows are read from the journal. Raises DefinitionError."""
    from ..table_runs.over import Over

    if retried is None:
        return Over(table=table, **options)
    run = find_past_run(retried)
    earlier = run.table
    # A row that ran several times runs again if one of the times failed, and as often: only the
    # failed times are made again, and with fewer times the others would be enough for all.
    failed = list({row.number: row for row in earlier.rows(earlier.failed)}.values())
    if not failed:
        hint = "%runs lists the runs; --over runs all rows"
        message = f"no row of {run.run_id!r} failed"
        raise DefinitionError(Diagnostic("over.none-failed", message, hint=hint))
    numbers = [row.number for row in failed]
    options = {"repeat": earlier.terms.repeat, **options, "retried": run.run_id}
    if table is not None:
        return Over(table=table, numbers=numbers, **options)
    lost = next((row.number for row in failed if not row.is_whole), None)
    if lost is not None:
        message = f"the journal does not have all of row {lost:,} of {run.run_id!r}"
        hint = "give the table again: add --over TABLE"
        raise DefinitionError(Diagnostic("over.lost-row", message, hint=hint))
    return Over(table=[earlier.input_of(row) for row in failed], names=numbers, **options)
