"""The large results of a run, stored as parts beside the journal: `ValueFiles`.

The journal first notes which parts the run needs, in its table of files, and then writes them: who
cleans the folder sees the note, or has ended before the part is looked for. An object that was
stored or read, and has not changed since, is neither pickled nor digested again.
"""

from __future__ import annotations

import hashlib
import time
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

from ...values.unread import Unread
from ...values.value import Value
from ..codec.fingerprints import NEVER, Checksums, Print, is_same_print, print_of
from ..codec.part_digests import Made, PartDigests
from ..codec.parted import Parted, content_digest, is_plain, parts_in, take_apart
from ..codec.pickles import NotPicklable
from ..codec.secret_search import Search
from ..database.errors import JournalError
from ..database.store import Store
from ..database.value_files import Part

COSTLY = 1_000_000
"""Bytes of the arrays of an object from which on it is not looked at without need."""

_NOTE = "INSERT OR IGNORE INTO files VALUES (?, ?, ?)"


class _Known(NamedTuple):
    """An object whose content is known."""

    look: Callable[[], Any]
    """Returns it, as long as somebody has it."""
    was: Print
    """Its fingerprint."""
    digest: str | None
    data: bytes | None
    """The data of its row; None: it is not stored."""


class NotStored(Exception):
    """A value is not stored. The message has the reason."""


class _Seen(NamedTuple):
    """An object that was looked at."""

    look: Callable[[], Any]
    """Returns it, as long as somebody has it."""
    now: Print
    """Its fingerprint then."""
    looked_at: float
    """By the monotonic clock."""


class KnownObjects:
    """Objects of a run, as long as somebody has them: those whose content is known, and those that
    were looked at."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._seen: dict[int, _Seen] = {}
        """Large objects, as they were last looked at."""
        self.parts = PartDigests()

    def last(self, value: Value) -> Print | None:
        """The fingerprint of a large object when it was last looked at; None: it was not, or a look
        costs nothing."""
        seen = self._seen.get(id(value))
        return seen.now if seen is not None and seen.look() is value else None

    def seen_since(self, value: Value, began: float) -> Print | None:
        """The fingerprint of a large object that was looked at since then."""
        seen = self._seen.get(id(value))
        is_since = seen is not None and seen.looked_at >= began
        return self.last(value) if is_since else None

    def saw(self, value: Value, now: Print | None, looked_at: float = NEVER) -> None:
        """An object was looked at, when a call that had it, or made it, had ended. ``looked_at``:
        when, by the monotonic clock; default: before all calls that have not ended."""
        if now is not None and now.size >= COSTLY and is_knowable(value):
            look = weakref.ref(value, partial(_forget, self._seen, id(value)))
            self._seen[id(value)] = _Seen(look, now, looked_at)

    def stored(self, value: Value, now: Print | None = None) -> bytes | None:
        """The data of the row of an object that is stored and has not changed; None: it is not.
        ``now``: its fingerprint; default None: it is taken."""
        entry = self._find(value, now)
        return entry.data if entry is not None else None

    def has(self, value: Value) -> bool:
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
        self._know(value, digest, None, now)
        return digest

    def know(self, value: Value, data: bytes, now: Print | None = None) -> None:
        """Know an object that was stored, or read, with ``data`` in its row. ``now``: its
        fingerprint; default None: it is taken."""
        self._know(value, digest_of_data(data), data, now)

    def _find(self, value: Value, now: Print | None = None) -> _Known | None:
        if not self.has(value):
            return None
        entry = self._known[id(value)]
        return entry if is_same_print(entry.was, now or print_of(value)) else None

    def _know(
        self, value: Value, digest: str | None, data: bytes | None, now: Print | None = None
    ) -> None:
        if not is_knowable(value):
            return
        now = now or print_of(value)
        if now is not None:
            look = weakref.ref(value, partial(_forget, self._known, id(value)))
            self._known[id(value)] = _Known(look, now, digest, data)
            if self.last(value) is None:
                self.saw(value, now)


def _forget(objects: dict[int, Any], number: int, _: object) -> None:
    """Nobody has the object any more."""
    objects.pop(number, None)


def digest_of_data(data: bytes) -> str | None:
    """The digest of the content of the value whose row has ``data``; None: it has none."""
    return hashlib.sha256(data).hexdigest() if is_plain(data) else None


def is_knowable(value: Value) -> bool:
    """Whether something tells when nobody has the object any more."""
    return bool(type(value).__weakrefoffset__)


class LargeResults:
    """The large results of one run, which are stored on any thread."""

    def __init__(self, store: Store, num: int, objects: KnownObjects) -> None:
        """``objects``: learns what is read from another run."""
        self._store, self._num, self._objects = store, num, objects

    @property
    def rate(self) -> float:
        """Bytes that are stored in a second, about."""
        return self._store.files.rate if self._store.files is not None else 0.0

    def adopt(self, value: Value, data: bytes) -> None:
        """Know an object that was read from another run, if this run can have its parts too."""
        files, parts = self._store.files, list(starmap(Part, parts_in(data)))
        if not self.need(data):
            return
        if files is not None and all(map(files.has, parts)):
            self._objects.know(value, data)

    def need(self, data: bytes) -> bool:
        """Write that this run needs the parts of ``data``; whether that is possible."""
        try:
            self._note(starmap(Part, parts_in(data)))
        except JournalError:
            return False
        return True

    def store(
        self, value: Value, search: Search, fills: bool = False, checksums: Checksums | None = None
    ) -> bytes:
        """Write the parts of a value; returns the data of its row. ``search``: for what it must not
        contain; ``fills``: default False; True: it may fill the disk; ``checksums``: those of the
        moment in which the value was as it is stored; default None: now. Raises NotStored, HoldsSecret.
        On any thread."""
        files = self._store.files
        if files is None:
            raise NotStored("there is no folder for it")
        parted: Parted | None = None
        try:
            begun = time.monotonic()
            known, made = self._objects.parts, list[Made]()
            digest = partial(known.of, checksums=checksums or Checksums(), made=made)
            parted = take_apart(value, partial(files.create, fills), search, digest)
            data = self._written(parted, fills)
            if not known.learn(made):
                raise NotStored("it was changed while it was stored")
            files.measure(sum(size for _, size in parts_in(data)), time.monotonic() - begun)
            return data
        except NotPicklable as error:
            raise NotStored(f"it cannot be pickled ({error})") from None
        except (OSError, JournalError, MemoryError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NotStored(f"its parts cannot be written ({why})") from None
        finally:
            if parted is not None and parted.file is not None:
                parted.file.drop()

    def _written(self, parted: Parted, fills: bool) -> bytes:
        """Note and write the parts of a value. Raises OSError, JournalError."""
        files: Any = self._store.files
        new: Any = parted.file
        parts = {Part(each.digest, each.view.nbytes): each.view for each in parted.stretches}
        rest = new.part if new is not None else None
        named = [*parts, *([rest] if rest is not None else ())]
        self._note(named)
        for part, view in parts.items():
            files.add(part, view, fills)
        if rest is not None and not files.has(rest):
            files.keep(new)
        return parted.data(rest)

    def _note(self, parts: Iterable[Part]) -> None:
        """Write that this run needs these parts. Raises JournalError."""
        with self._store.writing() as connection:
            connection.executemany(_NOTE, [(self._num, *part) for part in parts])
            connection.execute("COMMIT")
