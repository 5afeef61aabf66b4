"""The large results of a run, stored as parts in files beside the journal (`ValueFiles`).

The journal first notes in its table of files which parts the run needs, and then writes them. A
cleaner of the folder either sees the note or has finished before we check whether the part exists.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from itertools import starmap
from typing import Any

from ...values.value import Value
from ..codec.fingerprints import Checksums
from ..codec.part_digests import Made
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
            self._objects.note_stored(value, data)

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
