"""The objects that the functions of a run name, and which of them its calls changed.

The digest of a call has a part that never changes, `CALL` bytes of code and arguments, and after it
an entry for each object that its functions name: the key of its place, what it means, and its state
before the call. An object that a call changed is left out when the results of the run are looked
up: for all calls of the run, since its state then is what the run itself has made of it.

Whether a call changed an object is seen: its state is digested before and after the call, once for
all calls of one turn of the loop. An object whose digest takes long is looked at less often, and once
more at the end of the run: the results of a run are only looked up when all of it is known (decision
D110).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...catalog.digests.digest import is_constant
from ...catalog.digests.digesting import FunctionDigest
from ...catalog.digests.places import Place

CALL = 32
"""Bytes of the first part of a digest."""

_KEY = 8
"""Bytes of the key of a place."""
_STATE = 8
"""Bytes of the state of an object."""
_ENTRY = _KEY + 1 + _STATE
"""Bytes of an entry: the byte between the two is what it means."""

_SAME = b"="
"""The object had this state before and after the call."""
_CHANGED = b"*"
"""A call of the run changed the object."""
_COUNTS = b"!"
"""The attribute of a class, which counts although calls change it."""
_CODE = b"c"
"""A function or a class in an object: it counts even if the object does not."""

QUICK = 0.000_5
"""Seconds of a digest that is made for each call."""
RESTS = 20
"""How many times as long as its digest took an object is left alone."""

NOTHING_CHANGED: frozenset[bytes] = frozenset()


class _Tracked:
    """An object that functions of the run name, with what its last look has shown."""

    __slots__ = (
        *("changed", "digest", "keys", "place"),
        *("open", "rests_until", "skipped", "stamp", "state", "value"),
    )

    def __init__(self, place: Place, digest: FunctionDigest) -> None:
        self.place = place
        self.digest = digest
        self.keys: dict[bytes, None] = {}
        """Its keys: two closures may share a cell."""
        self.changed = False
        """Whether a call of the run changed it."""
        self.state: bytes | None = b""
        """Its last digest; None if it cannot be digested any more."""
        self.stamp = -1
        """When that was made: a number that grows."""
        self.value: Any = None
        """The object of that digest."""
        self.rests_until = 0.0
        """By the monotonic clock: it is not looked at before."""
        self.open = 0
        """Calls that name it and have not ended; one that was cancelled never ends."""
        self.skipped = False
        """Whether it was not looked at when a call began or ended."""


class _Before(NamedTuple):
    """An object as it was before a call."""

    key: bytes
    tracked: _Tracked
    state: bytes | None
    value: Any


class Watched(NamedTuple):
    """The objects of a call that goes on."""

    objects: tuple[_Before, ...]
    functions: tuple[FunctionDigest, ...]
    stamp: int
    is_async: bool

    @property
    def is_edited(self) -> bool:
        """Whether a cell has bound a function, a class or a constant again since the call began."""
        return any(function.places.are_bound_again for function in self.functions)

    def binds(self, place: Place) -> bool:
        """Whether a function binds the name of a place to other objects."""
        return any(place.slot in function.places.bound for function in self.functions)


class Objects:
    """The objects of one run. On the loop of the run."""

    def __init__(self) -> None:
        self._tracked: dict[tuple[int, str], _Tracked] = {}
        self._stamp = 0
        self._turn = -1
        """The first stamp of this turn of the loop; -1: no turn is known."""
        self._changed: dict[int, object] = {}
        """Objects that calls changed, by their ids."""
        self._unwritten: list[bytes] = []
        """Keys of objects that calls changed, which no entry has yet."""

    def before(
        self, functions: Iterable[FunctionDigest], name: str, is_async: bool
    ) -> Watched | None:
        """What a call of ``name`` that starts now may read; None if that cannot change.
        ``is_async``: it runs on the loop."""
        functions = tuple(
            function
            for function in functions
            if function.places.objects or function.places.bindings
        )
        if not functions:
            return None
        objects = list[_Before]()
        for function in functions:
            for place in function.places.objects.values():
                tracked = self._tracked.get(place.identity)
                if tracked is None:
                    tracked = self._tracked[place.identity] = _Tracked(place, function)
                key = key_of_place(place, name)
                tracked.keys[key] = None
                self._look(tracked)
                tracked.open += 1
                objects.append(_Before(key, tracked, tracked.state, tracked.value))
        return Watched(tuple(objects), functions, self._stamp, is_async)

    def after(self, watched: Watched) -> bytes | None:
        """The entries of a call that has ended; None: a person has edited what it names while it
        ran, or an object has no digest."""
        if watched.is_async:  # it may have ended in this turn, after its objects were looked at
            self._turn = -1
        changed = list[_Tracked]()
        is_edited = watched.is_edited
        for _, tracked, state, value in watched.objects:
            if not tracked.place.counts:
                self._look(tracked, watched.stamp + 1)
            if tracked.changed or tracked.place.counts or tracked.state == state:
                continue
            if tracked.value is not value and not watched.binds(tracked.place):
                is_edited = True  # no function binds this name: a cell did
            else:
                changed.append(tracked)
        self.not_made(watched)
        self._note(changed)
        if is_edited:
            return None
        unwritten = self._unwritten
        self._unwritten = []
        return entries(watched, unwritten)

    def not_made(self, watched: Watched) -> None:
        """A call has ended, or is not made."""
        for _, tracked, _, _ in watched.objects:
            tracked.open -= 1

    def at_end(self) -> bytes:
        """Entries for the objects that calls changed, as far as no entry of a call has them."""
        for tracked in list(self._tracked.values()):
            if tracked.skipped and not tracked.place.counts:
                tracked.rests_until = 0.0
                self._look(tracked)
        return b"".join(_entry(key, _CHANGED) for key in dict.fromkeys(self._unwritten))

    def _note(self, changed: list[_Tracked]) -> None:
        """Note that calls changed these objects, also under other names."""
        if not changed:
            return
        for tracked in changed:
            tracked.changed = True
            self._unwritten += tracked.keys
            self._changed[id(tracked.value)] = tracked.value
        for tracked in self._tracked.values():
            if (
                not tracked.changed
                and not tracked.place.counts
                and id(tracked.value) in self._changed
            ):
                tracked.changed = True
                self._unwritten += tracked.keys

    def _look(self, tracked: _Tracked, since: int = 0) -> None:
        """Make the digest of an object, unless it was made in this turn of the loop, at the stamp
        ``since`` or later."""
        if tracked.changed:
            return
        value = tracked.place.look()
        is_fresh = self._turn >= 0 and tracked.stamp >= max(since, self._turn)
        if tracked.stamp >= 0 and value is tracked.value and (is_fresh or is_constant(value)):
            return
        is_same = tracked.stamp >= 0 and value is tracked.value
        begun = time.monotonic()
        if is_same and begun < tracked.rests_until:
            tracked.skipped = True
            return
        digest = tracked.digest.state(tracked.place)
        state = bytes.fromhex(digest)[:_STATE] if digest is not None else None
        was_changed = is_same and (tracked.skipped or tracked.open) and state != tracked.state
        ended = time.monotonic()
        tracked.skipped = False
        tracked.state = state
        tracked.rests_until = ended + RESTS * (ended - begun) if ended - begun > QUICK else 0.0
        self._stamp += 1
        tracked.stamp = self._stamp
        tracked.value = value
        if was_changed and not tracked.place.counts:
            self._note([tracked])
        if self._turn < 0:
            self._begin_turn()

    def _begin_turn(self) -> None:
        try:
            asyncio.get_running_loop().call_soon(self._end_turn)
        except RuntimeError:  # no loop: each look is a new one
            return
        self._turn = self._stamp

    def _end_turn(self) -> None:
        self._turn = -1


def entries(watched: Watched, changed: Iterable[bytes] = ()) -> bytes | None:
    """The entries of a call; None if an object has no digest, so that nothing can be said of the call.
    ``changed``: the keys of further objects that calls changed."""
    others = dict.fromkeys(changed)
    parts = list(map(_codes, watched.functions))
    for key, tracked, state, _ in watched.objects:
        others.pop(key, None)
        if tracked.changed:
            parts.append(_entry(key, _CHANGED))
        elif state is None:
            return None
        else:
            parts.append(_entry(key, _COUNTS if tracked.place.counts else _SAME, state))
    parts += (_entry(key, _CHANGED) for key in others)
    return b"".join(parts)


def _entry(key: bytes, kind: bytes, state: bytes = bytes(_STATE)) -> bytes:
    return key + kind + state


def key_of_place(place: Place, name: str) -> bytes:
    """The key of a place that the function of the callee ``name`` names."""
    return _hash(place.key if place.shared else f"{name}\0{place.key}")[:_KEY]


def _codes(digest: FunctionDigest) -> bytes:
    """Entries for the functions and classes in objects, by their names."""
    if not digest.places.codes:
        return b""
    codes: dict[str, str] = {}
    for _, name, code in digest.places.codes.values():
        codes[name] = codes.get(name, "") + code
    return b"".join(
        _entry(_hash(name)[:_KEY], _CODE, _hash(code)[:_STATE]) for name, code in codes.items()
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


# --- digests that were stored
# --------------------------------------------------------------------------------------------------


def _split(digest: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The entries of a digest: key, meaning and state of each."""
    for start in range(CALL, len(digest) - _ENTRY + 1, _ENTRY):
        entry = digest[start : start + _ENTRY]
        yield entry[:_KEY], entry[_KEY : _KEY + 1], entry[_KEY + 1 :]


def changed_in(digests: Iterable[bytes | None]) -> frozenset[bytes]:
    """The keys of the objects that calls with these digests changed."""
    long = (digest for digest in digests if digest is not None and len(digest) > CALL)
    return frozenset(key for digest in long for key, kind, _ in _split(digest) if kind == _CHANGED)


def is_same_call(before: bytes, now: bytes, changed: frozenset[bytes]) -> bool:
    """Whether a call is that of an earlier run, in which calls ``changed`` these objects."""
    if before == now:
        return True
    if before[:CALL] != now[:CALL]:
        return False
    old = {(key, kind == _CODE): state for key, kind, state in _split(before)}
    new = {(key, kind == _CODE): state for key, kind, state in _split(now)}
    for key, is_code in old.keys() | new.keys():
        old_state = old.get((key, is_code))
        new_state = new.get((key, is_code))
        is_left_out = key in changed or (is_code and (old_state is None or new_state is None))
        if old_state != new_state and not is_left_out:
            return False
    return True


def with_changed(now: bytes, changed: frozenset[bytes]) -> bytes:
    """The digest of a call whose result is that of an earlier run, with the objects that count as
    changed there: they count as changed in this run too."""
    parts = [now[:CALL]]
    for key, kind, state in _split(now):
        parts.append(_entry(key, _CHANGED) if key in changed else _entry(key, kind, state))
    return b"".join(parts)


# --- what differs between two versions of a function
# --------------------------------------------------------------------------------------------------


def parts_of(digest: FunctionDigest, name: str) -> dict[str, str]:
    """The digests of the parts of the function of the callee ``name``, by their names; after that
    of an object the key of its place."""
    keys = {
        place.name: f" {key_of_place(place, name).hex()}"
        for place in digest.places.objects.values()
        if not place.counts
    }
    return {part: text + keys.get(part, "") for part, text in digest.parts.items()}


def edited_parts(
    before: Mapping[str, str], now: Mapping[str, str], changed: frozenset[bytes]
) -> tuple[list[str], list[str]]:
    """The names of the parts that differ, and of those that are left out: the objects that calls
    ``changed``."""
    names = {**before, **now}
    left_out = [name for name, text in names.items() if _key_in(text) in changed]
    differ = [name for name in names if before.get(name) != now.get(name)]
    return [name for name in differ if name not in left_out], left_out


def _key_in(part: str) -> bytes:
    """The key after the digest of a part; empty if it has none."""
    _, _, key = part.partition(" ")
    is_key = len(key) == 2 * _KEY and set(key) <= set("0123456789abcdef")
    return bytes.fromhex(key) if is_key else b""
