"""Counts the calls of a tool by value, even those of copies of the tool on workers in this process."""

from __future__ import annotations

import threading
from collections import Counter

CALLS: list[Counter[str]] = [Counter()]
"""The counter of the present run."""
LOCK = threading.Lock()


def begin() -> Counter[str]:
    """A new counter, which `count` uses from now on."""
    CALLS[0] = Counter()
    return CALLS[0]


def count(value: str) -> int:
    """How many calls had this value, with this one."""
    with LOCK:
        CALLS[0][value] += 1
        return CALLS[0][value]
