"""The built-in tool ``sql``: a query of DuckDB over tables that a flow passes (decision D68).

The query may come from a model, so it may only compute: one SELECT over the passed tables. DuckDB
itself refuses files, the network and extensions, and a query cannot turn this off, because the
configuration is locked. The query runs in a separate process (sql_process.py), because DuckDB's
planner cannot be interrupted. In a browser it runs in this process, without a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...compat.browser import IN_BROWSER
from ...compat.imports import installed_only
from ...compat.installed import missing
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from .sql_child import CONFIGURATION, MEMORY, NotOneSelect, TooMuch, answer, register
from .sql_frames import arrow_of_frame, frame_like, have_decimals, same_in_sql
from .sql_process import QUERIES, Ended, NoProcess

SECONDS = 60.0
"""The default time limit of a query, in seconds."""

SQL_INSTALL = "pip install 'agf-magics[sql]'"
REFUSED = "it reads the frames of its argument frames: no files, no network, no extensions"
SMALLER = "select fewer rows or columns, or aggregate them"
LONGER = "give it more time: timeout: 300"


def query_frames(
    query: str, frames: Mapping[str, Value], timeout: float, stopped: Callable[[], bool]
) -> Value:
    """The result of ``query`` over ``frames``, as a frame of the kind of the first one. ``timeout``
    in seconds; ``stopped``: whether the call on this thread was cancelled. Raises StepError
    ``tool.sql-…``."""
    for package in missing(("pyarrow", "duckdb")):
        message = f"the tool 'sql' needs the package {package}"
        raise StepError(Diagnostic("tool.sql-missing", message, hint=SQL_INSTALL))
    with installed_only():
        import pyarrow  # type: ignore[import-untyped]
    if double := same_in_sql(frames):
        message = f"the frames {double[0]!r} and {double[1]!r} have the same name in SQL"
        raise StepError(Diagnostic("tool.sql-frame", message, hint="rename one of them"))
    if not timeout > 0:
        message = f"timeout must be a number of seconds above 0, got {timeout:g}"
        raise StepError(Diagnostic("tool.sql-time", message, hint=LONGER))
    tables = {name: arrow_of_frame(name, frame, pyarrow) for name, frame in frames.items()}
    # A browser has no processes. The query runs in the page, which the person can close (decision
    # D59).
    run = _run_here if IN_BROWSER else QUERIES.run
    try:
        result = run(query, tables, timeout, stopped)
    except NoProcess as error:
        message = f"the process of the query cannot be started: {error}"
        raise StepError(Diagnostic("tool.sql-query", message)) from None
    except Ended as error:
        if str(error) == "memory":
            raise _too_much() from None
        if str(error) == "stopped":
            raise StepError(Diagnostic("tool.sql-stopped", "the query was stopped")) from None
        message = f"the query did not end within {timeout:g} s"
        raise StepError(Diagnostic("tool.sql-time", message, hint=LONGER)) from None
    if isinstance(result, dict):
        raise _sql_error(result["kind"], result["text"])
    return frame_like(
        next(iter(frames.values()), None), result, have_decimals(tables, pyarrow), pyarrow
    )


def _run_here(
    query: str, tables: Mapping[str, Any], timeout: float, stopped: Callable[[], bool]
) -> Any:
    """`Queries.run` in this process, without a time limit."""
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


def _sql_error(kind: str, text: str) -> StepError:
    if kind == NotOneSelect.__name__:
        return StepError(Diagnostic("tool.sql-refused", text, hint=REFUSED))
    return _too_much() if kind == TooMuch.__name__ else _error_of_message(text)


def _too_much() -> StepError:
    message = f"the query or its result needs more than {MEMORY // 10**6:,} MB"
    return StepError(Diagnostic("tool.sql-memory", message, hint=SMALLER))


def _error_of_message(text: str) -> StepError:
    """The error for a message of DuckDB: ``Kind Error: what is wrong``, and lines with the
    place."""
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
