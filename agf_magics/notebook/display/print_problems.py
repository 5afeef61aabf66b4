"""Warnings and notes as a cell prints them: of a definition, and of a run in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape

from ...pictures.plain import line, plain
from ...text.columns import wrap
from ...text.diagnostics import Diagnostic, merge_equal
from ..output.output import show

MOST = 20
"""The most problems of one error or definition that are shown."""
MOST_NAMED = 3
"""The most values that a note about several of them names."""
UNREAD = "flow.never-read"


def print_problems(problems: Iterable[Diagnostic]) -> None:
    """Print warnings under the line that a definition prints, and notes in one line: several are
    folded (decision D181)."""
    merged = _with_one_of_unread(merge_equal(tuple(problems)))
    notes = [problem for problem in merged if problem.severity == "note"]
    if len(notes) > 1:
        merged = [problem for problem in merged if problem.severity != "note"]
    more = [f"... and {len(merged) - MOST} more"] if len(merged) > MOST else []
    for text in (*map(_told, merged[:MOST]), *more):
        print(text)
    if len(notes) > 1:
        _show_notes([_note(problem) for problem in notes])


def _with_one_of_unread(problems: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
    """One note about all values that no step reads, in the place of the first: a flow may have one for
    each of its steps, and each says the same."""
    unread = [problem for problem in problems if problem.code == UNREAD]
    if len(unread) < 2:
        return problems
    names = [problem.message.removeprefix("no step reads ").partition(";")[0] for problem in unread]
    named, rest = names[:MOST_NAMED], len(names) - MOST_NAMED
    last = f"{rest:,} more" if rest > 0 else named.pop()
    listed = f"{', '.join(named)} and {last}"
    note = replace(
        unread[0], message=f"no step reads {listed}; they are only results of the run", span=None
    )
    first = problems.index(unread[0])
    others = [problem for problem in problems if problem not in unread]
    return [*others[:first], note, *others[first:]]


def _show_notes(notes: list[str]) -> None:
    title = f"{len(notes):,} notes"
    lines = "".join(f"<div>{escape(note)}</div>" for note in notes[:MOST])
    more = f"<div>... and {len(notes) - MOST} more</div>" if len(notes) > MOST else ""
    page = f"<details><summary>{title}</summary>{lines}{more}</details>"
    text = wrap(f"{title}: {line(' · '.join(notes), 2_000)}")
    show({"text/html": page, "text/plain": text})


def _told(problem: Diagnostic) -> str:
    if problem.severity != "note":
        return wrap(f"{problem.severity}: {plain(str(problem), 20_000)}")
    return wrap(f"note: {_note(problem)}")


def _note(problem: Diagnostic) -> str:
    where = f" (line {problem.span.place[0]})" if problem.span else ""
    return f"{line(problem.message, 300)}{where}"
