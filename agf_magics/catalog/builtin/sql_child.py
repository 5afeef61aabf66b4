"""The program of the process that plans and runs a query. sql_process.py starts it.

The program reads requests from standard input, each a line of JSON and the tables as Arrow streams.
It answers with a line of JSON and, for a result, one Arrow stream. It imports nothing of this
package, so that a query finds no tool, no key and no object of the kernel. In a browser the kernel
calls `answer` directly.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

MEMORY = 1_000_000_000
"""The largest number of bytes that a query may use, and that its result may have."""

SPARE = 1_500_000_000
"""Further bytes of address space: for the libraries, the threads and the result under
construction."""

CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # a name in a query is a table, never a variable of Python
    "python_enable_replacements": "false",
    "secret_directory": "none",  # otherwise messages would name a folder of the person
    "extension_directory": "none",
    "max_temp_directory_size": "0B",  # otherwise it would write into a folder when memory is short
    "memory_limit": f"{MEMORY}B",
    "threads": "4",
    "lock_configuration": "true",
}


class NotOneSelect(Exception):
    """The query is not one SELECT."""


class TooMuch(Exception):
    """The result has too many bytes."""


def register(connection: Any, frames: Mapping[str, Any]) -> None:
    """Make Arrow tables known by their names. A column of categories becomes an ENUM, as from a
    DataFrame."""
    for number, (name, table) in enumerate(frames.items()):
        enums = [_enum(table, place) for place in range(table.num_columns)]
        if not any(enums):
            connection.register(name, table)
            continue
        connection.register(f"agf frame {number}", table)
        columns = ", ".join(
            f"{_quote(column)}{enum}" + (f" AS {_quote(column)}" if enum else "")
            for column, enum in zip(table.column_names, enums, strict=True)
        )
        relation = connection.sql(f'SELECT {columns} FROM "agf frame {number}"')
        relation.create_view(name)


def _enum(table: Any, place: int) -> str:
    """The SQL that casts a column of categories of text to an ENUM."""
    kind = table.schema.types[place]
    if not hasattr(kind, "index_type") or str(kind.value_type) not in ("string", "large_string"):
        return ""
    chunks = table.column(place).unify_dictionaries().chunks
    words = chunks[0].dictionary.to_pylist() if chunks else []
    if not words or None in words or len(set(words)) < len(words):  # an ENUM has each word once
        return ""
    return "::ENUM(" + ", ".join("'" + word.replace("'", "''") + "'" for word in words) + ")"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def answer(connection: Any, query: str, duckdb: Any, pyarrow: Any) -> Any:
    """The result as an Arrow table. Raises NotOneSelect, TooMuch, and what the libraries raise."""
    kinds = [statement.type for statement in connection.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        message = "a query is one SELECT"
        message += f", not {len(kinds)} statements" if len(kinds) != 1 else f", not {kinds[0].name}"
        raise NotOneSelect(message)
    reader = connection.sql(query).to_arrow_reader(100_000)
    batches = []
    size = 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > MEMORY:
            raise TooMuch
    return pyarrow.Table.from_batches(batches, reader.schema)


# --- the process ---


def _bound_memory(data: int) -> None:
    """Limit the memory of this process on Linux. On other systems the parent process watches it."""
    if sys.platform != "linux":
        return
    import resource

    with open("/proc/self/statm") as file:
        has = int(file.read().split()[0]) * resource.getpagesize()
    most = has + MEMORY + SPARE + data
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _end_with(parent: int) -> None:
    """End this process when the process ``parent`` is killed."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)


def main() -> None:
    import duckdb
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import ipc

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the kernel
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    source = sys.stdin.buffer
    sink = sys.stdout.buffer
    sink.write(b"{}\n")  # tells that the start is over: it does not count as time of the query
    sink.flush()
    while line := source.readline():
        asked = json.loads(line)
        table = None
        fault = {}
        frames = {name: ipc.open_stream(source).read_all() for name in asked["frames"]}
        try:
            _bound_memory(sum(frame.nbytes for frame in frames.values()))
            with duckdb.connect(":memory:", config=CONFIGURATION) as connection:
                try:
                    register(connection, frames)
                    table = answer(connection, asked["query"], duckdb, pyarrow)
                except (NotOneSelect, TooMuch) as error:
                    fault = {"kind": type(error).__name__, "text": str(error)}
        except MemoryError:
            fault = {"kind": "TooMuch", "text": ""}
        except (duckdb.Error, pyarrow.ArrowException, OSError) as error:
            fault = {"kind": "query", "text": str(error)}
        sink.write(json.dumps(fault).encode() + b"\n")
        if table is not None:
            with ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        sink.flush()
        del frames, table


if __name__ == "__main__":
    # `-I` leaves out the user's site-packages, which may have the libraries. At the end of the
    # path, these folders hide no module of the standard library.
    sys.path += sys.argv[2:]
    main()
