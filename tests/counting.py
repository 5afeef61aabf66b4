"""Counts the cost of code instead of timing it, so that a busy machine gives the same result.

The garbage of earlier tests does not count, because the collector is off meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from agf_magics.compat.collection import pause_collection


class TooMuch(BaseException):
    """More calls than a test allows; no `except Exception` keeps it."""


def work(act: Callable[[], object], most: int = 1 << 62) -> int:
    """How many calls ``act`` makes. Raises TooMuch beyond ``most``: what would never end has an end."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > most:
            raise TooMuch(f"more than {most:,} calls")

    before = sys.getprofile()
    with pause_collection():
        sys.setprofile(seen)
        try:
            act()
        finally:
            sys.setprofile(before)
    return count


def instructions(act: Callable[[], object], of: str) -> int:
    """How many instructions ``act`` takes in files whose path has ``of``: what loops without calling counts too."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "call":
            if of not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return seen

    before = sys.gettrace()
    with pause_collection():
        sys.settrace(seen)
        try:
            act()
        finally:
            sys.settrace(before)
    return count
