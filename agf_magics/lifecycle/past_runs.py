"""The runs of this process and of the journal: listed, found, deleted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from ..journal import queries
from ..journal.queries import RunHead
from ..journal.records import Record
from ..pictures.plain import counted
from ..progress.events import format_path
from ..settings import current
from ..text.diagnostics import DefinitionError
from .live import live
from .lookup import (
    UNFINISHED,
    as_definition_errors,
    describe_lost,
    describe_resumed,
    find_run,
    journal,
    refused,
)
from .past_run import PastRun
from .persistence import journal_file
from .retention import forget_old
from .run import Run


class RunLine(NamedTuple):
    """A run in a list."""

    run_id: str
    name: str
    status: str
    started: float
    """Seconds since 1970."""
    seconds: float | None
    """None: it has not ended."""
    note: str
    tokens: int | None = None
    """None: it asked no model."""
    cost: Decimal | None = None
    """US dollars; None: it is not known."""


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

    Returns a `Run` if the run is live, and a `PastRun` if it is in the journal. Raises
    DefinitionError if the journal cannot be read or has no such run.
    """
    if run_id is not None:
        return live.find(run_id) or find_past_run(run_id)
    here = {run.run_id: run for run in live if run.journal is None}
    found = [
        *(_live_line(run) for run in reversed(here.values())),
        *(_line(one) for one in journaled_runs()),
    ]
    return Runs(sorted(found, key=lambda line: line.started, reverse=True))


def find_past_run(run_id: str) -> PastRun:
    """A run of the journal. Raises DefinitionError."""
    store = journal()
    with as_definition_errors():
        return PastRun(store, find_run(store, run_id))


def notebook_of(run_id: str) -> str:
    """The path of the notebook that started a run of the journal; empty if it is unknown."""
    try:
        return find_past_run(run_id).order.notebook
    except DefinitionError:  # a damaged run has no notebook, and does not hide the others
        return ""


def find_call(run: PastRun, place: str) -> Record:
    """A tool call of ``run`` at ``place``: a path (``steps[0].do#3``), or a step, of which the last
    failed call is taken, else the last one. Raises DefinitionError."""
    found: Record | None = None
    for record in run.records():
        if record.kind == "tool" and record.given is not None:
            step = "/".join(bit for bit in record.at if isinstance(bit, str))
            failed_before = found is not None and found.what == "failed" and record.what != "failed"
            if format_path(record.at) == place or (step == place and not failed_before):
                found = record
    if found is None:
        raise refused(
            "journal.unknown-call",
            f"there is no tool call {place!r} in this run",
            "run.calls lists them",
        )
    return found


def journaled_runs() -> list[RunHead]:
    """The runs of the journal, the latest first; none without a journal. Raises DefinitionError."""
    path = journal_file()
    if path is None or not path.exists():
        return []
    store = journal()
    with as_definition_errors():
        return queries.list_runs(store)


def delete(run_ids: Sequence[str]) -> list[str]:
    """Delete these runs and return their ids. Raises DefinitionError, and then deletes none."""
    store = journal()
    with as_definition_errors():
        damaged = {one.run_id: one for one in queries.list_runs(store) if one.status == "damaged"}
        found = [damaged.get(run_id) or find_run(store, run_id).listed for run_id in run_ids]
        for one in found:
            if one.status == "running":
                raise refused(
                    "journal.running",
                    f"run {one.run_id!r} is running",
                    f"%runs --cancel {one.run_id}",
                )
        queries.forget(store, [one.num for one in found])
        queries.shrink(store)
    return [one.run_id for one in found]


def prune(days: float | None = None, size: int | None = None) -> tuple[int, int]:
    """Delete runs that ended, or were interrupted, more than ``days`` ago, and then the oldest ones
    until the journal takes at most ``size`` bytes; None: as the settings say, 0: no limit. Running
    and waiting runs stay.

    Returns the number of deleted runs and the bytes that the journal takes. Raises DefinitionError.
    """
    settings, store = current.settings, journal()
    with as_definition_errors():
        most = settings.journal_size if size is None else size
        count = forget_old(
            store, settings.journal_days if days is None else days, most, interrupted=True
        )
        return count, queries.shrink(store)


def find_unfinished() -> tuple[list[RunHead], str]:
    """The runs that can be resumed, and the problem of the journal (or an empty text), for the
    start of a session. The journal may be someone else's: nothing in it may end the session."""
    try:
        found = journaled_runs()
    except DefinitionError as error:
        return [], f"{error.diagnostic.message} [{error.code}]"
    except Exception as error:  # every row is checked when it is read; this is the last guard
        return [], f"the journal cannot be read: {type(error).__name__} [journal.damaged]"
    damaged = sum(one.status == "damaged" for one in found)
    problem = (
        f"{counted(damaged, 'run')} in the journal cannot be read [journal.damaged]"
        if damaged
        else ""
    )
    return [one for one in found if one.status in UNFINISHED], problem


def _line(one: RunHead) -> RunLine:
    seconds = one.ended - one.started if one.ended is not None else None
    note = "; ".join(filter(None, (describe_resumed(one.taken), describe_lost(one.lost))))
    if one.status == "damaged":
        note = "journal.damaged: %runs --delete RUN"
    cost = Decimal(one.cost) if one.cost is not None else None
    return RunLine(one.run_id, one.name, one.status, one.started, seconds, note, one.tokens, cost)


def _live_line(run: Run) -> RunLine:
    seconds, tokens = run.progress.seconds, run.usage.tokens if run.usage.requests else None
    started = (
        time.time() - (time.monotonic() - run.progress.when)
        if run.progress.when is not None
        else time.time()
    )
    return RunLine(
        run.run_id, run.name, run.status, started, seconds, "not in the journal", tokens, run.cost
    )
