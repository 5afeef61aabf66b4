"""Tables of plain texts: as HTML, in which the first rows stand and the others are folded, and as
columns of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import TypeVar

from ..text.columns import WIDTH, cells
from ..values.value import Value
from .amounts import counted
from .plain import details, html, line, padded

WRAP = "overflow-wrap:break-word;word-break:normal"
"""Lines break between words, and only a word longer than a line breaks inside; JupyterLab's own
rule is break-all."""
_CELL = "vertical-align:top;padding:2px 12px 2px 0"
"""The style of a cell."""


_SHORT, _LONG = 16, 24
"""The most characters of a cell that stays on one line, and of one that is as wide as its longest word."""
_LONGEST_WORD = 12
"""The characters of a long word between two places where it may be broken."""
_ROWS, _FEW_ROWS = 20, 4
"""Rows of a table before its fold, and further rows up to which there is no fold."""
_PIECE = re.compile(rf".{{1,{_LONGEST_WORD}}}(?<=[/\\_.,=:-])|.{{1,{_LONGEST_WORD}}}", re.DOTALL)
"""A piece of a long word: it ends behind a sign if it can."""
MOST_HEIGHT = 420
"""Pixels of what changes while a run goes on; what is taller scrolls."""


Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""The names of the columns, and the rows."""

INDEX = "index"
"""The word in a `Looks` for a column that names the rows."""
NUMBER = "number"
"""The word in a `Looks` for a column of numbers, whose digits stand one below the other."""

Looks = Sequence[str]
"""How each column looks: nothing or some of these words. The style of the page has them as classes."""


def look_of(values: Iterable[Value]) -> str:
    """`NUMBER` for a column that has numbers, and otherwise only missing cells; else nothing.

    >>> look_of([1, None, 0.5]), look_of([1, "one"]), look_of([True]), look_of([None])
    ('number', '', '', '')
    """
    kinds = set(map(type, values)) - {type(None)}
    return NUMBER if kinds and kinds <= {int, float} else ""


def table_html(
    columns: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
    caption: str = "",
    is_whole: bool = False,
    looks: Looks = (),
    types: Sequence[str] = (),
) -> str:
    """A table of plain texts. ``is_whole``: without a fold. ``looks``, ``types``: the look and the type
    of each column, as far as they are known."""
    head = "".join(
        f'<th scope="col" style="{_style(look)}"{_titled(kind)}>{html(column)}</th>'
        if column
        else "<td></td>"
        for column, look, kind in _of_columns(columns, looks, types)
    )
    title = (
        f'<caption style="text-align:left;caption-side:top">{caption}</caption>' if caption else ""
    )

    def table(rows: Sequence[tuple[str, ...]]) -> str:
        body = "".join(
            f"<tr>{''.join(_td(cell, look) for cell, look in _of_columns(row, looks))}</tr>"
            for row in rows
        )
        inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f'<table style="border:none;margin:0;color:inherit">{inside}</table>'

    shown = wide(table(rows)) if is_whole else whole_rows(table, rows)
    return shown.replace("<thead>", f"{title}<thead>", 1)


Row = TypeVar("Row")


def whole_rows(
    table: Callable[[Sequence[Row]], str], rows: Sequence[Row], is_open: bool = False
) -> str:
    """The first rows as a table, and the others in a fold that says how many they are: the edge of a
    box would cut a row in half. A table that is too wide scrolls. ``is_open``: the fold is open."""
    fold = ""
    if len(rows) > _ROWS + _FEW_ROWS:
        more = counted(len(rows) - _ROWS, "more row")
        fold = details(f"… and {more}", wide(table(rows[_ROWS:])), is_open)
        rows = rows[:_ROWS]
    return wide(table(rows)) + fold


def wide(inside: str) -> str:
    """``inside`` in a box that scrolls to the side."""
    return f'<div style="overflow:auto">{inside}</div>'


def bounded(inside: str) -> str:
    """``inside`` in a box of at most `MOST_HEIGHT` pixels."""
    return f'<div style="max-height:{MOST_HEIGHT}px;overflow:auto">{inside}</div>'


def _td(cell: str, look: str) -> str:
    flow = WRAP if len(cell) <= _LONG else f"min-width:7em;{WRAP}"
    if len(cell) <= _SHORT:
        flow = "white-space:nowrap"  # not "480" and "ms" on two lines
    tag = 'th scope="row"' if INDEX in look else "td"
    return f'<{tag} style="{_style(look)};{flow}">{_breakable(cell)}</{tag[:2]}>'


def _breakable(cell: str) -> str:
    """A cell as HTML. A long word may be broken, so that a page is not too wide for a path or an id:
    JupyterLab removes the style that says so. A date is not broken."""
    if len(cell) <= _SHORT:
        return html(cell)
    is_long = len(cell) > _LONG
    return " ".join(_word_html(word, is_long) for word in cell.split(" "))


def _word_html(word: str, is_broken: bool) -> str:
    if is_broken:
        return "<wbr>".join(map(html, _pieces(word)))
    is_whole = "-" in word and len(word) <= _LONGEST_WORD
    return f'<span style="white-space:nowrap">{html(word)}</span>' if is_whole else html(word)


def _pieces(word: str) -> list[str]:
    """
    >>> _pieces("quarterly/results/of/the/northern_region.csv")
    ['quarterly/', 'results/of/', 'the/', 'northern_', 'region.', 'csv']
    """
    return _PIECE.findall(word) if len(word) > _LONGEST_WORD else [word]


def _style(look: str) -> str:
    return f"text-align:{'right' if NUMBER in look else 'left'};{_CELL}"


def _titled(kind: str) -> str:
    return f' title="{html(kind)}"' if kind else ""


def _of_columns(row: Sequence[str], *facts: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """The cells of a row, each with the facts about its column; empty where they are not known."""
    return zip_longest(row, *(fact[: len(row)] for fact in facts), fillvalue="")


def table_text(
    columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], looks: Looks = ()
) -> list[str]:
    """Columns of text, each as wide as its widest cell. ``looks``: see `table_html`."""
    both = (columns, *rows)
    widths = [max(map(cells, column)) for column in zip(*both, strict=True)]

    def aligned(row: tuple[str, ...]) -> Iterable[str]:
        for (cell, look), width in zip(_of_columns(row, looks), widths, strict=True):
            blanks = " " * (width - cells(cell)) if NUMBER in look else ""
            yield padded(blanks + cell, width)

    return ["  ".join(aligned(row)).rstrip() for row in both]


LEAST = 12
"""Columns of a terminal that a cell has at least."""


def narrowed(
    columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], flexible: Sequence[str]
) -> Table:
    """The table in at most `WIDTH` columns of a terminal: the widest cells of the ``flexible`` columns
    are cut; if that is not enough, these columns are left out, the last one first."""
    widths = [max(map(cells, column)) for column in zip(columns, *rows, strict=True)]
    places = [columns.index(name) for name in flexible if name in columns]
    while (over := sum(widths) + 2 * (len(widths) - 1) - WIDTH) > 0 and places:
        widest = max(places, key=widths.__getitem__)
        if widths[widest] <= LEAST:
            left = places[-1]
            kept = [place for place in range(len(columns)) if place != left]
            names = tuple(columns[place] for place in kept)
            return narrowed(
                names, tuple(tuple(row[place] for place in kept) for row in rows), flexible
            )
        widths[widest] = max(widths[widest] - over, LEAST)
    return columns, tuple(
        tuple(
            line(cell, widths[place]) if place in places else cell for place, cell in enumerate(row)
        )
        for row in rows
    )


def drop_empty_columns(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return tuple(columns[place] for place in kept), tuple(
        tuple(row[place] for place in kept) for row in rows
    )


def list_rows(
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    title: str,
    none: str,
    flexible: Sequence[str] = (),
) -> dict[str, str]:
    """The rows as a table by MIME type, without empty columns. ``none``: the text of an empty
    table. ``flexible``: see `narrowed`."""
    if not rows:
        return {"text/html": f"<p>{html(none)}</p>", "text/plain": none}
    table = drop_empty_columns(columns, tuple(rows))
    return {
        "text/html": table_html(*table, title),
        "text/plain": "\n".join(table_text(*narrowed(*table, flexible))),
    }
