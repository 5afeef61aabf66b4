"""``--reuse``: a new run takes the results of identical calls from earlier runs.

After an edit of step 7 the six calls before it are not paid again. Reused results are journaled with the new run too,
so a complete run has all results of its flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ..journal.queries import RunHead, list_runs, records
from ..journal.records import Record
from ..journal.reuse import Reuse
from ..journal.store import Store
from ..serialization.codec import DecodeError
from .lookup import as_definition_errors, find_run, journal, refused, unpickled
from .run import Run

MAX_RUNS = 20
"""The number of runs that are searched for results if none of them is complete."""


def reuse_results(run: Run, earlier: str | bool) -> None:
    """Let ``run`` reuse the results of the run ``earlier``. True: for each call the newest result in the runs of its
    name, back to the last complete one.

    Raises DefinitionError if there is no such run or no journal.
    """
    if run.dry:
        return
    store = journal()
    with as_definition_errors():
        found = _latest(store, run) if earlier is True else [find_run(store, str(earlier)).listed]
        if run.journal is not None:
            source = found[0].run_id if len(found) == 1 else f"the last {len(found)} runs"
            run.journal.reuse = Reuse(source, (_readable(store, head) for head in found))


def _readable(store: Store, head: RunHead) -> Iterator[Record]:
    """The records of a run without values that the user has not signed: their calls are made again."""
    for record in records(store, head.num):
        with suppress(DecodeError):
            yield unpickled(record, head.run_id, trust=False)


def _latest(store: Store, run: Run) -> list[RunHead]:
    """The runs of this name, the newest first, up to and including the last complete one."""
    found = list[RunHead]()
    for head in list_runs(store):
        if head.name == run.name and head.status != "damaged" and head.run_id != run.run_id:
            found.append(head)
            if head.status == "ok" or len(found) == MAX_RUNS:
                break
    if not found:
        message = f"the journal has no earlier run of {run.name!r}"
        raise refused("journal.unknown-run", message, "run it once without --reuse")
    return found
