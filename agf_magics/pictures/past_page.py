"""Runs of the journal as pages: a list of them, one of them with a timeline of what ran side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Protocol

from . import theme as look
from .plain import counted, duration, html, line, padded
from .run_page import RunLike, run_html, run_text
from .values import table_html, table_text, value_html, value_text

MOST_CALLS = 100
"""Calls that are listed and drawn; `PastRun.calls` has all."""
MOST_RUNS = 200
WIDE = 40
"""Letters of the timeline in a text."""

NO_RUNS = "no run is kept: %config AgfMagics.journal says where they are"


class LineLike(Protocol):
    """What a list reads of a run."""

    @property
    def run_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def started(self) -> float: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def note(self) -> str: ...
    @property
    def tokens(self) -> int | None: ...


class PastLike(RunLike, Protocol):
    """What a page reads of a run of the journal besides."""

    @property
    def input(self) -> Any: ...
    @property
    def started(self) -> datetime: ...
    @property
    def calls(self) -> Iterable[dict[str, Any]]: ...


COLUMNS = ("run", "name", "status", "started", "took", "tokens", "")


def runs_html(runs: Sequence[LineLike]) -> str:
    rows = tuple(map(_row, runs[:MOST_RUNS]))
    title = f"kept: {counted(len(runs), 'run')}"
    return table_html(COLUMNS, rows, title) + _more(runs) if rows else f"<p>{html(NO_RUNS)}</p>"


def runs_text(runs: Sequence[LineLike]) -> str:
    rows = tuple(map(_row, runs[:MOST_RUNS]))
    return "\n".join([*table_text(COLUMNS, rows), *filter(None, [_more(runs)])]) if rows else NO_RUNS


def past_html(run: PastLike) -> str:
    """The page of a run, what it was given, its calls and when they were made."""
    calls = list(islice(run.calls, MOST_CALLS + 1))
    when = f'<p style="margin:0 0 4px;opacity:0.7">begun {html(_moment(run.started))}</p>'
    given = f"<details><summary>input</summary>{value_html(run.input)}</details>" if run.input else ""
    listed = "".join(map(_call_html, calls[:MOST_CALLS]))
    more = "<li>… more: <code>run.calls</code> has all of them</li>" if len(calls) > MOST_CALLS else ""
    parts = [run_html(run), when, given]
    if calls:
        style = "margin:0;padding-left:1.2em;list-style:none"
        parts.append(f'<details><summary>calls</summary><ul style="{style}">{listed}{more}</ul></details>')
        parts.append(f"<details><summary>timeline</summary>{timeline_html(calls[:MOST_CALLS])}</details>")
    return "".join(parts)


def past_text(run: PastLike) -> str:
    calls = list(islice(run.calls, MOST_CALLS + 1))
    said = [run_text(run), f"begun {_moment(run.started)}"]
    if run.input:
        said += ["input:", *(f"  {each}" for each in value_text(run.input).split("\n")[:20])]
    if calls:
        said += ["calls:", *map(_call_text, calls[:MOST_CALLS])]
        said += ["  … more: run.calls has all of them"] if len(calls) > MOST_CALLS else []
        said += ["timeline:", *timeline_text(calls[:MOST_CALLS])]
    return "\n".join(said)


def timeline_html(calls: Sequence[dict[str, Any]]) -> str:
    """A bar a call, from its start to its end."""
    rows = []
    for name, status, start, width, took in _bars(calls):
        color = look.state(status).color
        bar = (
            f'<div style="margin-left:{start * 100:.2f}%;width:{max(width * 100, 0.4):.2f}%;height:0.8em;'
            f'background-color:{color};opacity:0.75"></div>'
        )
        rows.append(
            f'<tr><td style="border:none;padding:1px 8px 1px 0;text-align:left;white-space:nowrap"><code>{html(name)}'
            f'</code></td><td style="border:none;padding:1px 0;width:60%">{bar}</td>'
            f'<td style="border:none;padding:1px 0 1px 8px;white-space:nowrap">{html(took)}</td></tr>'
        )
    return f'<table style="border:none;width:100%;color:inherit"><tbody>{"".join(rows)}</tbody></table>'


def timeline_text(calls: Sequence[dict[str, Any]]) -> list[str]:
    bars = list(_bars(calls))
    wide = max((len(name) for name, *_ in bars), default=0)
    said = []
    for name, _, start, width, took in bars:
        first = min(int(start * WIDE), WIDE - 1)
        bar = " " * first + "█" * max(1, min(round(width * WIDE), WIDE - first))
        said.append(f"  {padded(name, wide)}  {padded(bar, WIDE)}  {took}".rstrip())
    return said


def _bars(calls: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, float, float, str]]:
    """Name, status, where it begins and how long it is (of the whole), and that in words."""
    timed = [call for call in calls if call["started"] is not None and call["seconds"] is not None]
    begin = min((call["started"] for call in timed), default=0.0)
    whole = max((call["started"] + call["seconds"] for call in timed), default=1.0) - begin or 1.0
    for call in sorted(timed, key=lambda call: call["started"]):
        name = f"{line(call['step'], 60)} {line(call['label'], 30)}"
        yield name, _state(call), (call["started"] - begin) / whole, call["seconds"] / whole, duration(call["seconds"])


def _state(call: dict[str, Any]) -> str:
    return "failed" if call["status"] == "failed" else "ok"  # fired, answered


def _call_html(call: dict[str, Any]) -> str:
    shown = look.state(_state(call))
    again = f" · attempt {call['attempt']}" if call["attempt"] > 1 else ""
    title = (
        f'<span style="color:{shown.color};font-weight:bold">{shown.mark} {html(line(call["status"], 12))}</span> '
        f"<code>{html(line(call['step'], 100))}</code> <strong>{html(line(call['label'], 48))}</strong>"
        f" · {html(duration(call['seconds']))}{again}"
    )
    said = f"<div>{html(line(call['error'], 500))}</div>" if call["error"] else ""
    inside = f"<div>input: {value_html(call['input'])}</div>" if call["input"] is not None else ""
    inside += f"<div>output: {value_html(call['output'])}</div>" if not call["error"] else said
    return f'<li><details><summary>{title}</summary><div style="padding-left:1.2em">{inside}</div></details></li>'


def _call_text(call: dict[str, Any]) -> str:
    mark = look.state(_state(call)).mark
    again = f" (attempt {call['attempt']})" if call["attempt"] > 1 else ""
    given = line(value_text(call["input"]), 60) if call["input"] is not None else ""
    gave = line(call["error"], 100) if call["error"] else line(value_text(call["output"]), 60)
    return f"  {mark} {line(call['step'], 80)} {line(call['label'], 40)}({given}) → {gave}{again}"


def _row(run: LineLike) -> tuple[str, ...]:
    shown = look.state(run.status)
    when = _moment(datetime.fromtimestamp(run.started)) if run.started else ""
    return (line(run.run_id, 90), line(run.name, 60), f"{shown.mark} {line(run.status, 20)}", when,
            duration(run.seconds), f"{run.tokens:,}" if run.tokens is not None else "", line(run.note, 60))  # fmt: skip


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}"


def _more(runs: Sequence[LineLike]) -> str:
    return f"… {len(runs) - MOST_RUNS:,} more" if len(runs) > MOST_RUNS else ""
