"""The traceback of an exception on its worker, shown as its cause."""

from __future__ import annotations

import linecache
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

from ...compat.imports import for_the_person
from ...text.raised import set_cause

FRAME = re.compile(r'  File "([^"\n]+)", line ([0-9]{1,9}), in [^\n]+')


class RemoteTraceback(Exception):
    """The text of a traceback. A worker has no file of a notebook's cell, so the lines of the
    source are added here."""

    def __str__(self) -> str:
        return f"\n{with_source(self.args[0])}"


def raised_there(data: bytes, text: str) -> BaseException:
    """An exception of a worker, with the traceback there as its cause."""
    try:
        with for_the_person():  # of a class of theirs
            error: Any = pickle.loads(data)
    except BaseException:
        error = ("RuntimeError", text.strip().rpartition("\n")[2])
    if isinstance(error, tuple):
        name, said, *answer = error
        # Its class cannot be sent: one of the same name shows what it was, and `retry`
        # finds its status.
        error = type(name, (Exception,), {})(said)
        if len(answer) == 2:
            error.status_code, error.headers = answer[0], {"retry-after": str(answer[1])}
    raised: BaseException = error
    set_cause(raised, RemoteTraceback(text))
    return raised


def with_source(text: str, name_of_file: Callable[[str], str] | None = None) -> str:
    """The text of a traceback, with the lines of the source that this process knows and the text
    lacks.

    ``name_of_file``: what to call a file instead of ``File "…"``; empty: no other name. None: no
    file has one."""
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
        # Python has written the line where the worker had the file.
        if source and not after.startswith("    "):
            yield f"    {source}"
