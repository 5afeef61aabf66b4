"""Counts the characters that the text of a value will have, before Python writes it.

``str``, ``repr`` and ``json`` run in C, write a shared part again in each place, and cannot be
stopped: a small list with many references to the same parts has a nearly endless text. This module
visits each container once (decision D170).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any

ATOMS = frozenset({str, int, float, bool, type(None)})
"""The exact types of values without parts; `settle` converts their subclasses."""

TEXT = frozenset({str})

DEEPEST = 200
"""The deepest nesting of a value."""

FEW = 16
_FEW_ATOMS = 8 * FEW
"""The largest number of parts (`FEW`) and the largest weight of a container that is weighed again
in every place: to remember its weight would take longer."""


def weigh(value: Any) -> int:
    """The approximate number of characters of ``value`` as JSON; -1 if a part is opaque or nests
    too deeply. The size in memory tells nothing: a list may have the same long text a thousand
    times.
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
    # JSON has only text keys: a number would come back as a text.
    if kind is dict and TEXT.issuperset(map(type, value)):
        return _weigh_all(value, value.values(), room, visited)
    return -1


def _weigh_all(whole: Any, parts: Any, room: int, visited: dict[int, int]) -> int:
    """`_weigh` of the container ``whole``. ``visited``: the weights of earlier containers, by
    identity."""
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
"""The largest number of characters that Python's ``str``, ``repr`` or ``json`` may write for a
value."""


def can_write(value: Any, longest: int = LONGEST_TEXT) -> bool:
    """Whether ``str`` and ``repr`` of ``value`` have at most about ``longest`` characters. No code
    of a user's class is called, so text that its ``__repr__`` adds to its fields is not counted.
    """
    size = weigh(value)
    if size >= 0:  # most values are JSON
        return size <= longest
    try:
        return _Writing().size(value, DEEPEST) <= longest
    except _Endless:
        return False


UNWRITTEN = "(its text would have millions of characters)"
"""The replacement for a text that is too long to be written."""


class _Endless(Exception):
    """A value nests too deeply, or has too many objects, so that its text cannot be counted."""


class _Writing:
    """Counts the text of a value of any type. The counted objects are kept in memory: a freed
    object could give its identity to the next one."""

    MOST_OBJECTS = 100_000
    """The number of objects with fields that are looked at; a value with more cannot be written.
    """

    def __init__(self) -> None:
        self.visited: dict[int, tuple[int, Any]] = {}
        """The characters of each counted object, and the object, by its identity."""
        self.left = self.MOST_OBJECTS
        """The number of objects with fields that may still be looked at."""

    def size(self, value: Any, room: int) -> int:
        """The characters of ``value``, at most ``room`` levels deep. Raises _Endless."""
        kind = type(value)  # not `isinstance`, which runs an object's own `__class__`
        if issubclass(kind, (str, bytes, bytearray)):
            return len(value) + 2
        if kind in ATOMS:
            return 8
        visited = self.visited.get(id(value))
        if visited is not None:
            size, _ = visited
            return size
        parts = self.inside(value)
        if parts and not room:
            raise _Endless
        self.visited[id(value)] = 8, value  # a list that contains itself is written as `[...]`
        size = 8 + sum([self.size(part, room - 1) for part in parts])
        self.visited[id(value)] = size, value
        return size

    def inside(self, value: Any) -> Sequence[Any]:
        """The objects whose texts are part of the text of ``value``: the members of a container,
        the arguments of an exception, the fields of an object whose class has a ``__repr__`` of its
        own."""
        kind = type(value)
        if issubclass(kind, dict):
            return [*dict.keys(value), *dict.values(value)]
        for container in _MEMBERS:
            if issubclass(kind, container):
                return list(container.__iter__(value))
        parts: list[Any] = []
        if issubclass(kind, BaseException):
            parts += _ARGS.__get__(value)
        elif issubclass(kind, type) or _is_written_by_python(kind):
            return ()
        self.left -= 1
        if self.left < 0:
            raise _Endless
        # Read from `object`: a property of the class could run any code.
        with suppress(Exception):
            parts += object.__getattribute__(value, "__dict__").values()
        return parts + _slots(value)


_OF_PYTHON_CODE = 1 << 9
"""The flag of a class that a `class` statement made (Py_TPFLAGS_HEAPTYPE)."""

_MEMBERS: tuple[Any, ...] = (list, tuple, set, frozenset, deque)
_PLAIN: Any = object
_ARGS: Any = BaseException.__dict__["args"]


def _is_written_by_python(kind: type) -> bool:
    """Whether Python writes an object of this class as its class and address alone."""
    return kind.__repr__ is _PLAIN.__repr__ and kind.__str__ is _PLAIN.__str__


def _slots(value: Any) -> list[Any]:
    """The fields of an object in the ``__slots__`` of its classes."""
    fields = []
    for kind in type.__dict__["__mro__"].__get__(type(value)):
        if not kind.__flags__ & _OF_PYTHON_CODE:
            continue  # Python's own texts leave it out, for example the object of an AttributeError
        for descriptor in vars(kind).values():
            if type(descriptor) is MemberDescriptorType:
                with suppress(AttributeError):  # the slot was never set
                    fields.append(descriptor.__get__(value))
    return fields
