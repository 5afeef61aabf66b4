"""Lists, finds, deletes and prunes the runs of this process and of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

from ...flow.flow import Flow
from ...flow.progress.run_line import STATUS_WORDS, RunLine
from ...journal import deletion
from ...journal import runs as queries
from ...journal.database.errors import as_definition_errors
from ...journal.runs import RunHead, StartText
from ...pictures.amounts import counted
from ...pictures.pages.parts import status as present_status
from ...pictures.plain import untypeset
from ...pictures.theme import state
from ...settings.folders import journal_file
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, refused
from ...text.giving_up import note_given_up
from ...text.names import same_name
from ...values.value import type_name
from ..runs.live import live, started_at
from ..runs.run import Run
from ..runs.trace import Trace
from ..storage.lookup import UNFINISHED, find_run, journal
from ..storage.old_runs import forget_old, most_bytes
from ..storage.run_notes import describe_lost, describe_resumed
from .named_run import find_named
from .past_run import find_past_run
from .since import HINT, seconds_of
from .start_texts import is_in, start_text_here, start_texts_of


class Runs(tuple[RunLine, ...]):
    """A list of runs, the latest first; ``to_pandas()`` gives a DataFrame."""

    among: int = 0
    """The number of runs from which these were chosen."""

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
        return self._with_status("interrupted")

    @property
    def waiting(self) -> Runs:
        """The runs that wait for an answer."""
        return self._with_status("waiting")

    def _with_status(self, status: str) -> Runs:
        chosen = Runs(run for run in self if run.status == status)
        chosen.among = max(len(self), self.among)
        return chosen

    def _page(self) -> dict[str, str]:
        """The table of these runs, by MIME type; if there are none, how many there are else."""
        from ...pictures.pages.run_list import ALL, PageOfRuns, runs_page

        none = f"none of {counted(self.among, 'run')} fits: agf.runs() has all"
        return runs_page([*map(openable, self)], PageOfRuns(empty=none) if self.among else ALL)

    def _repr_html_(self) -> str:
        return untypeset(self._page()["text/html"])

    def __repr__(self) -> str:
        return self._page()["text/plain"]


def runs(
    run_id: str | None = None,
    *,
    flow: str | Flow | None = None,
    status: str | None = None,
    since: str | date | timedelta | None = None,
    text: str | None = None,
) -> Any:
    """Return the live runs and those in the journal (`Runs`), or one of them.

    Parameters:

    - ``run_id``: the id of a run, the name of a flow, which means its last run, or an unambiguous
      beginning of an id. Default None: all runs, the latest first.
    - ``flow``: a flow or its name, of which all runs are returned. Default None: of all flows.
    - ``status``: ``"ok"``, ``"error"`` or ``"failed"``, which are the same, ``"cancelled"``,
      ``"waiting"``, ``"running"``, ``"interrupted"`` or ``"damaged"``: only runs with it; or
      ``"dropped"``: only runs that dropped elements. Default None: all.
    - ``since``: only runs that started then or later: a time ago (``"2h"``, ``"3d"``, or a
      timedelta), a time of today (``"18:30"``), a date, or a date and a time. Default None: all.
    - ``text``: words; only runs that have each of them in the id, the name, the state, the note, the
      error or the first 1,000 characters of the input. Default None: all.

    Returns a `Run` if the run is live, and a `PastRun` if it is in the journal; without ``run_id`` a
    table of runs. Raises DefinitionError if the journal cannot be read or has no such run.
    """
    flow = flow.name if isinstance(flow, Flow) else flow
    filters = {"flow": flow, "status": status, "since": since, "text": text}
    if run_id is not None:
        if any(value is not None for value in filters.values()):
            message = "runs takes the name of one run or filters of a list, not both"
            hint = f"write agf.runs(flow={flow or run_id!r})"
            raise refused("journal.unknown-run", message, hint)
        return find_named(run_id)
    for name in ("flow", "text"):
        if not isinstance(filters[name], str | None):
            message = f"{name} is a text, not {type_name(filters[name])}"
            raise refused("journal.filter", message, f"write agf.runs({name}='…')")
    unjournaled = {run.run_id: run for run in live if run.journal is None}
    heads = journaled_runs()
    starts = start_texts_of(head.run_id for head in heads)
    lines = [
        *map(_live_line, reversed(unjournaled.values())),
        *(_line(head, starts.get(head.run_id, StartText())) for head in heads),
    ]
    selected = filter(_selection(flow, status, since, text).fits, map(_present, lines))
    fitting = Runs(sorted(selected, key=lambda line: line.started, reverse=True))
    fitting.among = len(lines)
    return fitting


class Selection(NamedTuple):
    """Which runs a list has: those that fit each field that is not None. `runs`, the options of
    ``%runs`` and the fields above its list select with it."""

    flow: str | None = None
    """The whole name of a flow."""
    name: str | None = None
    """A part of the name of a flow."""
    status: str | None = None
    """One of the `STATUS_WORDS`."""
    since: float | None = None
    """The first moment at which a run started, in seconds since 1970."""
    before: float | None = None
    """The moment before which a run started, in seconds since 1970."""
    text: str | None = None
    """Words that are all in what the list says of a run, or in its input."""
    is_of_notebook: Callable[[str], bool] | None = None
    """Whether the id is that of a run of the notebook."""

    def fits(self, run: RunLine) -> bool:
        return all(self._tests(run))

    def _tests(self, run: RunLine) -> Iterator[bool]:
        """The results of all tests; the last ones open the run."""
        yield self.flow is None or same_name(run.name) == same_name(self.flow)
        yield self.name is None or self.name.lower() in run.name.lower()
        yield self.status is None or run.is_said_to_be(self.status)
        yield self.since is None or run.started >= self.since
        yield self.before is None or run.started < self.before
        yield self.text is None or _says(run, self.text.lower().split())
        yield self.is_of_notebook is None or self.is_of_notebook(run.run_id)


def _selection(
    flow: str | None, status: str | None, since: str | date | timedelta | None, text: str | None
) -> Selection:
    """The selection that a person writes. Raises DefinitionError."""
    try:
        earliest = None if since is None else seconds_of(since)
    except ValueError:
        raise refused("journal.filter", f"{since!r} is not a time", HINT) from None
    return Selection(flow, None, check_status(status), earliest, text=text)


def check_status(status: str | None) -> str | None:
    """``status`` itself. Raises DefinitionError if it is not one of the `STATUS_WORDS`."""
    if status is not None and status not in STATUS_WORDS:
        hint = "it is one of " + ", ".join(STATUS_WORDS)
        raise refused("journal.filter", f"{status!r} is not the status of a run", hint)
    return status


def _says(run: RunLine, words: Sequence[str]) -> bool:
    """Whether each of the words is in what a list says of a run, or in its input."""
    state_word = state(run.look).word
    searched = (
        f"{run.run_id}\n{run.name}\n{run.status}\n{state_word}\n{run.note}\n{run.shown_in}".lower()
    )
    missing = [word for word in words if word not in searched and not is_in(word, run.input)]
    # A run that ended well has no error, and most runs end well: they are not opened.
    if not missing or run.status == "ok":
        return not missing
    error = _error_in_lower_case(run.run_id, run.status, run.seconds, run.note)
    return all(word in error for word in missing)


@lru_cache(maxsize=5_000)
def _error_in_lower_case(run_id: str, *_state: object) -> str:
    """The error of a run; it is read once, because a page asks at each key. ``_state``: what
    changes when the run goes on, only as a part of the cache's key."""
    return error_of(openable(RunLine(run_id, "", "", 0.0, None, ""))).lower()


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
    """Delete these runs and return their ids. Raises DefinitionError, and deletes none, if one of
    them is unknown or running. A run that another kernel resumes meanwhile stays, and is an error
    after the others were deleted."""
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


def _line(head: RunHead, start: StartText) -> RunLine:
    notes = (start.note, describe_resumed(head.times_resumed), describe_lost(head.lost))
    note = "; ".join(filter(None, notes))
    if head.status == "damaged":
        note = "journal.damaged: %runs --delete RUN"
    cost = Decimal(head.cost) if head.cost is not None else None
    facts = (head.run_id, head.name, head.status, head.started, head.seconds, note)
    return RunLine(*facts, head.tokens, cost, dropped=head.dropped, input=start.input)


def _live_line(run: Run) -> RunLine:
    seconds = run.progress.seconds
    tokens = run.usage.tokens if run.usage.requests else None
    start = start_text_here(run)
    note = "; ".join(filter(None, (start.note, "not in the journal")))
    facts = (run.run_id, run.name, run.status, started_at(run), seconds, note)
    return RunLine(*facts, tokens, run.cost, dropped=run.progress.failed, input=start.input)


def _present(listed: RunLine) -> RunLine:
    """A run of the list. A live run gets its present status and the cell that shows it."""
    run = live.find(listed.run_id)
    if run is None:
        return listed
    now = listed._replace(status=present_status(run.progress), shown_in=run.origin)
    return now._replace(dropped=run.progress.failed)


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
