"""A value as it is shown: bounded before anything is formatted, the same in HTML and in text.

`shown` makes the small thing that is shown of a value of any size (the first items of the outer levels, the beginning
of a text), and two writers write that down. Opaque values are named by their class and not asked for anything, but
DataFrames of pandas and polars, whose own HTML is trusted to escape what is in them.
"""

from __future__ import annotations

import re
import sys
from itertools import islice
from typing import Any, NamedTuple

from ..flow.values import Value
from .plain import cells, counted, html, line, padded, plain

MOST_TEXT = 4_000
MOST_ITEMS = 20
MOST_COLUMNS = 12
MOST_DEEP = 6
MOST_LEAVES = 300


class Words(NamedTuple):
    text: str


class Block(NamedTuple):
    """A text of several lines."""

    text: str


class Group(NamedTuple):
    """The first parts of an object (with their keys) or a list."""

    title: str
    parts: tuple[tuple[str | None, Shown], ...]
    more: int


class Grid(NamedTuple):
    """The first rows of a list of flat objects."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str


class Foreign(NamedTuple):
    """What a DataFrame shows of itself."""

    title: str
    html: str
    text: str


Shown = Words | Block | Group | Grid | Foreign


def shown(value: Value) -> Shown:
    """What is shown of ``value``, in bounded time."""
    if type(value) is str:
        text = plain(value, MOST_TEXT)
        return Block(text) if "\n" in text or len(text) > 160 else Words(text)  # as it is: no quotes
    return _Showing().one(value, 0)


def value_html(value: Value) -> str:
    """
    >>> value_html(True)
    '<code>true</code>'
    """
    return _html(shown(value), opened=True)


def value_text(value: Value) -> str:
    """
    >>> print(value_text({"passed": True, "notes": ["a", "b"]}))
    passed: true
    notes: 2 items
      - "a"
      - "b"
    """
    return "\n".join(_text(shown(value)))


class _Showing:
    def __init__(self) -> None:
        self.left = MOST_LEAVES

    def one(self, value: Value, depth: int) -> Shown:
        self.left -= 1
        kind = type(value)
        if kind is dict and value and all(type(key) is str for key in islice(value, MOST_ITEMS)):
            return self.group(counted(len(value), "field"), value.items(), len(value), depth)
        if kind is list and value:
            return _grid(value) or self.group(
                counted(len(value), "item"), ((None, v) for v in value), len(value), depth
            )
        return _foreign(value) or Words(_scalar(value))

    def group(self, title: str, parts: Any, count: int, depth: int) -> Shown:
        if depth >= MOST_DEEP or self.left <= 0:
            return Words(f"… {title}")
        found = []
        for key, value in islice(parts, MOST_ITEMS):
            if self.left <= 0:
                break
            found.append((None if key is None else line(key, 80), self.one(value, depth + 1)))
        return Group(title, tuple(found), count - len(found))


def _scalar(value: Value) -> str:
    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is int:
        bits = value.bit_length()  # writing a number down takes the square of its length
        return str(value) if bits < 4_000 else f"a number of about {int(bits * 0.30103):,} digits"
    if kind is float:
        return repr(value)
    if kind is str:
        return f'"{line(value, 200)}"'
    if kind is dict or kind is list:
        return ("{…}" if value else "{}") if kind is dict else "[]"
    module, name = type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__qualname__")
    return line(f"<{name}>" if module == "builtins" else f"<{module}.{name}>", 120)


def _grid(rows: list[Value]) -> Grid | None:
    """A list of objects without containers in them, with mostly the same keys, is a table."""
    first = rows[:MOST_ITEMS]
    if len(rows) < 2 or not all(type(row) is dict and row and len(row) <= 40 for row in first):
        return None
    if any(type(key) is not str or type(cell) in (dict, list) for row in first for key, cell in row.items()):
        return None
    columns = list(dict.fromkeys(key for row in first for key in row))
    if len(columns) > 2 * max(len(row) for row in first):
        return None
    kept = columns[:MOST_COLUMNS]
    cells_of = tuple(tuple(_cell(row[key]) if key in row else "" for key in kept) for row in first)
    more = [counted(count, noun) for count, noun in
            ((len(rows) - len(first), "more row"), (len(columns) - len(kept), "more column")) if count]  # fmt: skip
    return Grid(counted(len(rows), "row"), tuple(line(key, 60) for key in kept), cells_of, " and ".join(more))


def _cell(value: Value) -> str:
    return line(value, 80) if type(value) is str else _scalar(value)


def _foreign(value: Value) -> Foreign | None:
    kind = type(value)
    for library in ("pandas", "polars"):
        # Only their own class: a subclass or a look-alike may write any HTML.
        if kind is not getattr(sys.modules.get(library), "DataFrame", None):
            continue
        count, columns = value.shape
        title = f"DataFrame · {counted(count, 'row')} × {counted(columns, 'column')}"
        try:
            few = value.head(10)
            few = few.iloc[:, :MOST_COLUMNS] if library == "pandas" else few[:, :MOST_COLUMNS]
            page = re.sub(r"<style(?:[^<]|<(?!/?style))*+</style>", "", few._repr_html_() or "")
            return Foreign(title, plain(page, 100_000), plain(str(few), MOST_TEXT))
        except Exception:  # what stands in a frame is somebody's object with somebody's repr
            return Foreign(title, "", "")
    return None


BLOCK = "white-space:pre-wrap;overflow-wrap:break-word;max-height:320px;overflow:auto;margin:0"
INDENT = "list-style:none;margin:0;padding-left:1.2em"
LEFT = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


def _html(what: Shown, key: str = "", opened: bool = False) -> str:
    match what:
        case Words(text):
            return f"{key}<code>{html(text)}</code>"
        case Block(text):
            return f'{key}<pre style="{BLOCK}">{html(text)}</pre>'
        case Group(title, parts, more):
            items = "".join(f"<li>{_html(part, _key(name), len(parts) == 1)}</li>" for name, part in parts)
            items += f"<li>… {more:,} more</li>" if more else ""
            return _folded(key, title, f'<ul style="{INDENT}">{items}</ul>', opened)
        case Grid(title, columns, rows, more):
            return _folded(key, title, table_html(columns, rows) + (f"… {html(more)}" if more else ""), opened)
        case Foreign(title, page, text):
            return _folded(key, title, page, opened) if page else f"{key}<code>{html(title)}</code>"


def _folded(key: str, title: str, inside: str, opened: bool) -> str:
    return f"<details{' open' if opened else ''}><summary>{key}{html(title)}</summary>{inside}</details>"


def _key(name: str | None) -> str:
    return "" if name is None else f'<span style="opacity:0.7">{html(name)}:</span> '


SHORT = 24
"""Letters of a cell that stays on one line."""


def table_html(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], caption: str = "") -> str:
    """A table of plain texts."""
    head = "".join(f'<th scope="col" style="{LEFT}">{html(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(_td(cell) for cell in row)}</tr>" for row in rows)
    title = f'<caption style="text-align:left;caption-side:top">{caption}</caption>' if caption else ""
    inside = f"{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<table style="border:none;margin:0;color:inherit">{inside}</table>'


def _td(cell: str) -> str:
    nowrap = ";white-space:nowrap" if len(cell) <= SHORT else ""  # else a browser breaks "480 ms" in two
    return f'<td style="{LEFT}{nowrap}">{html(cell)}</td>'


def _text(what: Shown) -> list[str]:
    match what:
        case Words(text):
            return [text]
        case Block(text):
            return text.split("\n")
        case Group(_, parts, more):
            lines = [each for key, part in parts for each in _part(key, part)]
            return [*lines, *([f"… {more:,} more"] if more else [])]
        case Grid(_, columns, rows, more):
            return [*table_text(columns, rows), *([f"… {more}"] if more else [])]
        case Foreign(title, _, text):
            return [title, *(text.split("\n") if text else [])]


def _part(key: str | None, part: Shown) -> list[str]:
    lead = "- " if key is None else f"{key}: "
    match part:
        case Words(text):
            return [lead + text]
        case Group(title) | Grid(title) | Foreign(title):
            lines = _text(part)
            return [lead + title, *(f"  {each}" for each in (lines[1:] if isinstance(part, Foreign) else lines))]
    return [lead, *(f"  {each}" for each in _text(part))]


def table_text(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> list[str]:
    """Columns of text, each as wide as its widest cell."""
    both = (columns, *rows)
    widths = [max(map(cells, column)) for column in zip(*both, strict=True)]
    return ["  ".join(map(padded, row, widths)).rstrip() for row in both]
