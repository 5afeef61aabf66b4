"""Exceptions that come from a worker, each with its traceback on the worker as its cause."""

from __future__ import annotations

import linecache
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

from ...compat.imports import for_the_person
from ...text.raised import set_cause

FRAME = re.compile(r'  File "([^"\n]+)", line ([0-9]{1,9}), in [^\n]+')
"""The line of a traceback that begins a frame: its groups are the file and the number of the line."""


class RemoteTraceback(Exception):
    """The text of a traceback on a worker. A worker does not have the source of a notebook's cell, so the
    lines of the source are added here."""

    def __str__(self) -> str:
        return f"\n{with_source(self.args[0])}"


def raised_there(data: bytes, text: str) -> BaseException:
    """The exception that a worker has sent, with the traceback on the worker as its cause."""
    try:
        with for_the_person():  # may run the code of a user's class
            error: Any = pickle.loads(data)
    except BaseException:
        error = ("RuntimeError", text.strip().rpartition("\n")[2])
    if isinstance(error, tuple):
        name, message, *answer = error
        # The class could not be sent: a class of the same name shows what it was, and has the status of
        # the server's answer, by which the policy `retry` decides.
        error = type(name, (Exception,), {})(message)
        if len(answer) == 2:
            error.status_code, error.headers = answer[0], {"retry-after": str(answer[1])}
    raised: BaseException = error
    set_cause(raised, RemoteTraceback(text))
    return raised


def with_source(text: str, name_of_file: Callable[[str], str] | None = None) -> str:
    """The text of a traceback, with the lines of the source that this process knows and that the text does
    not have.

    ``name_of_file``: returns the name that stands instead of ``File "…"``, or an empty text for a file
    without such a name. None: no file has such a name."""
    return "\n".join(_lines(text.split("\n"), name_of_file))


def _lines(lines: list[str], name_of_file: Callable[[str], str] | None) -> Iterator[str]:
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        match = FRAME.fullmatch(line)
        if match is None:
            yield line
            continue
        file, number = match[1], int(match[2])
        name = name_of_file(file) if name_of_file is not None else ""
        yield line.replace(f'File "{file}"', name, 1) if name else line
        source = linecache.getline(file, number).strip()
        # If the worker had the file, Python has written the line already.
        if source and not after.startswith("    "):
            yield f"    {source}"
