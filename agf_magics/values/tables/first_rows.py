"""The first rows of a data frame as flat objects, which stand for it in previews.

After the rows is the mark of a frame, ``⟨DataFrame 55 × 3 · 35 more rows⟩``: its class, its size, and
what is left out. A frame is recognized by its exact class, because a subclass may run any code.
Only the rows that are shown are converted, so the length of a frame costs nothing.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from logging import DEBUG
from typing import Any, NamedTuple

from ...text.giving_up import note_given_up
from ...text.length import ATOMS
from ..no_json import has_no_json
from ..times import is_numpy_time
from ..value import Value
from .data_frames import with_index
from .rows import cell

MOST_ROWS = 20
"""The largest number of rows of a frame that are shown."""
MOST_COLUMNS = 12
"""The largest number of columns of a frame that are shown, its index included."""
LONGEST_SHOWN = 200
"""The number of characters of a cell that are shown."""
LONGEST_NAME = 100
"""The number of characters of a column's name that are shown."""
MOST_BYTES = 1_000_000
"""The largest number of bytes of the first rows of a frame outside Python that are converted."""

_COUNT = r"\d[\d,]{0,20}"
_MARK = re.compile(
    rf"⟨(DataFrame|Series|Table) ({_COUNT})(?: × ({_COUNT}))?"
    rf"(?: · (?:({_COUNT}) more rows?)?(?:, )?(?:({_COUNT}) more columns?)?)?⟩"
)


class FrameSize(NamedTuple):
    """The class of a frame, its size, and how much of it a preview leaves out."""

    kind: str
    """``DataFrame``, ``Series`` or ``Table``."""
    rows: int
    columns: int | None
    """The number of columns without the index; None: it is a series."""
    rows_left: int = 0
    columns_left: int = 0

    @property
    def word(self) -> str:
        """``⟨DataFrame 55 × 3⟩``"""
        width = "" if self.columns is None else f" × {self.columns:,}"
        return f"⟨{self.kind} {self.rows:,}{width}⟩"

    @property
    def mark(self) -> str:
        counts = ((self.rows_left, "row"), (self.columns_left, "column"))
        left = ", ".join(
            f"{count:,} more {noun}{'s' * (count != 1)}" for count, noun in counts if count
        )
        return f"{self.word[:-1]} · {left}⟩" if left else self.word


def frame_size(shown: Value) -> FrameSize | None:
    """The size of the frame of which ``shown`` is the preview that `first_rows` made; None for any
    other value.

    >>> frame_size([{"a": 1}, {"a": 2}, "⟨DataFrame 9 × 1 · 7 more rows⟩"])
    FrameSize(kind='DataFrame', rows=9, columns=1, rows_left=7, columns_left=0)
    """
    if type(shown) is not list or len(shown) < 2 or type(shown[-1]) is not str:
        return None
    mark = _MARK.fullmatch(shown[-1])
    if mark is None:
        return None
    kind, *counts = mark.groups()
    rows, columns, rows_left, columns_left = (int((n or "0").replace(",", "")) for n in counts)
    size = FrameSize(
        kind, rows, columns if counts[1] is not None else None, rows_left, columns_left
    )
    # A text of the person that happens to look like a mark does not add up.
    fits = rows == len(shown) - 1 + rows_left and size.mark == shown[-1]
    width = columns - columns_left
    is_table = all(type(row) is dict and len(row) >= width for row in shown[:-1])
    return size if fits and is_table else None


def column_types(frame: Value) -> list[str]:
    """The types of the columns that `first_rows` shows of ``frame``, its index included, in the words of
    its library; empty for a value that is no frame."""
    read = _reader_of(frame)
    if read is None:
        return []
    try:
        return _types_of(frame)[:MOST_COLUMNS]
    except Exception as error:
        note_given_up(__name__, "a table is shown without the types of its columns", error, DEBUG)
        return []


def is_frame(value: Value) -> bool:
    """Whether ``value`` is a frame of which `first_rows` shows the rows."""
    return _reader_of(value) is not None


def first_rows(frame: Value, cells: int, show: Callable[[Value], Value]) -> Value:
    """The first rows of ``frame`` and its mark. A frame without cells is a text with the names of
    its columns. None: ``frame`` is no frame, or cannot be converted. ``cells``: the largest number
    of cells, at least 1. ``show``: returns the preview of a cell."""
    read = _reader_of(frame)
    if read is None:
        return None
    try:
        return _first_rows(frame, read, max(cells, 1), show)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of polars is not a subclass of Exception
        note_given_up(__name__, "a table is shown by its size", error, DEBUG)
        return None


def _first_rows(frame: Any, read: _Read, cells: int, show: Callable[[Value], Value]) -> Value:
    count, *width = frame.shape
    most = min(MOST_COLUMNS, cells)
    named, columns, index = read(frame, most)
    names = column_texts(named[:most])
    left = max(0, width[0] - max(0, len(names) - index)) if width else 0
    size = FrameSize(type(frame).__name__, count, width[0] if width else None, 0, left)
    if not count or not names:
        about = ", ".join(names) + ", …" * (left > 0)
        return f"{size.word[:-1]}: {about}⟩" if names else size.word
    most_rows = max(cells // len(names), 1)
    rows = [
        {name: _shown_cell(part, show) for name, part in zip(names, row, strict=True)}
        for row in islice(zip(*columns[:most], strict=True), most_rows)
    ]
    return [*rows, size._replace(rows_left=count - len(rows)).mark]


def column_texts(names: Iterable[Any]) -> list[str]:
    """The names of columns as different texts. The levels of a name are joined with points."""
    texts = dict[str, None]()
    for name in names:
        levels = name if type(name) is tuple else (name,)
        text = ".".join(filter(None, map(str, levels)))[:LONGEST_NAME]
        number = 1
        different = text
        while different in texts:
            number += 1
            different = f"{text} ({number})"
        texts[different] = None
    return list(texts)


def _shown_cell(value: Value, show: Callable[[Value], Value]) -> Value:
    """A cell as JSON without parts."""
    kind = type(value)
    if kind is float:
        return None if has_no_json(value) else value
    if kind is not str and kind not in ATOMS:
        library = kind.__module__.partition(".")[0]
        # `cell` would copy a list of any length.
        if library in ("datetime", "pandas") or is_numpy_time(value) or has_no_json(value):
            value = cell(value)
        if type(value) not in ATOMS:
            value = str(value) if library == "pandas" else show(value)
    if type(value) in (list, dict):
        value = json.dumps(value, ensure_ascii=False)
    if type(value) is str:
        return value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}…"
    return show(value)


_Columns = tuple[list[Any], list[list[Value]], int]
"""The names of the columns, their cells, and how many of them are the index."""

_Read = Callable[[Any, int], _Columns]
"""Reads the first `MOST_ROWS` rows of a frame, and at least so many of its columns as it is asked
for."""


def _of_pandas(frame: Any, most: int) -> _Columns:
    # One axis at a time, which is seven times faster than both together.
    few = frame.iloc[:MOST_ROWS]
    few = few if few.shape[1] <= most else few.iloc[:, :most]
    flat = with_index(few)
    columns = [column.tolist() for _, column in flat.items()]
    return list(flat.columns), columns, flat.shape[1] - few.shape[1]


def _of_pandas_series(series: Any, most: int) -> _Columns:
    few = series.iloc[:MOST_ROWS]
    return _of_pandas(few.to_frame(UNNAMED if few.name is None else few.name), most)


def _of_polars(frame: Any, most: int) -> _Columns:
    few = frame.slice(0, MOST_ROWS)[:, :most]
    _refuse_large(few.estimated_size())
    return few.columns, [column.to_list() for column in few.get_columns()], 0


def _of_polars_series(series: Any, most: int) -> _Columns:
    return _of_polars(series.slice(0, MOST_ROWS).to_frame(series.name or UNNAMED), most)


def _of_arrow(table: Any, most: int) -> _Columns:
    few = table.slice(0, MOST_ROWS)
    columns = few.columns[:most]
    _refuse_large(sum(column.nbytes for column in columns))
    return few.column_names[:most], [column.to_pylist() for column in columns], 0


def _types_of(frame: Any) -> list[str]:
    if hasattr(frame, "schema") and hasattr(frame.schema, "types"):  # pyarrow
        kinds = frame.schema.types
    elif hasattr(frame, "index"):  # pandas
        few = frame.iloc[:0]
        kinds = with_index(few if few.ndim == 2 else few.to_frame(UNNAMED)).dtypes
    else:
        kinds = frame.dtypes if hasattr(frame, "dtypes") else [frame.dtype]
    return [str(kind)[:LONGEST_NAME] for kind in kinds]


def _refuse_large(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError("its first rows are too large")


UNNAMED = "value"
"""The name of the column of a series without a name."""

_READS: dict[str, tuple[tuple[str, _Read], ...]] = {
    "DataFrame": (("pandas", _of_pandas), ("polars", _of_polars)),
    "Series": (("pandas", _of_pandas_series), ("polars", _of_polars_series)),
    "Table": (("pyarrow", _of_arrow),),
}
"""The libraries that have a class of this name, and what reads its objects."""


def _reader_of(value: Value) -> _Read | None:
    kind = type(value)
    name = type.__getattribute__(kind, "__name__")
    for library, read in _READS.get(name, ()):
        if kind is getattr(sys.modules.get(library), name, None):
            return read
    return None
