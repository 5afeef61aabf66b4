"""Large arguments for workers of this machine: each is a file, of which a call gets a private map.

A page that a call changes becomes its own, so no call changes what another one gets, here or there.
A result of another worker that nobody has changed here since is not written again: the file of the
argument names the file of the result (`sealed_files`).
"""

from __future__ import annotations

import contextlib
import importlib
import operator
import os
import secrets
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...journal.codec.pickles import bytes_of_data
from ..chunk import ALIGNED, IN_FILE, reduce_known
from . import sealed_files
from .later import Later
from .result_files import remove_files

LARGE = 200_000
"""Bytes from which on an array or a table travels in a file."""


class Dump(Protocol):
    """What makes a pickle for a worker: `functions.Program.dump`."""

    def __call__(
        self, value: Any, *, reduce: Callable[[Any], Any] = ..., buffers: list[Any] | None = None
    ) -> bytes: ...


class _Known(NamedTuple):
    """A value that has a file."""

    look: weakref.ref[Any]
    path: str
    size: int
    named: list[Any]
    """Objects that keep the result files named by this file alive."""


class ArgumentFiles:
    """The files of the large arrays and tables that calls get, wherever they are in the arguments.
    A file goes with its value: a sequence whose elements are dropped needs no more room here than
    in memory.

    The calls that share files are concurrent: none can rely on what another one, or somebody here,
    does to its arguments. So each is sent as it was when it was first needed."""

    def __init__(self, prefix: str) -> None:
        """``prefix``: where the names of the files begin."""
        self._prefix = prefix
        self._known: dict[int, _Known] = {}

    def packed(self, arguments: Sequence[Mapping[str, Any]], dump: Dump) -> tuple[bytes, list[Any]]:
        """The arguments of calls as a pickle that names the files, and the objects that keep the
        files until the pickle is read."""
        held: list[Any] = []

        def apart(value: Any) -> Any:
            known = self._file(value, dump)
            if known is None:
                return None
            held.extend((value, *known.named))
            return known.path, known.size

        def reduce(thing: Any) -> Any:
            found = apart(thing)
            return reduce_known(thing) if found is None else (_MAPPED, found)

        # An argument is its own object for each call. Pickle would make one for all.
        own = [
            {
                name: value if (found := apart(value)) is None else Later(_MAPPED, *found)
                for name, value in each.items()
            }
            for each in arguments
        ]
        return dump(own, reduce=reduce), held

    def _file(self, value: Any, dump: Dump) -> _Known | None:
        """The file of a value; None: the value is small, its type has no
        weak references (bytes), or there is no room."""
        if not type(value).__weakrefoffset__ or bytes_of_data(value) < LARGE:
            return None
        # By identity, and not by content: comparing large arrays costs more than writing one
        # again.
        key = id(value)
        if key not in self._known:
            path = f"{self._prefix}{secrets.token_hex(8)}"
            try:
                size, named = write_apart(value, path, dump)
            except OSError:
                _remove(path)
                return None
            # Weak: the file must not keep a table of 1 GB in memory, and its id is free once it
            # is gone.
            look = weakref.ref(value, lambda _: self._forget(key))
            self._known[key] = _Known(look, path, size, named)
        return self._known[key]

    def _forget(self, key: int) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            _remove(known.path)

    def close(self) -> None:
        self._known.clear()
        remove_files(self._prefix)


def write_apart(value: Any, path: str, dump: Dump) -> tuple[int, list[Any]]:
    """Write ``value`` to a new file, its buffers as they are and at places that fit any type: see
    `chunk._mapped`. An unchanged buffer of an earlier result is not written: the file names it.
    Returns the size of the file, and the objects that keep the named files alive."""
    buffers: list[Any] = []
    head = dump(value, buffers=buffers)
    views = [buffer.raw() for buffer in buffers]
    parts = [sealed_files.find(view) if view.nbytes >= LARGE else None for view in views]
    pairs = list(zip(views, parts, strict=True))
    places = [
        view.nbytes if part is None else (part.path, part.size, part.start, part.length)
        for view, part in pairs
    ]
    index = dump((head, places))
    with open(path, "xb", opener=_private) as file:
        file.write(len(index).to_bytes(8, "little"))
        file.write(index)
        for view, part in pairs:
            if part is None:
                file.seek(-file.tell() % ALIGNED, os.SEEK_CUR)
                file.write(view)
        # The last buffer may be empty.
        size = file.truncate(file.tell())
    return size, [part.whole for part in parts if part is not None]


def in_file(data: bytes, path: str) -> bytes | tuple[str, int]:
    """Large ``data`` as a new file and its size; ``data`` itself if it is small, or if there is no
    folder or no room."""
    if len(data) < IN_FILE or not path:
        return data
    try:
        with open(path, "xb", opener=_private) as file:
            file.write(data)
    except OSError:
        _remove(path)
        return data
    return path, len(data)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        # Windows: a worker still maps it; the folder goes at our end.
        os.unlink(path)


_MAPPED = Later(operator.attrgetter("mapped"), Later(importlib.import_module, "_agf_chunk"))
"""On a worker `chunk._mapped`: `chunk.run` puts it into the module ``_agf_chunk`` of the worker."""
