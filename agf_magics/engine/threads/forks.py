"""Ends a process that a tool has forked, as soon as the tool's code in it ends.

A child of ``os.fork`` has a copy of the engine's state and none of its threads: it would drive the
parent's event loop, write into the parent's journal and wait for threads that do not exist. So each
call of user code compares `Forks.count` before and after, which is faster than getting the process
id.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, NoReturn

from ...text.raised import format_trace, is_a


class Forks:
    """The number of forks between the first process and this one."""

    count = 0


def end_child(result: tuple[bool, Any]) -> NoReturn:
    """Exit with the code of a SystemExit, with 1 and a traceback for another exception, otherwise
    with 0. Exit handlers do not run, because they belong to the parent. ``result``: the result of
    the tool."""
    ok, value = result
    code = 0 if ok else 1
    with contextlib.suppress(BaseException):
        if not ok and is_a(value, SystemExit):
            code = _exit_code(value)
        elif not ok:
            sys.stderr.write(format_trace(value))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    # `sys.exit` would return into the copy of the parent's engine, with its loop and journal.
    os._exit(code)


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def end_in_child(before: int, result: tuple[bool, Any]) -> None:
    """End this process if the tool has forked it since `Forks.count` was ``before``."""
    if Forks.count != before:
        end_child(result)


def _after_fork() -> None:
    Forks.count += 1


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
