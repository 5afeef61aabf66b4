"""`TableDifference`, what differs between two tables: their sizes, columns, rows and cells.

A table is what `value_json` shows as one: the preview of a data frame, or a list of flat objects. Rows
are matched by a column that names them, else by their content, so that a row that is inserted does not
make all rows after it differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from ..journal.codec.encoding import without_mark
from ..text.length import ATOMS
from ..values.tables.first_rows import FrameSize, frame_size
from ..values.value import Value
from .amounts import counted
from .plain import line
from .values import value_json

MOST_ROWS = 10_000
"""The most rows of a table that is compared as a table."""
MOST_MATCHED = 1_000
"""The most rows of a table that are matched; the time grows with their square. Rows of a longer table
are compared by their numbers."""

_Row = dict[str, Value]


class DifferingRow(NamedTuple):
    """A row that differs: its number in each table, and its cells; None: the table does not have it."""

    first: int | None
    other: int | None
    mine: _Row | None
    theirs: _Row | None

    @property
    def number(self) -> int:
        """The number of the row in the first table, or else in the other one."""
        return self.first if self.first is not None else self.other or 0


class TableDifference(NamedTuple):
    """The difference of two tables."""

    sizes: tuple[str, str]
    """The sizes, ``30 × 3``, ``30 rows``."""
    marks: tuple[str, str] | None
    """The sizes of two frames as the marks of values."""
    columns: tuple[str, ...]
    """The columns of both tables."""
    common: frozenset[str]
    """The columns that both tables have."""
    only_first: tuple[str, ...]
    only_other: tuple[str, ...]
    rows: tuple[DifferingRow, ...]
    compared: int
    """The rows of the first table that are compared; of a large frame, those of its preview."""
    is_whole: bool
    """Whether all rows of both tables are compared."""
    cells: tuple[Sequence[_Row], Sequence[_Row]]
    """The rows of both tables that are compared."""

    def words(self) -> str:
        """``30 × 3 → 28 × 3 · column rain only in the first · 1 of the first 20 rows differs``"""
        said = [" → ".join(dict.fromkeys(self.sizes))]
        for names, which in ((self.only_first, "first"), (self.only_other, "second")):
            if names:
                word = "column" if len(names) == 1 else "columns"
                said.append(f"{word} {line(', '.join(names), 120)} only in the {which}")
        changed = sum(row.mine is not None and row.theirs is not None for row in self.rows)
        first = "" if self.is_whole else "first "
        if changed:
            differs = "differs" if changed == 1 else "differ"
            said.append(f"{changed:,} of the {first}{counted(self.compared, 'row')} {differs}")
        for which, lacks in (("first", "theirs"), ("second", "mine")):
            alone = sum(getattr(row, lacks) is None for row in self.rows)
            if alone:
                said.append(f"{counted(alone, 'row')} only in the {which}")
        if not self.is_whole and not self.rows:
            said.append(f"the first {counted(self.compared, 'row')} are the same")
        return " · ".join(said)


def table_difference(first: Value, other: Value) -> TableDifference | None:
    """The difference of two tables; None: one of the values is none, or nothing that is shown of them
    differs.

    >>> difference = table_difference([{"a": 1, "b": 1}, {"a": 2, "b": 1}], [{"a": 2, "b": 5}, {"a": 3, "b": 1}])
    >>> difference.words()
    '2 rows · 1 of the 2 rows differs · 1 row only in the first · 1 row only in the second'
    """
    if not (_has_flat_rows(first) and _has_flat_rows(other)):
        return None
    if "grid" not in (value_json(first)["kind"], value_json(other)["kind"]):
        return None
    frames = frame_size(first), frame_size(other)
    (mine, count), (theirs, other_count) = without_mark(first), without_mark(other)
    columns = tuple(dict.fromkeys(name for row in (*mine, *theirs) for name in row))
    names = [{name for row in rows for name in row} for rows in (mine, theirs)]
    common = [name for name in columns if name in names[0] and name in names[1]]
    is_cut = count > len(mine), other_count > len(theirs)
    difference = TableDifference(
        sizes=(_size(frames[0], count), _size(frames[1], other_count)),
        marks=(frames[0].word, frames[1].word) if frames[0] and frames[1] else None,
        columns=columns,
        common=frozenset(common),
        only_first=tuple(name for name in columns if name not in names[1]),
        only_other=tuple(name for name in columns if name not in names[0]),
        rows=tuple(_rows(mine, theirs, common, is_cut)),
        compared=len(mine),
        is_whole=not any(is_cut),
        cells=(mine, theirs),
    )
    is_same = difference.sizes[0] == difference.sizes[1] and not (
        difference.rows or difference.only_first or difference.only_other
    )
    return None if is_same else difference


def _has_flat_rows(value: Value) -> bool:
    if type(value) is not list or not 0 < len(value) <= MOST_ROWS:
        return False
    rows, _ = without_mark(value)
    return bool(rows) and all(
        type(row) is dict and row and all(type(cell) in ATOMS for cell in row.values())
        for row in rows
    )


def _size(frame: FrameSize | None, count: int) -> str:
    if frame is None or frame.columns is None:
        return counted(count, "row")
    return f"{frame.rows:,} × {frame.columns:,}"


def _rows(
    mine: Sequence[_Row], theirs: Sequence[_Row], common: Sequence[str], is_cut: tuple[bool, bool]
) -> Iterator[DifferingRow]:
    """The rows that differ. A row at the end of a preview that the other one does not have may be among
    the rows that the other preview leaves out, so it is not listed."""
    pairs = list(_matched(mine, theirs, common))
    last = max((n for n, (a, b) in enumerate(pairs) if None not in (a, b)), default=-1)
    for number, (a, b) in enumerate(pairs):
        if number > last and ((a is None and is_cut[0]) or (b is None and is_cut[1])):
            continue
        cells = (mine[a] if a is not None else None, theirs[b] if b is not None else None)
        if None in cells or any(
            not same_cell(mine[a or 0], theirs[b or 0], name) for name in common
        ):
            yield DifferingRow(a, b, *cells)


def _matched(
    mine: Sequence[_Row], theirs: Sequence[_Row], common: Sequence[str]
) -> Iterator[tuple[int | None, int | None]]:
    """The numbers of the rows that stand for each other, in the order of the tables."""
    if max(len(mine), len(theirs)) > MOST_MATCHED or not common:
        both = min(len(mine), len(theirs))
        yield from ((n, n) for n in range(both))
        yield from ((n, None) for n in range(both, len(mine)))
        yield from ((None, n) for n in range(both, len(theirs)))
        return
    key = _naming_column(mine, theirs, common)
    used = [key] if key is not None else common
    keys = [[tuple(_key(row, name) for name in used) for row in rows] for rows in (mine, theirs)]
    for what, a, a_end, b, b_end in SequenceMatcher(
        None, keys[0], keys[1], autojunk=False
    ).get_opcodes():
        # Rows that have no name of their own stand for each other where they are as many.
        both = min(a_end - a, b_end - b) if what == "equal" or key is None else 0
        yield from ((a + n, b + n) for n in range(both))
        yield from ((n, None) for n in range(a + both, a_end))
        yield from ((None, n) for n in range(b + both, b_end))


def _naming_column(
    mine: Sequence[_Row], theirs: Sequence[_Row], common: Sequence[str]
) -> str | None:
    """The first column of whose texts or whole numbers each is one row's alone, and most are in both
    tables; None: there is none."""
    for name in common:
        of_mine, of_theirs = ([row.get(name) for row in rows] for rows in (mine, theirs))
        if not all(type(cell) in (str, int) for cell in (*of_mine, *of_theirs)):
            continue
        names, others = {*of_mine}, {*of_theirs}
        is_unique = len(names) == len(mine) and len(others) == len(theirs)
        if is_unique and 2 * len(names & others) >= min(len(names), len(others)):
            return name
    return None


def _key(row: _Row, name: str) -> object:
    """A cell as it is matched: equal cells of different types are different."""
    cell = row.get(name)
    return name in row, type(cell), cell if cell == cell else "NaN"


def same_cell(mine: _Row, theirs: _Row, name: str) -> bool:
    """Whether two rows have the same cell, or both have none."""
    return _key(mine, name) == _key(theirs, name)
