"""The page of one run of the journal: its input, its calls and a timeline of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Protocol

from .. import theme as look
from ..amounts import duration, moment
from ..plain import details, html, line, padded
from ..text_tables import WRAP
from ..value_line import value_line
from ..values import value_html, value_text
from .parts import chip
from .run_page import MOST_SAVED, RunLike, fitted, run_html, run_text, short_time

MOST_CALLS = 100
"""Calls in the list and the timeline; `PastRun.calls` has all."""
TIMELINE_WIDTH = 40
"""Characters of the timeline in a text."""


class PastLike(RunLike, Protocol):
    """What the page reads of a run of the journal, besides what it reads of every run."""

    @property
    def input(self) -> Any: ...
    @property
    def started(self) -> datetime: ...
    @property
    def calls(self) -> Iterable[dict[str, Any]]: ...


def past_html(run: PastLike) -> str:
    """The page of a run with its start, its input, its calls and their timeline."""
    calls = list(islice(run.calls, MOST_CALLS + 1))
    when = f'<p style="margin:0 0 4px;opacity:0.75">started {html(moment(run.started))}</p>'
    input_html = details("input", value_html(run.input)) if run.input else ""
    listed = "".join(map(_call_html, calls[:MOST_CALLS]))
    more = "<li>… more: <code>run.calls</code></li>" if len(calls) > MOST_CALLS else ""
    parts = [("the run", run_html(run)), ("", when), ("the input", input_html)]
    if calls:
        style = "margin:0;padding-left:1.2em;list-style:none"
        rows = f'<ul style="{style}">{listed}{more}</ul>'
        parts.append(("the calls", details("calls", rows)))
        bars = timeline_html(calls[:MOST_CALLS])
        parts.append(("the timeline", details("timeline", bars)))
    return fitted(parts, run.run_id, MOST_SAVED)


def past_text(run: PastLike) -> str:
    calls = list(islice(run.calls, MOST_CALLS + 1))
    lines = [run_text(run), f"started {moment(run.started)}"]
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
    return "failed" if call["status"] == "failed" else "ok"  # also fired and answered


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
    inside = (
        f"<div>output: {value_html(call['output'])}</div>"
        if not call["error"]
        else _error_html(call)
    )
    if call["input"] is not None:
        inside += f"<div>input: {value_html(call['input'])}</div>"
    return (
        f"<li><details><summary>{title}</summary><div "
        f'style="padding-left:1.2em">{inside}</div></details></li>'
    )


def _call_text(call: dict[str, Any]) -> str:
    mark = look.state(_state(call)).mark
    again = f" (attempt {call['attempt']})" if call["attempt"] > 1 else ""
    input = value_line(call["input"], 60) if call["input"] is not None else ""
    gave = line(call["error"], 100) if call["error"] else value_line(call["output"], 60)
    return f"  {mark} {line(call['step'], 80)} {line(call['label'], 40)}({input}) → {gave}{again}"


def _error_html(call: dict[str, Any]) -> str:
    return f"<div style='{WRAP}'>{html(line(call['error'], 500))}</div>"
