"""Tables of plain texts: as HTML, in which the first rows stand and the others are folded, and as
columns of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..text.columns import cells
from .amounts import counted
from .plain import details, html, padded

WRAP = "overflow-wrap:break-word;word-break:normal"
"""Lines break between words, and only a word longer than a line breaks inside; JupyterLab's own
rule is break-all."""
LEFT = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
"""The style of a cell."""


_SHORT = 24
"""The most characters of a cell that stays on one line."""
_ROWS, _FEW_ROWS = 20, 4
"""Rows of a table before its fold, and further rows up to which there is no fold."""
MOST_HEIGHT = 420
"""Pixels of what changes while a run goes on; what is taller scrolls."""


Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""The names of the columns, and the rows."""


def table_html(
    columns: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
    caption: str = "",
    is_whole: bool = False,
) -> str:
    """A table of plain texts. ``is_whole``: without a fold."""
    head = "".join(
        f'<th scope="col" style="{LEFT}">{html(column)}</th>' if column else "<td></td>"
        for column in columns
    )
    title = (
        f'<caption style="text-align:left;caption-side:top">{caption}</caption>' if caption else ""
    )

    def table(rows: Sequence[tuple[str, ...]]) -> str:
        body = "".join(f"<tr>{''.join(_td(cell) for cell in row)}</tr>" for row in rows)
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


def _td(cell: str) -> str:
    flow = (
        "white-space:nowrap" if len(cell) <= _SHORT else f"min-width:12em;{WRAP}"
    )  # not "480" and "ms" on two lines
    return f'<td style="{LEFT};{flow}">{html(cell)}</td>'


def table_text(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> list[str]:
    """Columns of text, each as wide as its widest cell."""
    both = (columns, *rows)
    widths = [max(map(cells, column)) for column in zip(*both, strict=True)]
    return ["  ".join(map(padded, row, widths)).rstrip() for row in both]


def drop_empty_columns(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return tuple(columns[place] for place in kept), tuple(
        tuple(row[place] for place in kept) for row in rows
    )


def list_rows(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], title: str, none: str
) -> dict[str, str]:
    """The rows as a table by MIME type, without empty columns. ``none``: the text of an empty
    table."""
    if not rows:
        return {"text/html": f"<p>{html(none)}</p>", "text/plain": none}
    table = drop_empty_columns(columns, tuple(rows))
    return {
        "text/html": table_html(*table, title),
        "text/plain": "\n".join(table_text(*table)),
    }
