"""Lists, finds, deletes and prunes the runs of this process and of the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any

from ...flow.progress.run_line import STATUSES, RunLine
from ...journal import deletion
from ...journal import runs as queries
from ...journal.database.errors import as_definition_errors
from ...journal.runs import RunHead
from ...pictures.amounts import counted
from ...pictures.plain import untypeset
from ...settings.folders import journal_file
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, refused
from ...text.giving_up import note_given_up
from ...text.names import same_name
from ..runs.live import live, started_at
from ..runs.run import Run
from ..runs.trace import Trace
from ..storage.lookup import UNFINISHED, find_run, journal
from ..storage.old_runs import forget_old, most_bytes
from ..storage.run_notes import describe_lost, describe_resumed
from .named_run import find_named
from .past_run import find_past_run
from .since import HINT, seconds_of


class Runs(tuple[RunLine, ...]):
    """A list of runs, the latest first; ``to_pandas()`` gives a DataFrame."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row per run. Raises ImportError without pandas."""
        return Trace(
            {
                "run_id": run.run_id,
                "name": run.name,
                "status": run.status,
                "started": datetime.fromtimestamp(run.started),
                "seconds": run.seconds,
                "tokens": run.tokens,
                "cost": run.cost,
                "dropped": run.dropped,
                "error": error_of(openable(run)),
                "note": run.note,
            }
            for run in self
        ).to_pandas()

    @property
    def interrupted(self) -> Runs:
        """The runs whose process ended before them. `resume` resumes them."""
        return Runs(run for run in self if run.status == "interrupted")

    @property
    def waiting(self) -> Runs:
        """The runs that wait for an answer."""
        return Runs(run for run in self if run.status == "waiting")

    def _repr_html_(self) -> str:
        from ...pictures.pages.run_list import runs_page

        return untypeset(runs_page([*map(openable, self)])["text/html"])

    def __repr__(self) -> str:
        from ...pictures.pages.run_list import runs_page

        return runs_page([*map(openable, self)])["text/plain"]


def runs(
    run_id: str | None = None,
    *,
    flow: str | None = None,
    status: str | None = None,
    since: str | date | timedelta | None = None,
) -> Any:
    """Return the live runs and those in the journal (`Runs`), or one of them.

    Parameters:

    - ``run_id``: the id of a run, the name of a flow, which means its last run, or an unambiguous
      beginning of an id. Default None: all runs, the latest first.
    - ``flow``: the name of a flow, of which all runs are returned. Default None: of all flows.
    - ``status``: ``"ok"``, ``"error"``, ``"cancelled"``, ``"waiting"``, ``"running"``,
      ``"interrupted"`` or ``"damaged"``; only runs with it. Default None: all.
    - ``since``: only runs that started then or later: a time ago (``"2h"``, ``"3d"``, or a
      timedelta), a time of today (``"18:30"``), a date, or a date and a time. Default None: all.

    Returns a `Run` if the run is live, and a `PastRun` if it is in the journal; without ``run_id`` a
    table of runs. Raises DefinitionError if the journal cannot be read or has no such run.
    """
    if run_id is not None:
        filters = {"flow": flow, "status": status, "since": since}
        if any(value is not None for value in filters.values()):
            message = "runs takes the name of one run or filters of a list, not both"
            hint = f"write agf.runs(flow={flow or run_id!r})"
            raise refused("journal.unknown-run", message, hint)
        return find_named(run_id)
    unjournaled = {run.run_id: run for run in live if run.journal is None}
    lines = [
        *map(_live_line, reversed(unjournaled.values())),
        *map(_line, journaled_runs()),
    ]
    selected = filter(_filter(flow, status, since), lines)
    return Runs(sorted(selected, key=lambda line: line.started, reverse=True))


def _filter(
    flow: str | None, status: str | None, since: str | date | timedelta | None
) -> Callable[[RunLine], bool]:
    """Whether a run is in a list with these filters."""
    if status is not None and status not in STATUSES:
        hint = "it is one of " + ", ".join(STATUSES)
        raise refused("journal.filter", f"{status!r} is not the status of a run", hint)
    name = None if flow is None else same_name(flow)
    try:
        earliest = None if since is None else seconds_of(since)
    except ValueError:
        raise refused("journal.filter", f"{since!r} is not a time", HINT) from None
    return lambda line: (
        (name is None or same_name(line.name) == name)
        and (status is None or line.status == status)
        and (earliest is None or line.started >= earliest)
    )


def notebook_of(run_id: str) -> str:
    """The path of the notebook that started a run of the journal; empty if it is unknown."""
    try:
        return find_past_run(run_id).order.notebook
    except DefinitionError:  # a damaged run has no notebook, and does not hide the others
        return ""


def journaled_runs() -> list[RunHead]:
    """The runs of the journal, the latest first; none without a journal. Raises DefinitionError."""
    path = journal_file()
    if path is None or not path.exists():
        return []
    store = journal()
    with as_definition_errors():
        return queries.list_runs(store)


CANCEL = "cancel it in the kernel where it runs: %runs --cancel {}"


def delete(run_ids: Sequence[str]) -> list[str]:
    """Delete these runs and return their ids. Raises DefinitionError, and then deletes none."""
    store = journal()
    with as_definition_errors():
        listed = {head.run_id: head for head in queries.list_runs(store)}
        heads = [listed.get(run_id) or find_run(store, run_id).head for run_id in run_ids]
        for head in heads:
            if head.status == "running":
                raise refused(
                    "journal.running",
                    f"run {head.run_id!r} is running",
                    CANCEL.format(head.run_id),
                )
        deletion.forget(store, heads)
        deletion.shrink(store)
        remaining = {head.run_id for head in queries.list_runs(store)}
    for head in heads:
        if head.run_id in remaining:
            message = f"run {head.run_id!r} was resumed by another kernel just now"
            raise refused("journal.running", message, CANCEL.format(head.run_id))
    return [head.run_id for head in heads]


def prune(days: float | None = None, size: int | None = None) -> tuple[int, int]:
    """Delete runs that ended, or were interrupted, more than ``days`` ago, and then the oldest ones
    until the journal takes at most ``size`` bytes; None: as the settings say, 0: no limit. Running
    and waiting runs stay.

    Returns the number of deleted runs and the bytes that the journal takes with its values. Raises
    DefinitionError.
    """
    settings = current.settings
    store = journal()
    with as_definition_errors():
        most = most_bytes(store) if size is None else size
        count = forget_old(store, settings.journal_days if days is None else days, most)
        deletion.shrink(store)
        return count, deletion.size(store)


def journal_bytes() -> int:
    """The bytes of the journal and its values. Raises DefinitionError."""
    return deletion.size(journal())


def find_unfinished() -> tuple[list[RunHead], str]:
    """The runs that can be resumed, and the problem of the journal (or an empty text), for the
    start of a session. The journal may be someone else's: nothing in it may end the session."""
    try:
        heads = journaled_runs()
    except DefinitionError as error:
        return [], f"{error.diagnostic.message} [{error.code}]"
    except Exception as error:  # every row is checked when it is read; this is the last guard
        note_given_up(__name__, "the journal cannot be listed", error)
        return ([], f"the journal cannot be read: {type(error).__name__} [journal.damaged]")
    damaged = sum(head.status == "damaged" for head in heads)
    problem = ""
    if damaged:
        problem = f"{counted(damaged, 'run')} in the journal cannot be read [journal.damaged]"
    return [head for head in heads if head.status in UNFINISHED], problem


def _line(head: RunHead) -> RunLine:
    note = "; ".join(filter(None, (describe_resumed(head.taken), describe_lost(head.lost))))
    if head.status == "damaged":
        note = "journal.damaged: %runs --delete RUN"
    cost = Decimal(head.cost) if head.cost is not None else None
    facts = (head.run_id, head.name, head.status, head.started, head.seconds, note)
    run = live.find(head.run_id)
    asks = run is not None and bool(run.progress.open_questions)
    return RunLine(*facts, head.tokens, cost, dropped=head.dropped, asks=asks)


def _live_line(run: Run) -> RunLine:
    seconds = run.progress.seconds
    tokens = run.usage.tokens if run.usage.requests else None
    facts = (run.run_id, run.name, run.status, started_at(run), seconds, "not in the journal")
    asks = bool(run.progress.open_questions)
    return RunLine(*facts, tokens, run.cost, dropped=run.progress.failed, asks=asks)


def openable(listed: RunLine) -> RunLine:
    """A run of a list, which opens itself once if something asks for its error or its input."""
    return listed._replace(open=cache(partial(runs, listed.run_id)))


def error_of(listed: RunLine) -> str:
    """The message of the error that ended a run; empty if none did, or it cannot be read."""
    try:
        run = listed.open() if listed.open is not None else None
        return "" if run is None or run.error is None else run.secrets.text(str(run.error))
    except DefinitionError:  # a damaged run is in the list, too
        return ""
