"""The traceback of an exception on its worker, as its cause: with it, Python and IPython show where
the tool failed.

What the kernel has and a worker does not: a module (the failure ``step.worker-lacks``),
flows.
"""

from __future__ import annotations

import linecache
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

from ..catalog.digests import is_ours
from ..text.diagnostics import Diagnostic
from .sending import STAY

FRAME = re.compile(r'  File "([^"\n]+)", line ([0-9]{1,9}), in [^\n]+')


class RemoteTraceback(Exception):
    """The text of a traceback. A worker has no file of a notebook's cell, so the lines of the
    source are added here."""

    def __str__(self) -> str:
        return f"\n{with_source(self.args[0])}"


def raised_there(data: bytes, text: str) -> BaseException:
    """An exception of a worker, with the traceback there as its cause."""
    try:
        error = pickle.loads(data)
    except BaseException:
        error = ("RuntimeError", text.strip().rpartition("\n")[2])
    if isinstance(error, tuple):
        name, said, *answer = error
        # Its class cannot be sent: one of the same name shows what it was, and `retry`
        # finds its status.
        error = type(name, (Exception,), {})(said)
        if len(answer) == 2:
            error.status_code, error.headers = answer[0], {"retry-after": str(answer[1])}
    assert isinstance(error, BaseException)
    error.__cause__ = RemoteTraceback(text)
    return error


def with_source(text: str, name_of_file: Callable[[str], str] | None = None) -> str:
    """The text of a traceback, with the lines of the source that this process knows and the text
    lacks.

    ``name_of_file``: what to call a file instead of ``File "…"``; empty: no other name. None: no
    file has one."""
    return "\n".join(_lines(text.split("\n"), name_of_file))


def _lines(lines: list[str], name_of_file: Callable[[str], str] | None) -> Iterator[str]:
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        found = FRAME.fullmatch(line)
        if found is None:
            yield line
            continue
        file, number = found[1], int(found[2])
        name = name_of_file(file) if name_of_file is not None else ""
        yield line.replace(f'File "{file}"', name, 1) if name else line
        source = linecache.getline(file, number).strip()
        # Python has written the line where the worker had the file.
        if source and not after.startswith("    "):
            yield f"    {source}"


def lacking_module(function: str, where: str, error: ImportError) -> Diagnostic:
    """The failure of calls of ``function``, because an import of the module ``error.name`` failed
    on a worker.

    ``where``: the name of the backend."""
    message = f"{function!r} needs the module {error.name!r}, which a worker of {where} lacks"
    top = str(error.name).partition(".")[0]
    hint = f"install {top!r} on the workers"
    # A module of the notebook is sent with a function that uses it as a global.
    if is_here(error) and is_ours(top):
        hint = f"import {top!r} outside of the function: it is then sent with the function"
    return Diagnostic("step.worker-lacks", message, hint=f"{hint}; or {STAY}")


def is_worker() -> bool:
    """Whether this process makes calls for a kernel, and is none itself."""
    held = sys.modules.get("_agf_chunk")
    return held is not None and not hasattr(held, "kernel")


def is_here(error: BaseException) -> bool:
    """Whether ``error`` says that a module is missing which this process has."""
    top = str(getattr(error, "name", None)).partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not top.isidentifier():
        return False
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):
        # A module that was made by code.
        return False


LOST_HINT = (
    "does it end its process? If memory is short: give each call less data, or start "
    "workers with more memory"
)
NO_SIGN = "its worker gave no sign of life and was ended"
GONE_HINT = (
    "%resume continues a run that has failed, on new processes; workers of a cluster must "
    "be started first"
)


def worker_lost(name: str, what: str, losses: Sequence[str], gone: bool = False) -> Diagnostic:
    """The failure of a call or an element. ``losses``: how its workers were lost; ``gone``: now
    there are none."""
    if gone:
        return Diagnostic(
            "step.worker-lost", f"no worker can run {name!r}: {losses[-1]}", hint=GONE_HINT
        )
    times = {1: "once", 2: "twice"}.get(len(losses), f"{len(losses)} times")
    why = "; ".join(dict.fromkeys(losses[-3:]))
    message = f"the worker of {name!r} ended before the {what} did, {times}: {why}"
    return Diagnostic("step.worker-lost", message, hint=LOST_HINT)
