"""The built-in tool ``sql``: a query of DuckDB over tables that a flow passes, without files and
network (decision D68).

The query may come from a model, so it only computes: one SELECT, over the given frames and nothing
else. DuckDB itself refuses files, the network and extensions, and a query cannot turn this off,
because the configuration is locked. It runs in a thread of its own, because only `interrupt` from
another thread ends a query.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...compat.imports import installed_only
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...values.tables.data_frames import FrameRows, arrow_table
from ...values.tables.rows import Rows, cell
from ...values.tables.tables import open_rows
from ...values.value import Value, type_name

MEMORY = 1_000_000_000
"""Bytes that a query may use, and that its result may have."""

SECONDS = 60.0
"""The time of a query, unless it names another one."""

TURN = 0.05
"""Seconds after which a running query is looked at."""

CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a name is a frame, never a variable of Python
    "secret_directory": "none",  # messages would name a folder of the person
    "extension_directory": "none",
    "max_temp_directory_size": "0B",  # else it writes what needs more memory into a folder
    "memory_limit": f"{MEMORY}B",
    "threads": "4",
    "lock_configuration": "true",
}


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
            import duckdb
            import pyarrow  # type: ignore[import-untyped]
    except ImportError as error:
        message = f"the tool 'sql' needs the package {error.name}"
        raise StepError(Diagnostic("tool.sql-missing", message, hint=SQL_INSTALL)) from None
    # A query that fails after its first rows fails in pyarrow.
    errors = duckdb.Error, pyarrow.ArrowException, OSError
    with duckdb.connect(":memory:", config=CONFIGURATION) as connection:
        for name, frame in frames.items():
            try:
                connection.register(name, _frame(frame))
            except (AgfError, *errors) as error:
                why = error.diagnostic.message if isinstance(error, AgfError) else error
                message = f"the frame {name!r} cannot be used: {why}"
                raise StepError(Diagnostic("tool.sql-frame", message, hint=FRAMES)) from None
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(_answer, connection, query, duckdb, pyarrow)
            deadline = time.monotonic() + timeout
            try:
                while not wait([answer], TURN).done:
                    if stopped() or time.monotonic() > deadline:
                        message = f"the query did not end within {timeout:g} s"
                        raise StepError(Diagnostic("tool.sql-time", message, hint=LONGER))
                table = answer.result()
            except errors as error:
                raise _explained(str(error)) from None
            finally:
                while not answer.done():  # an interrupt before its start would be lost
                    connection.interrupt()
                    wait([answer], TURN)
    return _like(next(iter(frames.values()), None), table, pyarrow)


def _frame(frame: Value) -> Any:
    """What DuckDB can read. A text is no path here: a query reads no file."""
    if isinstance(frame, str | Path | Rows):
        raise StepError(Diagnostic("tool.sql-frame", f"it is {type_name(frame)}"))
    rows = open_rows(frame)
    return rows.frame if isinstance(rows, FrameRows) else arrow_table(rows.columns, rows)


def _answer(connection: Any, query: str, duckdb: Any, pyarrow: Any) -> Any:
    """The result as an Arrow table."""
    kinds = [statement.type for statement in connection.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        message = "a query is one SELECT"
        message += f", not {len(kinds)} statements" if len(kinds) != 1 else f", not {kinds[0].name}"
        raise StepError(Diagnostic("tool.sql-refused", message, hint=REFUSED))
    reader = connection.sql(query).to_arrow_reader(100_000)
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > MEMORY:
            message = f"the result has more than {MEMORY // 10**6:,} MB"
            raise StepError(Diagnostic("tool.sql-memory", message, hint=SMALLER))
    return pyarrow.Table.from_batches(batches, reader.schema)


def _explained(text: str) -> StepError:
    """The error of a message of DuckDB: ``Kind Error: what is wrong``, and lines with the place."""
    kind, _, message = text.partition(": ")
    message, _, more = message.partition("\n")
    if "Out of Memory" in kind:
        message = f"the query needs more than {MEMORY // 10**6:,} MB"
        return StepError(Diagnostic("tool.sql-memory", message, hint=SMALLER))
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
