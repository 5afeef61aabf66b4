"""What the command line prints: the output on stdout, and everything else on stderr.

A definition or a result may have control characters, which a terminal obeys. They are printed escaped.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from ..commands.output_files import write_with
from ..commands.words import Token
from ..pictures.plain import plain
from ..text.diagnostics import AgfError
from ..text.source import path_error_reason
from ..text.visible import visible
from ..values.as_json import as_json
from ..values.value import Value

NOBODY_READS = 141
"""The exit code if the reader of stdout has gone, as in ``| head``: 128 plus the number of SIGPIPE."""


class NoOutput(Exception):
    """Stdout cannot be written. The ``__cause__`` is the OSError."""


_kept: list[TextIO] = []
"""The stdout that is kept for the output, while `output_kept` keeps it."""


@contextmanager
def output_kept() -> Iterator[None]:
    """Keep stdout for the output: in the block, what the tools of a person and their processes print
    goes to stderr."""
    stdout = sys.stdout
    if stdout is None:
        yield
    elif stdout is not sys.__stdout__:  # an object of this process, as in a test or a notebook
        _kept.append(stdout)
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            _kept.pop()
    else:
        with _descriptor_kept(sys.__stdout__):
            yield


@contextmanager
def _descriptor_kept(stdout: Any) -> Iterator[None]:
    """Let the descriptor of ``stdout`` be that of stderr, which processes inherit."""
    stdout.flush()
    number = stdout.fileno()
    descriptor = os.dup(number)
    _kept.append(os.fdopen(os.dup(number), "w", encoding=stdout.encoding, errors=stdout.errors))
    os.dup2(sys.stderr.fileno(), number)
    try:
        yield
    finally:
        with suppress(OSError):
            stdout.flush()
        os.dup2(descriptor, number)
        os.close(descriptor)
        with suppress(OSError):  # its reader has gone, which `write` has reported
            _kept.pop().close()


def _output() -> TextIO | None:
    return _kept[-1] if _kept else sys.stdout


def write(text: str, escapes: str = "backslashreplace") -> None:
    """Write to stdout and flush: an error at the end of the process would not be reported.
    ``escapes``: how characters that stdout cannot encode are written, as the name of a handler of
    errors in `codecs`; default: as in a Python text. Raises NoOutput."""
    stdout = _output()
    try:
        if stdout is None:
            raise OSError(errno.EBADF, "stdout is closed")
        try:
            print(text, file=stdout)
        except UnicodeEncodeError as error:
            print(text.encode(error.encoding, escapes).decode(error.encoding), file=stdout)
        stdout.flush()
    except OSError as error:
        raise NoOutput from error


def say(text: str, escapes: str = "backslashreplace") -> None:
    """Print a text on stdout. Control characters in it, of a definition or a result, are escaped.
    ``escapes``: as in `write`."""
    write(plain(text, len(text)), escapes)


def tell(text: str) -> None:
    """Print a text on stderr, with control characters escaped. An error of stderr is ignored, so that the
    output is still printed."""
    with suppress(OSError):
        print(plain(text, len(text)), file=sys.stderr)


def save_file(word: Token, save: Callable[[Path], object]) -> None:
    """Let ``save`` write the file that a word names, and say so on stderr. It does not matter whether
    somebody reads stderr."""
    with suppress(BrokenPipeError):
        write_with(word, save, sys.stderr)


class EachPart:
    """Makes each part of an output even if another one fails. The errors are raised at the end of the
    block: one as it is, several as an ExceptionGroup."""

    def __init__(self) -> None:
        self._errors = list[AgfError | NoOutput]()

    def __enter__(self) -> EachPart:
        return self

    def __call__(self, make: Callable[[], object]) -> bool:
        """Make a part. Returns whether it could be made."""
        try:
            make()
        except (AgfError, NoOutput) as error:
            self._errors.append(error)
            return False
        return True

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._errors or not isinstance(error, AgfError | NoOutput | None):
            return
        errors = [*self._errors, error] if error is not None else self._errors
        if len(errors) > 1:
            raise ExceptionGroup("several parts of the output failed", errors) from None
        raise errors[0]


def printable_json(value: Value) -> str:
    """JSON with escapes for control characters, which a terminal would obey, and for characters that
    stdout cannot encode."""
    written = as_json(value)
    text = json.dumps(written, indent=2, ensure_ascii=False)
    try:
        text.encode(getattr(_output(), "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(written, indent=2)
    return "\n".join(map(visible, text.split("\n")))


def end_without_output(error: NoOutput) -> int:
    """Say why stdout cannot be written, unless its reader has gone. Returns the exit code. Stdout is
    replaced by a file that takes everything, so that the end of the process does not try again."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    cause = error.__cause__
    if isinstance(cause, BrokenPipeError):
        return NOBODY_READS
    why = path_error_reason(cause) if isinstance(cause, OSError) else cause
    tell(f"agf-magics: error: the output cannot be written: {why}")
    return 1
