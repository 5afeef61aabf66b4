"""The list of ``%runs``: the runs of this process and of the journal, filtered, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Any

from ...commands.line import ParsedLine, check_known
from ...commands.values import count
from ...commands.words import Token, line_error
from ...flow.progress.run_line import STATUS_WORDS, RunLine
from ...lifecycle.past import past_runs as kept_runs
from ...lifecycle.past.since import HINT, seconds_of
from ...lifecycle.runs import live
from ...pictures.amounts import counted
from ...pictures.pages.run_list import PageOfRuns, runs_page, runs_table
from ...pictures.plain import line
from ...settings.folders import this_notebook
from ..explorer.arguments import natural
from ..explorer.open_views import close_explorer
from ..explorer.request_types import Json, Requests
from ..explorer.run_channel import open_run
from ..output.output import show
from .run_comparison import compare_runs
from .view import show_over

MOST_LISTED = 20
"""Runs on a page without ``--limit``."""

FILTERS = ("--status", "--name", "--text", "--since", "--before", "--notebook")


def list_runs(parsed: ParsedLine, shell: Any) -> None:
    """Display one page of the runs that the options select, the latest first, and the line of the
    next page."""
    selection = _selection(parsed)

    def find() -> kept_runs.Runs:
        return kept_runs.Runs(filter(selection.fits, map(kept_runs.openable, kept_runs.runs())))

    runs = find()
    listed = _page(parsed, len(runs))
    if not runs and (all_runs := kept_runs.runs()):
        filters = ", ".join(flag for flag in FILTERS if flag in parsed)
        listed = listed._replace(
            empty=f"no runs fit {filters}: %runs lists all {counted(len(all_runs), 'run')}"
        )
    show_runs(runs, listed, shell, find)


def show_runs(
    runs: kept_runs.Runs, listed: PageOfRuns, shell: Any, find: Callable[[], kept_runs.Runs]
) -> None:
    """Display a page of ``runs``. Where a view draws over the page, the ids open the runs. ``find``:
    returns the same list again, as it is when the page asks."""
    page = runs_page(runs, listed)
    if not runs:
        return show(page)

    def part(given: Json, runs: kept_runs.Runs) -> Json:
        fields = (str(given.get(name) or "") or None for name in ("status", "text"))
        status, text = fields
        selection = kept_runs.Selection(status=kept_runs.check_status(status), text=text)
        of_all = len(runs)
        runs = kept_runs.Runs(filter(selection.fits, runs))
        first = natural(given.get("first"))
        part = listed._replace(first=first if first < len(runs) else 0)
        columns, rows = runs_table(runs, part)
        shown = runs[part.first : part.first + part.most]
        return {
            "columns": columns,
            "rows": rows,
            "failed": [run.status == "error" for run in shown],
            "started": [run.started for run in shown],
            "goes_on": any(map(_goes_on, shown)),
            "first": part.first,
            "most": part.most,
            "total": len(runs),
            "of": of_all,
            "statuses": [word for word in STATUS_WORDS if word != "error"],  # views say failed
        }

    requests: Requests = {
        "list": lambda given: part(given, find()),
        "open": lambda given: {"mark": open_run(str(given.get("run"))).mark},
        "close": lambda given: close_explorer(str(given.get("mark"))),
        "compare": compare_runs,
    }
    show_over(page, shell, {"list": part({"first": listed.first}, runs)}, requests)


def _goes_on(run: RunLine) -> bool:
    """Whether the run may change without a person who resumes it; it may wait for an answer here."""
    is_open = run.status == "waiting" and live.live.find(run.run_id) is not None
    return is_open or run.status == "running"


def _selection(parsed: ParsedLine) -> kept_runs.Selection:
    """The runs that the options select."""
    wanted = parsed.word("--status")
    if wanted is not None:
        message = f"{wanted.text!r} is not the status of a run"
        check_known("status", message, wanted, STATUS_WORDS, "statuses")
    since, before = (
        moment(word) if (word := parsed.word(flag)) else None for flag in ("--since", "--before")
    )
    notebook = parsed.text("--notebook")
    return kept_runs.Selection(
        name=parsed.text("--name"),
        status=parsed.text("--status"),
        since=since,
        before=before,
        text=parsed.text("--text"),
        is_of_notebook=None if notebook is None else partial(_is_of, notebook),
    )


def _is_of(wanted: str, run_id: str) -> bool:
    is_live = live.live.find(run_id) is not None
    path = this_notebook() if is_live else kept_runs.notebook_of(run_id)
    return path == this_notebook() if wanted == "--notebook" else wanted.lower() in path.lower()


def moment(word: Token, now: float | None = None) -> float:
    """Seconds since 1970 of a time: ``2h`` ago, ``18:30`` today, a date, or a date and a time.
    ``now``: default None, the time of the clock. Raises DefinitionError."""
    try:
        return seconds_of(word.text, now)
    except ValueError:
        raise line_error("time", f"{word.text!r} is not a time", word, HINT) from None


def _page(parsed: ParsedLine, found: int) -> PageOfRuns:
    """The page that the line asks for, of ``found`` runs."""
    most, number = count(parsed, "--limit", MOST_LISTED, 1), count(parsed, "--page", 1)
    pages = max(1, -(-found // most))
    if not 1 <= number <= pages:
        (word,) = parsed.words("--page")
        message = f"there is no page {number}: the list has {counted(pages, 'page')}"
        raise line_error("page", message, word, f"write --page {max(1, min(number, pages))}")
    more = f"{_typed(parsed)} --page {number + 1}" if number < pages else ""
    return PageOfRuns((number - 1) * most, most, line(more, 300))


def _typed(parsed: ParsedLine) -> str:
    """The line as a person typed it, without ``--page``, a comment and the semicolon."""
    words = [
        (word.span.start, name, word)
        for name, tokens in parsed.tokens.items()
        for word in tokens
        if name != "--page"
    ]
    typed = parsed.source.text.split()[:1]
    for _, name, word in sorted(words, key=itemgetter(0)):
        typed += [name] if name.startswith("--") else []
        typed += [word.span.text] if word.text != name else []
    return " ".join(typed)


def as_now(lines: Iterable[RunLine]) -> list[RunLine]:
    """The runs of a list as they are now; a run that is gone stays as it was."""
    current = {run.run_id: run for run in kept_runs.runs()}
    return [kept_runs.openable(current.get(one.run_id, one)) for one in lines]
