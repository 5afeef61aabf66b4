"""Converts data frames of pandas, polars and pyarrow to rows, and rows to data frames."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from ...compat.imports import installed_only
from ...text.diagnostics import Diagnostic, StepError
from ..value import Value, type_name
from .columns import NotHeld, arrow_column, pandas_column, polars_column
from .rows import PAGE, Cells, Rows, cell, read_cells

MOST_CATEGORIES = 1_000
"""The largest number of categories of a pandas column that are stored, as a part of the run's
definition."""


_FROM_TEXT: Mapping[str, Callable[[str], Value]] = {
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
}
"""The kinds of objects in a column of pandas that rows have as texts, and what reads these. pandas has
no type for them, but a word."""


class FrameRows(Rows):
    """A DataFrame of pandas or polars, or a table of pyarrow."""

    def __init__(
        self,
        frame: Any,
        columns: Sequence[Any],
        records: Callable[..., Any],
        about: Mapping[str, Value] = {},
    ) -> None:
        """``records(frame, start, stop)``: returns these rows as mappings. ``about``: the result of
        `pandas_form_of`; empty for other libraries."""
        super().__init__()
        self.about = about
        self.frame = frame
        self.records = records
        self.length = len(frame)
        self.columns, self.names = tuple(map(str, columns)), list(columns)
        """The names of the columns as text, and as the frame has them."""

    def read(self, page: int) -> list[Cells | StepError]:
        start = page * PAGE
        stop = min((page + 1) * PAGE, self.length)

        def records(first: int, last: int, column: str | None) -> list[Mapping[str, Value]]:
            frame = self.frame
            if column is not None:
                frame = frame.select([column]) if hasattr(frame, "select") else frame[[column]]
            return list(self.records(frame, first, last))

        return read_cells(start, stop, self.names, records)


def arrow_table(columns: Sequence[str], rows: Iterable[Mapping[str, Value]]) -> Any:
    """A table of pyarrow with these rows. Raises ImportError without pyarrow, and StepError for a
    column that Arrow cannot hold."""
    row_list = list(rows)
    arrays = list[Any]()
    for name in columns:
        values = [row.get(name) for row in row_list]
        try:
            arrays.append(arrow_column(values))
        except NotHeld as error:
            place = error.numbers[0]
            message = f"row {place:,} {name!r} is {type_name(values[place])}"
            raise StepError(Diagnostic("over.cannot-hold", message)) from None
    return table_of_columns(columns, arrays)


def table_of_columns(columns: Sequence[str], arrays: Sequence[Any]) -> Any:
    """A table of pyarrow with these columns. Raises ImportError without pyarrow."""
    with installed_only():
        import pyarrow  # type: ignore[import-untyped]

    return pyarrow.table(list(arrays), names=list(columns))


def write_parquet(table: Any, file: BinaryIO) -> None:
    """Write a table of pyarrow to ``file``. Raises OSError, and ImportError without pyarrow."""
    with installed_only():
        from pyarrow import parquet

    parquet.write_table(table, file)


def in_polars_form(polars: Any, columns: Sequence[str], rows: Sequence[Mapping[str, Value]]) -> Any:
    """The rows as a DataFrame of polars. Raises ImportError without pyarrow."""
    return polars.DataFrame(
        [polars_column(polars, name, [row.get(name) for row in rows]) for name in columns]
    )


def with_index(frame: Any) -> Any:
    """``frame`` with its index as columns, unless the index only numbers the rows."""
    index = frame.index
    numbers = (0, 1, None)
    if type(index).__name__ == "RangeIndex" and (index.start, index.step, index.name) == numbers:
        return frame
    return frame.reset_index(allow_duplicates=True)


def pandas_form_of(frame: Any, flat: Any) -> Mapping[str, Value]:
    """The information to rebuild a DataFrame from its rows in JSON: the types of its columns, and
    the columns that are its index. ``flat``: ``frame`` with its index as columns."""
    index = list(map(str, flat.columns[: flat.shape[1] - frame.shape[1]]))
    types: dict[str, Value] = {}
    for place, (name, kind) in enumerate(zip(map(str, flat.columns), flat.dtypes, strict=True)):
        categories: Any = getattr(kind, "categories", ())
        if str(kind) == "category" and len(categories) <= MOST_CATEGORIES:
            types[name] = {
                "categories": list(map(cell, categories)),
                "ordered": bool(kind.ordered),
                "type": str(categories.dtype),
            }
        elif str(kind) != "object":
            types[name] = str(kind)
        elif (word := _kind_of_objects(flat.iloc[:, place])) in _FROM_TEXT:
            types[name] = word
    return {"types": types, "index": index, "names": list(frame.index.names) if index else []}


def in_pandas_form(
    pandas: Any, columns: list[str], rows: Sequence[Mapping[str, Value]], form: Mapping[str, Any]
) -> Any:
    """The DataFrame of ``rows`` with the types and the index of `pandas_form_of`. A column that
    cannot have its former type, for example because a row is missing, gets the type that its values
    suggest."""
    series = {name: pandas_column(pandas, [row.get(name) for row in rows]) for name in columns}
    frame = pandas.DataFrame(series, columns=columns, index=pandas.RangeIndex(len(rows)))
    for name, kind in form.get("types", {}).items():
        # Built from the values, because the DataFrame has turned whole numbers beside nulls into
        # floats.
        values = pandas.Series([row.get(name) for row in rows], dtype=object)
        with suppress(TypeError, ValueError, OverflowError):
            if isinstance(kind, dict):
                frame[name] = _in_categories(pandas, values, **kind)
            else:
                frame[name] = _of_type(pandas, values, kind)
    if form.get("index"):
        frame = frame.set_index(form["index"])
        frame.index.names = form["names"]
    return frame


def _kind_of_objects(column: Any) -> str:
    """The word of pandas for the objects in a column; its missing cells do not count."""
    return str(sys.modules["pandas"].api.types.infer_dtype(column, skipna=True))


def _of_type(pandas: Any, values: Any, kind: str) -> Any:
    """A column of cells in the type that a column of pandas had."""
    if kind in _FROM_TEXT:
        return values.map(_FROM_TEXT[kind], na_action="ignore").astype(object)
    if kind.startswith("timedelta"):
        return pandas.to_timedelta(values, unit="s").astype(kind)
    if kind == "bool" and values.isna().any():
        raise ValueError("in pandas a bool cannot be missing")  # `astype` would make it False
    return values.astype(kind)


def _in_categories(
    pandas: Any, values: Any, categories: list[Value], ordered: bool, type: str = "object"
) -> Any:
    """A column of cells in its former categories, whose type was ``type``."""
    known = pandas.Index(_of_type(pandas, pandas.Series(categories, dtype=object), type))
    present = values[values.notna()]
    codes = pandas.Series(-1, index=values.index)  # a missing cell has no category
    codes[present.index] = known.get_indexer(_of_type(pandas, present, type))
    if (codes[present.index] < 0).any():
        raise ValueError("a value is in no category")
    return pandas.Categorical.from_codes(codes, known, ordered)


def pandas_frame(frame: Any, start: int, stop: int) -> Any:
    return frame.iloc[start:stop].to_dict("records")


def polars_frame(frame: Any, start: int, stop: int) -> Any:
    return frame.slice(start, stop - start).to_dicts()


def arrow_form(table: Any, start: int, stop: int) -> Any:
    return table.slice(start, stop - start).to_pylist()
