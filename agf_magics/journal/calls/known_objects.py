"""The objects of a run whose content is known: one that has not changed since is neither pickled nor
digested again.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ...values.unread import Unread
from ...values.value import Value
from ..codec.fingerprints import NEVER, Checksums, Print, is_same_print, print_of
from ..codec.part_digests import Made, PartDigests
from ..codec.parted import content_digest, is_plain

COSTLY = 1_000_000
"""Objects with at least so many bytes of arrays are fingerprinted only when needed."""


class _Known(NamedTuple):
    """An object whose content is known, by its digest or the data of its row."""

    look: Callable[[], Any]
    """Returns it, as long as somebody has it."""
    was: Print
    """Its fingerprint."""
    digest: str | None
    data: bytes | None
    """The data of its row; None: it is not stored."""


class _Seen(NamedTuple):
    """An object of which a fingerprint was taken, and nothing else."""

    look: Callable[[], Any]
    """Returns it, as long as somebody has it."""
    now: Print
    """Its fingerprint then."""
    looked_at: float
    """By the monotonic clock."""


class KnownObjects:
    """Objects of a run, as long as somebody has them. Of a known one the content is known, of a seen
    one only the fingerprint at the end of a call: it tells whether the next call changed it."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._seen: dict[int, _Seen] = {}
        """Large objects only."""
        self.parts = PartDigests()

    def last_seen(self, value: Value) -> Print | None:
        """The last fingerprint of a large object; None: there is none, or taking one costs nothing."""
        seen = self._seen.get(id(value))
        return seen.now if seen is not None and seen.look() is value else None

    def seen_since(self, value: Value, began: float) -> Print | None:
        """The last fingerprint of a large object, if it is not older than ``began``."""
        seen = self._seen.get(id(value))
        is_since = seen is not None and seen.looked_at >= began
        return self.last_seen(value) if is_since else None

    def note_seen(self, value: Value, now: Print | None, looked_at: float = NEVER) -> None:
        """Note the fingerprint of an object at the end of a call that used or made it.
        ``looked_at``: when, by the monotonic clock; default: before all calls that have not ended."""
        if now is not None and now.size >= COSTLY and is_knowable(value):
            look = weakref.ref(value, partial(_forget, self._seen, id(value)))
            self._seen[id(value)] = _Seen(look, now, looked_at)

    def stored_data(self, value: Value, now: Print | None = None) -> bytes | None:
        """The data of the row of an object that is stored and has not changed; None: it is not.
        ``now``: its fingerprint; default None: it is taken."""
        entry = self._find(value, now)
        return entry.data if entry is not None else None

    def was_known(self, value: Value) -> bool:
        """Whether the object was known, perhaps before it changed."""
        entry = self._known.get(id(value))
        return entry is not None and entry.look() is value

    def digest(self, value: Value, now: Print | None = None) -> str | None:
        """The digest of the content of an object, made once; None: it has none, or was changed
        meanwhile. ``now``: its fingerprint; default None: it is taken."""
        if type(value) is Unread:
            return value.digest
        checksums = Checksums()
        now = now or print_of(value, checksums)
        entry = self._find(value, now)
        if entry is not None:
            return entry.digest
        made = list[Made]()
        digest = content_digest(value, partial(self.parts.of, checksums=checksums, made=made))
        if not self.parts.learn(made):
            return None
        self._note_known(value, digest, None, now)
        return digest

    def note_stored(self, value: Value, data: bytes, now: Print | None = None) -> None:
        """Note an object that was stored, or read, with ``data`` in its row. ``now``: its
        fingerprint; default None: it is taken."""
        self._note_known(value, digest_of_data(data), data, now)

    def _find(self, value: Value, now: Print | None = None) -> _Known | None:
        if not self.was_known(value):
            return None
        entry = self._known[id(value)]
        return entry if is_same_print(entry.was, now or print_of(value)) else None

    def _note_known(
        self, value: Value, digest: str | None, data: bytes | None, now: Print | None = None
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
    """Nobody has the object any more."""
    objects.pop(number, None)


def digest_of_data(data: bytes) -> str | None:
    """The digest of the content of the value whose row has ``data``; None: it has none."""
    return hashlib.sha256(data).hexdigest() if is_plain(data) else None


def is_knowable(value: Value) -> bool:
    """Whether something tells when nobody has the object any more."""
    return bool(type(value).__weakrefoffset__)
