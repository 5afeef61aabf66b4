"""Many steps of a run as collapsed groups, with their totals in the title.

A page of a run has at most 1 MB, whatever the number of its steps. A row of a table has 600 bytes,
a line of a group 60.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ...flow.progress.rows import Row
from ..amounts import counted
from ..plain import details, html, line, lines_html
from ..row_words import count_words, does, shown_name, state_words, took
from ..theme import kind, state

GROUP = 100
"""Steps of one fold."""
MOST_BYTES = 700_000
"""Bytes of all folds of a page, as UTF-8."""


def totals(rows: Iterable[Row]) -> str:
    """The number of rows in each state: ``9,990 ok, 10 failed``."""
    states = Counter(state(row.look).word for row in rows)
    return ", ".join(f"{count:,} {word}" for word, count in states.items())


def folds_html(rows: Sequence[Row]) -> str:
    """``rows`` in folds, until the page is full."""
    folds, size = [], 0
    for first in range(0, len(rows), GROUP):
        group = rows[first : first + GROUP]
        fold = _fold(group)
        size += len(fold.encode())
        if size > MOST_BYTES:
            more = counted(len(rows) - first, "more step")
            folds.append(
                f"<p><em>… {more} ({html(totals(rows[first:]))}): run.progress.rows</em></p>"
            )
            break
        folds.append(fold)
    return "".join(folds)


def _fold(rows: Sequence[Row]) -> str:
    title = f"{line(rows[0].id, 60)} … {line(rows[-1].id, 60)} · {totals(rows)}"
    inside = "\n".join(_lines(rows))
    return details(html(title), lines_html(html(inside)))


def _lines(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        parts = (
            state_words(row),
            kind(row.word).glyph,
            line(shown_name(row), 40),
            line(does(row), 40),
            count_words(row),
        )
        yield " " * row.depth + " ".join(filter(None, (*parts, took(row), line(row.id, 60))))
