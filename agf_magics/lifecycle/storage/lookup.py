"""Runs of the journal, found by id and read, for whatever resumes, reuses or shows them."""

from __future__ import annotations

from ...catalog import default
from ...journal.codec.encoding import DecodeError
from ...journal.codec.signatures import SignatureError
from ...journal.database.errors import JournalError, as_definition_errors
from ...journal.database.store import Store
from ...journal.records.records import Record, StoredValue
from ...journal.runs import RunHead, RunRow, list_runs, read_run
from ...pictures.plain import counted
from ...settings.folders import journal_file, this_notebook
from ...settings.settings import current
from ...text.diagnostics import DefinitionError
from ...text.suggestions import suggest
from ...values.value import Value, type_name
from ..input.fields import fields_of
from ..runs.live import live
from .manifest import Manifest, read_manifest
from .relink import refused

UNFINISHED = ("interrupted", "waiting")
"""The statuses of runs that the next session should continue."""
RESUMABLE = (*UNFINISHED, "error", "cancelled")


def journal() -> Store:
    """The journal of this process. Raises DefinitionError if there is none."""
    path = journal_file()
    if path is None:
        hint = "set its file: %config AgfMagics.journal = '.agf/runs.sqlite'"
        raise refused("journal.off", "there is no journal: it is switched off", hint)
    with as_definition_errors():
        return Store.at(path)


def find_run(store: Store, run_id: str) -> RunRow:
    """A run by its id, or by an unambiguous beginning of it. Raises DefinitionError,
    JournalError."""
    if not isinstance(run_id, str):
        message = f"a run's id is text, not {type_name(run_id)}"
        raise refused("journal.unknown-run", message, "use run.run_id")
    row = read_run(store, run_id)
    if row is not None:
        return row
    started = [run.run_id for run in live.running]  # its row may not be written yet
    run_ids = list(dict.fromkeys([*started, *(head.run_id for head in list_runs(store))]))
    near = [each for each in run_ids if run_id and each.startswith(run_id)]
    if len(near) == 1:
        row = read_run(store, near[0])
        if row is None:
            raise refused_running(run_id)
        return row
    if near:
        message = f"{len(near):,} runs have ids that begin with {run_id!r}"
        raise refused("journal.unknown-run", message, f"write more of it: {', '.join(near[:5])}")
    hint = suggest(run_id, run_ids, "runs") or "the journal is empty"
    if run_id in default().flows:
        hint = f"this flow has no run in the journal: %run_pipeline {run_id} runs it"
    raise refused("journal.unknown-run", f"there is no run {run_id!r} in the journal", hint)


def check_given(order: Manifest, input: Value, run_id: str) -> None:
    """Raises DefinitionError if ``input`` lacks a part of the run's input that is not in the
    journal."""
    fields = fields_of(input)
    if order.unkept and not input:
        hint = "give it again: --input VAR (in Python: input=…)"
        message = f"the input of run {run_id!r} is not in the journal: {order.unkept}"
        raise refused("journal.input", message, hint)
    missing = [name for name in order.secret if name not in fields]
    if missing:
        hint = f"give it again: {current.words.give.format(missing[0])}"
        names = ", ".join(missing)
        message = f"run {run_id!r} needs {names}, which is secret and not in the journal"
        raise refused("journal.secret", message, hint)


def find_resumable(store: Store, run: str | None) -> RunRow:
    """The run of that id or its beginning; of the name of a flow with several runs the last one
    that can be resumed; None: the last one of this notebook. Raises DefinitionError,
    JournalError."""
    others, errors = list[RunHead](), list[JournalError]()
    heads = list_runs(store, run) if isinstance(run, str | None) else []
    if run is not None and len(heads) < 2:
        return find_run(store, run)
    for head in heads:
        if head.status not in RESUMABLE:
            continue
        try:
            row = find_run(store, head.run_id)
        except JournalError as error:  # a damaged run does not hide the others
            errors.append(error)
            continue
        if run is not None or _notebook(row) == this_notebook():
            return row
        others.append(head)
    if errors:
        raise errors[0]
    hint = f"of another notebook: %resume {others[0].run_id}" if others else "%runs lists the runs"
    whose = "this notebook" if run is None else repr(run)
    raise refused("journal.unknown-run", f"no run of {whose} can be resumed: all ended well", hint)


def _notebook(row: RunRow) -> str:
    try:
        return read_manifest(row).notebook
    except DecodeError:  # `resume` reports it
        return this_notebook()


def unpickled(record: Record, run_id: str, trust: bool) -> Record:
    """A record of that run with its value. Raises DecodeError for a value that the user has not
    signed."""
    # Whatever `trust` says: an answer that is not believed is no error, its question is asked again.
    if record.what == "answered" and not record.is_believed(run_id):
        return record._replace(result=StoredValue("again"))
    if record.result.data is None or record.result.form not in ("json", "pickle"):
        return record
    try:
        value = record.read_value(run_id, trust)
        return record._replace(result=record.result._replace(unpickled=(value,)))
    except SignatureError:
        raise SignatureError(f"the result of {record.name!r} is not signed with your key") from None
    except DecodeError as error:
        raise DecodeError(f"the result of {record.name!r} cannot be read ({error})") from None


def describe_lost(calls: int) -> str:
    """The note of a run some of whose calls are not in the journal; empty if all are."""
    was = "were" if calls > 1 else "was"
    return f"{counted(calls, 'call')} {was} not written to the journal" if calls else ""


def describe_resumed(times: int) -> str:
    """How often a run was resumed; empty if never."""
    return "" if not times else f"resumed {'once' if times == 1 else f'{times} times'}"


def refused_running(run_id: str) -> DefinitionError:
    return refused("journal.running", f"run {run_id!r} is running, here or in another kernel")
