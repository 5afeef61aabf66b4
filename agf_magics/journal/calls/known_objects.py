"""Remembers the content of a run's objects, so that an unchanged object is not pickled or digested
again.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ...values.unread import Unread
from ...values.value import Value
from ..codec.fingerprints import NEVER, Checksums, ObjectFingerprint, is_same_print, print_of
from ..codec.part_digests import Made, PartDigests
from ..codec.parted import content_digest, is_plain

COSTLY = 1_000_000
"""The number of bytes of arrays from which on an object is fingerprinted only when needed."""


class _Known(NamedTuple):
    """An object whose content is known, by its digest or the data of its row."""

    look: Callable[[], Any]
    """Returns the object; None after it was freed."""
    was: ObjectFingerprint
    """The fingerprint of the object with this content."""
    digest: str | None
    data: bytes | None
    """The data of its row; None: the object is not stored."""


class _Seen(NamedTuple):
    """An object of which only a fingerprint was taken."""

    look: Callable[[], Any]
    """Returns it, as long as somebody has it."""
    now: ObjectFingerprint
    """The fingerprint."""
    looked_at: float
    """The time of the fingerprint, by the monotonic clock."""


class KnownObjects:
    """The objects of a run, as long as they are in memory. Of a known object the content is known.
    Of a seen object only the fingerprint at the end of a call is known, which shows whether the
    next call changes it."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._seen: dict[int, _Seen] = {}
        """Large objects only."""
        self.parts = PartDigests()

    def last_seen(self, value: Value) -> ObjectFingerprint | None:
        """The last fingerprint of a large object; None: there is none, or the object is small."""
        seen = self._seen.get(id(value))
        return seen.now if seen is not None and seen.look() is value else None

    def seen_since(self, value: Value, began: float) -> ObjectFingerprint | None:
        """The last fingerprint of a large object, if it is not older than ``began``."""
        seen = self._seen.get(id(value))
        is_since = seen is not None and seen.looked_at >= began
        return self.last_seen(value) if is_since else None

    def note_seen(
        self, value: Value, now: ObjectFingerprint | None, looked_at: float = NEVER
    ) -> None:
        """Note the fingerprint of an object at the end of a call that used or returned it.
        ``looked_at``: the time of the fingerprint, by the monotonic clock; default: before all
        running calls."""
        if now is not None and now.size >= COSTLY and is_knowable(value):
            look = weakref.ref(value, partial(_forget, self._seen, id(value)))
            self._seen[id(value)] = _Seen(look, now, looked_at)

    def stored_data(self, value: Value, now: ObjectFingerprint | None = None) -> bytes | None:
        """The row's data of an object that is stored and unchanged; None for any other object.
        ``now``: the current fingerprint; default None: it is taken."""
        entry = self._find(value, now)
        return entry.data if entry is not None else None

    def was_known(self, value: Value) -> bool:
        """Whether the object was known, perhaps before it changed."""
        entry = self._known.get(id(value))
        return entry is not None and entry.look() is value

    def digest(self, value: Value, now: ObjectFingerprint | None = None) -> str | None:
        """The digest of the content of an object, computed once; None: it has no digest, or was
        changed meanwhile. ``now``: the current fingerprint; default None: it is taken."""
        if type(value) is Unread:
            return value.digest
        checksums = Checksums()
        now = now or print_of(value, checksums)
        entry = self._find(value, now)
        if entry is not None:
            return entry.digest
        new_digests = list[Made]()
        digest = content_digest(
            value, partial(self.parts.of, checksums=checksums, made=new_digests)
        )
        if not self.parts.learn(new_digests):
            return None
        self._note_known(value, digest, None, now)
        return digest

    def note_stored(self, value: Value, data: bytes, now: ObjectFingerprint | None = None) -> None:
        """Note an object that was stored in, or read from, a row with ``data``. ``now``: the
        current fingerprint; default None: it is taken."""
        self._note_known(value, digest_of_data(data), data, now)

    def _find(self, value: Value, now: ObjectFingerprint | None = None) -> _Known | None:
        if not self.was_known(value):
            return None
        entry = self._known[id(value)]
        return entry if is_same_print(entry.was, now or print_of(value)) else None

    def _note_known(
        self,
        value: Value,
        digest: str | None,
        data: bytes | None,
        now: ObjectFingerprint | None = None,
    ) -> None:
        if not is_knowable(value):
            return
        now = now or print_of(value)
        if now is not None:
            look = weakref.ref(value, partial(_forget, self._known, id(value)))
            self._known[id(value)] = _Known(look, now, digest, data)
            if self.last_seen(value) is None:
                self.note_seen(value, now)


def _forget(objects: dict[int, Any], number: int, _: object) -> None:
    """Forget an object that was freed."""
    objects.pop(number, None)


def digest_of_data(data: bytes) -> str | None:
    """The digest of the content of the value whose row has ``data``; None: it has no digest."""
    return hashlib.sha256(data).hexdigest() if is_plain(data) else None


def is_knowable(value: Value) -> bool:
    """Whether it can be noticed that the object is freed, by a weak reference."""
    return bool(type(value).__weakrefoffset__)
