"""Runs of the journal as pages: a list of runs, and one run with its calls and a timeline of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

from ...flow.progress.progress import RunLine
from ...text.diagnostics import DefinitionError
from .. import theme as look
from ..amounts import counted, duration, money
from ..plain import details, html, line, padded
from ..problems import format_exception
from ..values import WRAP, Table, bounded, drop_empty_columns, list_rows, value_html, value_text
from .parts import chip
from .run_page import MOST_SAVED, RunLike, fitted, run_html, run_text, short_time

MOST_CALLS = 100
"""Calls in the list and the timeline; `PastRun.calls` has all."""
MOST_RUNS = 200
TIMELINE_WIDTH = 40
"""Characters of the timeline in a text."""

_NO_RUNS = (
    "no runs: %run_pipeline NAME starts one; %config AgfMagics.journal is the file that keeps them"
)


class PastLike(RunLike, Protocol):
    """What the page reads of a run of the journal in addition."""

    @property
    def input(self) -> Any: ...
    @property
    def started(self) -> datetime: ...
    @property
    def calls(self) -> Iterable[dict[str, Any]]: ...


class PageOfRuns(NamedTuple):
    """The part of a list of runs that is displayed."""

    first: int = 0
    """The number of runs before it."""
    most: int = MOST_RUNS
    more: str = ""
    """The line that lists the next part; empty if there is none."""
    empty: str = _NO_RUNS
    """The text that is displayed if there are no runs."""


ALL = PageOfRuns()


def runs_page(runs: Sequence[RunLine], listed: PageOfRuns = ALL) -> dict[str, str]:
    """A part of the runs as a table, by MIME type."""
    shown = list_rows(*_all_columns(runs, listed), counted(len(runs), "run"), listed.empty)
    parts, after = [_which(runs, listed)], listed.more
    below = filter(None, [*map(html, parts), f"next: <code>{html(after)}</code>" if after else ""])
    shown["text/html"] += " · ".join(below)
    lines = [shown["text/plain"], " · ".join(filter(None, [*parts, after and f"next: {after}"]))]
    return shown | {"text/plain": "\n".join(filter(None, lines))}


def past_html(run: PastLike) -> str:
    """The page of a run with its start, its input, its calls and their timeline."""
    calls = list(islice(run.calls, MOST_CALLS + 1))
    when = f'<p style="margin:0 0 4px;opacity:0.75">started {html(_moment(run.started))}</p>'
    input_html = details("input", value_html(run.input)) if run.input else ""
    listed = "".join(map(_call_html, calls[:MOST_CALLS]))
    more = "<li>… more: <code>run.calls</code></li>" if len(calls) > MOST_CALLS else ""
    parts = [("the run", run_html(run)), ("", when), ("the input", input_html)]
    if calls:
        style = "margin:0;padding-left:1.2em;list-style:none"
        rows = bounded(f'<ul style="{style}">{listed}{more}</ul>')
        parts.append(("the calls", details("calls", rows)))
        bars = bounded(timeline_html(calls[:MOST_CALLS]))
        parts.append(("the timeline", details("timeline", bars)))
    return fitted(parts, run.run_id, MOST_SAVED)


def past_text(run: PastLike) -> str:
    calls = list(islice(run.calls, MOST_CALLS + 1))
    lines = [run_text(run), f"started {_moment(run.started)}"]
    if run.input:
        lines += ["input:", *(f"  {each}" for each in value_text(run.input).split("\n")[:20])]
    if calls:
        lines += ["calls:", *map(_call_text, calls[:MOST_CALLS])]
        lines += ["  … more: run.calls"] if len(calls) > MOST_CALLS else []
        lines += ["timeline:", *timeline_text(calls[:MOST_CALLS])]
    return "\n".join(short_time(lines))


def timeline_html(calls: Sequence[dict[str, Any]]) -> str:
    """One bar per call, from its start to its end."""
    rows = []
    for name, status, start, width, took in _bars(calls):
        color = look.state(status).color
        bar = (
            f'<div style="margin-left:{start * 100:.2f}%;width:{max(width * 100, 0.4):.2f}%;height:0.8em;'
            f'background-color:{color};opacity:0.75"></div>'
        )
        rows.append(
            f'<tr><td style="border:none;padding:1px 8px 1px '
            f'0;text-align:left;white-space:nowrap"><code>{html(name)}'
            f'</code></td><td style="border:none;padding:1px 0;width:60%">{bar}</td>'
            f'<td style="border:none;padding:1px 0 1px '
            f'8px;white-space:nowrap">{html(took)}</td></tr>'
        )
    return f'<table style="border:none;width:100%;color:inherit"><tbody>{"".join(rows)}</tbody></table>'


def timeline_text(calls: Sequence[dict[str, Any]]) -> list[str]:
    bars = list(_bars(calls))
    wide = max((len(name) for name, *_ in bars), default=0)
    lines = []
    for name, _, start, width, took in bars:
        first = min(int(start * TIMELINE_WIDTH), TIMELINE_WIDTH - 1)
        bar = " " * first + "█" * max(1, min(round(width * TIMELINE_WIDTH), TIMELINE_WIDTH - first))
        lines.append(f"  {padded(name, wide)}  {padded(bar, TIMELINE_WIDTH)}  {took}".rstrip())
    return lines


def _bars(calls: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, float, float, str]]:
    """For each call: name, status, start and duration as shares of the whole, and the duration as
    text."""
    timed = [call for call in calls if call["started"] is not None and call["seconds"] is not None]
    begin = min((call["started"] for call in timed), default=0.0)
    whole = max((call["started"] + call["seconds"] for call in timed), default=1.0) - begin or 1.0
    for call in sorted(timed, key=lambda call: call["started"]):
        name = f"{line(call['step'], 60)} {line(call['label'], 30)}"
        yield (
            name,
            _state(call),
            (call["started"] - begin) / whole,
            call["seconds"] / whole,
            duration(call["seconds"]),
        )


def _state(call: dict[str, Any]) -> str:
    return "failed" if call["status"] == "failed" else "ok"  # fired, answered


def _call_html(call: dict[str, Any]) -> str:
    shown = look.state(_state(call))
    again = f" · attempt {call['attempt']}" if call["attempt"] > 1 else ""
    state = chip(shown, f"{shown.mark} {line(call['status'], 12)}")
    title = (
        f"{state} "
        f"<code>{html(line(call['step'], 100))}</code> "
        f"<strong>{html(line(call['label'], 48))}</strong>"
        f" · {html(duration(call['seconds']))}{again}"
    )
    inside = f"<div>input: {value_html(call['input'])}</div>" if call["input"] is not None else ""
    inside += (
        f"<div>output: {value_html(call['output'])}</div>"
        if not call["error"]
        else _error_html(call)
    )
    return (
        f"<li><details><summary>{title}</summary><div "
        f'style="padding-left:1.2em">{inside}</div></details></li>'
    )


def _call_text(call: dict[str, Any]) -> str:
    mark = look.state(_state(call)).mark
    again = f" (attempt {call['attempt']})" if call["attempt"] > 1 else ""
    given = line(value_text(call["input"]), 60) if call["input"] is not None else ""
    gave = line(call["error"], 100) if call["error"] else line(value_text(call["output"]), 60)
    return f"  {mark} {line(call['step'], 80)} {line(call['label'], 40)}({given}) → {gave}{again}"


def _error_html(call: dict[str, Any]) -> str:
    return f"<div style='{WRAP}'>{html(line(call['error'], 500))}</div>"


def runs_table(runs: Sequence[RunLine], listed: PageOfRuns) -> Table:
    """The columns that are not empty, and their texts; the first one is the id of the run."""
    return drop_empty_columns(*_all_columns(runs, listed))


def _all_columns(runs: Sequence[RunLine], listed: PageOfRuns) -> Table:
    part = runs[listed.first : listed.first + listed.most]
    return tuple(RUN_COLUMNS), tuple(
        tuple(_cell(name, run) for name in RUN_COLUMNS) for run in part
    )


def _cell(column: str, run: RunLine) -> str:
    try:
        return RUN_COLUMNS[column](run)
    except DefinitionError:  # a damaged run is in the list, too
        return ""


def _input(listed: RunLine) -> str:
    run = listed.open() if listed.open is not None else None
    return line(value_text(run.secrets.shown(run.input)), 60) if run and run.input else ""


def _error_of(listed: RunLine) -> str:
    run = listed.open() if listed.open is not None else None
    return line(run.secrets.text(format_exception(run.error)), 90) if run and run.error else ""


RUN_COLUMNS: Mapping[str, Callable[[RunLine], str]] = {
    "run": lambda run: line(run.run_id, 90),
    "name": lambda run: line(run.name, 60),
    "status": lambda run: f"{look.state(run.status).mark} {line(run.status, 20)}",
    "started": lambda run: _moment(datetime.fromtimestamp(run.started)) if run.started else "",
    "took": lambda run: duration(run.seconds),
    "tokens": lambda run: f"{run.tokens:,}" if run.tokens is not None else "",
    "cost": lambda run: money(run.cost) if run.cost is not None else "",
    "input": _input,
    "error": _error_of,
    "shown in": lambda run: line(run.place, 60),
    "": lambda run: line(run.note, 60),
}
"""The columns of a list of runs: here only. One that is empty for all runs is not shown."""


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}"


def _which(runs: Sequence[RunLine], listed: PageOfRuns) -> str:
    """Which runs are displayed; empty if all are."""
    last = min(listed.first + listed.most, len(runs))
    which = f"{listed.first + 1:,}–{last:,}" if last > listed.first + 1 else f"{last:,}"
    return (
        f"run{'s' if last > listed.first + 1 else ''} {which} of {len(runs):,}"
        if last - listed.first < len(runs)
        else ""
    )
