"""The objects of a run that are stored more than once: a resumed run has one object again.

Two results may have one object: a tool returns what it got. Each is a pickle of its own, so after
the pickle stand the names of the objects in it, eight bytes each. What is read with a name that is
known already is the object of that name.
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
_NAME = 8
_KNOWN = 0x80
"""A bit in the first byte of a name: the object is of an earlier result, or of the input."""
_ARGUMENT = 0x40
"""Another bit: it is also an argument of the call."""

MOST_NAMED = 1_000
"""Objects in one result; those of a larger one have no names."""
MOST_HELD = 1_000
"""Objects to which no weak reference is possible, such as dates: these are held."""
LARGEST_HELD = 100_000
"""Bytes of the pickle of such an object; a larger one is not held, and is read as another one."""


class _Known(NamedTuple):
    """An object with a name."""

    object: Callable[[], Any]
    """Returns it, as long as somebody has it."""
    name: bytes
    state: bytes | None
    """A hash of its last pickle; None: a call that is made again has changed it since."""
    is_changed: bool = False
    """Whether a call has changed it in this session."""


class Identities:
    """The objects of one run, with their names."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._by_name: dict[bytes, Callable[[], Any]] = {}
        self._held: OrderedDict[int, Any] = OrderedDict()

    def know(self, input: Value) -> None:
        """Give the objects in the input of the run their names: the same ones in each session, and in
        each run."""
        for place, thing in _placed(input):
            if self._find(thing) is None:
                self._add(thing, _name(hashlib.sha256(repr(place).encode()).digest()), 0)

    def new_in(self, value: Value) -> list[Any]:
        """The objects in ``value`` that have no name; all, if it has too many to be named."""
        objects = [thing for thing, _ in islice(_objects(value), MOST_NAMED + 1)]
        if len(objects) > MOST_NAMED:
            return [value]
        return [thing for thing in objects if self._find(thing) is None]

    def is_here(self, data: bytes, arguments: Sequence[Any]) -> bool:
        """Whether the objects that the result ``data`` of another run had from elsewhere are objects
        of this run, and those that were arguments of its call are among ``arguments``."""
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
        ``arguments``: the objects that its call got. None if the result is an object that an earlier
        call returned, and nobody has seen what changed it."""
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
        """The name of the opaque value that is read from ``data``; empty if it has none."""
        names = _names(data)
        return _name(names[0]) if len(names) == 1 else b""

    def fresh(self, data: bytes) -> bytes:
        """The pickle ``data`` of an object that is not read yet, with a name for it."""
        return data + _MARK + _name(secrets.token_bytes(_NAME)) + (1).to_bytes(4, "big")

    def promise(self, data: bytes, thing: Any, find: Callable[[Any], Any]) -> None:
        """``find(thing)`` returns the object of ``data``, which is not read yet, to who asks for its
        name, as long as somebody has ``thing``."""
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
        """The object of ``data`` is being read: from then on it is known itself."""
        self._by_name.pop(self.name_of(data), None)

    def find(self, name: bytes) -> Value:
        """The object of this name; None if it is not known, or nobody has it any more."""
        look = self._by_name.get(name)
        return look() if look is not None else None

    def changed(self, thing: Any) -> None:
        """A call that is made again has changed this object."""
        entry = self._find(thing)
        if entry is not None:
            self._known[id(thing)] = entry._replace(state=None, is_changed=True)

    def has_changed(self, value: Value) -> bool:
        """Whether a call has changed an object in ``value`` since this session has it."""
        entries = (self._find(thing) for _, thing in _placed(value))
        return any(entry is not None and entry.is_changed for entry in entries)

    def restored(self, value: Value, data: bytes, learns: bool = True) -> Value:
        """``value``, which was read from ``data``, with the objects that are known by their
        names. ``learns``: the others are known from now on; not those of a call that a run makes
        again, which are new objects."""
        names = _names(data)
        places = list(_objects(value)) if names else []
        if len(places) != len(names):
            return value
        for name, (thing, put) in zip(map(_name, names), places, strict=True):
            earlier = self.find(name)
            if earlier is None:
                if learns:
                    self._add(thing, name, len(data))
            elif put is None:
                return earlier
            else:
                put(earlier)
        return value

    def _find(self, thing: Any) -> _Known | None:
        entry = self._known.get(id(thing))
        return entry if entry is not None and entry.object() is thing else None

    def _add(self, thing: Any, name: bytes, size: int) -> _Known:
        """Give an object its name, as long as somebody has it. ``size``: the bytes of its pickle."""
        number = id(thing)

        def forget(_: object = None) -> None:
            self._known.pop(number, None)
            self._by_name.pop(name, None)

        try:
            look: Callable[[], Any] = weakref.ref(thing, forget)
        except TypeError:
            if size > LARGEST_HELD:
                return _Known(lambda: None, name, None)
            look = lambda: thing  # noqa: E731
            self._held[number] = forget
            if len(self._held) > MOST_HELD:
                _, forget_oldest = self._held.popitem(last=False)
                forget_oldest()
        entry = _Known(look, name, None)
        self._by_name[name] = look
        self._known[number] = entry
        return entry


def is_alone(data: bytes) -> bool:
    """Whether ``data`` is of one object that no earlier result and no argument was."""
    names = _names(data)
    return len(names) == 1 and not names[0][0] & (_KNOWN | _ARGUMENT)


def _has(things: Sequence[Any], thing: Any) -> bool:
    """Whether an object itself is among others."""
    return any(other is thing for other in things)


def bare(data: bytes) -> bytes:
    """The pickle without the names after it."""
    start = _start_of_names(data)
    return data[: start - len(_MARK)] if start else data


def _name(digest: bytes) -> bytes:
    """A name without the bits of the place where it stands."""
    return bytes((digest[0] & ~(_KNOWN | _ARGUMENT) & 0xFF, *digest[1:_NAME]))


def _placed(value: Value) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The objects in lists and dicts of JSON, each with the keys and numbers that lead to it; those of a
    list in many places once."""
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
    """Where the names begin; 0 if there are none."""
    start = len(data) - 4 - int.from_bytes(data[-4:], "big") * _NAME
    return start if start >= len(_MARK) and data[start - len(_MARK) : start] == _MARK else 0


def _objects(value: Value) -> Iterator[tuple[Any, Callable[[Any], None] | None]]:
    """The objects in lists and dicts of JSON, in order: each with a function that puts another one
    into its place, which is None for the value itself."""
    # Iterators and not the parts themselves: a list may have millions.
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
