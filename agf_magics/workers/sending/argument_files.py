"""Large arguments for workers of this machine: each is a file, of which a call gets a private map.

A page that a call changes becomes a copy of that call, so no call changes what another call gets, here or
there. A part of an argument that a worker has returned, and that nobody has changed here since, is not
written again: the file names the result file with that part (`sealed_files`).
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
from .functions import Program
from .later import Later
from .result_files import remove_files

LARGE = 200_000
"""Bytes from which on an array or a table travels in a file."""


class Dump(Protocol):
    """The type of the function that makes a pickle for a worker: `functions.Program.dump`."""

    def __call__(
        self, value: Any, *, reduce: Callable[[Any], Any] = ..., buffers: list[Any] | None = None
    ) -> bytes: ...


class _ValueFile(NamedTuple):
    """A value that has a file."""

    look: weakref.ref[Any]
    """Returns the value; None after it was freed."""
    path: str
    size: int
    """The bytes of the file."""
    named: list[Any]
    """Objects that keep the result files named by this file alive."""


class ArgumentFiles:
    """The files of the large arrays and tables that calls get, wherever they are in the arguments.
    A file goes with its value: a sequence whose elements are dropped needs no more room here than
    in memory.

    The calls that share files are concurrent: no call can rely on what another call, or code in the kernel,
    does to its arguments. So each argument is sent as it was when it was first needed."""

    def __init__(self, prefix: str) -> None:
        """``prefix``: the beginning of the paths of the files."""
        self._prefix = prefix
        self._known: dict[int, _ValueFile] = {}
        """The values that have a file, by their identity."""

    def packed(
        self, arguments: Sequence[Mapping[str, Any]], program: Program
    ) -> tuple[bytes, list[int], list[Any]]:
        """The arguments of calls as pickles that name the files, their sizes, and the objects that keep the
        files until the pickles are read."""
        kept_alive: list[Any] = []

        def file_of(value: Any) -> Any:
            value_file = self._file(value, program.dump)
            if value_file is None:
                return None
            kept_alive.extend((value, *value_file.named))
            return value_file.path, value_file.size

        def reduce(thing: Any) -> Any:
            place = file_of(thing)
            return reduce_known(thing) if place is None else (_MAPPED, place)

        def mapped(value: Any) -> Any:
            place = file_of(value)
            return value if place is None else Later(_MAPPED, *place)

        call_arguments = [
            dict(zip(keywords, map(mapped, keywords.values()), strict=True))
            for keywords in arguments
        ]
        return *program.dump_each(call_arguments, reduce=reduce), kept_alive

    def _file(self, value: Any, dump: Dump) -> _ValueFile | None:
        """The file of a value. None if the value is small, if its type has no weak references (such as
        bytes), or if there is no room."""
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
            # A weak reference: the file must not keep a table of 1 GB in memory. When the value is gone,
            # its id may belong to another value, so the entry is removed.
            look = weakref.ref(value, lambda _: self._forget(key))
            self._known[key] = _ValueFile(look, path, size, named)
        return self._known[key]

    def _forget(self, key: int) -> None:
        value_file = self._known.pop(key, None)
        if value_file is not None:
            _remove(value_file.path)

    def close(self) -> None:
        self._known.clear()
        remove_files(self._prefix)


def write_apart(value: Any, path: str, dump: Dump) -> tuple[int, list[Any]]:
    """Write ``value`` to a new file, with its buffers as they are, at places that fit any type; on the worker
    `chunk._mapped` reads it. An unchanged buffer of an earlier result is not written: the file names the
    result file. Returns the size of the file, and the objects that keep the named files alive."""
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
        # The file ends here also if the last buffer is empty: a `seek` alone does not lengthen it.
        size = file.truncate(file.tell())
    return size, [part.whole for part in parts if part is not None]


def in_file(data: bytes, path: str) -> bytes | tuple[str, int]:
    """The path and the size of a new file with ``data``; ``data`` itself if it is small, or if there is no
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
        # On Windows this fails while a worker maps the file; the folder is removed when we end.
        os.unlink(path)


_MAPPED = Later(operator.attrgetter("mapped"), Later(importlib.import_module, "_agf_chunk"))
"""On a worker, the function `chunk._mapped`, which `chunk.run` puts into the worker's ``_agf_chunk``."""
