"""How much a value has in it, where a part that stands in several places counts in each of them.

A list of two references to a list of two references, sixty times, is sixty small lists and 2^60
parts. So nothing here walks a value place by place: each container is visited once, and what was
counted for it is added for each place. Whatever else walks a value (copies it, writes it, compares
it, masks it) asks here first, or visits each container once too (decision D170).
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import chain
from types import MemberDescriptorType
from typing import Any

ATOMS = frozenset({str, int, float, bool, type(None)})
"""The exact types of values without parts; `settle` converts their subclasses."""

TEXT = frozenset({str})
ROW = frozenset({dict})
CONTAINERS = frozenset({dict, list})

DEEPEST = 200
"""The deepest nesting of a value."""
LARGEST = 5_000_000
"""The most parts of a value, each counted in every place where it stands."""
MANY = 250_000
"""Parts that are copied of a value before all of them are counted; nearly all values are smaller.
"""
FEW = 16
_FEW_ATOMS = 8 * FEW
"""A container with at most so many atoms is weighed in every place: that takes less than to
remember it."""

REMEMBERED = 64
"""Visited parts from which on the count of a container is remembered during a run."""
MOST_REMEMBERED = 32
MOST_VISITED = 2_000_000
"""Containers that are remembered at a time, and the visits that their counts took together."""


class TooDeep(ValueError):
    """A value nests deeper than DEEPEST, or contains itself, or has more than LARGEST parts."""


Count = tuple[int, int]
"""The parts of a container, and how many levels it has."""


NO_PARTS: Count = (0, 0)


def too_large(most: int = LARGEST) -> TooDeep:
    return TooDeep(
        f"it has more than {most:,} parts (one that stands in several places counts in each)"
    )


def too_deep() -> TooDeep:
    return TooDeep(f"it nests deeper than {DEEPEST} levels, or contains itself")


def are_rows(value: list[Any]) -> bool:
    """Whether all parts are objects without containers and opaque values. All of it in C."""
    return (
        ROW.issuperset(map(type, value))
        and TEXT.issuperset(map(type, chain.from_iterable(value)))
        and ATOMS.issuperset(map(type, chain.from_iterable(map(dict.values, value))))
    )


def count_parts(value: Any, is_settled: bool = True) -> int:
    """The parts of ``value``. ``is_settled``: False: subclasses and tuples are containers too, as
    in a value that a function has just returned. Raises TooDeep.

    >>> shared = [1]
    >>> for _ in range(10):
    ...     shared = [shared, shared]
    >>> count_parts(shared)
    3070
    """
    return _Counter(is_settled).count(value, DEEPEST)[0]


class _Counter:
    """One walk over a value."""

    def __init__(self, is_settled: bool) -> None:
        self.is_settled = is_settled
        self.visits = 0
        """The parts that were looked at."""
        self.counted: dict[int, Count] = {}
        """The counts of containers with containers in them, by identity. A container without is
        counted at each place, in C, which is no more than what it adds."""

    def count(self, value: Any, room: int) -> Count:
        """The parts of a container; none of anything else. Raises TooDeep."""
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
        if counted[1] > room:
            raise too_deep()
        if counted[0] > LARGEST:
            raise too_large()
        return counted

    def _flat(self, value: Any, parts: Iterable[Any]) -> Count | None:
        """The count of a container of atoms, or of a long list of such mappings or such lists: all
        of it in C."""
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
        """The count of a container from its parts. Short containers are counted here: a call for
        each takes three times as long."""
        levels, counted = 0, self.counted
        for part in parts:
            kind = type(part)
            if kind in ATOMS:
                continue
            if kind not in CONTAINERS or len(part) > FEW or not room:
                inside, below = self.count(part, room)
            else:
                inner = part.values() if kind is dict else part
                if ATOMS.issuperset(map(type, inner)):
                    inside, below = len(part), 1
                else:
                    known = counted.get(id(part)) or self.remembered(part)
                    if known is None:
                        known = counted[id(part)] = self._count_all(inner, len(part), room - 1)
                    inside, below = known
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
        return None

    def remember(self, value: Any, counted: Count, visits: int) -> None:
        pass


class Extents(_Counter):
    """The counts of the large containers of one run. A value of a run never changes, so what was
    counted once holds; the container is kept, so that no other gets its identity. Only on the loop
    of the run."""

    def __init__(self) -> None:
        super().__init__(True)
        self._kept: OrderedDict[int, tuple[Any, Count, int]] = OrderedDict()
        self._kept_visits = 0

    def check(self, value: Any) -> None:
        """Raise TooDeep if ``value`` has more parts or levels than a value may have."""
        try:
            self.count(value, DEEPEST)
        finally:
            self.counted.clear()

    def joined(self, whole: list[Any], left: list[Any], right: list[Any]) -> None:
        """``whole`` is ``left + right``. Where one side is remembered, so is the whole: a list that
        grows by an element a time is not counted from its beginning each time."""
        long, short = (left, right) if len(left) >= len(right) else (right, left)
        before = self.remembered(long)
        if before is None or len(short) > REMEMBERED:
            return
        with suppress(TooDeep):  # told where the value of the step is checked
            more = self.count(short, DEEPEST)
            self.remember(whole, (before[0] + more[0], max(before[1], more[1])), len(whole))

    def remembered(self, value: Any) -> Count | None:
        kept = self._kept.get(id(value))
        if kept is None:
            return None
        self._kept.move_to_end(id(value))
        return kept[1]

    def remember(self, value: Any, counted: Count, visits: int) -> None:
        if id(value) in self._kept:
            return
        self._kept[id(value)] = value, counted, visits
        self._kept_visits += visits
        while len(self._kept) > MOST_REMEMBERED or (
            self._kept_visits > MOST_VISITED and len(self._kept) > 1
        ):
            self._kept_visits -= self._kept.popitem(last=False)[1][2]


extents: ContextVar[Extents | None] = ContextVar("agf_extents", default=None)
"""Those of the run in this task, for whatever makes a long list of another one."""


# --- as text ---


def weigh(value: Any) -> int:
    """The approximate characters of ``value`` as JSON; -1 if a part is opaque, or nests too deep.

    Counted before encoding: a list of a thousand times the same long text is small in memory.
    """
    return _weigh(value, DEEPEST, {})


def _weigh(value: Any, room: int, visited: dict[int, int]) -> int:
    kind = type(value)
    if kind is str:
        return len(value) + 2
    if kind in ATOMS:
        return 8
    if kind is list:
        return _weigh_all(value, value, room, visited)
    # JSON would write a number as a text, and the key would come back as another one.
    if kind is dict and TEXT.issuperset(map(type, value)):
        return _weigh_all(value, value.values(), room, visited)
    return -1


def _weigh_all(whole: Any, parts: Any, room: int, visited: dict[int, int]) -> int:
    size = 8 * len(whole)
    for part in parts:
        kind = type(part)
        if kind is str:
            size += len(part)
        elif kind not in ATOMS:
            more = visited.get(id(part))
            if more is None:
                more = _weigh(part, room - 1, visited) if room > 0 else -1
                if more < 0:
                    return -1
                if len(part) > FEW or more > _FEW_ATOMS:
                    visited[id(part)] = more
            size += more
    return size


LONGEST_TEXT = 10_000_000
"""Characters of a text that Python's ``str``, ``repr`` or ``json`` makes for us of a value."""


def can_write(value: Any, most: int = LONGEST_TEXT) -> bool:
    """Whether ``str`` and ``repr`` of ``value`` have at most about ``most`` characters. They are
    written in C, place by place, and nothing ends them before they are complete. No code of a class
    is called: what its own ``__repr__`` writes besides its fields is not counted.
    """
    size = weigh(value)
    if size >= 0:  # JSON, nearly always
        return size <= most
    try:
        return _Writing().size(value, DEEPEST) <= most
    except TooDeep:
        return False


def write_json(value: Any, most: int = LONGEST_TEXT, **options: Any) -> str:
    """``json.dumps`` with its ``options``. Raises TooDeep for more than about ``most`` characters,
    and what ``json.dumps`` raises."""
    if not can_write(value, most):
        raise TooDeep(f"it has more than {most:,} characters as text")
    return json.dumps(value, **options)


UNWRITTEN = "(its text would have millions of characters)"


def exception_text(error: BaseException) -> str:
    """The text of an exception of a user: of its arguments, or what its ``__str__`` returns, which
    may raise anything."""
    return str(error) if can_write(error) else UNWRITTEN


class _Writing:
    """How much text a value of any types has. The objects are kept with their sizes: a field may be
    made when it is read, and its identity is that of the next one when it is freed."""

    MOST_OBJECTS = 100_000
    """Objects with fields that are looked at before a value counts as one that cannot be written.
    """

    def __init__(self) -> None:
        self.visited: dict[int, tuple[int, Any]] = {}
        self.left = self.MOST_OBJECTS

    def size(self, value: Any, room: int) -> int:
        if isinstance(value, (str, bytes, bytearray)):
            return len(value) + 2
        if type(value) in ATOMS:
            return 8
        known = self.visited.get(id(value))
        if known is not None:
            return known[0]
        parts = self.inside(value)
        if parts and not room:
            raise too_deep()
        self.visited[id(value)] = 8, value  # what contains itself is written as `[...]`
        size = 8 + sum([self.size(part, room - 1) for part in parts])
        self.visited[id(value)] = size, value
        return size

    def inside(self, value: Any) -> Sequence[Any]:
        """What the text of an object may have of others: the members of a container, the arguments
        of an exception, the fields of an object whose class writes itself."""
        kind = type(value)
        if isinstance(value, dict):
            return [*dict.keys(value), *dict.values(value)]
        for container in _MEMBERS:
            if isinstance(value, container):
                return list(container.__iter__(value))
        parts: list[Any] = []
        if isinstance(value, BaseException):
            parts += _ARGS.__get__(value)
        elif issubclass(kind, type) or (kind.__repr__ is _PLAIN[0] and kind.__str__ is _PLAIN[1]):
            return ()
        self.left -= 1
        if self.left < 0:
            raise too_large(self.MOST_OBJECTS)
        # Past the properties of the class, which may run any code.
        with suppress(Exception):
            parts += object.__getattribute__(value, "__dict__").values()
        return parts + _slots(value)


_MEMBERS: tuple[Any, ...] = (list, tuple, set, frozenset, deque)
_PLAIN: tuple[Any, Any] = (object.__repr__, object.__str__)
_ARGS: Any = BaseException.__dict__["args"]


def _slots(value: Any) -> list[Any]:
    fields = []
    for kind in type.__dict__["__mro__"].__get__(type(value)):
        for descriptor in vars(kind).values():
            if type(descriptor) is MemberDescriptorType:
                with suppress(AttributeError):  # never set
                    fields.append(descriptor.__get__(value))
    return fields
