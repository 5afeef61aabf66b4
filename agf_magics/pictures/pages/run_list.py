"""The list of runs as text and HTML: one column for each datum of a run, in `RUN_COLUMNS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ...flow.progress.run_line import RunLine
from ...text.diagnostics import DefinitionError
from ...text.names import MOST_IN_ID, word_of
from .. import theme as look
from ..amounts import UNKNOWN, counted, duration, moment, money
from ..plain import html, line
from ..problems import brief_exception
from ..text_tables import Table, drop_empty_columns, list_rows
from ..value_line import value_line

MOST_RUNS = 200
"""The most runs of a list that says no other number."""

_NO_RUNS = (
    "no runs: %run_pipeline NAME starts one; %config AgfMagics.journal is the file that keeps them"
)


class PageOfRuns(NamedTuple):
    """The part of a list of runs that is displayed."""

    first: int = 0
    """The number of runs before this part."""
    most: int = MOST_RUNS
    """The most runs of this part."""
    more: str = ""
    """The line that lists the next part; empty if there is none."""
    empty: str = _NO_RUNS
    """What to display if there are no runs."""


ALL = PageOfRuns()
"""The first `MOST_RUNS` runs."""


def runs_page(runs: Sequence[RunLine], listed: PageOfRuns = ALL) -> dict[str, str]:
    """A part of the runs as a table, by MIME type."""
    shown = list_rows(
        *_all_columns(runs, listed), counted(len(runs), "run"), listed.empty, _FLEXIBLE
    )
    parts, after = [_which(runs, listed)], listed.more
    below = filter(None, [*map(html, parts), f"next: <code>{html(after)}</code>" if after else ""])
    shown["text/html"] += " · ".join(below)
    lines = [shown["text/plain"], " · ".join(filter(None, [*parts, after and f"next: {after}"]))]
    return shown | {"text/plain": "\n".join(filter(None, lines))}


def runs_table(runs: Sequence[RunLine], listed: PageOfRuns) -> Table:
    """The columns that are not empty, and their texts; the first one is the id of the run."""
    return drop_empty_columns(*_all_columns(runs, listed))


def _all_columns(runs: Sequence[RunLine], listed: PageOfRuns) -> Table:
    part = runs[listed.first : listed.first + listed.most]
    rows = (tuple(_cell(name, run) for name in RUN_COLUMNS) for run in part)
    return tuple(RUN_COLUMNS), tuple(rows)


def _cell(column: str, run: RunLine) -> str:
    try:
        return RUN_COLUMNS[column](run)
    except DefinitionError:  # a damaged run stays in the list, with empty cells
        return ""


def _status(run: RunLine) -> str:
    """``! ok, 4 dropped``, as the row of a step says it; ``? waiting for an answer``."""
    shown = look.state(run.look)
    if run.look == "waiting":
        return f"{shown.mark} waiting for an answer"
    dropped = f", {run.dropped:,} dropped" if run.dropped else ""
    return f"{shown.mark} {line(shown.word, 20)}{dropped}"


def _input(listed: RunLine) -> str:
    run = listed.open() if listed.open is not None else None
    return value_line(run.secrets.shown(run.input), 60) if run and run.input else ""


def _cost(run: RunLine) -> str:
    if run.cost is not None:
        return money(run.cost)
    return UNKNOWN if run.tokens is not None else ""


def _begins_with_name(run: RunLine) -> bool:
    """Whether the id begins with the name of the flow, or with all that an id has of a long name."""
    begin = run.run_id.rsplit("-", 2)[0]
    name = word_of(run.name)
    return begin == name or (len(begin) == MOST_IN_ID and name.startswith(begin))


def _error_of(listed: RunLine) -> str:
    run = listed.open() if listed.open is not None else None
    return line(run.secrets.text(brief_exception(run.error)), 90) if run and run.error else ""


RUN_COLUMNS: Mapping[str, Callable[[RunLine], str]] = {
    "run": lambda run: line(run.run_id, 90),
    "name": lambda run: "" if _begins_with_name(run) else line(run.name, 60),
    "status": lambda run: _status(run),
    "started": lambda run: moment(datetime.fromtimestamp(run.started)) if run.started else "",
    "took": lambda run: duration(run.seconds),
    "error": _error_of,
    "tokens": lambda run: f"{run.tokens:,}" if run.tokens is not None else "",
    "cost": _cost,
    "input": _input,
    "shown in": lambda run: line(run.shown_in, 60),
    "note": lambda run: line(run.note, 120),
}
"""All columns of a list of runs. A column that is empty for all runs is not shown."""


_FLEXIBLE = ("took", "error", "tokens", "cost", "input", "name", "note", "shown in")
"""The columns that are cut or left out where a line of a terminal has no room for all, the last one
first. What ran, how it ended and when are always whole."""


def _which(runs: Sequence[RunLine], listed: PageOfRuns) -> str:
    """Which runs are displayed; empty if all are."""
    first = listed.first + 1
    last = min(listed.first + listed.most, len(runs))
    if last - listed.first == len(runs):
        return ""
    if last > first:
        return f"runs {first:,}–{last:,} of {len(runs):,}"
    return f"run {last:,} of {len(runs):,}"
