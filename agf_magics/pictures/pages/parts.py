"""The parts of a run's page as static HTML and as text, for the live view and for the saved
notebook.

Only elements and styles that JupyterLab leaves in an untrusted notebook: no script, style sheet,
id, role or variable, and only the values of a style that its sanitizer knows. All text has the
colour of the page, so it has enough contrast in a light and in a dark theme. The word of a state is
mixed of it and of its own colour, as in the live view; the sanitizer removes the mixture.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from json import dumps
from math import inf
from typing import NamedTuple

from ...flow.progress.progress import Failure, Progress
from ...flow.progress.question import Question
from ...flow.progress.rows import Key, Row, key_of
from ...flow.question_text import long_arguments
from ...text.columns import cells
from .. import theme as look
from ..amounts import cost_words, counted, duration
from ..call_words import call_words, open_questions
from ..plain import details, html, line, lines_html, padded
from ..problems import WIDE, error_text, format_exception, warnings_text
from ..row_words import (
    activity,
    count_words,
    does,
    is_over,
    listed,
    never_ran,
    outer_fans,
    pace,
    share_of,
    shown_name,
    spent,
    state_words,
    tails,
    tallies,
    took,
)
from ..tally import Tally
from ..text_tables import WRAP, bounded, whole_rows
from .collapsed_rows import folds_html

LONGEST_ARGUMENT = 20_000
"""Characters of an argument of a call to approve; `Question.arguments` has all."""

MOST_FAILURES = 8
"""Failures, or groups of failures, that a page lists."""
MOST_GROUPED = 500
"""Failures that are grouped by their message, if they are more than `MOST_FAILURES`."""
MOST_ROWS = 500
"""Rows up to which each row of a tree may have its own line; a tree with more is large."""
MOST_LOUD = 50
"""Rows of a large tree that have their own line: rows that need attention."""
_MOST_OPEN = 24
"""Rows of a tree above which several rows of a quiet state are one line."""
OWN_SHARE = 45
"""Percent of its own colour in the word of a state; the explorer has the same."""
DIM = "opacity:0.75"
"""The style of text that matters less; fainter text has too little contrast on white."""
CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0;border:none"
"""The style of a cell in the table of steps."""

QUIET = frozenset({"ok", "pending", "skipped"})
"""States of rows that need no attention."""
URGENT = {"failed": 0, "error": 0, "waiting": 1, "running": 2}
"""The order of the rows that need attention, by state; rows of other states come last."""


def progress_text(progress: Progress, *, now: float) -> str:
    """A run and its steps as text; ``now`` is on the clock of the events."""
    lines = [headline(progress, now=now), *steps_text(progress, now=now), *questions_text(progress)]
    lines += [*failures_text(progress), *warnings_text(progress.warnings)]
    return "\n".join([*lines, *(["", error_text(progress.error)] if progress.error else [])])


def status(progress: Progress) -> str:
    """The status of a run: ``waiting`` also while it asks a question and other steps continue."""
    is_asking = progress.status == "running" and progress.open_questions
    return "waiting" if is_asking else progress.status


def shown_status(progress: Progress) -> str:
    """`status` as views show it: a run that dropped elements is not just ok, and one that is being
    cancelled does not just run."""
    if progress.is_cancelling:
        return "cancelling"
    shown = status(progress)
    return "dropped" if shown == "ok" and progress.failed else shown


def header_html(progress: Progress, run_id: str = "", *, now: float, at: str = "") -> str:
    """One line: the name, the status, the counts, the id. ``at``: the time of the day at which a run
    that has not ended had this status, for a page that may be read later."""
    name = f"<strong>{html(line(progress.name, 80))}</strong>"
    state = (
        state_html(shown_status(progress))
        + html(f" at {at}" if at else "")
        + html(_dropped(progress))
    )
    parts = [name, state, *map(html, _counts(progress, now))]
    parts += [f'<code style="{DIM}">{html(line(run_id, 80))}</code>'] if run_id else []
    return f'<div style="margin:0 0 4px;{WRAP}">{" · ".join(parts)}</div>'


def headline(progress: Progress, run_id: str = "", *, now: float, at: str = "") -> str:
    """``nightly_digest · ▶ running · 2 of 5 steps · 4.2 s``. ``at``: see `header_html`."""
    shown = look.state(shown_status(progress))
    state = f"{shown.mark} {shown.word}{f' at {at}' if at else ''}{_dropped(progress)}"
    parts = [line(progress.name, 80), state, *_counts(progress, now)]
    return " · ".join([*parts, *([line(run_id, 80)] if run_id else [])])


def steps_html(progress: Progress, *, now: float, has_folds: bool = True) -> str:
    """The tree as a table, as wide as the output. The first columns have a fixed width, so that
    nothing moves while numbers grow, and the height of the table is bounded until the run ends. Then
    many lines are in a fold, and all steps of a large run, unless the page has no room for them
    (``has_folds``)."""
    widths = {"state": "width:11em", "time": "width:6em", "step": "padding-left:0"}
    style = f"{CELL};{DIM};font-weight:normal"
    head = "".join(
        f'<th scope="col" style="{style};{width}">{name}</th>' for name, width in widths.items()
    )

    def table(lines: Sequence[_Line]) -> str:
        rows = "".join(map(_line_html, lines))
        return (
            '<table style="border:none;border-collapse:collapse;margin:0;color:inherit;table-layout:fixed;'
            'width:100%;min-width:32em">'  # a narrow output scrolls: else a name has one letter in a line
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )

    lines = _lines(progress, now)
    if progress.ended is None:  # every new page closes the folds that a reader opened
        return bounded(table(lines))
    folds = folds_html(listed(progress)) if has_folds and _is_large(progress) else ""
    return whole_rows(table, lines, is_open=progress.status != "ok") + folds


def steps_text(progress: Progress, *, now: float) -> list[str]:
    """The tree as lines of text in columns; what arrives stands below its step."""
    lines = _lines(progress, now)
    rows = []
    for row in lines:
        step = "  " * row.depth + f"{row.glyph} {row.name} {row.does}".strip()
        rows.append((row.words, step, row.elements, row.time))
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    texts = list[str]()
    for row, columns in zip(lines, rows, strict=True):
        texts.append(f"  {'  '.join((*map(padded, columns, widths), row.id))}".rstrip())
        texts += [f"{'  ' * row.depth}    … {line(text, WIDE)}" for text in row.arriving]
    return texts


def questions_html(progress: Progress) -> str:
    """The questions that wait for an answer."""
    items = "".join(
        f"<li>{html(line(question.text, 300))} <code>{html(line(question.where, 100))}</code>"
        f"{_call_html(question)}</li>"
        for _, question in open_questions(progress)
    )
    if not items:
        return ""
    title = '<p style="margin:4px 0 0">? waits for an answer:</p>'
    return f'{title}<ul style="margin:2px 0">{items}</ul>'


def _call_html(question: Question) -> str:
    """The call that a person approves, where the text of the question does not show all of it."""
    lines = long_arguments(question, LONGEST_ARGUMENT)
    inside = html("\n".join(lines))
    return details("the call", lines_html(inside, WRAP)) if lines else ""


def questions_text(progress: Progress) -> list[str]:
    return [
        f"? waits for an answer: {line(question.text, 300)}  {line(question.where, 100)}".rstrip()
        for _, question in open_questions(progress)
    ]


def failures_html(progress: Progress) -> str:
    """The failed elements that are missing in the result, folded to their number if the run allowed
    them and other elements succeeded."""
    if not progress.failed:
        return ""
    failures, more = _failures(progress)
    items = "".join(f"<li><code>{html(place)}</code> {html(why)}</li>" for place, why in failures)
    items += f"<li>… and {more:,} more: <code>run.progress.failures</code></li>" if more else ""
    all_failed = any(tally.failed and not tally.ok for tally in tallies(progress).values())
    inside = f'<ul style="margin:2px 0;{WRAP}">{items}</ul>'
    return details(_failures_title(progress), inside, progress.status != "ok" or all_failed)


def failures_text(progress: Progress) -> list[str]:
    if not progress.failed:
        return []
    failures, more = _failures(progress)
    lines = [_failures_title(progress), *(f"  {place}: {why}" for place, why in failures)]
    return [*lines, *([f"  … and {more:,} more"] if more else [])]


def tokens(progress: Progress) -> list[str]:
    """How many tokens the models of a run used and what they cost; empty if the run asked no model."""
    used = progress.usage
    if not used.requests:
        return []
    cost = cost_words(used.known_cost, used.requests, used.unpriced)
    return [f"{counted(used.tokens, 'token')} in {counted(used.requests, 'request')}", cost]


def unstopped(progress: Progress) -> list[str]:
    """How many calls a run that is cancelled waits for, how many were left running, and how many of
    these have ended."""
    count, ended = progress.unstopped, progress.ended_late
    words = "still" if progress.is_cancelling else "left"
    late = f"{counted(ended, 'call')} left running {'has' if ended == 1 else 'have'} ended"
    return [*([f"{counted(count, 'call')} {words} running"] * bool(count)), *([late] * bool(ended))]


def counts(progress: Progress) -> list[str]:
    """How many of the outermost steps are done, then the tokens."""
    ended, total = steps_done(progress)
    return [f"{ended:,} of {counted(total, 'step')}", *tokens(progress)]


def steps_done(progress: Progress) -> tuple[int, int]:
    """How many of the outermost steps are done, and how many there are. A call of a plan that was
    skipped because what it reads is missing is not done."""
    top = [row for row in listed(progress) if row.depth == 0]
    done = (
        row.state in ("ok", "kept") or (row.state == "skipped" and never_ran(row)) for row in top
    )
    return sum(done), len(top)


def count_elements(progress: Progress, now: float, tallied: Mapping[Key, Tally]) -> list[str]:
    """How many elements of the outermost fan-out have ended, and their pace. Of several fan-outs, only
    those that run are counted, each with its name: ``clean: 12 of 400 elements``. ``tallied``: the
    elements of all fan-outs, which the rows show, too."""
    fans = [fan for fan in outer_fans(progress, tallied) if fan[1].total]
    is_alone = len(fans) == 1
    words = list[str]()
    for row, tally in fans:
        if is_alone or row.running:
            name = "" if is_alone else f"{line(row.name, 40)}: "
            words.append(f"{name}{tally.ended:,} of {counted(tally.total, 'element')}")
            words += filter(None, [pace(row, tally, now)])
    return words


def state_html(status: str) -> str:
    """A status of a run as a mark and a word."""
    shown = look.state(status)
    return chip(shown, f"{shown.mark} {shown.word}")


def chip(shown: look.State, text: str) -> str:
    """The word of a state in its colour, on a page of any theme."""
    color = f"color-mix(in srgb, {shown.color} {OWN_SHARE}%, currentColor)"
    return f'<span style="color:{color};font-weight:bold">{html(text)}</span>'


# --------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """A row of the tree as it is shown, or several rows folded into one."""

    state: look.State
    words: str
    depth: int
    name: str
    glyph: str = ""
    does: str = ""
    elements: str = ""
    time: str = ""
    id: str = ""
    bar: float | None = None
    """The share of the step that is done, while the step runs; None: the line has no bar."""
    arriving: tuple[str, ...] = ()
    """The end of each part of a reply that arrives, or that ended in the middle."""


def _is_large(progress: Progress) -> bool:
    return len(listed(progress)) > MOST_ROWS


def _lines(progress: Progress, now: float) -> list[_Line]:
    """The rows of the tree. In a long tree several pending steps in a row are one line; so are steps
    that ended well, if the run did not. A large tree has the rows that need attention, failed ones
    first, and the numbers of the others.
    """
    rows = listed(progress)
    quiet = {"pending"} if progress.status == "ok" else {"pending", "ok", "skipped"}
    if not _is_large(progress):
        ran = [row for row in rows if not (is_over(progress) and never_ran(row))]
        unused = [_unused(rows)] if len(ran) < len(rows) else []
        return _listed(progress, ran, quiet, now) + unused
    loud = sorted(
        (row for row in rows if row.look not in QUIET),
        key=lambda row: URGENT.get(row.look, len(URGENT)),
    )
    lines = _listed(progress, loud[:MOST_LOUD], set(), now)
    rest = Counter(
        row.look for row in [*loud[MOST_LOUD:], *(row for row in rows if row.look in QUIET)]
    )
    for state, count in rest.items():
        shown = look.state(state)
        more = "more " if any(row.look == state for row in loud[:MOST_LOUD]) else ""
        lines.append(_Line(shown, f"{shown.mark} {shown.word}", 0, counted(count, f"{more}step")))
    return lines


def _unused(rows: Iterable[Row]) -> _Line:
    """The line of the steps that never ran in a run that has ended, counted as the explorer does: those
    inside of one of them are not counted."""
    counts, around = Counter[str](), inf
    for row in rows:
        if row.depth > around:
            continue
        around = row.depth if never_ran(row) else inf
        if never_ran(row):
            counts["inner step" if row.depth else "step"] += 1
    shown = look.state("skipped")
    words = " and ".join(
        counted(counts[kind], kind) for kind in ("step", "inner step") if counts[kind]
    )
    return _Line(shown, f"{shown.mark} did not run", 0, words)


def _listed(progress: Progress, rows: list[Row], quiet: set[str], now: float) -> list[_Line]:
    """The lines of these rows. In a long tree more than three in a row of one of the states
    ``quiet`` are one line."""
    counts = tallies(progress)
    asking = {key_of(path) for path in progress.open_questions}
    lines: list[_Line] = []
    for state, group in groupby(rows, lambda row: row.look):
        alike = list(group)
        if len(rows) > _MOST_OPEN and len(alike) > 3 and state in quiet:
            shown = look.state(state)
            depth = min(row.depth for row in alike)
            name = counted(len(alike), "step")
            lines.append(_Line(shown, f"{shown.mark} {shown.word}", depth, name))
            continue
        for row in alike:
            is_asked = row.key in asking and row.running > 0 and progress.ended is None
            lines.append(_line_of(row, counts.get(row.key), is_asked, now))
    return lines


def _line_of(row: Row, tally: Tally | None, is_asked: bool, now: float) -> _Line:
    """The line of one row. ``is_asked``: it waits for the answer of a person."""
    shown = look.state("waiting" if is_asked else row.look)
    bar = share_of(row)
    if tally is not None and row.running and tally.total:
        bar = tally.ended / tally.total
    counts = str(tally or count_words(row))
    parts = (line(row.asked, 120), counts, pace(row, tally, now), activity(row), *spent(row))
    return _Line(
        shown,
        f"{shown.mark} {shown.word}" if is_asked else state_words(row),
        row.depth,
        line(shown_name(row), 80),
        look.kind(row.word).glyph,
        line(does(row), 60),
        " · ".join(filter(None, parts)),
        took(row, now),
        line(row.id, 100),
        bar,
        tails(row),
    )


def _line_html(row: _Line) -> str:
    """A line as a row of the table: its state, its time, and the step with all about it."""
    step = f"{row.glyph} <strong>{html(row.name)}</strong>"
    if row.does:
        step += f' <span style="{DIM}">{html(row.does)}</span>'
    if row.id:
        style = f"{DIM};font-size:85%;background-color:transparent"
        step += f' <code style="{style}">{html(row.id)}</code>'
    if row.elements:
        bar = ""
        if row.bar is not None:
            bar = f'<progress value="{row.bar:.3g}" max="1" style="width:90px"></progress> '
        step += f"<div>{bar}{html(row.elements)}</div>"
    style = f"{DIM};{WRAP};white-space:pre-wrap;max-height:9em;overflow:hidden"
    step += "".join(f'<div style="{style}">{html(text)}</div>' for text in row.arriving)
    return (
        f'<tr><td style="{CELL};{WRAP}">{chip(row.state, row.words)}</td>'
        f'<td style="{CELL};white-space:nowrap">{html(row.time)}</td>'
        f'<td style="{CELL};padding-left:{1.3 * row.depth:.1f}em;{WRAP}">{step}</td></tr>'
    )


def _counts(progress: Progress, now: float) -> list[str]:
    steps, *others = counts(progress)
    # Only during the run: at the end the rows have these counts, and a saved page needs no pace.
    elements = count_elements(progress, now, tallies(progress)) if progress.ended is None else []
    seconds = None if progress.when is None else (progress.ended or now) - progress.when
    took = [duration(seconds)] if seconds is not None else []
    return [*unstopped(progress), steps, *elements, *took, *others]


def _dropped(progress: Progress) -> str:
    """``, 1 of 4 dropped``: a run that dropped elements is not just ok."""
    if not progress.failed or progress.status != "ok":
        return ""
    # Only of the fan-outs that dropped: a failed tool call of a model, for example, is in no total.
    fans = [(progress.rows[key], tally) for key, tally in tallies(progress).items()]
    total = sum(tally.total for row, tally in fans if any(part.dropped for part in row.elements))
    of_all = f" of {total:,}" if total >= progress.failed else ""
    return f", {progress.failed:,}{of_all} dropped"


def _failures_title(progress: Progress) -> str:
    return f"✗ {counted(progress.failed, 'element')} failed and dropped"


def _failures(progress: Progress) -> tuple[list[tuple[str, str]], int]:
    """Few failures with their places, many by their messages; and how many are not shown."""
    if len(progress.failures) > MOST_FAILURES:
        groups = failure_groups(progress, MOST_GROUPED)[:MOST_FAILURES]
        shown = [(f"{len(places):,} × {why}", ", ".join(places[:3])) for why, places in groups]
        return shown, progress.failed - sum(len(places) for _, places in groups)
    failures = [_failure(progress, failure) for failure in progress.failures]
    return failures, progress.failed - len(progress.failures)


def _failure(progress: Progress, failure: Failure) -> tuple[str, str]:
    """The place of a failure, with its element, and its message."""
    path, error, element = failure
    value = f" ({line(dumps(element, ensure_ascii=False), 80)})" if element is not None else ""
    return call_words(progress.rows, path) + value, line(format_exception(error), 200)


def failure_groups(progress: Progress, most: int) -> list[tuple[str, list[str]]]:
    """The messages of the first ``most`` failures with the places of each, the most frequent first.
    Messages that differ only in their numbers are one."""
    messages: dict[str, set[str]] = {}
    places: dict[str, list[str]] = {}
    for path, error, _ in progress.failures[:most]:
        why = line(format_exception(error), 200)
        pattern = _NUMBER.sub("…", why)
        messages.setdefault(pattern, set()).add(why)
        places.setdefault(pattern, []).append(call_words(progress.rows, path))
    most_frequent = sorted(places, key=lambda pattern: -len(places[pattern]))
    return [
        (messages[pattern].pop() if len(messages[pattern]) == 1 else pattern, places[pattern])
        for pattern in most_frequent
    ]


_NUMBER = re.compile(r"\d++")
