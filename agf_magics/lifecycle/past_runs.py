"""Which runs there are, here and in the journal: listed, found, forgotten."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..journal import queries as history
from ..journal.errors import JournalError
from ..journal.queries import RunHead
from ..pictures.plain import counted
from ..settings import current
from ..text.diagnostics import DefinitionError
from . import retention as pruning
from .lookup import CUT, find, journal, refused, unusable, unwritten
from .past_run import PastRun
from .persistence import journal_file
from .run import Run, live


class RunLine(NamedTuple):
    """A run as a list shows it."""

    run_id: str
    name: str
    status: str
    started: float
    """Seconds since 1970."""
    seconds: float | None
    """None: it has no end."""
    note: str
    tokens: int | None = None
    """None: no model was asked."""


class Runs(tuple[RunLine, ...]):
    """A list of runs, the latest first."""

    @property
    def interrupted(self) -> Runs:
        """The runs whose process ended before them. `resume` resumes them."""
        return Runs(one for one in self if one.status == "interrupted")

    @property
    def waiting(self) -> Runs:
        """The runs that wait for an answer."""
        return Runs(one for one in self if one.status == "waiting")

    def _repr_html_(self) -> str:
        from ..pictures.past_page import runs_html

        return runs_html(self)

    def __repr__(self) -> str:
        from ..pictures.past_page import runs_text

        return runs_text(self)


def runs(run_id: str | None = None) -> Any:
    """Return the live runs and those in the journal (`Runs`), or one of them.

    ``run_id``: the id of a run, or the beginning of one. Default None: all runs, the latest first.

    Returns a `Run` if the run is live, and a `PastRun` if it is in the journal. Raises DefinitionError if the journal
    cannot be read or has no such run.
    """
    if run_id is not None:
        return live.find(run_id) or past(run_id)
    here = {run.run_id: run for run in live if run.journal is None}
    found = [_live_line(run) for run in reversed(here.values())]
    return Runs([*found, *(_line(one) for one in kept())])


def past(run_id: str) -> PastRun:
    """A run of the journal. Raises DefinitionError."""
    store = journal()
    try:
        return PastRun(store, find(store, run_id))
    except JournalError as trouble:
        raise unusable(trouble) from None


def named(run_id: str) -> str:
    """The whole id of a run of the journal, from its beginning. Raises DefinitionError."""
    store = journal()
    try:
        return find(store, run_id).listed.run_id
    except JournalError as trouble:
        raise unusable(trouble) from None


def kept() -> list[RunHead]:
    """The runs of the journal, the last one first; none where there is no journal. Raises DefinitionError."""
    path = journal_file()
    if path is None or not path.exists():
        return []
    try:
        return history.list_runs(journal())
    except JournalError as trouble:
        raise unusable(trouble) from None


def delete(run_ids: Sequence[str]) -> list[str]:
    """Forget these runs; the ids of them. Raises DefinitionError, and has then forgotten none."""
    store = journal()
    try:
        damaged = {one.run_id: one for one in history.list_runs(store) if one.status == "damaged"}
        found = [damaged.get(run_id) or find(store, run_id).listed for run_id in run_ids]
        for one in found:
            if one.status == "running":
                raise refused("journal.running", f"run {one.run_id!r} is going on", f"%runs --cancel {one.run_id}")
        history.forget(store, [one.num for one in found])
        history.shrink(store)
    except JournalError as trouble:
        raise unusable(trouble) from None
    return [one.run_id for one in found]


def prune(days: float | None = None, size: int | None = None) -> tuple[int, int]:
    """Forget runs that ended, or were interrupted, more than ``days`` ago, and then the oldest ones until the file
    takes at most ``size`` bytes; None: what the settings say, 0: no limit. How many were forgotten, and the bytes that
    are left. Runs that go on or wait for an answer stay.

    Raises DefinitionError.
    """
    settings = current.settings
    store = journal()
    try:
        most = settings.journal_size if size is None else size
        gone = pruning.prune(store, settings.journal_days if days is None else days, most, cut=True)
        return gone, history.shrink(store)
    except JournalError as trouble:
        raise unusable(trouble) from None


def interrupted() -> list[RunHead]:
    """The runs that can be resumed; none where the journal cannot be read."""
    return on_load()[0]


def on_load() -> tuple[list[RunHead], str]:
    """The runs that can be resumed, and what is wrong with the journal, for whoever begins a session: empty where
    nothing is. The journal may be a stranger's, so it can only be told here: nothing it contains may end the session.
    """
    try:
        found = kept()
    except DefinitionError as error:
        return [], f"{error.diagnostic.message} [{error.code}]"
    except Exception as error:  # every row is checked when it is read; this is the last guard
        return [], f"the journal cannot be read: {type(error).__name__} [journal.damaged]"
    damaged = sum(one.status == "damaged" for one in found)
    wrong = f"{counted(damaged, 'run')} in the journal cannot be read [journal.damaged]" if damaged else ""
    return [one for one in found if one.status in CUT], wrong


def _line(one: RunHead) -> RunLine:
    seconds = one.ended - one.started if one.ended is not None else None
    taken = f"taken up {one.taken}×" if one.taken else ""
    note = "; ".join(filter(None, (taken, unwritten(one.lost))))
    if one.status == "damaged":
        note = "journal.damaged: %runs --delete RUN"
    return RunLine(one.run_id, one.name, one.status, one.started, seconds, note, one.tokens)


def _live_line(run: Run) -> RunLine:
    seconds = run.progress.seconds
    began = time.time() - (time.monotonic() - run.progress.when) if run.progress.when is not None else time.time()
    return RunLine(
        run.run_id, run.name, run.status, began, seconds, "not kept", run.usage.tokens if run.usage.requests else None
    )
