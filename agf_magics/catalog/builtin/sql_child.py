"""The program of the process that plans and runs a query; sql_process.py starts it.

It reads requests from standard input, each a line of JSON and the frames as Arrow streams, and
answers with a line of JSON and, for a result, one Arrow stream. It imports nothing of this package:
a query finds no tool, no key and no object of the kernel here. In a page without processes the
kernel calls `answer` itself.
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
"""Bytes that a query may use, and that its result may have."""

SPARE = 1_500_000_000
"""Bytes of addresses beside that: of the libraries, of threads, and of the result while it is made."""

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


class NotOneSelect(Exception):
    """The query is something else."""


class TooMuch(Exception):
    """The result has more bytes than it may have."""


def register(connection: Any, frames: Mapping[str, Any]) -> None:
    """Arrow tables by their names. A column of categories is an ENUM, as of a DataFrame."""
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
    """The cast of a column of categories that are texts."""
    kind = table.schema.types[place]
    if not hasattr(kind, "index_type") or str(kind.value_type) not in ("string", "large_string"):
        return ""
    chunks = table.column(place).unify_dictionaries().chunks
    words = chunks[0].dictionary.to_pylist() if chunks else []
    if not words or None in words:
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
    """Linux ends what needs more; other systems have no such limit, and the parent looks."""
    if sys.platform != "linux":
        return
    import resource

    with open("/proc/self/statm") as file:
        has = int(file.read().split()[0]) * resource.getpagesize()
    most = has + MEMORY + SPARE + data
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _end_with(parent: int) -> None:
    """A kernel that was killed leaves no query behind."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)


def main() -> None:
    import duckdb
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import ipc

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C in a terminal is for the kernel
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    source = sys.stdin.buffer
    sink = sys.stdout.buffer
    sink.write(b"{}\n")  # it has started, which is not a part of the time of a query
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
    # `-I` leaves out the user's own packages, where these may be; at the end of the path these
    # folders hide no module of the standard library.
    sys.path += sys.argv[2:]
    main()
