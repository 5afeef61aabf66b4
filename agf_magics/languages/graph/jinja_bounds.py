"""The budget of one rendering of a Jinja2 prompt: time, turns of loops, and the size of everything
that it makes.

A template is untrusted. Each operation that can make a large value is charged for it before or
after it runs, so that neither a short template nor one with 5,000 operations can take more than a
second of the processor or fill the memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from ...flow.values import Value

MAX_TEXT = 1_000_000
"""Characters of a text, also of the rendered prompt."""
MAX_ELEMENTS = 100_000
"""Elements of a list or a mapping."""
MAX_TURNS = 100_000
"""Turns of all loops together."""
MAX_SECONDS = 1.0
"""Seconds of the processor. Time in which other programs run does not count."""
MAX_TOTAL = 10_000_000
"""Characters of all texts together that operations make; an element of a list counts as eight."""
MAX_BITS = 10_000
"""Bits of an integer."""


class TooMuch(Exception):
    """A template exceeds its budget; the text completes "the template …"."""


class Budget:
    """What one rendering has used so far."""

    def __init__(self) -> None:
        self.turns, self.made, self.until = 0, 0, time.thread_time() + MAX_SECONDS

    def check_time(self) -> None:
        if time.thread_time() > self.until:
            raise TooMuch(f"takes longer than {MAX_SECONDS:g} s")

    def each(self, found: Iterable[Value]) -> Iterator[Value]:
        """The elements that a loop runs over, each of them counted."""
        for one in found:
            self.turns += 1
            if self.turns > MAX_TURNS:
                raise TooMuch(f"loops more than {MAX_TURNS:,} times")
            self.check_time()
            yield one

    def charge(self, value: Any) -> Any:
        """``value``, which an operation has made."""
        self.check_time()
        self.made += check_size(value)
        if self.made > MAX_TOTAL:
            raise TooMuch(f"makes texts and lists of more than {MAX_TOTAL:,} characters")
        return value


spent: ContextVar[Budget | None] = ContextVar("spent", default=None)
"""The budget of the rendering that is under way."""


def charge(value: Any) -> Any:
    """``value``, charged to the rendering that is under way. An iterator becomes a list."""
    budget = spent.get()
    if budget is None:
        return value
    if not hasattr(value, "__next__"):
        return budget.charge(value)
    made: list[Value] = []
    for one in budget.each(value):
        made.append(budget.charge(one))
    return budget.charge(made)


def check_size(value: Any) -> int:
    """The cost of ``value`` without its parts. Raises TooMuch if it is too large."""
    if isinstance(value, str | bytes):
        check_length(len(value))
        return len(value)
    if isinstance(value, list | tuple | dict | set):
        check_count(len(value))
        return 8 * len(value)
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise TooMuch("computes a number that is too large")
    return 1


def check_length(size: int) -> None:
    if size > MAX_TEXT:
        raise TooMuch(f"makes a text of more than {MAX_TEXT:,} characters")


def check_count(size: int) -> None:
    if size > MAX_ELEMENTS:
        raise TooMuch(f"makes a list of more than {MAX_ELEMENTS:,} elements")


def weigh(value: Any) -> Any:
    """``value``, if reading all of it takes little time: a small value whose parts are shared may
    be long."""
    queue, room = [value], MAX_TEXT
    while queue:
        part = queue.pop()
        if isinstance(part, str):
            room -= len(part)
        elif isinstance(part, dict):
            queue += [*part, *part.values()]
            room -= len(part)
        elif isinstance(part, list | tuple):
            queue += part
            room -= len(part)
        elif type(part) is int:
            check_size(part)
        room -= 1
        if room < 0:
            raise TooMuch(f"uses a value of more than {MAX_TEXT:,} parts")
    return value
