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
from ..codec.part_digests import NewDigest, PartDigests
from ..codec.parted import content_digest, is_plain

COSTLY = 1_000_000
"""The number of bytes of arrays from which on an object is fingerprinted only when needed."""


class _Known(NamedTuple):
    """An object whose content is known, by its digest or the data of its row."""

    look: Callable[[], Any]
    """Returns the object; None after it was freed."""
    fingerprint: ObjectFingerprint
    """The fingerprint of the object with this content."""
    digest: str | None
    """The digest of the content; None: it has none."""
    data: bytes | None
    """The data of its row; None: the object is not stored."""


class _Seen(NamedTuple):
    """An object of which only a fingerprint was taken."""

    look: Callable[[], Any]
    """Returns the object; None after it was freed."""
    fingerprint: ObjectFingerprint
    looked_at: float
    """The time of the fingerprint, by the monotonic clock."""


class KnownObjects:
    """The objects of a run, as long as they are in memory. Of a known object the content is known.
    Of a seen object only the fingerprint at the end of a call is known, which shows whether the
    next call changes it."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        """The known objects, by their identity."""
        self._seen: dict[int, _Seen] = {}
        """The seen objects, by their identity; only large ones."""
        self.parts = PartDigests()

    def last_seen(self, value: Value) -> ObjectFingerprint | None:
        """The last fingerprint of a large object; None: there is none, or the object is small."""
        seen = self._seen.get(id(value))
        return seen.fingerprint if seen is not None and seen.look() is value else None

    def seen_since(self, value: Value, began: float) -> ObjectFingerprint | None:
        """The last fingerprint of a large object, if it is not older than ``began``."""
        seen = self._seen.get(id(value))
        is_recent = seen is not None and seen.looked_at >= began
        return self.last_seen(value) if is_recent else None

    def note_seen(
        self, value: Value, current: ObjectFingerprint | None, looked_at: float = NEVER
    ) -> None:
        """Note the fingerprint of an object at the end of a call that used or returned it.
        ``looked_at``: the time of the fingerprint, by the monotonic clock; default: before all
        running calls."""
        if current is not None and current.size >= COSTLY and is_knowable(value):
            look = weakref.ref(value, partial(_forget, self._seen, id(value)))
            self._seen[id(value)] = _Seen(look, current, looked_at)

    def stored_data(self, value: Value, current: ObjectFingerprint | None = None) -> bytes | None:
        """The row's data of an object that is stored and unchanged; None for any other object.
        ``current``: the current fingerprint; default None: it is taken."""
        entry = self._find(value, current)
        return entry.data if entry is not None else None

    def was_known(self, value: Value) -> bool:
        """Whether the object was known, perhaps before it changed."""
        entry = self._known.get(id(value))
        return entry is not None and entry.look() is value

    def digest(self, value: Value, current: ObjectFingerprint | None = None) -> str | None:
        """The digest of the content of an object, computed once; None: it has no digest, or was
        changed meanwhile. ``current``: the current fingerprint; default None: it is taken."""
        if type(value) is Unread:
            return value.digest
        checksums = Checksums()
        current = current or print_of(value, checksums)
        entry = self._find(value, current)
        if entry is not None:
            return entry.digest
        new_digests = list[NewDigest]()
        digest = content_digest(
            value, partial(self.parts.of, checksums=checksums, new_digests=new_digests)
        )
        if not self.parts.learn(new_digests):
            return None
        self._note_known(value, digest, None, current)
        return digest

    def note_stored(
        self, value: Value, data: bytes, current: ObjectFingerprint | None = None
    ) -> None:
        """Note an object that was stored in, or read from, a row with ``data``. ``current``: the
        current fingerprint; default None: it is taken."""
        self._note_known(value, digest_of_data(data), data, current)

    def _find(self, value: Value, current: ObjectFingerprint | None = None) -> _Known | None:
        if not self.was_known(value):
            return None
        entry = self._known[id(value)]
        return entry if is_same_print(entry.fingerprint, current or print_of(value)) else None

    def _note_known(
        self,
        value: Value,
        digest: str | None,
        data: bytes | None,
        current: ObjectFingerprint | None = None,
    ) -> None:
        if not is_knowable(value):
            return
        current = current or print_of(value)
        if current is not None:
            look = weakref.ref(value, partial(_forget, self._known, id(value)))
            self._known[id(value)] = _Known(look, current, digest, data)
            if self.last_seen(value) is None:
                self.note_seen(value, current)


def _forget(objects: dict[int, Any], number: int, _: object) -> None:
    """Forget an object that was freed."""
    objects.pop(number, None)


def digest_of_data(data: bytes) -> str | None:
    """The digest of the content of the value whose row has ``data``; None: it has no digest."""
    return hashlib.sha256(data).hexdigest() if is_plain(data) else None


def is_knowable(value: Value) -> bool:
    """Whether it can be noticed that the object is freed, by a weak reference."""
    return bool(type(value).__weakrefoffset__)
