"""Processes of this machine as workers: one pipe and one thread of the kernel for each.

A loss names its chunk, a single process can be ended, and a script needs no guard around its main part,
as it would with `multiprocessing`. Processes start on first use, end after a minute without work, and end
with the kernel, also after a SIGKILL of the kernel. child.py is the program that they run. docs/design.md
has the figures of the comparison with loky.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from io import RawIOBase
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

from ...compat.imports import for_the_person
from ...compat.memory import memory_of
from ...engine.calls.tool_context import hear
from .. import chunk
from ..sending.file_folders import FileFolders
from ..sending.functions import applied
from ..sending.unsendable import HEAVY
from . import child
from .backend import CLOSED, Cancel, Lost, options_of
from .status import BackendStatus, WorkerStatus

IDLE = 60.0
"""Seconds without work after which a process ends."""
SILENCE = 3.0
"""The least seconds that a process has to answer the question for a sign of life."""


class Processes:
    """A worker backend: processes of this machine that run the Python of this process."""

    identifies_lost_chunk = True
    kills = True

    def __init__(self, count: int | None = None, idle: float = IDLE) -> None:
        """``count``: the number of processes; None: one for each processor that this process may use.
        ``idle``: seconds without work after which a process ends."""
        self.lanes = count or _processors()
        self.name = f"{self.lanes} process{'es' * (self.lanes != 1)}"
        self.idle = idle
        self.closed = False
        self._start()

    def _start(self) -> None:
        """Begin without processes and threads, also after a fork."""
        self._pid = os.getpid()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        """The number of threads, each of which serves one process."""
        self._waiting = 0
        """The number of threads without a chunk, minus the number of chunks that wait."""
        self._children: set[_Child] = set()
        """The processes that have not ended."""
        self._files: dict[str, tuple[str, int]] = {}
        """The file of each large function and the last run that used it, by the function's digest."""
        self._runs = 0
        """The number of runs that were started."""
        self._folders = FileFolders()
        # Not a TemporaryDirectory, which warns if a program ends without closing its workers.
        weakref.finalize(self, self._folders.close)

    @property
    def pids(self) -> list[int]:
        """The processes that are running."""
        return [child.process.pid for child in list(self._children) if child.process.poll() is None]

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], report: Callable[[Any], None]
    ) -> Cancel:
        # A forked process has none of the threads.
        if self._pid != os.getpid():
            self._start()
        if run is chunk.run and len(order[0]) > HEAVY:
            order = (self._file(order[1], order[0]), *order[1:])
        job = _Job(applied(run, order), options_of(order).get("timeout"), report)
        with self._lock:
            if self.closed:
                report(Lost(CLOSED, gone=True))
                return job.cancel
            # Counted here, not on the thread, so that two chunks that come at once do not count the
            # same idle thread.
            self._waiting -= 1
            starts = self._waiting < 0 and self._threads < self.lanes
            self._threads += starts
            self._waiting += starts
        self._jobs.put(job)
        if starts:
            threading.Thread(
                target=self._serve, args=(self._jobs,), name="agf-processes", daemon=True
            ).start()
        return job.cancel

    def look(self) -> None:
        """Note that a run begins. Each process is asked before its next chunk whether it is still fit.
        Files of functions that the last runs did not use are removed."""
        with self._lock:
            self._runs += 1
            is_idle = self._waiting == self._threads
            old = [
                file for file, (_, last) in self._files.items() if is_idle and last < self._runs - 1
            ]
            paths = [self._files.pop(file)[0] for file in old]
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def restart(self) -> None:
        """End all processes; the next chunks start new ones. Chunks in flight are repeated."""
        for process in list(self._children):
            process.kill()

    def describe(self) -> BackendStatus:
        """What `%workers` shows."""
        rows = [
            WorkerStatus(f"process {pid}", 1, memory=memory_of(pid)) for pid in sorted(self.pids)
        ]
        return BackendStatus(self.name, self.lanes, None, tuple(rows))

    def close(self) -> None:
        """End all processes. Chunks in flight are lost."""
        with self._lock:
            self.closed = True
            threads = self._threads
        for _ in range(threads):
            self._jobs.put(None)
        for process in list(self._children):
            process.kill()
        self._folders.close()

    def folder(self) -> str:
        """A folder for files that several chunks need. It is removed when this process ends."""
        return self._folders.folder()

    def _file(self, digest: str, program: bytes) -> str:
        """The path of a file with a large function, which is written once."""
        path = str(Path(self.folder(), digest))
        if digest not in self._files:
            Path(path).write_bytes(program)
        self._files[digest] = path, self._runs
        return path

    # --- on the threads ---

    def _serve(self, jobs: SimpleQueue[_Job | None]) -> None:
        """Execute chunks on this thread, in one process after another."""
        process: _Child | None = None
        try:
            while True:
                job = self._next(jobs)
                if job is None:
                    return
                if job.take():
                    if self.closed:
                        job.report(Lost(CLOSED, gone=True))
                    else:
                        process = self._perform(job, process)
                # A waiting thread must not keep the results of its last calls alive.
                del job
                with self._lock:
                    self._waiting += 1
        finally:
            if process is not None:
                self._end(process)

    def _next(self, jobs: SimpleQueue[_Job | None]) -> _Job | None:
        """The next chunk; None if this thread ends."""
        while True:
            try:
                job = jobs.get(timeout=self.idle)
            except Empty:
                job = None
            with self._lock:
                # If no thread is counted as waiting, a chunk is on its way to this one.
                if job is None and (self.closed or self._waiting > 0):
                    self._threads -= 1
                    self._waiting -= 1
                    return None
            if job is not None:
                return job

    def _perform(self, job: _Job, process: _Child | None) -> _Child | None:
        """Execute a chunk and report its outcome. Returns the process for the next chunk; None if it has
        ended."""
        outcome: Any
        try:
            if process is not None and not process.is_fit(self._runs):
                self._end(process)
                process = None
            if process is None:
                process = _Child(self._runs)
                self._children.add(process)
            job.process = process
            if job.killed:
                process.kill()
            outcome = process.execute(job.frame, job.limit)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            if process is None:
                # The process could not be started.
                outcome = Lost(f"no process could be started: {error}")
            else:
                ending, late = self._end(process), job.limit if isinstance(error, _Silent) else None
                outcome = Lost(ending, cancelled=job.killed, late=late)
                if self.closed:
                    outcome = Lost(CLOSED, gone=True)
                process = None
        except BaseException as error:
            # The outcome could not be unpickled. The rest of it may still be in the pipe, so the process
            # ends.
            outcome = error
            if process is not None:
                self._end(process)
                process = None
        job.process = None
        job.report(outcome)
        return process

    def _end(self, process: _Child) -> str:
        """End a process, and return the words for how it ended."""
        self._children.discard(process)
        return process.end()


class _Job:
    """A chunk on its way."""

    def __init__(self, frame: bytes, limit: float | None, report: Callable[[Any], None]) -> None:
        """``limit``: the most seconds that each call of the chunk may take; None: no limit."""
        self.frame = frame
        self.limit = limit
        self.report = report
        self.process: _Child | None = None
        """The process that executes the chunk; None: none does."""
        self.killed = False
        """Whether the process must be killed, because the chunk was cancelled twice."""
        self._cancelled = False
        self._taken = threading.Lock()

    def take(self) -> bool:
        """Take the chunk, either to execute or to cancel it. Returns whether the caller is the
        first."""
        return self._taken.acquire(blocking=False)

    def cancel(self) -> None:
        """See `backend.Cancel`."""
        if self.take():
            self.report(Lost("cancelled", cancelled=True))
        # The chunk is cancelled the second time, after the grace period.
        elif self._cancelled:
            self.killed = True
            process = self.process
            if process is not None:
                process.kill()
        self._cancelled = True


class _Silent(OSError):
    """A process gives no sign of life: it is stopped, or a call holds the interpreter's lock."""


class _Child:
    """A worker process and its pipes.

    The end of the process is noticed by looking at the process, not only at the pipe: a process that a
    call has forked keeps the pipe open. Where the system cannot wait for a pipe (Windows), no call can
    fork."""

    def __init__(self, runs: int) -> None:
        """``runs``: the number of runs that were started until now."""
        self._runs = runs
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            # ``-P``: the folder of `child` must not be on the path, or its neighbours
            # would hide modules.
            [sys.executable, "-P", child.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Jupyter interrupts the whole process group of the kernel, and a call on a
            # worker is no part of it.
            start_new_session=True,
            bufsize=0,
        )
        self._input = cast("RawIOBase", self.process.stdin)
        self._output = cast("RawIOBase", self.process.stdout)
        if hasattr(select, "poll"):
            # A child that reads nothing must not block the thread, which also looks
            # whether the child lives.
            os.set_blocking(self._input.fileno(), False)
        self._asked_at: float | None = None
        """When the process was asked for a sign of life that it has not given yet; None: not asked."""
        self._write(pickle.dumps([os.path.abspath(path or ".") for path in sys.path]))

    def is_fit(self, runs: int) -> bool:
        """Whether the process may execute the next chunk: it still runs, and since the last run started,
        it has answered that none of its modules was edited and that no call is left running."""
        if self.process.poll() is not None:
            return False
        if runs == self._runs:
            return True
        self._runs = runs
        try:
            return self.execute(b"", 0.0) is False
        except (OSError, EOFError, pickle.UnpicklingError):
            return False

    def execute(self, frame: bytes, limit: float | None = None) -> Any:
        """The outcome of a chunk, or the exception with which it failed. Raises EOFError if the
        process ends, and `_Silent` if it gives no sign of life although ``limit`` seconds are
        over."""
        self._asked_at = None
        self._write(frame)
        while True:
            size = int.from_bytes(self._read(8, limit), "big")
            content = self._read(size, limit) if size else b""
            with for_the_person():  # may run the code of a user's class
                outcome = pickle.loads(content) if size else None
            self._asked_at = None
            if type(outcome) is tuple and outcome[:1] == (child.PROGRESS,):
                hear(*outcome[1:])
            elif size:
                return outcome

    def _write(self, frame: bytes) -> None:
        """Write a frame. Raises EOFError if the process ends."""
        unwritten = memoryview(len(frame).to_bytes(8, "big") + frame)
        while unwritten:
            self._wait(self._input, "POLLOUT", None)
            unwritten = unwritten[self._input.write(unwritten) or 0 :]

    def _read(self, size: int, limit: float | None) -> bytearray:
        """Read ``size`` bytes; for ``limit`` and the exceptions, see `execute`."""
        data = bytearray(size)
        missing = memoryview(data)
        while missing:
            self._wait(self._output, "POLLIN", limit)
            count = self._output.readinto(missing)
            if not count:
                raise EOFError
            missing = missing[count:]
        return data

    def _wait(self, pipe: RawIOBase, event: str, limit: float | None) -> None:
        """Wait until ``pipe`` can be used. After ``limit`` seconds the process is asked for a sign of
        life; for what is raised, see `execute`."""
        if not hasattr(select, "poll"):
            return
        poll = select.poll()
        poll.register(pipe, getattr(select, event))
        began = time.monotonic()
        while not poll.poll(child.LOOK * 1000):
            current_time = time.monotonic()
            if self.process.poll() is not None and not poll.poll(0):
                raise EOFError
            if limit is None:
                continue
            if self._asked_at is not None and current_time - self._asked_at > max(limit, SILENCE):
                raise _Silent
            if self._asked_at is None and current_time - began > limit:
                self._asked_at = current_time
                self._write(child.ALIVE)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self.process.kill()

    def end(self) -> str:
        """End the process, and return the words for how it ended."""
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            code = self.process.wait(0.2)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self.process.wait()
        # A negative code is the number of the signal that ended the process.
        if code >= 0:
            return f"the process ended with status {code}"
        if code == -getattr(signal, "SIGKILL", 0):
            return "the process was ended by SIGKILL, as the system does when memory is short"
        with contextlib.suppress(ValueError):
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process was ended by signal {-code}"


def _processors() -> int:
    """The number of processors that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1
