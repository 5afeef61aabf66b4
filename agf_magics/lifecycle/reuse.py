"""Results of an earlier run taken over by one that is about to begin: ``--reuse``.

Editing step 7 then does not pay for the six calls before it. What is taken is kept again with the new run, so the next
one may take it from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ..journal.errors import JournalError
from ..journal.queries import RunHead, list_runs, records
from ..journal.records import Record
from ..journal.reuse import Reuse
from ..journal.store import Store
from ..serialization.codec import DecodeError
from .lookup import find, journal, refused, unpickled, unusable
from .run import Run


def reuse_results(run: Run, earlier: str | bool) -> None:
    """Let ``run`` take what equal calls gave in the run ``earlier``; True: the last one of its name.

    Raises DefinitionError when there is no such run, or runs are not kept.
    """
    if run.dry:
        return
    store = journal()
    try:
        found = _last(store, run) if earlier is True else find(store, str(earlier)).listed
        if run.journal is not None:
            run.journal.reuse = Reuse(found.run_id, _readable(store, found))
    except JournalError as trouble:
        raise unusable(trouble) from None


def _readable(store: Store, found: RunHead) -> Iterator[Record]:
    """What can be read of it: what somebody else has signed is called again."""
    for record in records(store, found.num):
        with suppress(DecodeError):
            yield unpickled(record, found.run_id, trust=False)


def _last(store: Store, run: Run) -> RunHead:
    for one in list_runs(store):
        if one.name == run.name and one.status != "damaged" and one.run_id != run.run_id:
            return one
    raise refused("journal.unknown-run", f"no earlier run of {run.name!r} is kept", "run it once without --reuse")
