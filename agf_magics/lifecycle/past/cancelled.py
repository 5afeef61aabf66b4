"""Cancels a run of the journal that waits for an answer, or that the end of its process interrupted.

Nothing of such a run is running, so only its end is written. It can be resumed as any run that was
cancelled.
"""

from __future__ import annotations

from ...journal.claims import cancel
from ...journal.database.errors import as_definition_errors
from ...journal.records.failures import error_json
from ...journal.secrets.masking import Secrets
from ...text.diagnostics import Diagnostic, StepError, refused
from ..storage.lookup import find_run, journal
from .past_run import PastRun


def cancel_past_run(run_id: str, reason: str) -> PastRun:
    """Cancel the run with the id ``run_id``, and return it as it is then. A run that has ended, and
    waits for nobody, stays as it is. Raises DefinitionError if it is running, or if it is resumed
    meanwhile."""
    store = journal()
    with as_definition_errors():
        head = find_run(store, run_id).head
        if head.status in ("waiting", "interrupted"):
            message = f"run of {head.name!r} was cancelled ({reason})"
            error = StepError(Diagnostic("run.cancelled", message))
            if not cancel(store, head, error_json(error, Secrets())):
                raise refused("journal.running", f"run {run_id!r} was resumed just now")
        elif head.status == "running":
            raise refused("journal.running", f"run {run_id!r} is running", "cancel it there")
        return PastRun(store, find_run(store, run_id))
