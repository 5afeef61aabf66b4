"""How many characters the text of a value has, found before Python writes it.

``str``, ``repr`` and ``json`` are written in C, place by place, and nothing ends them before they
are complete: a small list whose parts stand in many places has a text without end. Here each
container is visited once (decision D170).
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
"""The most atoms of a container that is weighed in every place: remembering its weight takes
longer."""


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
    """`_weigh` of a container. ``visited``: the weights of those that were weighed, by identity."""
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


def can_write(value: Any, longest: int = LONGEST_TEXT) -> bool:
    """Whether ``str`` and ``repr`` of ``value`` have at most about ``longest`` characters. They are
    written in C, place by place, and nothing ends them before they are complete. No code of a class
    is called: what its own ``__repr__`` writes besides its fields is not counted.
    """
    size = weigh(value)
    if size >= 0:  # JSON, nearly always
        return size <= longest
    try:
        return _Writing().size(value, DEEPEST) <= longest
    except _Endless:
        return False


UNWRITTEN = "(its text would have millions of characters)"
"""In the place of such a text."""


class _Endless(Exception):
    """A value nests too deeply, or has too many objects, for its text to be counted."""


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
        """The characters of ``value``, at most ``room`` levels deep. Raises _Endless."""
        kind = type(value)  # never `isinstance`, which asks the object for its class too
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
        self.visited[id(value)] = 8, value  # what contains itself is written as `[...]`
        size = 8 + sum([self.size(part, room - 1) for part in parts])
        self.visited[id(value)] = size, value
        return size

    def inside(self, value: Any) -> Sequence[Any]:
        """The objects whose texts the text of ``value`` may contain: the members of a container, the arguments
        of an exception, the fields of an object whose class writes itself."""
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
        # Past the properties of the class, which may run any code.
        with suppress(Exception):
            parts += object.__getattribute__(value, "__dict__").values()
        return parts + _slots(value)


_OF_PYTHON_CODE = 1 << 9
"""The flag of a class that a `class` statement made (Py_TPFLAGS_HEAPTYPE)."""

_MEMBERS: tuple[Any, ...] = (list, tuple, set, frozenset, deque)
_PLAIN: Any = object
_ARGS: Any = BaseException.__dict__["args"]


def _is_written_by_python(kind: type) -> bool:
    """Whether the text of an object of this class is its class and its address."""
    return kind.__repr__ is _PLAIN.__repr__ and kind.__str__ is _PLAIN.__str__


def _slots(value: Any) -> list[Any]:
    """The fields of an object in the ``__slots__`` of its classes."""
    fields = []
    for kind in type.__dict__["__mro__"].__get__(type(value)):
        if not kind.__flags__ & _OF_PYTHON_CODE:
            continue  # no text of Python's own has, say, the module that an AttributeError is about
        for descriptor in vars(kind).values():
            if type(descriptor) is MemberDescriptorType:
                with suppress(AttributeError):  # never set
                    fields.append(descriptor.__get__(value))
    return fields
