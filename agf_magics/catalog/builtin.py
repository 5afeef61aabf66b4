"""The built-in tools: ``file__read``, ``file__write``, ``shell`` (decisions A14, P8) and ``sql``.

The file tools use the files below the notebook's folder that are not protected (notebook_files.py).

The shell is off until the person turns it on; a definition cannot. A command is a process that no
shell interprets, and it ends with the call that started it. Its output goes to files, not pipes: no
thread has to read two pipes, and endless output needs no memory. It leads a process group, so that
its child processes end with it, whether an interrupt, the timeout or ``stopped`` (checked ten times
a second) ends the call.

``sql`` is a query over tables that the run already has, in DuckDB. It may come from a model, so it
only computes: one SELECT, over the given frames and nothing else. DuckDB itself refuses files, the
network and extensions, and a query cannot turn this off, because the configuration is locked
(decision D68). It runs in a thread of its own, because only `interrupt` from another thread ends a
query.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple, TypedDict

from ..flow.tables import FrameRows, Rows, arrow_table, cell, open_rows
from ..flow.values import Value, is_json, type_name
from ..text.diagnostics import AgfError, Diagnostic, StepError, suggest
from ..text.late_imports import IN_BROWSER, installed_only
from .decorators import tool
from .notebook_files import (
    OWN_TOOL,
    Found,
    NotThere,
    fold,
    is_protected,
    names,
    opened,
    refuse_runnable,
)
from .registry import Registry

MAX_PRINTED = 10_000_000
"""Bytes of output. More is an error: truncated text looks like complete text."""

TAIL = 2_000
"""Bytes of its last output that the error shows."""

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""


class Finished(NamedTuple):
    """The output of a command, without final line ends, as in ``$(…)``."""

    stdout: str
    stderr: str
    exit_code: int


def run(
    command: Sequence[str],
    folder: Path,
    timeout: float | None,
    success_codes: Sequence[int],
    stopped: Callable[[], bool],
) -> Finished:
    """Run ``command`` in ``folder``; ``timeout`` in seconds. Raises StepError ``tool.shell-…``."""
    if timeout is not None and not timeout > 0:
        raise StepError(
            Diagnostic(
                "tool.shell-timeout",
                f"timeout must be a number of seconds above 0, got {timeout:g}",
            )
        )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = _start(command, folder, out, err)
        end = functools.partial(_end, process)
        atexit.register(end)
        try:
            _wait(process, command[0], timeout, stopped, (out, err))
        finally:
            end()
            atexit.unregister(end)
        code = process.returncode
        if code not in success_codes:
            how = f"exited with {code}" if code >= 0 else f"was ended by signal {-code}"
            words = _last_words(err) or _last_words(out)
            raise StepError(
                Diagnostic(
                    "tool.shell-exit",
                    f"{command[0]!r} {how}",
                    hint=f"it wrote: {words}" if words else None,
                )
            )
        return Finished(_text(out), _text(err), code)


def _start(
    command: Sequence[str], folder: Path, out: BinaryIO, err: BinaryIO
) -> subprocess.Popen[bytes]:
    if not command or not command[0].strip():
        raise StepError(Diagnostic("tool.shell-command", "the command is empty"))
    if IN_BROWSER:
        message = f"{command[0]!r} cannot be run: a browser has no programs"
        hint = "write a tool in Python, or run this on a computer"
        raise StepError(Diagnostic("tool.shell-command", message, hint=hint))
    try:
        return subprocess.Popen(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except FileNotFoundError:
        why = "there is no such program" if folder.is_dir() else "the notebook's folder is gone"
    except OSError as error:
        why = error.strerror or str(error)
    except ValueError as error:  # a NUL in a word
        why = str(error)
    hint = (
        "a command is a program and its arguments; without a shell there are no pipes and no "
        "built-ins"
    )
    raise StepError(
        Diagnostic("tool.shell-command", f"{command[0]!r} cannot be run: {why}", hint=hint)
    )


def _wait(
    process: subprocess.Popen[bytes],
    name: str,
    timeout: float | None,
    stopped: Callable[[], bool],
    printed: tuple[BinaryIO, BinaryIO],
) -> None:
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(max(left, 0), 0.1))
        if any(os.fstat(file.fileno()).st_size > MAX_PRINTED for file in printed):
            message = f"{name!r} printed more than {MAX_PRINTED:,} bytes"
            raise StepError(
                Diagnostic("tool.shell-output", message, hint="write the output to a file")
            )
        if process.returncode is not None:
            return
        if left <= 0:
            raise StepError(
                Diagnostic("tool.shell-timeout", f"{name!r} did not end within {timeout:g} s")
            )
        if stopped():
            raise StepError(Diagnostic("tool.shell-stopped", f"{name!r} was stopped"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and its child processes, unless it has ended by itself."""
    if process.poll() is not None:
        return
    try:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    finally:  # also after a second interrupt
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(process.pid, number)
    else:
        process.kill()


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").rstrip("\r\n")


def _last_words(file: BinaryIO) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
    return file.read().decode("utf-8", "replace").strip()


MOST_READ = 10_000_000
"""Bytes of a file that ``file__read`` reads."""

SWITCH = "%config AgfMagics.allow_shell = True"


class Written(TypedDict):
    """The result of ``file__write``. A dry run makes its samples from these types."""

    path: str
    bytes: int


class Ran(TypedDict):
    """The result of ``shell``."""

    stdout: str
    stderr: str
    exit_code: int


def install(
    registry: Registry,
    *,
    folder: Callable[[], Path],
    allow_shell: Callable[[], bool],
    stopped: Callable[[], bool] = lambda: False,
    protected: Callable[[], Collection[Path]] = tuple,
) -> None:
    """Register the built-in tools.

    ``folder``, ``protected``: called for each call, return the notebook's folder and this package's
    own files, which the file tools do not open. ``stopped``: whether the call on this thread was
    cancelled; a running command calls it, because an interrupt reaches only the main thread.
    """

    def read(path: str) -> str:
        """The text of a file below the notebook's folder."""
        return _read(Path(os.path.realpath(folder())), path, protected())

    def write(path: str, content: Any) -> Written:
        """Write text, or any JSON value as JSON, to a file below the notebook's folder."""
        return write_file(Path(os.path.realpath(folder())), path, content, protected())

    def shell(
        command: list[str], timeout: float | None = None, success_codes: Sequence[int] = (0,)
    ) -> Ran:
        """Run a program with its arguments in the notebook's folder.

        Off until AgfMagics.allow_shell is True."""
        if not allow_shell():
            raise StepError(Diagnostic("tool.shell-off", "the shell is off", hint=SWITCH))
        ran = run(command, folder(), timeout, success_codes, stopped)
        return Ran(stdout=ran.stdout, stderr=ran.stderr, exit_code=ran.exit_code)

    def sql(query: str, frames: Mapping[str, Any] | None = None, timeout: float = SECONDS) -> Any:
        """A SELECT over frames by their names, in DuckDB; it can read nothing else."""
        return query_frames(query, frames or {}, timeout, stopped)

    tool(read, group="file", registry=registry, reuse=False)
    tool(write, group="file", registry=registry, reuse=False)
    tool(shell, registry=registry, reuse=False)
    tool(sql, registry=registry)
    for name in ("file__read", "file__write", "shell", "sql"):
        registry.tools.add(replace(registry.tools[name], kernel_only=True, listed_only=True))


def _read(root: Path, path: str, protected: Collection[Path]) -> str:
    try:
        with opened(root, path, _names(root, path, protected), "read") as file:
            _refuse_protected(file, path, protected)
            if file.status.st_size > MOST_READ:
                raise NotThere(f"has more than {MOST_READ // 10**6} MB")
            with open(file.descriptor, "rb", closefd=False) as content:
                return content.read(MOST_READ).decode("utf-8-sig")
    except NotThere as error:
        near = _near(root / path) if str(error) == "does not exist" else None
        raise StepError(Diagnostic("tool.file-read", f"{path!r} {error}", hint=near)) from None
    except UnicodeDecodeError as error:
        why = f"is not UTF-8 text (byte {error.start})"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    raise StepError(Diagnostic("tool.file-read", f"{path!r} {why}"))


def write_file(root: Path, path: str, content: Value, protected: Collection[Path]) -> Written:
    """Write text, or any other JSON value as JSON, to a file below ``root``. Raises StepError
    ``tool.file-…``."""
    if not isinstance(content, str):
        if not is_json(content):
            message = (
                f"{path!r} cannot be written: the content ({type_name(content)}) is neither "
                f"text nor JSON"
            )
            raise StepError(Diagnostic("tool.file-write", message))
        content = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    try:
        written = content.encode("utf-8")
        parts = _names(root, path, protected)
        refuse_runnable(path, parts, root)
        with opened(root, path, parts, "write") as file:
            _refuse_protected(file, path, protected)
            os.ftruncate(file.descriptor, 0)
            with open(file.descriptor, "wb", closefd=False) as out:
                out.write(written)
        return {"path": PurePath(path).as_posix(), "bytes": len(written)}
    except NotThere as error:
        raise StepError(Diagnostic("tool.file-write", f"{path!r} {error}")) from None
    except UnicodeEncodeError:
        why = "the content has lone surrogates, which are not text"
    except OSError as error:
        why = str(error.strerror)
    raise StepError(Diagnostic("tool.file-write", f"{path!r} cannot be written: {why}"))


def _names(root: Path, path: str, protected: Collection[Path]) -> tuple[str, ...]:
    below = [Path(os.path.realpath(file)) for file in protected]
    return names(
        path, [file.relative_to(root).parts for file in below if file.is_relative_to(root)]
    )


def _refuse_protected(file: Found, path: str, protected: Collection[Path]) -> None:
    """Also under another name: a hard link, a folder that is mounted twice."""
    for one in protected:
        with suppress(OSError):
            if os.path.samestat(file.status, os.stat(one)):
                message = f"{path!r} is protected: it belongs to agf-magics"
                raise StepError(Diagnostic("tool.file-path", message, hint=OWN_TOOL))


def _near(place: Path) -> str | None:
    with suppress(OSError), os.scandir(place.parent) as entries:
        seen = (entry.name for entry in itertools.islice(entries, 1000))
        return suggest(place.name, [name for name in seen if not is_protected(fold(name))])
    return None


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
