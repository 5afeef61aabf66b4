"""The built-in tool ``sql``: a query of DuckDB over tables that a flow passes (decision D68).

The query may come from a model, so it only computes: one SELECT, over the given frames and nothing
else. DuckDB itself refuses files, the network and extensions, and a query cannot turn this off,
because the configuration is locked. It is planned and run in a process of its own (sql_process.py),
because the planner cannot be interrupted; in a page it runs here, without a time limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...compat.browser import IN_BROWSER
from ...compat.imports import installed_only
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...values.tables.data_frames import FrameRows, arrow_table
from ...values.tables.rows import Rows, cell
from ...values.tables.tables import open_rows
from ...values.value import Value, type_name
from .sql_child import CONFIGURATION, MEMORY, NotOneSelect, TooMuch, answer, register
from .sql_process import QUERIES, Ended, NoProcess

SECONDS = 60.0
"""The time of a query, unless it names another one."""

SQL_INSTALL = "pip install 'agf-magics[sql]'"
FRAMES = "a DataFrame of pandas or polars, an Arrow table, or a list of mappings"
REFUSED = "it reads the frames of its argument frames: no files, no network, no extensions"
SMALLER = "select fewer rows or columns, or aggregate them"
LONGER = "give it more time: timeout: 300"


def query_frames(
    query: str, frames: Mapping[str, Value], timeout: float, stopped: Callable[[], bool]
) -> Value:
    """The result of ``query`` over ``frames``, as a frame of the kind of the first one. ``timeout``
    in seconds; ``stopped``: whether the call on this thread was cancelled. Raises StepError
    ``tool.sql-…``."""
    try:
        with installed_only():
            import pyarrow  # type: ignore[import-untyped]

            if find_spec("duckdb") is None:
                raise ImportError("no duckdb", name="duckdb")
    except ImportError as error:
        message = f"the tool 'sql' needs the package {error.name}"
        raise StepError(Diagnostic("tool.sql-missing", message, hint=SQL_INSTALL)) from None
    tables = {name: _table(name, frame, pyarrow) for name, frame in frames.items()}
    # A page has no processes: there the query runs in it, and its person can close it (decision D59).
    run = _run_here if IN_BROWSER else QUERIES.run
    try:
        result = run(query, tables, timeout, stopped)
    except NoProcess as error:
        message = f"the process of the query cannot be started: {error}"
        raise StepError(Diagnostic("tool.sql-query", message)) from None
    except Ended as error:
        if str(error) == "memory":
            raise _too_much() from None
        message = f"the query did not end within {timeout:g} s"
        raise StepError(Diagnostic("tool.sql-time", message, hint=LONGER)) from None
    if isinstance(result, dict):
        raise _failed(result["kind"], result["text"])
    return _like(next(iter(frames.values()), None), result, pyarrow)


def _table(name: str, frame: Value, pyarrow: Any) -> Any:
    """A frame as an Arrow table. A text is no path here: a query reads no file."""
    try:
        if isinstance(frame, str | Path | Rows):
            raise StepError(Diagnostic("tool.sql-frame", f"it is {type_name(frame)}"))
        rows = open_rows(frame)
        if not rows.columns:
            raise StepError(Diagnostic("tool.sql-frame", "it has no columns"))
        held = rows.frame if isinstance(rows, FrameRows) else None
        library = type(held).__module__.partition(".")[0]
        if library == "pandas":
            with suppress(pyarrow.ArrowException):  # a column of values of different kinds
                return pyarrow.Table.from_pandas(held, preserve_index=False)
        if held is None or library == "pandas":
            return arrow_table(rows.columns, rows)
        return held.to_arrow() if library == "polars" else held
    except (AgfError, pyarrow.ArrowException, TypeError, ValueError) as error:
        why = error.diagnostic.message if isinstance(error, AgfError) else error
        message = f"the frame {name!r} cannot be used: {why}"
        raise StepError(Diagnostic("tool.sql-frame", message, hint=FRAMES)) from None


def _run_here(
    query: str, tables: Mapping[str, Any], timeout: float, stopped: Callable[[], bool]
) -> Any:
    """As `Queries.run`, in this process: without a limit of time."""
    import duckdb
    import pyarrow

    with duckdb.connect(":memory:", config=CONFIGURATION) as connection:
        try:
            register(connection, tables)
            return answer(connection, query, duckdb, pyarrow)
        except (NotOneSelect, TooMuch) as error:
            return {"kind": type(error).__name__, "text": str(error)}
        except (duckdb.Error, pyarrow.ArrowException, OSError) as error:
            return {"kind": "query", "text": str(error)}


def _failed(kind: str, text: str) -> StepError:
    if kind == NotOneSelect.__name__:
        return StepError(Diagnostic("tool.sql-refused", text, hint=REFUSED))
    return _too_much() if kind == TooMuch.__name__ else _explained(text)


def _too_much() -> StepError:
    message = f"the query or its result needs more than {MEMORY // 10**6:,} MB"
    return StepError(Diagnostic("tool.sql-memory", message, hint=SMALLER))


def _explained(text: str) -> StepError:
    """The error of a message of DuckDB: ``Kind Error: what is wrong``, and lines with the place."""
    kind, _, message = text.partition(": ")
    message, _, more = message.partition("\n")
    if "Out of Memory" in kind:
        return _too_much()
    if "Permission" in kind:
        return StepError(Diagnostic("tool.sql-refused", message, hint=REFUSED))
    hint = " ".join(
        line for line in more.split("\n") if line and not line.startswith((" ", "LINE"))
    )
    return StepError(Diagnostic("tool.sql-query", message or kind, hint=hint or None))


def _like(first: Value, table: Any, pyarrow: Any) -> Value:
    """``table`` as a frame of the kind of ``first``. Numbers are numbers: what DuckDB counts is a
    decimal in Arrow."""
    arrays = [_numbers(column, pyarrow) for column in table.columns]
    table = pyarrow.table(arrays, names=table.column_names)
    library = type(first).__module__.partition(".")[0]
    if library == "polars":
        return sys.modules["polars"].from_arrow(table)
    if library == "pandas":
        return _pandas(table, sys.modules["pandas"], pyarrow)
    return table if library == "pyarrow" else _records(table)


def _numbers(column: Any, pyarrow: Any) -> Any:
    """A column of decimals as whole numbers, if they are and fit, else as floats."""
    if not pyarrow.types.is_decimal(column.type):
        return column
    if column.type.scale == 0:
        with suppress(pyarrow.ArrowInvalid):
            return column.cast("int64")
    return column.cast("float64")


def _pandas(table: Any, pandas: Any, pyarrow: Any) -> Any:
    """Whole numbers stay whole beside NULL, where pandas would make floats of them."""
    frame = table.to_pandas()
    for place, column in enumerate(table.columns):
        if column.null_count and pyarrow.types.is_integer(column.type):
            frame.isetitem(place, pandas.array(column.to_pylist(), dtype="Int64"))
    return frame


def _records(table: Any) -> Value:
    return [{name: cell(value) for name, value in row.items()} for row in table.to_pylist()]
