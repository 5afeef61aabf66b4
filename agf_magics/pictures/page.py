"""A run as it stands, as static HTML and as text: what a live view shows and what a saved notebook keeps.

Only elements and styles that JupyterLab leaves in an untrusted notebook (no script, style sheet, id, role or variable),
no colour that is black or white, and every state in words: it reads in any theme, on GitHub, in a mail and aloud.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from json import dumps

from ..progress.events import format_path
from ..progress.progress import Progress, Row
from ..text.diagnostics import AgfError, Diagnostic
from . import theme as look
from .counters import Tally, tallies, times, words
from .plain import cells, counted, duration, html, line, padded, plain

MOST_FAILURES = 8
CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0;border:none"


def progress_html(progress: Progress, *, now: float) -> str:
    """The run as a table, a row per step; ``now`` is on the clock of the events."""
    parts = [steps_html(progress, now=now), questions_html(progress), failures_html(progress)]
    return "".join(
        [*parts, warnings_html(progress.warnings), *([error_html(progress.error)] if progress.error else [])]
    )


def progress_text(progress: Progress, *, now: float) -> str:
    """The same as text."""
    said = [headline(progress, now=now), *steps_text(progress, now=now), *questions_text(progress)]
    said += [*failures_text(progress), *warnings_text(progress.warnings)]
    return "\n".join([*said, *(["", error_text(progress.error)] if progress.error else [])])


def status(progress: Progress) -> str:
    """Of the run: one that asks somebody waits, whatever else it still does."""
    return "waiting" if progress.status == "running" and progress.asked else progress.status


def headline(progress: Progress, *, now: float) -> str:
    """``nightly_digest · ▶ running · 2 of 5 steps · 4.2 s``"""
    shown = look.state(status(progress))
    return " · ".join([line(progress.name, 80), f"{shown.mark} {shown.word}", *_counts(progress, now)])


def steps_html(progress: Progress, *, now: float) -> str:
    name = f"<strong>{html(line(progress.name, 80))}</strong>"
    caption = " · ".join([name, state_html(status(progress)), *map(html, _counts(progress, now))])
    counted_ = tallies(progress)
    rows = "".join(_row_html(row, counted_.get(row.key), now) for row in progress.rows.values())
    head = "".join(f'<th scope="col" style="{CELL};opacity:0.65;font-weight:normal">{name}</th>' for name in COLUMNS)
    return (
        '<table style="border:none;border-collapse:collapse;margin:0;color:inherit">'
        f'<caption style="text-align:left;caption-side:top;padding:2px 0 4px">{caption}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


COLUMNS = ("state", "step", "elements", "time")


def steps_text(progress: Progress, *, now: float) -> list[str]:
    counted_ = tallies(progress)
    rows = []
    for row in progress.rows.values():
        step = "  " * row.depth + f"{look.kind(row.word).glyph} {_word(row)} {line(row.label, 60)}".rstrip()
        rows.append((words(row), step, _elements(row, counted_.get(row.key)), duration(_seconds(row, now)), _id(row)))
    widths = [max((cells(row[column]) for row in rows), default=0) for column in range(4)]
    return [("  " + "  ".join((*map(padded, row, widths), row[4]))).rstrip() for row in rows]


def questions_html(progress: Progress) -> str:
    """What a person is being asked."""
    asked = "".join(
        f"<li>{html(line(question.text, 300))} <code>{html(line(question.where, 100))}</code></li>"
        for question in list(progress.asked.values())
    )
    return f'<p style="margin:4px 0 0">? waits for an answer:</p><ul style="margin:2px 0">{asked}</ul>' if asked else ""


def questions_text(progress: Progress) -> list[str]:
    asked = list(progress.asked.values())
    return [f"? waits for an answer: {line(one.text, 300)}  {line(one.where, 100)}".rstrip() for one in asked]


def failures_html(progress: Progress) -> str:
    if not progress.failed:
        return ""
    items = "".join(f"<li><code>{html(at)}</code> {html(why)}</li>" for at, why in _failures(progress))
    more = progress.failed - min(len(progress.failures), MOST_FAILURES)
    items += f"<li>… and {more:,} more</li>" if more else ""
    title = f"✗ {counted(progress.failed, 'element')} failed and left out"
    return f'<details open><summary>{title}</summary><ul style="margin:2px 0">{items}</ul></details>'


def failures_text(progress: Progress) -> list[str]:
    if not progress.failed:
        return []
    more = progress.failed - min(len(progress.failures), MOST_FAILURES)
    said = [f"✗ {counted(progress.failed, 'element')} failed and left out"]
    said += [f"  {at}: {why}" for at, why in _failures(progress)]
    return [*said, *([f"  … and {more:,} more"] if more else [])]


def error_html(error: BaseException) -> str:
    """What went wrong, with its place and what would be right."""
    return diagnostics_html(error.diagnostics) if isinstance(error, AgfError) else _told("error", told(error))


def error_text(error: BaseException) -> str:
    return diagnostics_text(error.diagnostics) if isinstance(error, AgfError) else f"✗ error: {told(error)}"


def diagnostics_html(diagnostics: Iterable[Diagnostic]) -> str:
    return "".join(_told(one.severity, plain(str(one), 6_000)) for one in diagnostics)


def diagnostics_text(diagnostics: Iterable[Diagnostic]) -> str:
    return "\n".join(f"{MARKS[one.severity]} {one.severity}: {plain(str(one), 6_000)}" for one in diagnostics)


def warnings_html(warnings: Iterable[Diagnostic]) -> str:
    found = list(warnings)
    if not found:
        return ""
    return f"<details><summary>⚠ {counted(len(found), 'warning')}</summary>{diagnostics_html(found[:20])}</details>"


def warnings_text(warnings: Iterable[Diagnostic]) -> list[str]:
    found = list(warnings)
    return [f"⚠ {counted(len(found), 'warning')}", diagnostics_text(found[:20])] if found else []


MARKS = {"error": "✗", "warning": "⚠", "note": "·"}
EDGES = {"error": "#d64545", "warning": "#a56c00", "note": "#7d7d7d"}


def _told(severity: str, text: str) -> str:
    style = f"border-left:3px solid {EDGES[severity]};padding:2px 0 2px 10px;margin:6px 0;white-space:pre;overflow:auto"
    return f'<pre style="{style}"><strong>{MARKS[severity]} {severity}:</strong> {html(text)}</pre>'


def told(error: BaseException) -> str:
    """An error in one line or a few: its message; its class too if it is not one of ours."""
    if isinstance(error, AgfError):
        return plain(error.diagnostic.message, 1_000)
    try:
        message = str(error)
    except Exception:  # somebody's exception with somebody's __str__
        message = "(its text cannot be had)"
    return plain(f"{type(error).__name__}: {message}" if message else type(error).__name__, 1_000)


def _counts(progress: Progress, now: float) -> list[str]:
    top = [row for row in progress.rows.values() if row.depth == 0]
    done = sum(row.state in ("ok", "skipped") for row in top)
    seconds = None if progress.when is None else (progress.ended or now) - progress.when
    took = [duration(seconds)] if seconds is not None else []
    return [f"{done:,} of {counted(len(top), 'step')}", *took, *tokens(progress)]


def tokens(progress: Progress) -> list[str]:
    """What its models took, where they were asked."""
    used = progress.usage
    return [f"{counted(used.tokens, 'token')} in {counted(used.requests, 'request')}"] if used.requests else []


def _row_html(row: Row, tally: Tally | None, now: float) -> str:
    step = f"{look.kind(row.word).glyph} {html(_word(row))} <strong>{html(line(row.label, 48))}</strong>"
    id = f'<code style="opacity:0.55;font-size:85%;background-color:transparent">{html(_id(row))}</code>'
    bar = ""
    if tally is not None and row.running and tally.total:
        bar = f'<progress value="{tally.ended}" max="{tally.total}" style="width:90px"></progress> '
    shown = look.state(row.state)
    return (
        f'<tr><td style="{CELL};white-space:nowrap">{_state(shown, words(row))}</td>'
        f'<td style="{CELL};padding-left:{1.3 * row.depth:.1f}em">{step} {id}</td>'
        f'<td style="{CELL};white-space:nowrap">{bar}{html(_elements(row, tally))}</td>'
        f'<td style="{CELL};white-space:nowrap">{html(duration(_seconds(row, now)))}</td></tr>'
    )


def state_html(status: str) -> str:
    """A status of a run as a mark and a word."""
    shown = look.state(status)
    return _state(shown, f"{shown.mark} {shown.word}")


def _state(shown: look.State, text: str) -> str:
    return f'<span style="color:{shown.color};font-weight:bold">{html(text)}</span>'


def _elements(row: Row, tally: Tally | None) -> str:
    if tally is not None:
        return str(tally)
    return times(row)


def _seconds(row: Row, now: float) -> float | None:
    return now - row.when if row.running and row.when is not None else row.seconds


def _word(row: Row) -> str:
    return line(row.word, 24)


def _id(row: Row) -> str:
    return line(row.id, 100)


def _failures(progress: Progress) -> Iterator[tuple[str, str]]:
    for at, error, element in progress.failures[:MOST_FAILURES]:
        value = f" ({line(dumps(element, ensure_ascii=False), 80)})" if element is not None else ""
        yield line(format_path(at), 100) + value, line(told(error), 200)
