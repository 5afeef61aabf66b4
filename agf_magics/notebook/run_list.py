"""The list of ``%runs``: the runs of this process and of the journal, filtered, page by page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from datetime import time as clock_time

from ..lifecycle import launch
from ..lifecycle import past_runs as kept_runs
from ..lifecycle.past_runs import RunLine
from ..lifecycle.persistence import this_notebook
from ..pictures.page import status
from ..pictures.past_page import Listed, runs_html, runs_text
from ..pictures.plain import counted, line
from ..text.diagnostics import suggest
from .given import count
from .options import ParsedLine, Token, line_error
from .output import show

MOST_LISTED = 20
"""Runs on a page, if ``--limit`` says nothing else."""

STATUSES = ("ok", "error", "cancelled", "waiting", "running", "interrupted", "damaged")

TIMES = ("1h", "1d", "7d", "00:00")
"""Times that completion offers."""

UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([mhdw])")

FILTERS = ("--status", "--name", "--since", "--before", "--notebook")


def list_runs(parsed: ParsedLine) -> None:
    """Display one page of the runs that the options select, the latest first, and the line of the
    next page."""
    keep = _keep(parsed)
    here = {run.run_id: run for run in launch.live}
    found = [
        one._replace(status=status(here[one.run_id].progress)) if one.run_id in here else one
        for one in kept_runs.runs()
    ]
    runs = kept_runs.Runs(one for one in found if keep(one))
    listed = _page(parsed, len(runs))
    if found and not runs:
        filters = ", ".join(flag for flag in FILTERS if flag in parsed)
        listed = listed._replace(
            empty=f"no runs fit {filters}: %runs lists all {counted(len(found), 'run')}"
        )
    places = {id: run.origin for id, run in here.items()}
    show(
        {
            "text/html": runs_html(runs, listed, places),
            "text/plain": runs_text(runs, listed, places),
        }
    )


def _keep(parsed: ParsedLine) -> Callable[[RunLine], bool]:
    """The filter of the options. The notebook comes last, as it is read from the run's manifest."""
    wanted, name = parsed.word("--status"), parsed.text("--name")
    if wanted is not None and wanted.text not in STATUSES:
        hint = suggest(wanted.text, STATUSES, "statuses")
        raise line_error("status", f"{wanted.text!r} is not the status of a run", wanted, hint)
    since, before = (
        moment(word) if (word := parsed.word(flag)) else None for flag in ("--since", "--before")
    )
    notebook = parsed.text("--notebook")

    def tests(one: RunLine) -> Iterator[bool]:
        yield wanted is None or one.status == wanted.text
        yield name is None or name.lower() in one.name.lower()
        yield since is None or one.started >= since
        yield before is None or one.started < before
        yield notebook is None or _is_of(one, notebook)

    return lambda one: all(tests(one))


def _is_of(one: RunLine, wanted: str) -> bool:
    live = next((run for run in launch.live if run.run_id == one.run_id), None)
    path = this_notebook() if live is not None else kept_runs.notebook_of(one.run_id)
    return path == this_notebook() if wanted == "--notebook" else wanted.lower() in path.lower()


def moment(word: Token, now: float | None = None) -> float:
    """Seconds since 1970 of a time: ``2h`` ago, ``18:30`` today, a date, or a date and a time.
    ``now``: default None, the time of the clock. Raises DefinitionError."""
    now, ago = time.time() if now is None else now, AGO.fullmatch(word.text)
    if ago is not None:
        return now - float(ago[1]) * UNITS[ago[2]]
    try:
        if re.fullmatch(r"\d{1,2}:\d\d", word.text):
            today = datetime.fromtimestamp(now).date()
            hour, minute = map(int, word.text.split(":"))
            return datetime.combine(today, clock_time(hour, minute)).timestamp()
        return datetime.fromisoformat(word.text).timestamp()
    except (ValueError, OverflowError, OSError):
        hint = "write 2h, 3d, 18:30, 2026-11-22 or '2026-11-22 18:30'"
        raise line_error("time", f"{word.text!r} is not a time", word, hint) from None


def _page(parsed: ParsedLine, found: int) -> Listed:
    """The page that the line asks for, of ``found`` runs."""
    limit, word = parsed.word("--limit"), parsed.word("--page")
    most = count(limit) if limit is not None else MOST_LISTED
    number = count(word) if word is not None else 1
    pages = max(1, -(-found // most)) if most else 1
    if word is not None and not 1 <= number <= pages:
        hint = f"write --page {min(max(number, 1), pages)}"
        raise line_error(
            "page", f"there is no page {number}: the list has {counted(pages, 'page')}", word, hint
        )
    more = f"{_without_page(parsed, word)} --page {number + 1}" if number < pages else ""
    return Listed((number - 1) * most, most, line(more, 300))


def _without_page(parsed: ParsedLine, word: Token | None) -> str:
    """The line as it was typed, without ``--page N``."""
    text = parsed.source.text
    if word is None:
        return text.rstrip()
    start = text.rfind("--page", 0, word.span.end)
    return f"{text[:start].rstrip()}{text[word.span.end :].rstrip()}"
