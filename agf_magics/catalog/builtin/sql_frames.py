"""Converts the tables of the tool ``sql`` to Arrow, and the result to the kind of the first table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...values.json_text import write_json
from ...values.no_json import has_no_json
from ...values.tables.columns import LONGEST_CELL
from ...values.tables.data_frames import FrameRows, arrow_table, table_of_columns
from ...values.tables.rows import Rows, cell
from ...values.tables.tables import library_of, open_rows
from ...values.value import Value, type_name

FRAMES = "a DataFrame of pandas or polars, an Arrow table, or a list of mappings"
ONE_TYPE = "make all of them whole numbers, floats or texts, or leave the column out"
CONVERTED = "convert it to numbers, times or texts first, or leave the column out"
ROUNDED = "round them to microseconds first, as frame['wait'].dt.round('us') of pandas does"
RENAMED = "give one of them another name: select t.id, u.id as other_id"

_DAY = 86_400_000_000
"""The microseconds of a day."""


def same_in_sql(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that SQL takes for the same, because DuckDB ignores the case of ASCII
    letters."""
    seen: dict[bytes, str] = {}
    for name in names:
        other = seen.setdefault(name.encode("utf-8", "surrogatepass").lower(), name)
        if other is not name:
            return other, name
    return None


def arrow_of_frame(name: str, frame: Value, pyarrow: Any) -> Any:
    """``frame`` as an Arrow table. A text is refused, not read as a path: a query reads no file."""
    try:
        if isinstance(frame, str | Path | Rows):
            raise StepError(Diagnostic("tool.sql-frame", f"it is {type_name(frame)}"))
        rows = open_rows(frame)
        if not rows.columns:
            raise StepError(Diagnostic("tool.sql-frame", "it has no columns"))
        if double := same_in_sql(rows.columns):
            same = f"its columns {double[0]!r} and {double[1]!r} have the same name in SQL"
            raise StepError(Diagnostic("tool.sql-frame", same, hint="rename one of them"))
        table = _without_half_floats(_arrow_of_rows(rows, pyarrow), pyarrow)
        _refuse_what_sql_changes(table, pyarrow)
        return table
    except (AgfError, pyarrow.ArrowException, TypeError, ValueError) as error:
        why: object = error
        hint = FRAMES
        if isinstance(error, AgfError):
            why = error.diagnostic.message
            # Hints of other codes may advise to name a file.
            if error.code in ("tool.sql-frame", "over.columns"):
                hint = error.diagnostic.hint or FRAMES
            elif error.code == "over.cannot-hold":
                hint = CONVERTED
        message = f"the frame {name!r} cannot be used: {why}"
        raise StepError(Diagnostic("tool.sql-frame", message, hint=hint)) from None


def _arrow_of_rows(rows: Rows, pyarrow: Any) -> Any:
    if not isinstance(rows, FrameRows):
        return _rows_table(rows.columns, list(rows), pyarrow)
    frame = rows.frame
    library = library_of(frame)
    if library == "pandas":
        columns = [_pandas_column(frame, place, pyarrow) for place in range(frame.shape[1])]
        return table_of_columns(rows.columns, columns)
    if library == "polars":
        columns = [_polars_column(column, pyarrow) for column in frame.get_columns()]
        return table_of_columns(rows.columns, columns)
    return frame


def _without_half_floats(table: Any, pyarrow: Any) -> Any:
    """Floats of 16 bits as floats of 32 bits, which are the same numbers: DuckDB has no smaller ones."""
    is_half = pyarrow.types.is_float16
    columns = [
        column.cast(pyarrow.float32()) if is_half(column.type) else column
        for column in table.columns
    ]
    return table_of_columns(table.column_names, columns)


def _refuse_what_sql_changes(table: Any, pyarrow: Any) -> None:
    """Refuse the columns that DuckDB accepts and returns as other values: periods become numbers,
    and durations lose their nanoseconds."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if getattr(kind, "extension_name", "").startswith("pandas."):
            message = (
                f"its column {name!r} has values that SQL does not have: {kind.extension_name}"
            )
            raise StepError(Diagnostic("tool.sql-frame", message, hint=CONVERTED))
        if pyarrow.types.is_duration(kind):
            try:
                column.cast(pyarrow.duration("us"))
            except pyarrow.ArrowInvalid:
                message = f"its column {name!r} has durations that SQL would cut to microseconds"
                raise StepError(Diagnostic("tool.sql-frame", message, hint=ROUNDED)) from None


def _polars_column(column: Any, pyarrow: Any) -> Any:
    """A column of a polars DataFrame as an Arrow column. polars itself turns a column of objects
    into their addresses in memory."""
    if str(column.dtype) != "Object":
        return column.to_arrow()
    cells = [{column.name: cell(value)} for value in column.to_list()]
    return _rows_table([column.name], cells, pyarrow).column(0)


def _pandas_column(frame: Any, place: int, pyarrow: Any) -> Any:
    """A column of a pandas DataFrame as an Arrow column. Objects of several types are converted one
    by one, because Arrow drops the time of a datetime that stands beside a date."""
    column = frame.iloc[:, place]
    kinds = {type(value) for value in column if value is not None and not has_no_json(value)}
    if str(column.dtype) != "object" or len(kinds) < 2:
        with suppress(pyarrow.ArrowException, OverflowError):
            part = frame.iloc[:, [place]]
            return pyarrow.Table.from_pandas(part, preserve_index=False).column(0)
    name = str(frame.columns[place])
    return _rows_table([name], [{name: cell(value)} for value in column], pyarrow).column(0)


def _rows_table(names: Sequence[str], rows: Sequence[Mapping[str, Value]], pyarrow: Any) -> Any:
    """Rows as an Arrow table. A column of texts and other values becomes texts, in which each text
    is itself, so that a query finds it. Raises StepError for mixed numbers that no one type holds:
    as texts they would be compared by their characters."""
    table = arrow_table(names, rows)
    columns = list(table.columns)
    for place, name in enumerate(names):
        if not pyarrow.types.is_string(columns[place].type):
            continue
        kinds = {type(row.get(name)) for row in rows} - {type(None)}
        if kinds and kinds <= {int, float, bool}:
            listed = ", ".join(sorted(kind.__name__ for kind in kinds))
            message = f"its column {name!r} has numbers that no one type of SQL holds: {listed}"
            raise StepError(Diagnostic("tool.sql-frame", message, hint=ONE_TYPE))
        if str in kinds and len(kinds) > 1:
            texts = [_text_in_sql(row.get(name)) for row in rows]
            columns[place] = pyarrow.array(texts, type=pyarrow.string())
    return table_of_columns(names, columns)


def _text_in_sql(value: Value) -> str | None:
    if value is None or type(value) is str:
        return value
    return write_json(value, LONGEST_CELL, compact=False).text


def have_decimals(tables: Mapping[str, Any], pyarrow: Any) -> bool:
    types = pyarrow.types
    return any(types.is_decimal(kind) for table in tables.values() for kind in table.schema.types)


def frame_like(first: Value, table: Any, has_decimals: bool, pyarrow: Any) -> Value:
    """``table`` as a data frame of the same kind as ``first``. ``has_decimals``: whether a table of
    the query has decimals."""
    names = table.column_names
    if double := next((name for name in names if names.count(name) > 1), None):
        message = f"two columns of the result are called {double!r}"
        raise StepError(Diagnostic("tool.sql-query", message, hint=RENAMED))
    arrays = [_plain(column, has_decimals, pyarrow) for column in table.columns]
    table = pyarrow.table(arrays, names=names)
    library = library_of(first)
    if library == "polars":
        return sys.modules["polars"].from_arrow(table)
    if library == "pandas":
        return _pandas(table, sys.modules["pandas"], pyarrow)
    return table if library == "pyarrow" else _records(table, pyarrow)


def _plain(column: Any, has_decimals: bool, pyarrow: Any) -> Any:
    """Convert decimals and intervals back to numbers and durations if nothing is lost. DuckDB turns
    a sum of whole numbers, and ``1.5``, into a decimal, and a duration into an interval."""
    kind = column.type
    if pyarrow.types.is_decimal(kind):
        return _numbers(column, has_decimals, pyarrow)
    if not pyarrow.types.is_interval(kind):
        return column
    parts = column.to_pylist()
    if any(part is not None and part.months for part in parts):  # months have no fixed length
        return column
    spans = [None if p is None else p.days * _DAY + p.nanoseconds // 1000 for p in parts]
    return pyarrow.array(spans, type=pyarrow.duration("us"))


def _numbers(column: Any, has_decimals: bool, pyarrow: Any) -> Any:
    """A column of decimals as whole numbers, or as floats if these are the same numbers. If a table
    of the query has decimals, decimals with a fraction stay decimals."""
    if column.type.scale == 0:
        for whole in ("int64", "uint64"):
            with suppress(pyarrow.ArrowInvalid):
                return column.cast(whole)
    elif not has_decimals:
        with suppress(pyarrow.ArrowInvalid):
            floats = column.cast("float64")
            if floats.cast(column.type).equals(column):
                return floats
    return column


def _is_too_large_decimal(column: Any, pyarrow: Any) -> bool:
    """Whether a column of a result has whole numbers that are too large for Arrow, though not for
    Python."""
    return bool(pyarrow.types.is_decimal(column.type)) and column.type.scale == 0


def _ints(column: Any) -> list[int | None]:
    return [None if value is None else int(value) for value in column.to_pylist()]


def _pandas(table: Any, pandas: Any, pyarrow: Any) -> Any:
    """``table`` as a pandas DataFrame. Whole numbers beside NULL stay whole numbers, not floats,
    also in lists and structs."""
    frame = table.to_pandas()
    for place, column in enumerate(table.columns):
        if pyarrow.types.is_nested(column.type):
            frame.isetitem(place, pandas.Series(column.to_pylist(), dtype=object))
        elif column.null_count and pyarrow.types.is_integer(column.type):
            kind = "UInt64" if str(column.type) == "uint64" else "Int64"
            frame.isetitem(place, pandas.array(column.to_pylist(), dtype=kind))
        elif _is_too_large_decimal(column, pyarrow):
            frame.isetitem(place, pandas.Series(_ints(column), dtype=object))
    return frame


def _records(table: Any, pyarrow: Any) -> Value:
    columns = [
        _ints(column)
        if _is_too_large_decimal(column, pyarrow)
        else list(map(cell, column.to_pylist()))
        for column in table.columns
    ]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
