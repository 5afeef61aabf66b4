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
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from ...text.length import ATOMS
from ...values.value import Value
from .encoding import TEXT

_MARK = b"AGFI"
_NAME = 8

MOST_NAMED = 1_000
"""Objects in one result; those of a larger one have no names."""
MOST_HELD = 1_000
"""Objects to which no weak reference is possible, such as dates: these are held."""
LARGEST_HELD = 100_000
"""Bytes of the pickle of such an object; a larger one is not held, and is read as another one."""


class _Known(NamedTuple):
    object: Callable[[], Any]
    name: bytes
    state: bytes | None
    """A hash of its last pickle; None: a call that is made again has changed it since."""


class Identities:
    """The objects of one run, with their names."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._by_name: dict[bytes, Callable[[], Any]] = {}
        self._held: OrderedDict[int, Any] = OrderedDict()

    def named(self, value: Value, data: bytes) -> bytes | None:
        """The pickle ``data`` of a result, with the names of the objects in ``value``. None: the
        result is an object that an earlier call returned, and nobody has seen what changed it."""
        state, names = hashlib.sha256(data).digest(), list[bytes]()
        objects = list(islice(_objects(value), MOST_NAMED + 1))
        for each, _ in objects if len(objects) <= MOST_NAMED else ():
            entry = self._find(each)
            if entry is None:
                entry = self._add(each, secrets.token_bytes(_NAME), len(data))
            elif each is value and entry.state not in (None, state):
                return None
            if each is value and id(each) in self._known:
                self._known[id(each)] = entry._replace(state=state)
            names.append(entry.name)
        return data + _MARK + b"".join(names) + len(names).to_bytes(4, "big")

    def changed(self, thing: Any) -> None:
        """A call that is made again has changed this object."""
        entry = self._find(thing)
        if entry is not None:
            self._known[id(thing)] = entry._replace(state=None)

    def restored(self, value: Value, data: bytes) -> Value:
        """``value``, which was read from ``data``, with the objects that are known by their
        names."""
        names = _names(data)
        places = list(_objects(value)) if names else []
        if len(places) != len(names):
            return value
        for name, (each, put) in zip(names, places, strict=True):
            look = self._by_name.get(name)
            earlier = look() if look is not None else None
            if earlier is None:
                self._add(each, name, len(data))
            elif put is None:
                return earlier
            else:
                put(earlier)
        return value

    def _find(self, thing: Any) -> _Known | None:
        entry = self._known.get(id(thing))
        return entry if entry is not None and entry.object() is thing else None

    def _add(self, thing: Any, name: bytes, size: int) -> _Known:
        number = id(thing)

        def forget(_: object = None) -> None:
            self._known.pop(number, None)
            self._by_name.pop(name, None)

        try:
            look: Callable[[], Any] = weakref.ref(thing, forget)
        except TypeError:
            if size > LARGEST_HELD:
                return _Known(lambda: None, name, None)
            look, self._held[number] = lambda: thing, forget
            if len(self._held) > MOST_HELD:
                self._held.popitem(last=False)[1]()
        self._by_name[name] = look
        self._known[number] = entry = _Known(look, name, None)
        return entry


def _names(data: bytes) -> list[bytes]:
    count = int.from_bytes(data[-4:], "big")
    start = len(data) - 4 - count * _NAME
    if start < len(_MARK) or data[start - len(_MARK) : start] != _MARK:
        return []
    return [data[place : place + _NAME] for place in range(start, len(data) - 4, _NAME)]


def _objects(value: Value) -> Iterator[tuple[Any, Callable[[Any], None] | None]]:
    """The objects in lists and dicts of JSON, in order: each with a function that puts another one
    into its place; None: it is the value itself."""
    waiting: list[tuple[Any, Callable[[Any], None] | None]] = [(value, None)]
    while waiting:
        each, put = waiting.pop()
        if type(each) is list:
            waiting += ((part, _setter(each, place)) for place, part in enumerate(each))
        elif type(each) is dict and TEXT.issuperset(map(type, each)):
            waiting += ((part, _setter(each, key)) for key, part in each.items())
        elif type(each) not in ATOMS:
            yield each, put


def _setter(parts: Any, place: Any) -> Callable[[Any], None]:
    def put(thing: Any) -> None:
        parts[place] = thing

    return put
