"""Looks up a run of the journal by its name: any run, or one that can be resumed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...journal.codec.encoding import DecodeError
from ...journal.database.errors import JournalError, as_definition_errors
from ...journal.database.store import Store
from ...journal.runs import RunRow, read_run
from ...settings.folders import journal_file, this_notebook
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, refused
from .manifest import read_manifest
from .run_names import NamedRun, identify, journaled_names, runs_of, word_of

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


def find_run(store: Store, run: object, flows: Collection[str] | None = None) -> RunRow:
    """The run of the journal that ``run`` names, or a run. ``flows``: see `identify`. Raises
    DefinitionError, JournalError."""
    word = word_of(run)
    row = read_run(store, word)  # most often it is a whole id
    if row is not None:
        return row
    run_id = identify(word, journaled_names(store), flows=flows)
    row = read_run(store, run_id)
    if row is None:  # a run of this process that has no row yet
        raise still_running(run_id)
    return row


def find_resumable(store: Store, run: object, flows: Collection[str] | None = None) -> RunRow:
    """The run that ``run`` names. The name of a flow means its last run that can be resumed; no
    name means the last such run of this notebook. ``flows``: see `identify`. Raises
    DefinitionError, JournalError."""
    runs = journaled_names(store)
    if run is not None:
        word = word_of(run)
        runs = [] if any(other.run_id == word for other in runs) else runs_of(word, runs)
        if not runs:
            return find_run(store, word, flows)
        if len(runs) == 1:
            return find_run(store, runs[0].run_id)  # its own error is reported
    not_resumable = list[NamedRun]()
    errors = list[JournalError]()
    for named in runs:
        if named.status not in RESUMABLE:
            continue
        try:
            row = find_run(store, named.run_id)
        except JournalError as error:  # a damaged run does not hide the others
            errors.append(error)
            continue
        if run is not None or _notebook(row) == this_notebook():
            return row
        not_resumable.append(named)
    if errors:
        raise errors[0]
    raise _none_resumable(store, word if run is not None else None, runs, not_resumable)


def _none_resumable(
    store: Store, name: str | None, runs: Sequence[NamedRun], others: Sequence[NamedRun]
) -> DefinitionError:
    """The error if none of ``runs`` can be resumed. ``others``: runs of other notebooks that can be
    resumed."""
    for other in runs:
        is_running = other.status in ("running", "pending")
        if is_running and (name is not None or _is_of_this_notebook(store, other)):
            return still_running(other.run_id)
    hint = current.words.list_runs
    if others:
        hint = f"of another notebook: {current.words.resume_run.format(others[0].run_id)}"
    whose = "this notebook" if name is None else repr(name)
    ended = (other for other in runs if other.status == "ok")
    has_ended = name is not None or any(_is_of_this_notebook(store, other) for other in ended)
    why = "all ended well" if has_ended else "there is none in the journal"
    return refused("journal.unknown-run", f"no run of {whose} can be resumed: {why}", hint)


def _is_of_this_notebook(store: Store, run: NamedRun) -> bool:
    try:
        return _notebook(find_run(store, run.run_id)) == this_notebook()
    except (JournalError, DefinitionError):
        return False


def _notebook(row: RunRow) -> str:
    try:
        return read_manifest(row).notebook
    except DecodeError:  # `resume` reports it
        return this_notebook()


def still_running(run_id: str) -> DefinitionError:
    return refused("journal.running", f"run {run_id!r} is running, here or in another kernel")
