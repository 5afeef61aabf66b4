"""Finds the run that a person names, in this process or in the journal."""

from __future__ import annotations

from collections.abc import Collection

from ...journal.database.errors import as_definition_errors
from ...journal.runs import read_run
from ...settings.folders import journal_file
from ..run_internals import place_in_journal
from ..runs.live import live
from ..runs.run import Run
from ..storage.lookup import (
    find_run,
    journal,
    still_running,
)
from ..storage.run_names import identify, journaled_names, named_runs, word_of
from .past_run import PastRun, find_past_run


def find_named(
    run: object, flows: Collection[str] | None = None, is_journaled: bool = False
) -> Run | PastRun:
    """The run that ``run`` names, of this process or of the journal; a run itself. ``flows``: see
    `identify`. ``is_journaled``: whether the name of a flow means its last run in the journal.
    Raises DefinitionError."""
    if isinstance(run, Run | PastRun):
        return run
    word = word_of(run)
    if (live_run := live.find(word)) is not None:
        return live_run
    if journal_file() is None:
        runs = named_runs(None)
        if not runs:
            journal()  # refuses
        return live.find(identify(word, runs, where="", flows=flows)) or find_past_run(word)
    store = journal()
    with as_definition_errors():
        row = read_run(store, word)
        names = journaled_names(store) if is_journaled else named_runs(store)
        run_id = word if row is not None else identify(word, names, flows=flows)
        return live.find(run_id) or PastRun(store, row or find_run(store, run_id))


def find_ended(run: Run | PastRun | str, flows: Collection[str] | None = None) -> Run | PastRun:
    """The ended, journaled run that a name means: the live run, which still has its definitions,
    its input and its secrets, or else the run of the journal. ``flows``: see `identify`. Raises
    DefinitionError."""
    run = find_named(run, flows, is_journaled=True)
    if run.status in ("running", "pending"):
        raise still_running(run.run_id)
    return run if place_in_journal(run) is not None else find_past_run(run.run_id)
