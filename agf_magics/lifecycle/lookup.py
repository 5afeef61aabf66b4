"""What the journal has of a run, for whoever takes it up or takes results over: found by its id, read, or refused."""

from __future__ import annotations

from ..flow.values import type_name
from ..journal.errors import JournalError
from ..journal.queries import RunRow, list_runs, read_run, records
from ..journal.recorder import CURES
from ..journal.records import Record
from ..journal.store import Store
from ..serialization.codec import DecodeError, SignatureError
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from .persistence import journal_file
from .run import live


def unwritten(calls: int) -> str:
    """What to say of a run of which some calls are not in the journal; nothing where all are."""
    return f"{calls:,} {'calls were' if calls > 1 else 'call was'} not written to the journal" if calls else ""


CUT = ("interrupted", "waiting")
"""What a run is that did not come to its end: whoever begins the next session is told of it."""


def journal() -> Store:
    """The journal of this kernel, which must be there. Raises DefinitionError."""
    path = journal_file()
    if path is None:
        hint = "%config AgfMagics.journal says where: '.agf/runs.sqlite'"
        raise refused("journal.off", "runs are not kept: there is no journal", hint)
    try:
        return Store.at(path)
    except JournalError as trouble:
        raise unusable(trouble) from None


def find(store: Store, run_id: str) -> RunRow:
    """A run by its id, or by the beginning of it that no other has. Raises DefinitionError, Trouble."""
    if not isinstance(run_id, str):
        message = f"a run is named by its id, not by {type_name(run_id)}"
        raise refused("journal.unknown-run", message, "run.run_id is it")
    found = read_run(store, run_id)
    if found is None:
        begun = [run.run_id for run in live.running if run.journal is not None]  # its line may still be on its way
        known = list(dict.fromkeys([*begun, *(one.run_id for one in list_runs(store))]))
        near = [one for one in known if one.startswith(run_id)]
        found = read_run(store, near[0]) if run_id and len(near) == 1 else None
        if found is None and run_id and len(near) == 1:
            raise refused("journal.running", f"run {run_id!r} is going on, here or in another kernel")
    if found is None:
        hint = f"it may be {', '.join(near[:5])}" if near else suggest(run_id, known, "runs") or "no run is kept yet"
        raise refused("journal.unknown-run", f"there is no run {run_id!r} in the journal", hint)
    return found


def last_cut(store: Store) -> RunRow:
    """The last run that did not come to its end. Raises DefinitionError, Trouble."""
    cut = next((one.run_id for one in list_runs(store) if one.status in CUT), None)
    if cut is None:
        hint = "%runs lists the runs; %resume RUN takes up one that failed or was cancelled"
        raise refused("journal.unknown-run", "no run was interrupted", hint)
    return find(store, cut)


def readable(store: Store, found: RunRow, trust: bool) -> list[Record]:
    """The records of a run, with their pickles read. Raises Unreadable for what is not this user's."""
    return [unpickled(record, found.listed.run_id, trust) for record in records(store, found.listed.num)]


def unpickled(record: Record, run_id: str, trust: bool) -> Record:
    """A record of that run with its value. Raises Unreadable for what is not this user's."""
    if record.value is None or record.form not in ("json", "pickle"):
        return record
    try:
        return record._replace(unpickled=(record.read_value(run_id, trust),))
    except SignatureError:
        raise SignatureError(f"the result of {record.name!r} is not signed with your key") from None
    except DecodeError as error:
        raise DecodeError(f"the result of {record.name!r} cannot be read ({error})") from None


def unusable(trouble: JournalError) -> DefinitionError:
    return refused(trouble.code, f"the journal cannot be used: {trouble}", CURES[trouble.code])


def refused(code: str, message: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic(code, message, hint=hint))
