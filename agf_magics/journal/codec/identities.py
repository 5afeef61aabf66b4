"""Names the objects in stored results, so that a resumed run gets one object where there was one.

Two results may share an object, for example if a tool returns its argument. Each result is a
separate pickle, which is followed by the names of the objects in it, eight bytes each. If a name is
already known when a result is read, the known object is used.
"""

from __future__ import annotations

import hashlib
import secrets
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice, repeat
from typing import Any, NamedTuple

from ...text.length import ATOMS
from ...values.value import Value
from .encoding import TEXT

_MARK = b"AGFI"
"""The bytes between a pickle and the names after it."""
_NAME = 8
"""The number of bytes of a name."""
_KNOWN = 0x80
"""The bit in the first byte of a name that marks an object of an earlier result or of the input."""
_ARGUMENT = 0x40
"""The bit that marks an object that is also an argument of the call."""

MOST_NAMED = 1_000
"""The largest number of named objects in one result. The objects of a larger result have no
names."""
MOST_KEPT = 1_000
"""The largest number of objects that are kept because no weak reference to them is possible, as
dates."""
LARGEST_KEPT = 100_000
"""The largest number of bytes of the pickle of such an object. A larger object is not kept, and is
read as a separate object."""


class _Known(NamedTuple):
    """An object with a name."""

    object: Callable[[], Any]
    """Returns the object; None after it was freed."""
    name: bytes
    """The name, without the bits of a place."""
    state: bytes | None
    """A hash of the last pickle. None: the object was never a whole result, or a call that is to be
    repeated has changed it since."""
    is_changed: bool = False
    """Whether a call has changed the object in this session."""


class Identities:
    """The objects of one run, with their names."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        """The named objects, by their identity."""
        self._by_name: dict[bytes, Callable[[], Any]] = {}
        """Functions that return an object, or None after it was freed, by its name."""
        self._kept: OrderedDict[int, Any] = OrderedDict()
        """Functions that forget an object without weak references, by its identity, oldest first."""

    def know(self, input: Value) -> None:
        """Give names to the objects in the input of the run, the same names in each session and
        run."""
        for place, thing in _placed(input):
            if self._find(thing) is None:
                self._add(thing, _name(hashlib.sha256(repr(place).encode()).digest()), 0)

    def new_in(self, value: Value) -> list[Any]:
        """The objects in ``value`` without a name; all objects, if there are too many to be
        named."""
        objects = [thing for thing, _ in islice(_objects(value), MOST_NAMED + 1)]
        if len(objects) > MOST_NAMED:
            return [value]
        return [thing for thing in objects if self._find(thing) is None]

    def has_objects_of(self, data: bytes, arguments: Sequence[Any]) -> bool:
        """Whether the earlier objects in ``data``, a result of another run, are objects of this
        run, and those that were arguments of its call are among ``arguments``."""
        for name in _names(data):
            if not name[0] & (_KNOWN | _ARGUMENT):
                continue
            thing = self.find(_name(name))
            if thing is None:
                return False
            if name[0] & _ARGUMENT and not _has(arguments, thing):
                return False
        return True

    def named(self, value: Value, data: bytes, arguments: Sequence[Any] = ()) -> bytes | None:
        """The pickle ``data`` of a result, with the names of the objects in ``value``.
        ``arguments``: the objects that the call got. None if the result is an object of an earlier
        call that was changed in an unknown way."""
        state = hashlib.sha256(data).digest()
        names = list[bytes]()
        objects = list(islice(_objects(value), MOST_NAMED + 1))
        for thing, _ in objects if len(objects) <= MOST_NAMED else ():
            entry = self._find(thing)
            bits = 0 if entry is None else _KNOWN
            if entry is not None and _has(arguments, thing):
                bits |= _ARGUMENT
            if entry is None:
                entry = self._add(thing, _name(secrets.token_bytes(_NAME)), len(data))
            elif thing is value and entry.state not in (None, state):
                return None
            if thing is value and id(thing) in self._known:
                self._known[id(thing)] = entry._replace(state=state)
            names.append(bytes((entry.name[0] | bits, *entry.name[1:])))
        return data + _MARK + b"".join(names) + len(names).to_bytes(4, "big")

    def name_of(self, data: bytes) -> bytes:
        """The name of the opaque value in ``data``; empty if it has none."""
        names = _names(data)
        return _name(names[0]) if len(names) == 1 else b""

    def fresh(self, data: bytes) -> bytes:
        """The pickle ``data`` of an unread object, with a new name."""
        return data + _MARK + _name(secrets.token_bytes(_NAME)) + (1).to_bytes(4, "big")

    def promise(self, data: bytes, thing: Any, find: Callable[[Any], Any]) -> None:
        """Let ``find(thing)`` return the unread object of ``data`` when its name is looked up, as
        long as ``thing`` is in memory."""
        name = self.name_of(data)

        def forget(_: object) -> None:
            if self._by_name.get(name) is look:
                del self._by_name[name]

        owner = weakref.ref(thing, forget)

        def look() -> Any:
            self.keep(data)
            thing = owner()
            return find(thing) if thing is not None else None

        self._by_name.setdefault(name, look)

    def keep(self, data: bytes) -> None:
        """Note that the object of ``data`` is being read, so that it is known itself from then
        on."""
        self._by_name.pop(self.name_of(data), None)

    def find(self, name: bytes) -> Value:
        """The object with this name; None if it is unknown or was freed."""
        look = self._by_name.get(name)
        return look() if look is not None else None

    def changed(self, thing: Any) -> None:
        """Note that a call has changed this object. A resumed run repeats the call for that
        reason."""
        entry = self._find(thing)
        if entry is not None:
            self._known[id(thing)] = entry._replace(state=None, is_changed=True)

    def has_changed(self, value: Value) -> bool:
        """Whether a call of this session has changed an object in ``value``."""
        entries = (self._find(thing) for _, thing in _placed(value))
        return any(entry is not None and entry.is_changed for entry in entries)

    def restored(self, value: Value, data: bytes, learns: bool = True) -> Value:
        """``value``, which was read from ``data``, with the known objects in place of those with
        the same names. ``learns``: whether the other objects are known from now on; default True;
        False for a repeated call, whose objects are new."""
        names = _names(data)
        places = list(_objects(value)) if names else []
        if len(places) != len(names):
            return value
        for name, (thing, replace_by) in zip(map(_name, names), places, strict=True):
            earlier = self.find(name)
            if earlier is None:
                if learns:
                    self._add(thing, name, len(data))
            elif replace_by is None:
                return earlier
            else:
                replace_by(earlier)
        return value

    def _find(self, thing: Any) -> _Known | None:
        entry = self._known.get(id(thing))
        return entry if entry is not None and entry.object() is thing else None

    def _add(self, thing: Any, name: bytes, size: int) -> _Known:
        """Give an object its name, until it is freed. ``size``: the bytes of its pickle."""
        number = id(thing)

        def forget(_: object = None) -> None:
            self._known.pop(number, None)
            self._by_name.pop(name, None)

        try:
            look: Callable[[], Any] = weakref.ref(thing, forget)
        except TypeError:
            if size > LARGEST_KEPT:
                return _Known(lambda: None, name, None)
            look = lambda: thing  # noqa: E731
            self._kept[number] = forget
            if len(self._kept) > MOST_KEPT:
                _, forget_oldest = self._kept.popitem(last=False)
                forget_oldest()
        entry = _Known(look, name, None)
        self._by_name[name] = look
        self._known[number] = entry
        return entry


def is_alone(data: bytes) -> bool:
    """Whether ``data`` holds a single object that was neither an earlier result nor an argument."""
    names = _names(data)
    return len(names) == 1 and not names[0][0] & (_KNOWN | _ARGUMENT)


def _has(things: Sequence[Any], thing: Any) -> bool:
    """Whether an object itself is among others."""
    return any(candidate is thing for candidate in things)


def bare(data: bytes) -> bytes:
    """The pickle without the names after it."""
    start = _start_of_names(data)
    return data[: start - len(_MARK)] if start else data


def _name(digest: bytes) -> bytes:
    """A name without the bits of the place where it stands."""
    return bytes((digest[0] & ~(_KNOWN | _ARGUMENT) & 0xFF, *digest[1:_NAME]))


def _placed(value: Value) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The objects in lists and dicts of JSON, each with the keys and indexes that lead to it. Each
    list is visited once."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    seen = set[int]()
    while waiting:
        place, thing = waiting.pop()
        if type(thing) is list:
            parts: Iterable[tuple[Any, Any]] = enumerate(thing)
        elif type(thing) is dict and TEXT.issuperset(map(type, thing)):
            parts = thing.items()
        else:
            if type(thing) not in ATOMS:
                yield place, thing
            continue
        if id(thing) not in seen:
            seen.add(id(thing))
            waiting += (((*place, key), part) for key, part in parts if type(part) not in ATOMS)


def _names(data: bytes) -> list[bytes]:
    """The names after a pickle, with their bits."""
    first = _start_of_names(data)
    starts = range(first, len(data) - 4, _NAME) if first else ()
    return [data[start : start + _NAME] for start in starts]


def _start_of_names(data: bytes) -> int:
    """The offset where the names begin; 0 if there are none."""
    start = len(data) - 4 - int.from_bytes(data[-4:], "big") * _NAME
    return start if start >= len(_MARK) and data[start - len(_MARK) : start] == _MARK else 0


def _objects(value: Value) -> Iterator[tuple[Any, Callable[[Any], None] | None]]:
    """The objects in lists and dicts of JSON, in order, each with a function that replaces it; None
    in place of the function for ``value`` itself."""
    # Iterators instead of the parts, because a list may have millions.
    waiting: list[Iterator[tuple[Any, Any, Any]]] = [iter([(value, None, None)])]
    while waiting:
        for thing, holder, place in waiting[-1]:
            kind = type(thing)
            if kind is list:
                waiting.append(zip(thing, repeat(thing), count()))
                break
            if kind is dict and TEXT.issuperset(map(type, thing)):
                waiting.append(zip(thing.values(), repeat(thing), thing))
                break
            if kind not in ATOMS:
                yield thing, _setter(holder, place) if holder is not None else None
        else:
            waiting.pop()


def _setter(parts: Any, place: Any) -> Callable[[Any], None]:
    def put(thing: Any) -> None:
        parts[place] = thing

    return put
