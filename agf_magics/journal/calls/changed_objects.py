"""Watches the objects that the functions of a run name, and finds those that its calls change.

The digest of a call has a part that never changes, `CALL` bytes of code and arguments, and after it
an entry for each object that its functions name: the key of its place, its meaning, and its state
before the call. If a call changed an object, lookups ignore the object for all calls of the run,
since its state comes from the run itself. To see changes, the state is digested before and after
the call, once for all calls of one turn of the loop. An object whose digest takes long is digested
less often, and once more at the end of the run, before the results of the run can be looked up
(decision D110).
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
"""The number of bytes of the first part of a digest."""

_KEY = 8
"""The number of bytes of the key of a place."""
_STATE = 8
"""The number of bytes of the state of an object."""
_ENTRY = _KEY + 1 + _STATE
"""The number of bytes of an entry: the key, one byte for the meaning, the state."""

_SAME = b"="
"""The object had this state before and after the call."""
_CHANGED = b"*"
"""A call of the run changed the object."""
_COUNTS = b"!"
"""The object is the attribute of a class, which counts although calls change it."""
_CODE = b"c"
"""The entry is of a function or a class in an object, which counts even if the object does not."""

QUICK = 0.000_5
"""The seconds that a digest may take if it is made for each call."""
RESTS = 20
"""The pause before the next digest of an object, as a multiple of the time of its last digest."""

NOTHING_CHANGED: frozenset[bytes] = frozenset()


class _Tracked:
    """An object that functions of the run name, with its last digest."""

    __slots__ = (
        *("changed", "digest", "keys", "place"),
        *("open", "rests_until", "skipped", "stamp", "state", "value"),
    )

    def __init__(self, place: Place, digest: FunctionDigest) -> None:
        self.place = place
        self.digest = digest
        self.keys: dict[bytes, None] = {}
        """The keys of its places: two closures may share a cell."""
        self.changed = False
        """Whether a call of the run changed it."""
        self.state: bytes | None = b""
        """The last digest; None if the object cannot be digested any more."""
        self.stamp = -1
        """The stamp of that digest, a number that grows; -1: there was no digest yet."""
        self.value: Any = None
        """The object of that digest."""
        self.rests_until = 0.0
        """The time of the next digest, by the monotonic clock."""
        self.open = 0
        """The number of running calls that name it. A cancelled call never counts as ended."""
        self.skipped = False
        """Whether a digest was left out when a call began or ended."""


class _Before(NamedTuple):
    """An object as it was before a call."""

    key: bytes
    """The key of its place."""
    tracked: _Tracked
    state: bytes | None
    """Its digest before the call; None: it has none."""
    value: Any


class Watched(NamedTuple):
    """The objects of a running call."""

    objects: tuple[_Before, ...]
    functions: tuple[FunctionDigest, ...]
    """The functions of the call that name objects."""
    stamp: int
    """The last stamp when the call began."""
    is_async: bool
    """Whether the call runs on the loop."""

    @property
    def is_edited(self) -> bool:
        """Whether a cell has redefined a function, a class or a constant since the call began."""
        return any(function.places.are_bound_again for function in self.functions)

    def binds(self, place: Place) -> bool:
        """Whether a function binds the name of a place to other objects."""
        return any(place.slot in function.places.bound for function in self.functions)


class Objects:
    """The objects of one run. Only the loop of the run may use it."""

    def __init__(self) -> None:
        self._tracked: dict[tuple[int, str], _Tracked] = {}
        """The objects by the identity of their place."""
        self._stamp = 0
        """The stamp of the last digest."""
        self._turn = -1
        """The first stamp of the loop's current turn; -1: unknown."""
        self._changed: dict[int, object] = {}
        """The objects that calls changed, by their identity."""
        self._unwritten: list[bytes] = []
        """The keys of changed objects that no entry has yet."""

    def watch(
        self, functions: Iterable[FunctionDigest], name: str, is_async: bool
    ) -> Watched | None:
        """The objects that a call of ``name`` may read, before it starts; None if they cannot
        change. ``is_async``: whether the call runs on the loop."""
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

    def entries_after(self, watched: Watched) -> bytes | None:
        """The entries of a call that has ended; None if a person edited a named object meanwhile,
        or if an object has no digest."""
        if watched.is_async:  # it may have ended in this turn, after its objects were looked at
            self._turn = -1
        changed = list[_Tracked]()
        is_edited = watched.is_edited
        for _, tracked, state, value in watched.objects:
            if not tracked.place.counts:
                self._look(tracked, watched.stamp + 1)
            may_have_changed = not tracked.changed and not tracked.place.counts
            if not may_have_changed or tracked.state == state:
                continue
            if tracked.value is not value and not watched.binds(tracked.place):
                is_edited = True  # no function binds this name: a cell did
            else:
                changed.append(tracked)
        self.stop_watching(watched)
        self._note(changed)
        if is_edited:
            return None
        unwritten = self._unwritten
        self._unwritten = []
        return entries(watched, unwritten)

    def stop_watching(self, watched: Watched) -> None:
        """Note that a call has ended, or is not made."""
        for _, tracked, _, _ in watched.objects:
            tracked.open -= 1

    def at_end(self) -> bytes:
        """The entries, at the end of the run, for changed objects that no call's entries have yet."""
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
            if tracked.changed or tracked.place.counts:
                continue
            if id(tracked.value) in self._changed:
                tracked.changed = True
                self._unwritten += tracked.keys

    def _look(self, tracked: _Tracked, since: int = 0) -> None:
        """Digest an object, unless that was done in this turn of the loop, at the stamp ``since``
        or later."""
        if tracked.changed:
            return
        value = tracked.place.look()
        is_fresh = self._turn >= 0 and tracked.stamp >= max(since, self._turn)
        is_same = tracked.stamp >= 0 and value is tracked.value
        if is_same and (is_fresh or is_constant(value)):
            return
        begun = time.monotonic()
        if is_same and begun < tracked.rests_until:
            tracked.skipped = True
            return
        digest = tracked.digest.state(tracked.place)
        state = bytes.fromhex(digest)[:_STATE] if digest is not None else None
        # If no call names the object now and no look was left out, a cell has changed it.
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
    """The entries of a call; None if an object has no digest. ``changed``: the keys of further
    objects that calls changed."""
    unlisted = dict.fromkeys(changed)
    parts = list(map(_codes, watched.functions))
    for key, tracked, state, _ in watched.objects:
        unlisted.pop(key, None)
        if tracked.changed:
            parts.append(_entry(key, _CHANGED))
        elif state is None:
            return None
        else:
            parts.append(_entry(key, _COUNTS if tracked.place.counts else _SAME, state))
    parts += (_entry(key, _CHANGED) for key in unlisted)
    return b"".join(parts)


def _entry(key: bytes, kind: bytes, state: bytes = bytes(_STATE)) -> bytes:
    return key + kind + state


def key_of_place(place: Place, name: str) -> bytes:
    """The key of ``place`` for the function of the callee ``name``."""
    return _hash(place.key if place.shared else f"{name}\0{place.key}")[:_KEY]


def _codes(digest: FunctionDigest) -> bytes:
    """The entries for the functions and classes in objects, by name."""
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
    """The entries of a digest: the key, the meaning and the state of each."""
    for start in range(CALL, len(digest) - _ENTRY + 1, _ENTRY):
        entry = digest[start : start + _ENTRY]
        yield entry[:_KEY], entry[_KEY : _KEY + 1], entry[_KEY + 1 :]


def changed_in(digests: Iterable[bytes | None]) -> frozenset[bytes]:
    """The keys of the objects that calls with these digests changed."""
    long = (digest for digest in digests if digest is not None and len(digest) > CALL)
    return frozenset(key for digest in long for key, kind, _ in _split(digest) if kind == _CHANGED)


def is_same_call(earlier: bytes, current: bytes, changed: frozenset[bytes]) -> bool:
    """Whether the digest ``current`` means the same call as ``earlier``, a digest of an earlier run in
    which calls ``changed`` these objects."""
    if earlier == current:
        return True
    if earlier[:CALL] != current[:CALL]:
        return False
    old = {(key, kind == _CODE): state for key, kind, state in _split(earlier)}
    new = {(key, kind == _CODE): state for key, kind, state in _split(current)}
    for key, is_code in old.keys() | new.keys():
        old_state = old.get((key, is_code))
        new_state = new.get((key, is_code))
        is_left_out = key in changed or (is_code and (old_state is None or new_state is None))
        if old_state != new_state and not is_left_out:
            return False
    return True


def with_changed(digest: bytes, changed: frozenset[bytes]) -> bytes:
    """The digest ``digest`` of a call that reuses an earlier result. The objects that changed in the
    earlier run count as changed in this run, too."""
    parts = [digest[:CALL]]
    for key, kind, state in _split(digest):
        parts.append(_entry(key, _CHANGED) if key in changed else _entry(key, kind, state))
    return b"".join(parts)


# --- what differs between two versions of a function
# --------------------------------------------------------------------------------------------------


def parts_of(digest: FunctionDigest, name: str) -> dict[str, str]:
    """The digests of the parts of the function of the callee ``name``, by name. The digest of an
    object is followed by the key of its place."""
    keys = {
        place.name: f" {key_of_place(place, name).hex()}"
        for place in digest.places.objects.values()
        if not place.counts
    }
    return {part: text + keys.get(part, "") for part, text in digest.parts.items()}


def edited_parts(
    earlier: Mapping[str, str], current: Mapping[str, str], changed: frozenset[bytes]
) -> tuple[list[str], list[str]]:
    """The names of the parts that differ, and of the parts that are left out because calls
    ``changed`` them. A part that only one of both has was not edited: an edit of another part reads it,
    or reads it no more."""
    names = {**earlier, **current}
    left_out = [name for name, text in names.items() if _key_in(text) in changed]
    differ = [
        name for name in names if name not in left_out and earlier.get(name) != current.get(name)
    ]
    return [name for name in differ if name in earlier and name in current] or differ, left_out


def _key_in(part: str) -> bytes:
    """The key after the digest of a part; empty if it has none."""
    _, _, key = part.partition(" ")
    is_key = len(key) == 2 * _KEY and set(key) <= set("0123456789abcdef")
    return bytes.fromhex(key) if is_key else b""
