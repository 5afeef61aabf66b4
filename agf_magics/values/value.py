"""Copies, compares, converts and names the values of flows (decision A1).

Dicts with text keys, lists, text, ints, floats, bools and None are JSON. All other values (a
DataFrame, an array, a date, a model, a connection) are opaque: they pass by reference from step to
step. Expressions may pass them on and compare them by identity, but not look inside.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

from ..text.length import ATOMS, DEEPEST, TEXT
from .extent import CONTAINERS, LARGEST, MANY, are_rows, count_parts, too_deep, too_large
from .unread import Unread

Value = Any
"""The type of a value: an opaque value may have any type."""


def isolate(value: Value) -> Value:
    """A copy of the JSON containers in ``value``, with opaque values by reference (decision P6).

    Unread values are read. Only calls of user code need it, because frames share values. Raises
    TooDeep, and LostError for a value that cannot be read any more.
    """
    return copy_parts(value, DEEPEST, Room(value))


def isolate_unread(value: Value) -> Value:
    """`isolate` without reading unread values, for a copy that no user code gets."""
    return copy_parts(value, DEEPEST, Room(value, reads=False))


def parts_of(value: Value) -> Iterable[Value]:
    """The values in a dict or a list; empty for any other value."""
    if type(value) is dict:
        return value.values()
    return value if type(value) is list else ()


class Room:
    """Bounds the number of parts that are copied. After MANY parts, the whole value is counted
    first: counting visits a shared part once, but copying copies it in each place."""

    __slots__ = ("_is_settled", "_most", "_whole", "reads", "taken")

    def __init__(self, whole: Value, is_settled: bool = True, reads: bool = True) -> None:
        """``whole``: the value that is copied. ``is_settled``: see `count_parts`. ``reads``:
        whether unread values are read."""
        self.taken, self.reads = 0, reads
        self._most = MANY
        self._whole = whole
        self._is_settled = is_settled

    def take(self, count: int) -> None:
        """Count ``count`` more copied parts. Raises TooDeep if the value has too many."""
        self.taken += count
        if self.taken > self._most:
            if self._most < LARGEST:
                count_parts(self._whole, self._is_settled)
                self._most = LARGEST
            if self.taken > LARGEST:
                raise too_large()


def copy_parts(value: Value, levels: int, room: Room) -> Value:
    """`isolate` for a part of a value, at most ``levels`` deep."""
    if type(value) not in CONTAINERS:
        return value.value if type(value) is Unread and room.reads else value
    room.take(len(value))
    if not levels:
        raise too_deep()
    if type(value) is dict:
        return _with_parts(value, copy_parts, levels, room)
    return _list_of(value, copy_parts, levels, room)


def _with_parts(
    value: dict[str, Value],
    copy: Callable[[Value, int, Room], Value],
    levels: int,
    room: Room,
) -> dict[str, Value]:
    """A copy of a mapping in which ``copy`` converts each part."""
    if ATOMS.issuperset(map(type, value.values())):
        return value.copy()
    return {k: (v if type(v) in ATOMS else copy(v, levels - 1, room)) for k, v in value.items()}


def _list_of(
    value: Any, copy: Callable[[Value, int, Room], Value], levels: int, room: Room
) -> list[Value]:
    """A copy of a list or tuple, as a list, in which ``copy`` converts each part."""
    # A large list nearly always has rows, objects without containers. C checks and copies all of
    # them in half of the time that a call for each takes.
    if type(value) is list and levels > 1 and are_rows(value):
        room.take(sum(map(len, value)))
        return list(map(dict.copy, value))
    return [v if type(v) in ATOMS else copy(v, levels - 1, room) for v in value]


def settle(value: Value) -> Value:
    """The result of a tool or an agent as a value: a copy, with similar types converted to JSON.

    A tuple becomes a list, a numpy scalar a Python number (but a date or a duration stays), a
    subclass of dict or str (Counter, a text enum) the base type. A dict with a key that is not
    a text remains opaque. Raises TooDeep.

    >>> settle(((1, 2), {"a": (3,)}))
    [[1, 2], {'a': [3]}]
    """
    return _settle(value, DEEPEST, Room(value, is_settled=False))


def _settle(value: Value, levels: int, room: Room) -> Value:
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, (dict, list, tuple)):
        room.take(len(value))
        if not levels:
            raise too_deep()
        if isinstance(value, dict):
            if kind is dict and TEXT.issuperset(map(type, value)):
                return _with_parts(value, _settle, levels, room)
            # A dict with such keys is not JSON, and its parts are not converted: it is one opaque
            # value.
            if not all(isinstance(k, str) for k in value):
                return value
            return {str.__str__(k): _settle(v, levels - 1, room) for k, v in value.items()}
        parts = _list_of(value, _settle, levels, room)
        names = getattr(kind, "_fields", None)  # the names of a named tuple
        if names is None or not isinstance(value, tuple):
            return parts
        return dict(zip(names, parts, strict=True))
    # Convert to the exact type: expressions would call the methods of a subclass.
    for base, plain in _PLAIN:
        if isinstance(value, base):
            return plain(value)
    return _of_numpy(value) if kind.__module__ == "numpy" else value


def _of_numpy(value: Any) -> Value:
    """A scalar of numpy, or an array without dimensions, as JSON. A date or a duration stays as it
    is (decision A1): in some units numpy would convert it to a whole number, and NaT to None.
    numpy need not be installed."""
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    if value.dtype.kind in "mM":
        return value[()] if hasattr(type(value), "__setitem__") else value
    plain = value.item()
    return plain if type(plain) in ATOMS else value


_PLAIN: tuple[tuple[type, Callable[[Any], Value]], ...] = (
    (str, str.__str__),
    (int, int),
    (float, float),
)
"""The types whose subclasses are converted to them, and the function that does it."""


def is_json(value: Value) -> bool:
    """Whether ``value`` and all its parts are JSON. Each container is visited once."""
    return _all_json((value,), DEEPEST + 50, {})  # a message wraps its value in some more levels


def _all_json(parts: Iterable[Value], room: int, visited: dict[int, bool]) -> bool:
    for part in parts:
        kind = type(part)
        if kind is float:
            if part - part != 0:  # true for NaN and infinities
                return False
        elif kind not in ATOMS:
            if kind is not list and not (kind is dict and TEXT.issuperset(map(type, part))):
                return False
            is_json_inside = visited.get(id(part))
            if is_json_inside is None and room:
                visited[id(part)] = False  # as long as it is open: nothing contains itself
                inside = part if kind is list else part.values()
                is_json_inside = visited[id(part)] = _all_json(inside, room - 1, visited)
            if not is_json_inside:
                return False
    return True


NAMES = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
"""The words for the types of JSON."""


OTHER_KEYS = "an opaque dict with keys that are not text"


def type_name(value: Value) -> str:
    """The type of a value in an error: the language's word for a JSON type, the class of an opaque
    value.

    >>> type_name([1]), type_name(None), type_name(object())
    ('a list', 'null', 'an opaque object')
    """
    if type(value) is dict and not TEXT.issuperset(map(type, value)):
        return OTHER_KEYS
    if type(value) is Unread:
        return f"an opaque {value.kind}"
    return NAMES.get(type(value)) or f"an opaque {type(value).__name__}"


def is_true(value: Value) -> bool:
    """Python's truth for JSON. Opaque values are true, because an array or a DataFrame would
    raise."""
    return bool(value) if type(value) in NAMES else True


def equal(a: Value, b: Value) -> bool:
    """Python's equality for JSON (``true == 1``, decision P17); identity for opaque values, even
    nested ones."""
    return equal_within(a, b, math.inf) is True


def equal_within(a: Value, b: Value, room: float) -> bool | None:
    """`equal`, but None if more than ``room`` parts would have to be compared.

    Parts can be shared, so each pair of containers is compared once.
    """
    firsts = [a]
    seconds = [b]
    visited = set[tuple[int, int]]()
    while firsts:
        first = firsts.pop()
        second = seconds.pop()
        if first is second:
            continue
        if Unread in (type(first), type(second)):
            first = first.known if type(first) is Unread else first
            second = second.known if type(second) is Unread else second
            if first is not second:
                return False
            continue
        kind = type(first)
        if kind in ATOMS and type(second) in ATOMS:
            # Only atoms: the `==` of a user's class may run any code, or return an array.
            if first != second:
                return False
        elif not _have_same_form(first, second):
            return False
        elif (id(first), id(second)) in visited:
            continue  # this pair was compared in another place
        else:
            visited.add((id(first), id(second)))
            firsts += first if kind is list else first.values()
            seconds += second if kind is list else map(second.__getitem__, first)
            room -= len(first)
        if room < 0:
            return None
    return True


def _have_same_form(first: Value, second: Value) -> bool:
    """Whether both are lists of one length, or objects with the same keys."""
    kind = type(first)
    if kind is not type(second) or kind not in (list, dict) or len(first) != len(second):
        return False
    # Other keys are those of an opaque dict, and Python compares a tuple by the `==` of its parts.
    return kind is list or (TEXT.issuperset(map(type, first)) and first.keys() == second.keys())


def is_awaitable(value: Any) -> bool:
    """Whether ``value`` is a coroutine, a future or another awaitable object."""
    try:
        # `isawaitable` asks the class for `__await__`, which may run a metaclass's code.
        return type(value) not in ATOMS and inspect.isawaitable(value)
    except Exception:  # raised by a user's class
        return False
