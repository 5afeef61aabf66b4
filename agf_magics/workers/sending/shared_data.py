"""Large arrays for local workers as private maps of one file, written once."""

from __future__ import annotations

import contextlib
import importlib
import operator
import os
import pickle
import tempfile
import weakref
from typing import Any

from ...journal.codec.pickles import bytes_of_data
from .later import Later

LARGE = 200_000
"""Bytes from which on an array or a table travels in a file."""


class SharedData:
    """The large arrays and tables that calls of one fan-out get. Each is written to a file once,
    which a worker of this machine maps; a page that a call changes becomes its own. The file goes
    with the value: a sequence whose elements are dropped needs no more room here than in memory.

    A fan-out sends what it had when it was first needed: its calls are concurrent, so that none of
    them can rely on what another one does to its arguments."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def apart(self, value: Any) -> Any:
        """What travels for an argument: itself, if it is small."""
        if bytes_of_data(value) < LARGE:
            return value
        # By identity, and not by content: comparing large arrays costs more than writing
        # one again.
        key = id(value)
        if key not in self._known:
            path = write_apart(value, self._folder)
            # Weak: the file must not keep a table of 1 GB in memory, and its id is free
            # once it is gone.
            self._known[key] = weakref.ref(value, lambda _: self._forget(key)), path
        return Later(_MAPPED, self._known[key][1])

    def _forget(self, key: int) -> None:
        with contextlib.suppress(KeyError, OSError):
            # Windows: a worker still maps it; the folder goes at our end.
            os.unlink(self._known.pop(key)[1])

    def close(self) -> None:
        for key in list(self._known):
            self._forget(key)


def write_apart(value: Any, folder: str) -> str:
    """Write ``value`` to a new file, its buffers as they are and at places that fit any type: see
    `chunk._mapped`."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, 5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    # For this user only, with a name that nobody can guess.
    number, path = tempfile.mkstemp(dir=folder)
    with os.fdopen(number, "wb") as file:
        index = pickle.dumps((head, sizes), 5)
        file.write(len(index).to_bytes(8, "little") + index)
        for view in views:
            file.seek(-file.tell() % ALIGNED, os.SEEK_CUR)
            file.write(view)
    return path


ALIGNED = 64
"""Bytes; `chunk._mapped` knows it too."""


_MAPPED = Later(operator.attrgetter("mapped"), Later(importlib.import_module, "_agf_chunk"))
"""On a worker `chunk._mapped`, which that has put into its module."""
