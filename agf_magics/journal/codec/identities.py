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
_KNOWN, _GIVEN = 0x80, 0x40
"""Bits of the first byte of a name where it stands: the object is of an earlier result or the input;
it is also an argument of the call."""

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

    def know(self, input: Value) -> None:
        """Give the objects in the input of the run their names: the same ones in each session, and in
        each run."""
        for place, each in _placed(input):
            if self._find(each) is None:
                self._add(each, _name(hashlib.sha256(repr(place).encode()).digest()), 0)

    def new_in(self, value: Value) -> list[Any]:
        """The objects in ``value`` that have no name; all, if it has too many to be named."""
        objects = [each for each, _ in islice(_objects(value), MOST_NAMED + 1)]
        if len(objects) > MOST_NAMED:
            return [value]
        return [each for each in objects if self._find(each) is None]

    def is_here(self, data: bytes, given: Sequence[Any]) -> bool:
        """Whether the objects that the result ``data`` of another run had from elsewhere are objects
        of this run: those of its arguments are among ``given``."""
        for name in _names(data):
            if not name[0] & (_KNOWN | _GIVEN):
                continue
            look = self._by_name.get(_name(name))
            thing = look() if look is not None else None
            if thing is None or (name[0] & _GIVEN and not any(each is thing for each in given)):
                return False
        return True

    def named(self, value: Value, data: bytes, given: Sequence[Any] = ()) -> bytes | None:
        """The pickle ``data`` of a result, with the names of the objects in ``value``; ``given``: those
        of the arguments. None: the result is an object that an earlier call returned, and nobody has
        seen what changed it."""
        state, names = hashlib.sha256(data).digest(), list[bytes]()
        objects = list(islice(_objects(value), MOST_NAMED + 1))
        for each, _ in objects if len(objects) <= MOST_NAMED else ():
            entry = self._find(each)
            bits = 0 if entry is None else _KNOWN
            if entry is not None and any(other is each for other in given):
                bits |= _GIVEN
            if entry is None:
                entry = self._add(each, _name(secrets.token_bytes(_NAME)), len(data))
            elif each is value and entry.state not in (None, state):
                return None
            if each is value and id(each) in self._known:
                self._known[id(each)] = entry._replace(state=state)
            names.append(bytes((entry.name[0] | bits, *entry.name[1:])))
        return data + _MARK + b"".join(names) + len(names).to_bytes(4, "big")

    def name_of(self, data: bytes) -> bytes:
        """The name of the opaque value that is read from ``data``; empty: it has none."""
        names = _names(data)
        return _name(names[0]) if len(names) == 1 else b""

    def fresh(self, data: bytes) -> bytes:
        """The pickle ``data`` of an object that is not read yet, with a name for it."""
        return data + _MARK + _name(secrets.token_bytes(_NAME)) + (1).to_bytes(4, "big")

    def promise(self, data: bytes, find: Callable[[], Any]) -> None:
        """``find`` returns the object of ``data``, which is not read yet, to who asks for its name."""
        name = self.name_of(data)

        def look() -> Any:
            self.keep(data)
            return find()

        self._by_name.setdefault(name, look)

    def keep(self, data: bytes) -> None:
        """The object of ``data`` is being read: from then on it is known itself."""
        self._by_name.pop(self.name_of(data), None)

    def find(self, name: bytes) -> Value:
        """The object of this name; None: it is not known, or nobody has it."""
        look = self._by_name.get(name)
        return look() if look is not None else None

    def changed(self, thing: Any) -> None:
        """A call that is made again has changed this object."""
        entry = self._find(thing)
        if entry is not None:
            self._known[id(thing)] = entry._replace(state=None)

    def restored(self, value: Value, data: bytes, learns: bool = True) -> Value:
        """``value``, which was read from ``data``, with the objects that are known by their
        names. ``learns``: the others are known from now on; not those of a call that a run makes
        again, which are new objects."""
        names = _names(data)
        places = list(_objects(value)) if names else []
        if len(places) != len(names):
            return value
        for name, (each, put) in zip(map(_name, names), places, strict=True):
            look = self._by_name.get(name)
            earlier = look() if look is not None else None
            if earlier is None:
                if learns:
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


def is_alone(data: bytes) -> bool:
    """Whether ``data`` is of one object that no earlier result and no argument was."""
    names = _names(data)
    return len(names) == 1 and not names[0][0] & (_KNOWN | _GIVEN)


def bare(data: bytes) -> bytes:
    """The pickle without the names after it."""
    start = _start_of_names(data)
    return data[: start - len(_MARK)] if start else data


def _name(digest: bytes) -> bytes:
    """A name without the bits of a place."""
    return bytes((digest[0] & ~(_KNOWN | _GIVEN) & 0xFF, *digest[1:_NAME]))


def _placed(value: Value) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The objects in lists and dicts of JSON, each with the keys and numbers that lead to it; those of a
    list in many places once."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    seen = set[int]()
    while waiting:
        place, each = waiting.pop()
        if type(each) is list:
            parts: Iterable[tuple[Any, Any]] = enumerate(each)
        elif type(each) is dict and TEXT.issuperset(map(type, each)):
            parts = each.items()
        else:
            if type(each) not in ATOMS:
                yield place, each
            continue
        if id(each) not in seen:
            seen.add(id(each))
            waiting += (((*place, key), part) for key, part in parts if type(part) not in ATOMS)


def _names(data: bytes) -> list[bytes]:
    start = _start_of_names(data)
    return [data[at : at + _NAME] for at in range(start, len(data) - 4, _NAME)] if start else []


def _start_of_names(data: bytes) -> int:
    """Where the names begin; 0: there are none."""
    start = len(data) - 4 - int.from_bytes(data[-4:], "big") * _NAME
    return start if start >= len(_MARK) and data[start - len(_MARK) : start] == _MARK else 0


def _objects(value: Value) -> Iterator[tuple[Any, Callable[[Any], None] | None]]:
    """The objects in lists and dicts of JSON, in order: each with a function that puts another one
    into its place; None: it is the value itself."""
    # Iterators and not the parts themselves: a list may have millions.
    waiting: list[Iterator[tuple[Any, Any, Any]]] = [iter([(value, None, None)])]
    while waiting:
        for each, holder, place in waiting[-1]:
            kind = type(each)
            if kind is list:
                waiting.append(zip(each, repeat(each), count()))
                break
            if kind is dict and TEXT.issuperset(map(type, each)):
                waiting.append(zip(each.values(), repeat(each), each))
                break
            if kind not in ATOMS:
                yield each, _setter(holder, place) if holder is not None else None
        else:
            waiting.pop()


def _setter(parts: Any, place: Any) -> Callable[[Any], None]:
    def put(thing: Any) -> None:
        parts[place] = thing

    return put
