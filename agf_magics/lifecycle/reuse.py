"""``--reuse``: a new run takes the results of identical calls from earlier runs.

After an edit of step 7 the six calls before it are not paid again. Reused results are journaled
with the new run too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..journal.queries import RunHead, list_runs, missing_results, results
from ..journal.reading import JsonResult
from ..journal.records import Record
from ..journal.reuse import Reuse
from ..journal.store import Store
from .lookup import as_definition_errors, find_run, journal, refused, unpickled
from .run import Run

MAX_RUNS = 20
"""The number of runs that are searched for results."""


def reuse_results(run: Run, earlier: str | bool) -> None:
    """Let ``run`` reuse the results of the run ``earlier``; True: for each call the newest result
    in the last `MAX_RUNS` runs of its flow.

    Raises DefinitionError if there is no such run or no journal.
    """
    if run.dry:
        return
    store = journal()
    with as_definition_errors():
        found = (
            latest_runs(store, run) if earlier is True else [find_run(store, str(earlier)).listed]
        )
        if run.journal is not None:
            source = found[0].run_id if len(found) == 1 else f"the last {len(found)} runs"
            reuse = Reuse(source, (), partial(unpickled, trust=False))
            for head in found:
                reuse.add(head.run_id, _missing(store, head.num, reuse))
            run.journal.reuse = reuse


def _missing(store: Store, num: int, reuse: Reuse) -> Iterator[Record | JsonResult]:
    """The results of a run that ``reuse`` does not have of newer ones."""
    return results(store, num) if reuse.is_empty else missing_results(store, num, reuse.count)


def latest_runs(store: Store, run: Run) -> list[RunHead]:
    """The last runs of this name, the newest first. Raises DefinitionError if no run has the
    name."""
    heads = (
        head for head in list_runs(store) if head.name == run.name and head.status != "damaged"
    )
    found = [head for head in heads if head.run_id != run.run_id][:MAX_RUNS]
    if not found:
        message = f"the journal has no earlier run of {run.name!r}"
        raise refused("journal.unknown-run", message, "run it once without --reuse")
    return found
