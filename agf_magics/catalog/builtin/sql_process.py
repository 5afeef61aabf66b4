"""Plans and runs queries in a separate process, so that a query can be ended at any moment.

DuckDB's planner cannot be interrupted, and its use of time and memory cannot be limited: a query of
a thousand characters may plan for hours and fill the memory. So the process is killed at its
limits. A process that has answered waits for the next query, because a start takes about a second.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, cast

from ...compat.imports import installed_only
from ...compat.memory import memory_of
from .sql_child import MEMORY, SPARE

PROGRAM = str(Path(__file__).with_name("sql_child.py"))
START_SECONDS = 60.0
"""The longest time of the start of a process, in seconds."""
TURN = 0.05
"""The seconds between two checks of a running query."""
LOOK = 0.5
"""The seconds between two checks of a process's memory, if the system sets no limit."""
LONGEST_LINE = 1_000_000
"""The largest number of bytes of the line of JSON in an answer."""
_INHERITED = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "TMPDIR", "TEMP", "TMP", "LANG")
"""The environment variables that the process gets: Python and the libraries need them. Keys and
tokens are not among them."""


class NoProcess(Exception):
    """No process can be started. The message is the reason."""


class Ended(Exception):
    """The process was ended. The message is ``time``, ``memory`` or ``stopped``."""


class Queries:
    """Runs queries in separate processes, and keeps at most one idle process. All threads may use
    it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the idle process, in a fork of the kernel: that process belongs to the kernel."""
        self.lock = threading.Lock()
        self.idle: subprocess.Popen[bytes] | None = None

    def run(
        self, query: str, frames: Mapping[str, Any], timeout: float, stopped: Callable[[], bool]
    ) -> Any:
        """The result of ``query`` over Arrow tables, as an Arrow table or a mapping with the
        ``kind`` and the ``text`` of an error. Raises NoProcess and Ended."""
        with self.lock:
            process = self.idle
            self.idle = None
        if process is None or process.poll() is not None:
            process = _start()
        try:
            result = _ask_and_watch(process, query, frames, timeout, stopped)
        except BaseException:  # even an interrupt: the next query would read this answer
            _end(process)
            raise
        with self.lock:
            spare = self.idle
            self.idle = process
        if spare is not None:
            _end(spare)
        return result

    def close(self) -> None:
        """End the idle process; the next query starts another one."""
        with self.lock:
            spare = self.idle
            self.idle = None
        if spare is not None:
            _end(spare)


def _start() -> subprocess.Popen[bytes]:
    with installed_only():
        specs = [find_spec(name) for name in ("duckdb", "pyarrow")]
    files = [spec.origin for spec in specs if spec is not None and spec.origin]
    folders = [str(Path(file).parents[1]) for file in files]
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", PROGRAM, str(os.getpid()), *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(PROGRAM).parent,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        )
    except (OSError, ValueError) as error:
        raise NoProcess(str(error)) from error
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(cast("IO[bytes]", process.stdout).readline, 100)
        try:
            wait([answer], START_SECONDS)
        finally:
            if not answer.done():
                _end(process)
    if answer.result() != b"{}\n":  # the program writes it when it is ready
        _end(process)
        raise NoProcess("it ended when it started")
    return process


def _ask_and_watch(
    process: subprocess.Popen[bytes],
    query: str,
    frames: Mapping[str, Any],
    timeout: float,
    stopped: Callable[[], bool],
) -> Any:
    data = sum(frame.nbytes for frame in frames.values())
    until = time.monotonic() + timeout
    look = time.monotonic() + LOOK
    why = ""
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(_ask, process, query, frames)
        try:
            while not why and not wait([answer], TURN).done:
                now = time.monotonic()
                if stopped():
                    why = "stopped"
                elif now > until:
                    why = "time"
                elif now > look and sys.platform != "linux":
                    look = now + LOOK
                    if (memory_of(process.pid) or 0) > MEMORY + SPARE + data:
                        why = "memory"
        finally:
            if not answer.done():
                process.kill()  # so that the thread that reads from it ends
    if why:
        raise Ended(why)
    try:
        return answer.result()
    except (OSError, ValueError) as error:
        # The process ended by itself, because C code without memory ends it without an error.
        raise Ended("memory") from error


def _ask(process: subprocess.Popen[bytes], query: str, frames: Mapping[str, Any]) -> Any:
    from pyarrow import ipc  # type: ignore[import-untyped]

    requests = cast("IO[bytes]", process.stdin)
    answers = cast("IO[bytes]", process.stdout)
    line = json.dumps({"query": query, "frames": list(frames)})
    requests.write(line.encode() + b"\n")
    for frame in frames.values():
        with ipc.new_stream(requests, frame.schema) as writer:
            writer.write_table(frame)
    requests.flush()
    answer = answers.readline(LONGEST_LINE)
    if not answer.endswith(b"\n"):
        raise OSError("the process has ended")
    # An empty object: there is no error, and the table follows.
    return json.loads(answer) or ipc.open_stream(answers).read_all()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with contextlib.suppress(OSError, ValueError):
        process.communicate()


QUERIES = Queries()
"""The only `Queries` of this process, because an idle process takes 80 MB."""

atexit.register(QUERIES.close)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=QUERIES.forget)
