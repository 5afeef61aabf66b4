"""Counts the calls and instructions of an action, as a measure of its cost that does not depend on the load of the
machine.

The garbage collector is off meanwhile, so that objects of earlier tests do not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from agf_magics.compat.collection import pause_collection


class TooMuch(BaseException):
    """An action makes more calls than its test allows. It is a BaseException, so that no `except Exception` swallows
    it."""


def work(act: Callable[[], object], most: int = 1 << 62) -> int:
    """The number of calls that ``act`` makes. Raises TooMuch after ``most`` calls, so that an endless action ends,
    too."""
    count = 0

    def count_call(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > most:
            raise TooMuch(f"more than {most:,} calls")

    before = sys.getprofile()
    with pause_collection():
        sys.setprofile(count_call)
        try:
            act()
        finally:
            sys.setprofile(before)
    return count


def instructions(act: Callable[[], object], of: str) -> int:
    """The number of bytecode instructions that ``act`` executes in files whose path contains ``of``. Unlike `work`,
    this counts loops that call nothing."""
    count = 0

    def count_opcode(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "call":
            if of not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return count_opcode

    before = sys.gettrace()
    with pause_collection():
        sys.settrace(count_opcode)
        try:
            act()
        finally:
            sys.settrace(before)
    return count
