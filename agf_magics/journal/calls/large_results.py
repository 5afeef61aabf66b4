"""Stores the large results of a run as parts, in files beside the journal (`ValueFiles`).

The journal first notes in its table of files which parts the run needs, and then writes them. So a
process that cleans the folder either sees the note, or has finished before this module checks
whether the part exists.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from itertools import starmap
from typing import Any

from ...values.value import Value
from ..codec.fingerprints import Checksums
from ..codec.part_digests import NewDigest
from ..codec.parted import Parted, parts_in, take_apart
from ..codec.pickles import NotPicklable
from ..codec.secret_search import Search
from ..database.errors import JournalError
from ..database.store import Store
from ..database.value_files import Part
from .known_objects import KnownObjects

_NOTE = "INSERT OR IGNORE INTO files VALUES (?, ?, ?)"


class NotStored(Exception):
    """A value is not stored. The message has the reason."""


class LargeResults:
    """The large results of one run. Any thread may store them."""

    def __init__(self, store: Store, num: int, objects: KnownObjects) -> None:
        """``objects``: remembers the objects that are read from another run."""
        self._store, self._num, self._objects = store, num, objects

    @property
    def rate(self) -> float:
        """The approximate number of bytes that are stored in a second."""
        return self._store.files.rate if self._store.files is not None else 0.0

    def adopt(self, value: Value, data: bytes) -> None:
        """Remember an object that was read from another run, if this run can keep its parts,
        too."""
        files, parts = self._store.files, list(starmap(Part, parts_in(data)))
        if not self.need(data):
            return
        if files is not None and all(map(files.has, parts)):
            self._objects.note_stored(value, data)

    def need(self, data: bytes) -> bool:
        """Note that this run needs the parts of ``data``. Returns whether that is possible."""
        try:
            self._note(starmap(Part, parts_in(data)))
        except JournalError:
            return False
        return True

    def store(
        self, value: Value, search: Search, fills: bool = False, checksums: Checksums | None = None
    ) -> bytes:
        """Write the parts of a value, and return the data of its row. ``search``: finds texts that
        it must not contain. ``fills``: whether it may fill the disk; default False. ``checksums``:
        the checksums of its memory at the moment to be stored; default None: now. Raises NotStored
        and HoldsSecret. Any thread may call this."""
        files = self._store.files
        if files is None:
            raise NotStored("there is no folder for it")
        parted: Parted | None = None
        try:
            begun = time.monotonic()
            digests, new_digests = self._objects.parts, list[NewDigest]()
            digest = partial(
                digests.of, checksums=checksums or Checksums(), new_digests=new_digests
            )
            parted = take_apart(value, partial(files.create, fills), search, digest)
            data = self._written(parted, fills)
            if not digests.learn(new_digests):
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
        parts = {
            Part(stretch.digest, stretch.view.nbytes): stretch.view for stretch in parted.stretches
        }
        rest = new.part if new is not None else None
        named = [*parts, *([rest] if rest is not None else ())]
        self._note(named)
        for part, view in parts.items():
            files.add(part, view, fills)
        if rest is not None and not files.has(rest):
            files.keep(new)
        return parted.data(rest)

    def _note(self, parts: Iterable[Part]) -> None:
        """Note that this run needs these parts. Raises JournalError."""
        with self._store.writing() as connection:
            connection.executemany(_NOTE, [(self._num, *part) for part in parts])
            connection.execute("COMMIT")
