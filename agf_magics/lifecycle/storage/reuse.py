"""Chooses the earlier runs from which a run may take results.

With ``--reuse``, a new run takes the results of identical calls from earlier runs: after an edit of
step 7, the calls of the six steps before it are not paid for again. The new run journals reused
results, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from ...journal.calls.reuse import EarlierRun, ReadValue, Reuse, ReusedRuns
from ...journal.codec.encoding import DecodeError
from ...journal.codec.identities import Identities
from ...journal.database.errors import JournalError, as_definition_errors
from ...journal.database.store import Store
from ...journal.runs import (
    RunHead,
    changed_objects,
    list_runs,
    missing_results,
    read_run,
    reading_texts,
)
from ...pictures.amounts import counted
from ...text.diagnostics import DefinitionError
from ...values.value import Value
from ..runs.run import Run
from ..runs.state import RunState
from .edited_functions import edited_between
from .lookup import find_run, journal
from .manifest import read_manifest
from .run_names import identify, journaled_names, word_of
from .stored_results import unpickle

MAX_RUNS = 20
"""The number of runs that are searched for results."""


def find_reused(run: Run, earlier: str | bool) -> list[RunHead]:
    """The runs whose results ``run`` reuses: the run ``earlier``; True: the last `MAX_RUNS` runs of
    its flow. The first run of a flow has none, so that a daily job is one line.

    Raises DefinitionError if there is no run of that name or no journal.
    """
    store = journal()
    with as_definition_errors():
        if earlier is True:
            return latest_runs(store, run.name, run.run_id)
        return [_find_earlier(store, run, earlier)]


def find_reused_again(store: Store, reused: ReusedRuns) -> list[RunHead]:
    """The runs of ``reused`` that are still in the journal."""
    heads = list[RunHead]()
    for run_id in reused.run_ids:
        with suppress(JournalError):  # a damaged run has no results
            row = read_run(store, run_id)
            heads += [row.head] if row is not None else []
    return heads


def reuse_results(state: RunState, heads: Sequence[RunHead]) -> None:
    """Let a run reuse, for each call, the newest result in these runs. Raises DefinitionError."""
    if state.journal is None:
        return
    if not heads:
        if state.options.reuse:
            first = f"nothing is reused: this is the first run of {state.linked.flow.name}"
            state.why_not_reused = partial(str, first)
        return
    store = state.journal.store
    source = heads[0].run_id if len(heads) == 1 else f"the last {len(heads)} runs"
    with as_definition_errors():
        reuse = Reuse(source, (), *reader_of_results(store, state.flow_input.input))
        with reading_texts(store) as connection:
            # From older runs, only results that newer runs lack are read.
            for head in heads:
                earlier_run = EarlierRun(head.run_id, changed_objects(connection, head.num))
                reuse.add(earlier_run, missing_results(connection, head.num, reuse.count))
        state.journal.reuse = reuse
    state.why_not_reused = partial(_why_not_reused, state, heads[0], reuse)


def _why_not_reused(state: RunState, head: RunHead, reuse: Reuse) -> str:
    """Why a run has no result of the run ``head``, the newest of those that it may reuse."""
    if state.journal is None:
        return ""
    store = state.journal.store
    with suppress(JournalError, DecodeError, DefinitionError):
        rows = read_run(store, head.run_id), read_run(store, state.run_id)
        if None in rows:  # it was deleted
            return ""
        earlier, later = (read_manifest(row).functions for row in rows if row is not None)
        with store.reading() as connection:
            changed = changed_objects(connection, head.num)
        edits = list(edited_between(earlier, later, changed))
        if edits:
            more = f", and {counted(len(edits) - 1, 'more edit')}" if len(edits) > 1 else ""
            return f"{edits[0]}{more}"
        return "no edit of a tool was found: its calls have other values"
    return ""


def reader_of_results(store: Store, input: Value) -> tuple[ReadValue, Identities]:
    """The function that reads results of other runs for a run with this input, and the objects in
    them."""
    identities = Identities()
    identities.know(input)
    read = partial(unpickle, trust=False, files=store.files, identities=identities)
    return read, identities


def _find_earlier(store: Store, run: Run, earlier: object) -> RunHead:
    """The run that ``earlier`` names, which is never ``run`` itself: it may be the last of its
    flow. Raises DefinitionError, JournalError."""
    word = word_of(earlier)
    other_runs = [other for other in journaled_names(store) if other.run_id != run.run_id]
    return find_run(store, identify(word, other_runs)).head


def latest_runs(store: Store, name: str, but: str = "") -> list[RunHead]:
    """The last runs of this name, the newest first. ``but``: the id of a run that is none of
    them."""
    heads = list_runs(store, name, MAX_RUNS + 1)
    return [head for head in heads if head.run_id != but and head.status != "damaged"][:MAX_RUNS]
