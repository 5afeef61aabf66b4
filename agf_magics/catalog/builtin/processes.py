"""Runs a command in a separate process, with a time limit and bounded output.

No shell interprets the command. The output goes to files, not pipes: no thread has to read two
pipes, and endless output needs no memory. The process leads a process group, so that its child
processes end with it, whether an interrupt, the timeout or ``stopped`` (checked ten times a second)
ends the call.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...compat.browser import IN_BROWSER
from ...text.diagnostics import Diagnostic, StepError

MAX_PRINTED = 10_000_000
"""The largest number of bytes of output. More is an error, because truncated text looks
complete."""

TAIL = 2_000
"""The number of bytes of the last output that the error shows."""

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
    except ValueError as error:  # a word has a NUL
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
    """End the process and its child processes, unless the process has ended by itself."""
    if process.poll() is not None:
        return
    try:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    finally:  # even after a second interrupt
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the process has ended
            os.killpg(process.pid, number)
    else:
        process.kill()


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").rstrip("\r\n")


def _last_words(file: BinaryIO) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
    return file.read().decode("utf-8", "replace").strip()
