"""Counts the parts of a value; a part that stands in several places counts in each of them.

A list with two references to the next list, sixty levels deep, is sixty small lists and 2^60 parts.
So this module visits each container once, and adds its count for each place where it stands. Other
code that walks a value (to copy, write, compare or mask it) asks this module first, or also visits
each container only once (decision D170).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from itertools import chain
from typing import Any

from ..text.length import ATOMS, DEEPEST, FEW, LONGEST_TEXT, TEXT, can_write

ROW = frozenset({dict})
CONTAINERS = frozenset({dict, list})

LARGEST = 5_000_000
"""The largest number of parts of a value; a part counts in every place where it stands."""
MANY = 250_000
"""The number of parts that code which copies a value visits before it lets this module count all of
them. Nearly all values are smaller."""
REMEMBERED = 64
"""The number of visited parts from which on a run remembers the count of a container."""
MOST_REMEMBERED = 32
MOST_VISITED = 2_000_000
"""The largest number of remembered containers, and of the visits that their counts took
together."""


class TooDeep(ValueError):
    """A value nests deeper than DEEPEST, or contains itself, or has more than LARGEST parts."""


Count = tuple[int, int]
"""The number of parts of a container, and the number of its levels."""


NO_PARTS: Count = (0, 0)


def too_large(limit: int = LARGEST) -> TooDeep:
    return TooDeep(
        f"it has more than {limit:,} parts (one that stands in several places counts in each)"
    )


def too_deep() -> TooDeep:
    return TooDeep(f"it nests deeper than {DEEPEST} levels, or contains itself")


def are_rows(value: list[Any]) -> bool:
    """Whether all parts are objects without containers and opaque values. The check runs in C, for
    speed."""
    return (
        ROW.issuperset(map(type, value))
        and TEXT.issuperset(map(type, chain.from_iterable(value)))
        and ATOMS.issuperset(map(type, chain.from_iterable(map(dict.values, value))))
    )


def count_parts(value: Any, is_settled: bool = True) -> int:
    """The number of parts of ``value``. ``is_settled``: default True; False: subclasses and tuples
    are containers, too, as in a value that a function has just returned. Raises TooDeep.

    >>> shared = [1]
    >>> for _ in range(10):
    ...     shared = [shared, shared]
    >>> count_parts(shared)
    3070
    """
    count, _ = _Counter(is_settled).count(value, DEEPEST)
    return count


class _Counter:
    """One walk that counts the parts of a value."""

    def __init__(self, is_settled: bool) -> None:
        self.is_settled = is_settled
        self.visits = 0
        """The number of parts that were visited."""
        self.counted: dict[int, Count] = {}
        """The counts of containers that have containers in them, by identity. A container of atoms
        is counted again in each place: its length is its count."""

    def count(self, value: Any, room: int) -> Count:
        """The count of ``value``, at most ``room`` levels deep; `NO_PARTS` if it is no container.
        Raises TooDeep."""
        counted = self.counted.get(id(value)) or self.remembered(value)
        if counted is None:
            parts = self.parts(value)
            if parts is None:
                return NO_PARTS
            before = self.visits
            counted = self._flat(value, parts)
            if counted is None:
                if not room:
                    raise too_deep()
                counted = self.counted[id(value)] = self._count_all(parts, len(value), room - 1)
            if self.visits - before >= REMEMBERED:
                self.remember(value, counted, self.visits - before)
        count, levels = counted
        if levels > room:
            raise too_deep()
        if count > LARGEST:
            raise too_large()
        return counted

    def _flat(self, value: Any, parts: Iterable[Any]) -> Count | None:
        """The count of a container of atoms, or of a long list of such containers, found in C; None
        for any other container."""
        size = len(value)
        self.visits += size
        if size <= FEW or type(value) is not list:
            return (size, 1) if ATOMS.issuperset(map(type, parts)) else None
        kinds = set(map(type, parts))
        if kinds <= ATOMS:
            return size, 1
        if len(kinds) > 1 or not kinds <= CONTAINERS:
            return None
        rows = map(dict.values, value) if kinds == ROW else value
        if not ATOMS.issuperset(map(type, chain.from_iterable(rows))):
            return None
        cells = sum(map(len, value))
        self.visits += cells
        return size + cells, 2

    def _count_all(self, parts: Iterable[Any], count: int, room: int) -> Count:
        """The count of a container from its parts. The counts of short containers are computed
        inline, because a call for each would take three times as long."""
        levels = 0
        counted = self.counted
        for part in parts:
            kind = type(part)
            if kind in ATOMS:
                continue
            if kind not in CONTAINERS or len(part) > FEW or not room:
                inside, below = self.count(part, room)
            else:
                inner = part.values() if kind is dict else part
                if ATOMS.issuperset(map(type, inner)):
                    inside = len(part)
                    below = 1
                else:
                    count_of_part = counted.get(id(part)) or self.remembered(part)
                    if count_of_part is None:
                        count_of_part = counted[id(part)] = self._count_all(
                            inner, len(part), room - 1
                        )
                    inside, below = count_of_part
                    if below > room:
                        raise too_deep()
                self.visits += len(part)
            count += inside
            if below > levels:
                levels = below
            if count > LARGEST:
                raise too_large()
        return count, levels + 1

    def parts(self, value: Any) -> Iterable[Any] | None:
        """The parts of ``value``; None if it is no container."""
        kind = type(value)
        if kind is dict:
            values: Iterable[Any] = value.values()
            return values
        if kind is list:
            return value  # type: ignore[no-any-return]
        if self.is_settled:
            return None
        if isinstance(value, dict):
            return dict.values(value)
        return tuple(value) if isinstance(value, (list, tuple)) else None

    def remembered(self, value: Any) -> Count | None:
        """The count of ``value`` from an earlier walk; None: there is none. This class remembers
        nothing."""
        return None

    def remember(self, value: Any, counted: Count, visits: int) -> None:
        """Remember the count of ``value`` for later walks. This class does nothing."""


class Extents(_Counter):
    """The counts of the large containers of one run. A value of a run never changes, so a count
    stays right. The container stays in memory, so that no other object gets its identity. Only the
    loop of the run may use this object."""

    def __init__(self) -> None:
        super().__init__(True)
        self._kept: OrderedDict[int, tuple[Any, Count, int]] = OrderedDict()
        """The remembered containers, their counts and the visits that these took, by identity."""
        self._kept_visits = 0
        """The visits of all remembered containers together."""

    def check(self, value: Any) -> None:
        """Raise TooDeep if ``value`` has more parts or levels than a value may have."""
        try:
            self.count(value, DEEPEST)
        finally:
            self.counted.clear()

    def joined(self, whole: list[Any], first: list[Any], second: list[Any]) -> None:
        """Remember the count of ``whole``, which is ``first + second``, if that of the longer one
        is remembered. So a list that grows element by element is not counted from its beginning
        each time."""
        long, short = (first, second) if len(first) >= len(second) else (second, first)
        counted = self.remembered(long)
        if counted is None or len(short) > REMEMBERED:
            return
        with suppress(TooDeep):  # the check of the step's value reports it
            count, levels = counted
            more, levels_of_short = self.count(short, DEEPEST)
            self.remember(whole, (count + more, max(levels, levels_of_short)), len(whole))

    def remembered(self, value: Any) -> Count | None:
        entry = self._kept.get(id(value))
        if entry is None:
            return None
        self._kept.move_to_end(id(value))
        _, counted, _ = entry
        return counted

    def remember(self, value: Any, counted: Count, visits: int) -> None:
        if id(value) in self._kept:
            return
        self._kept[id(value)] = value, counted, visits
        self._kept_visits += visits
        while len(self._kept) > 1:
            if len(self._kept) <= MOST_REMEMBERED and self._kept_visits <= MOST_VISITED:
                break
            _, (_, _, visits_of_oldest) = self._kept.popitem(last=False)
            self._kept_visits -= visits_of_oldest


extents: ContextVar[Extents | None] = ContextVar("agf_extents", default=None)
"""The counts of this task's run, for code that makes a longer list from another list."""


def dump_bounded(value: Any, longest: int = LONGEST_TEXT, **options: Any) -> str:
    """``json.dumps`` with its ``options``. Raises TooDeep if the text would have more than about
    ``longest`` characters, and everything that ``json.dumps`` raises."""
    if not can_write(value, longest):
        raise TooDeep(f"it has more than {longest:,} characters as text")
    return json.dumps(value, **options)
