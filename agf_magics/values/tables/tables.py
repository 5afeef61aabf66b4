"""Opens the tables that a run over a table accepts: data frames, lists, files.

A table is recognized by its attributes, not by its class. So the only imports are the library with
which the user made the table, and pyarrow for a Parquet file. A small table becomes a list, which
the journal stores whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ...text.diagnostics import DefinitionError, Diagnostic
from ..value import Value, type_name
from .data_frames import (
    FrameRows,
    arrow_form,
    pandas_form_of,
    pandas_frame,
    polars_frame,
    with_index,
)
from .files import Cases, CsvFile, FileRows, JsonLines, Parquet
from .rows import Cells, ListRows, Rows, refuse_double

IN_MEMORY = 10_000
"""The largest number of rows of a table that becomes a list."""


def _no_mapping(row: Value) -> DefinitionError:
    """The error for a list whose rows are no mappings; ``row`` is the first one."""
    hint = "write a mapping for each row: {'NAME': value}"
    if hasattr(row, "_asdict"):
        hint = "[row._asdict() for row in rows] has a mapping for each"
    elif dataclasses.is_dataclass(row):
        hint = "[dataclasses.asdict(row) for row in rows] has a mapping for each"
    message = f"row 0 of the table is {type_name(row)}, not a mapping of names to values"
    return DefinitionError(Diagnostic("over.no-table", message, hint=hint))


class Picked(Sequence[Cells]):
    """A selection of rows of a table. A row may be selected several times."""

    def __init__(self, rows: Sequence[Cells], numbers: Sequence[int], repeat: int = 1) -> None:
        """``numbers``: the numbers of the rows. ``repeat``: how often each row stands, one after
        another; default 1."""
        self.source = rows
        self.numbers = numbers
        self.repeat = repeat

    def __len__(self) -> int:
        return len(self.numbers) * self.repeat

    def __getitem__(self, number: Any) -> Any:
        return self.source[self.numbers[number // self.repeat]]


FILES: Mapping[str, type[FileRows]] = {
    ".csv": CsvFile,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".parquet": Parquet,
}
"""The classes of tables in files, by the end of the file's name."""

DATA_SETS = (".yaml", ".yml", ".json")
"""The file endings of data sets of pydantic-evals."""


MOST_NAMES = 1_000
"""The most columns that `known_columns` returns."""


def library_of(value: object) -> str:
    """The library whose class ``value`` has: pandas, polars or pyarrow; empty for any other. The base
    classes count, too: a GeoDataFrame is a DataFrame of pandas."""
    libraries = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    return next(filter(libraries.__contains__, ("pandas", "polars", "pyarrow")), "")


def may_have_rows(value: object) -> bool:
    """Whether `open_rows` may accept a value, told without reading a file or a row.

    >>> may_have_rows([{"id": 1}]), may_have_rows(Path("a.csv")), may_have_rows(["a"])
    (True, True, False)
    """
    if isinstance(value, str | Path):
        return str(value).lower().endswith((*FILES, *DATA_SETS))
    if isinstance(value, list | tuple):
        return bool(value) and isinstance(value[0], Mapping)
    return isinstance(value, Rows) or (
        library_of(value) != ""
        and any(hasattr(type(value), name) for name in ("iloc", "collect", "to_dicts", "to_pylist"))
        and any(hasattr(type(value), name) for name in ("columns", "column_names"))
    )


def known_columns(value: object) -> list[str]:
    """The columns of a table in memory, for a person who writes; empty if they are not known."""
    is_computed = type(value).__name__ == "LazyFrame"
    if not may_have_rows(value) or isinstance(value, str | Path) or is_computed:
        return []
    if isinstance(value, list | tuple):
        names = value[0]
    else:  # Arrow's `columns` are the values
        names = getattr(value, "column_names", None) or getattr(value, "columns", ())
    return [name for name in islice(names, MOST_NAMES) if isinstance(name, str)]


def open_rows(table: Value) -> Rows:
    """The rows of a DataFrame, an Arrow table, a list of mappings or a file. Raises
    DefinitionError."""
    kind = type(table)
    if isinstance(table, Rows):
        return table
    if isinstance(table, str | Path):
        path = Path(table)
        if path.suffix.lower() in DATA_SETS:
            return Cases(path)
        if path.suffix.lower() not in FILES:
            message = f"{str(path)!r} is not a file of rows"
            hint = f"a file of rows has the suffix {', '.join(FILES)}"
            raise DefinitionError(Diagnostic("over.file", message, hint=hint))
        return FILES[path.suffix.lower()](path.absolute())
    library = library_of(table)
    if library == "pandas" and hasattr(table, "iloc") and hasattr(table, "columns"):
        flat = with_index(table)
        refuse_double(list(flat.columns))
        return FrameRows(flat, flat.columns, pandas_frame, pandas_form_of(table, flat))
    if library == "polars" and any(base.__name__ == "LazyFrame" for base in kind.__mro__):
        table = table.collect()
    if library == "polars" and hasattr(table, "to_dicts"):
        return FrameRows(table, table.columns, polars_frame)
    if library == "pyarrow" and hasattr(table, "to_pylist") and hasattr(table, "column_names"):
        refuse_double(table.column_names)
        return FrameRows(table, table.column_names, arrow_form)
    if isinstance(table, list | tuple):
        if table and not any(isinstance(row, Mapping) for row in table):
            raise _no_mapping(table[0])
        return ListRows(table)
    message = f"expected a table, got {type_name(table)}"
    hint = "a DataFrame, an Arrow table, a list of mappings, or a .csv, .jsonl or .parquet file"
    raise DefinitionError(Diagnostic("over.no-table", message, hint=hint))
