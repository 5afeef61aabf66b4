"""The difference of two values, part by part, and of two texts, line by line, in bounded time."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ..values.extent import CONTAINERS
from ..values.tables.first_rows import frame_size
from ..values.value import Value, equal
from .plain import html, line, lines_html, plain
from .table_difference import TableDifference, same_cell, table_difference
from .text_tables import wide
from .value_line import value_line
from .values import value_among, value_text

MISSING: Final[Any] = object()
"""Stands for the part that one of the two values does not have."""

MOST_PARTS = 200_000
"""The most parts of two values that are compared."""
MOST_DEEP = 40
"""Levels of two values that are looked into; deeper parts are compared as a whole."""
MOST_LINES = 1_000
"""The most changed lines that are matched with each other: the time grows with their square."""
MOST_SHOWN = 400
"""The most lines of a difference that are displayed."""
_WIDE = 60
"""The most characters of a value in a table."""


class DifferingPart(NamedTuple):
    """A part that differs between two values."""

    path: str
    """``.limit``, ``[2].name``"""
    first: Any
    other: Any
    table: TableDifference | None = None
    """The tables of which it is a part."""
    path_of_table: str = ""


def find_differences(first: Value, other: Value) -> Iterator[tuple[str, Any, Any]]:
    """The path of each part that differs (`.limit`, `[2].name`), and the part in both values, or
    `MISSING`. If the first `MOST_PARTS` parts are equal and there are more, the whole values. A column
    that only one of two tables has is one part, ``[*].kg``, with its cells.

    >>> list(find_differences({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3]}))
    [('.b[1]', 2, 3)]
    """
    for part in differing_parts(first, other):
        yield part.path, part.first, part.other


def differing_parts(first: Value, other: Value) -> Iterator[DifferingPart]:
    """The parts of `find_differences`, with the tables that they are in."""
    differs = False
    waiting: list[tuple[str, Any, Any, int]] = [("", first, other, 0)]
    for _ in range(MOST_PARTS):
        if not waiting:
            break
        path, mine, theirs, depth = waiting.pop()
        if depth < MOST_DEEP and type(mine) is type(theirs) is dict:
            keys = list(dict.fromkeys((*mine, *theirs)))[: MOST_PARTS - len(waiting)]
            waiting += [
                (_below(path, key), mine.get(key, MISSING), theirs.get(key, MISSING), depth + 1)
                for key in reversed(keys)
            ]
        elif depth < MOST_DEEP and type(mine) is type(theirs) is list:
            if (table := table_difference(mine, theirs)) is not None:
                for below, a, b in _parts_of(table):
                    differs = True
                    yield DifferingPart(path + below, a, b, table, path)
                continue
            sizes = frame_size(mine), frame_size(theirs)
            if None not in sizes:  # their marks are not two rows
                mine, theirs = mine[:-1], theirs[:-1]
            size = min(max(len(mine), len(theirs)), MOST_PARTS)
            waiting += [
                (f"{path}[{n}]", _element(mine, n), _element(theirs, n), depth + 1)
                for n in reversed(range(size))
            ]
        elif _differ(mine, theirs):
            differs = True
            yield DifferingPart(path, mine, theirs)
    if waiting and not differs:
        yield DifferingPart("", first, other)


def _parts_of(table: TableDifference) -> Iterator[tuple[str, Any, Any]]:
    """The parts of two tables that differ."""
    mine, theirs = table.cells
    if table.marks is not None and table.marks[0] != table.marks[1]:
        yield "", *table.marks
    for name in table.only_first:
        yield _below("[*]", name), [row.get(name) for row in mine], MISSING
    for name in table.only_other:
        yield _below("[*]", name), MISSING, [row.get(name) for row in theirs]
    for row in table.rows:
        path = f"[{row.number}]"
        if row.mine is None or row.theirs is None:
            in_first, in_other = (
                MISSING if cells is None else cells for cells in (row.mine, row.theirs)
            )
            yield path, in_first, in_other
            continue
        for name in row.mine | row.theirs:
            if name in table.common and not same_cell(row.mine, row.theirs, name):
                yield (
                    _below(path, name),
                    row.mine.get(name, MISSING),
                    row.theirs.get(name, MISSING),
                )


def _differ(mine: Any, theirs: Any) -> bool:
    """Whether two parts differ as wholes. NaN and NaN do not differ."""
    if mine is theirs:
        return False
    if type(mine) is not type(theirs):
        return True
    if type(mine) in CONTAINERS:
        return not equal(mine, theirs)
    # The `==` of an array or a frame is no truth: two of them are compared by who they are.
    with suppress(Exception):
        return bool(mine != theirs and (mine == mine or theirs == theirs))
    return True


def _element(elements: list[Any], number: int) -> Any:
    return elements[number] if number < len(elements) else MISSING


def _below(path: str, key: object) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}"
    return f"{path}[{line(repr(key), _WIDE)}]"


def shorten_pair(first: Value, other: Value, is_exact: bool = True) -> tuple[str, str]:
    """Both values as short texts. Long texts begin shortly before their first difference. ``is_exact``:
    False for values that are not compared, whose numbers are rounded as in any other table.

    >>> shorten_pair("3", 3)
    ('"3"', '3')
    >>> shorten_pair(["Zürich"], {"city": "Bern"})
    ('["Zürich"]', '{city: "Bern"}')
    """
    if not (type(first) is type(other) is str):
        return _short(first, is_exact=is_exact), _short(other, is_exact=is_exact)
    # The length of the common beginning, by bisection: Python compares slices fast, in C.
    same = 0
    end = min(len(first), len(other))
    while same < end:
        middle = (same + end + 1) // 2
        if first[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle - 1
    # A long text begins a third of the width before the difference.
    start = max(0, same - _WIDE // 3) if max(len(first), len(other)) > _WIDE else 0
    return _short(first, start), _short(other, start)


def _short(value: Value, start: int = 0, is_exact: bool = True) -> str:
    if type(value) is str:
        return f'{"…" if start else ""}"{line(value[start : start + 4 * _WIDE], _WIDE)}"'
    if type(value) is dict and value:
        return f"{{{value_line(value, _WIDE - 2)}}}"
    if type(value) is list:
        return value_line(value, _WIDE)
    return line(value_text(value, is_exact=True) if is_exact else value_among(value), _WIDE)


def text_difference(title: str, first: str | None, other: str | None) -> str:
    """A unified diff with three lines around each change; empty if the texts are the same. ``None``: a
    run has no such text.

    More than `MOST_LINES` lines are not matched with each other: all lines from the first that
    differs to the last are removed and added.

    >>> print(text_difference("p", "a", "b"), end="")
    --- p
    +++ p of the other run
    @@ -1 +1 @@
    -a
    +b
    """
    if first == other:
        return ""
    # A line break at the end of a cell does not begin a further line.
    a = first.removesuffix("\n").split("\n") if first is not None else []
    b = other.removesuffix("\n").split("\n") if other is not None else []
    heads = (
        f"--- {_head(title) if first is not None else 'nothing'}\n",
        f"+++ {_head(title) + ' of the other run' if other is not None else 'nothing'}\n",
    )
    start = _same(a, b)
    end = _same(a[start:][::-1], b[start:][::-1])
    if max(len(a), len(b)) - start - end > MOST_LINES:
        lines = [
            f"@@ line {start + 1} @@",
            *(f"-{text_line}" for text_line in a[start : len(a) - end]),
            *(f"+{text_line}" for text_line in b[start : len(b) - end]),
        ]
    else:
        low = max(0, start - 3)
        high = max(0, end - 3)
        diff = difflib.unified_diff(a[low : len(a) - high], b[low : len(b) - high], lineterm="")
        changes = list(diff)[2:]  # without the two heads of difflib
        lines = [
            _moved(text_line, low) if text_line.startswith("@@") else text_line
            for text_line in changes
        ]
    return "".join(heads) + "".join(f"{text_line}\n" for text_line in lines)


def _head(title: str) -> str:
    return line(title, 120)


def _moved(head: str, by: int) -> str:
    """The head of a part, ``@@ -1,3 +1,4 @@``, with its line numbers moved ``by`` lines."""
    moved = []
    for part in head.split()[1:3]:
        number, comma, count = part[1:].partition(",")
        moved.append(f"{part[0]}{int(number) + by}{comma}{count}")
    return f"@@ {' '.join(moved)} @@"


def _same(a: list[str], b: list[str]) -> int:
    """The number of equal lines with which both lists begin."""
    return next(
        (n for n, (mine, theirs) in enumerate(zip(a, b, strict=False)) if mine != theirs),
        min(len(a), len(b)),
    )


def diff_text(text: str) -> str:
    """The first `MOST_SHOWN` lines of a unified diff, each shortened."""
    lines, more = _shown(text)
    return "\n".join([*lines, *([more] if more else [])])


def diff_html(text: str) -> str:
    """A unified diff with its lines in colour; the signs say the same without colour."""
    lines, more = _shown(text)
    inside = "".join(_line_html(text_line) for text_line in lines)
    style = "margin:0;background:none;line-height:1.4;white-space:pre;color:inherit"
    return wide(lines_html(inside, style)) + (f"<p>{html(more)}</p>" if more else "")


TINTS = {"+": "rgba(46,160,67,0.22)", "-": "rgba(248,81,73,0.22)"}


def _line_html(text_line: str) -> str:
    paint = ""
    if text_line.startswith(("+++", "---", "@@")):
        paint = ";opacity:0.7"
    elif tint := TINTS.get(text_line[:1]):
        paint = f";background-color:{tint}"
    return f'<div style="min-height:1.4em{paint}">{html(text_line)}</div>'


def _shown(text: str) -> tuple[list[str], str]:
    lines = text.rstrip("\n").split("\n")
    shown = [plain(text.replace("\t", "    ")[:1_000], 200) for text in lines[:MOST_SHOWN]]
    more = len(lines) - len(shown)
    return shown, f"… {more:,} more lines: .definitions has all" if more else ""
