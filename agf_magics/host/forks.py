"""What becomes of a process that a tool forks: it ends where the tool's code ends, and never goes on as the engine.

A child of ``os.fork`` has a copy of the engine's state and none of its threads. If it came back from the tool, it would
drive the parent's event loop, write into the parent's journal and wait for threads that do not exist. So each crossing
into user code compares `Forks.count` before and after, which costs less than asking for the process id.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import Any, NoReturn


class Forks:
    """How many forks lie between the first process and this one."""

    count = 0


def end_child(result: tuple[bool, Any]) -> NoReturn:
    """End this process as Python ends one: with the code of a SystemExit, with 1 and a traceback for another exception,
    else with 0. No exit handlers run: they are the parent's.

    ``result``: whether the tool returned, and then its value, else what it raised.
    """
    ok, value = result
    code = 0 if ok else 1
    with contextlib.suppress(BaseException):
        if not ok and isinstance(value, SystemExit):
            code = _exit_code(value)
        elif not ok:
            traceback.print_exception(value)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    os._exit(code)


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _forked() -> None:
    Forks.count += 1


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)
