"""Counts how often a tool was called with a value, also in a copy of the tool that was sent to workers of this
process."""

from __future__ import annotations

import threading
from collections import Counter

CALLS: list[Counter[str]] = [Counter()]
"""The counter of the current run, as the only element."""
LOCK = threading.Lock()


def begin() -> Counter[str]:
    """Start a new counter, which `count` uses from now on."""
    CALLS[0] = Counter()
    return CALLS[0]


def count(value: str) -> int:
    """Count a call with this value. Returns the number of such calls, with this one."""
    with LOCK:
        CALLS[0][value] += 1
        return CALLS[0][value]
