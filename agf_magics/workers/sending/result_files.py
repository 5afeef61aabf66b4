"""Large results from a worker of this machine, which come in a file that `chunk._File` has written.

The kernel makes the file, in memory. Where the system has no files in memory, the worker makes the file,
under a name from the kernel, in the folder of the backend, which only this user can read. A worker has
run the code of a tool, so the thing with that name may be anything: a link, a pipe, a file that grows.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...values.value import Value
from ..chunk import READ
from . import sealed_files
from .file_folders import IN_MEMORY

MAPPED_FROM = 8_000_000
"""Bytes from which on a result is mapped: to read a smaller one costs less than to keep its file."""

Place = tuple[int, int]
"""The offset of a buffer in the file, and the size of the buffer."""


def prefix_in(share: Callable[[], str] | None) -> str:
    """The beginning of the paths of a new chunk's files. ``share``: returns the folder of the backend; None:
    the backend has no folder, and the result is empty."""
    return os.path.join(share(), f"{secrets.token_hex(8)}-") if share is not None else ""


def remove_files(prefix: str) -> None:
    """Remove the files of a chunk that still exist."""
    folder, name = os.path.split(prefix)
    for path in Path(folder).glob(f"{name}*") if prefix else ():
        with contextlib.suppress(OSError):
            path.unlink()


class ResultFile:
    """The file with the results of one chunk."""

    def __init__(self, prefix: str, is_alone: bool) -> None:
        """``prefix``: the beginning of the paths of the chunk's files; empty if there can be no files.
        ``is_alone``: whether the chunk has only one call."""
        self._named = f"{prefix}results" if prefix else ""
        # The folder is in memory only where there is room (`file_folders`), so the file may be, too.
        self._memory = sealed_files.create() if prefix.startswith(IN_MEMORY) else None
        self._is_alone = is_alone

    @property
    def paths(self) -> tuple[str, str]:
        """The two paths for the worker: the file of the kernel, and the file that the worker makes if it
        cannot open the first. An empty path: there is no such file."""
        return self._memory.path if self._memory is not None else "", self._named

    def close(self) -> None:
        """Let the file go, as the chunk is back. A part that is mapped stays as long as a value has it."""
        self._memory = None

    def read(self, place: Place) -> bytearray:
        """A copy of a part. Raises ValueError or OSError if the file is not as the worker wrote it."""
        with contextlib.ExitStack() as opened:
            if self._is_in_memory:
                assert self._memory is not None
                return _read(self._memory.descriptor, place)
            file = os.open(self._named, READ)
            opened.callback(os.close, file)
            return _read(file, place)

    def buffers(self, places: Sequence[Place]) -> list[Any]:
        """The parts at ``places``, in the order in which they were written: mapped if they are large,
        else copied."""
        end = sum(places[-1]) if places else 0
        # The results of several calls are copied: as maps, a single one would keep the file of all.
        if not self._is_alone or end < MAPPED_FROM or not self._is_in_memory:
            return [self.read(place) for place in places]
        assert self._memory is not None
        for place in places:
            _check(self._memory.descriptor, place)
        whole = self._memory.map(end)
        if whole is None:
            return [self.read(place) for place in places]
        view = memoryview(whole)
        return [view[start : start + size] for start, size in places]

    @property
    def _is_in_memory(self) -> bool:
        memory = self._memory
        return memory is not None and os.fstat(memory.descriptor).st_size > 0


def packed_size(packed: Any) -> int:
    """The number of bytes in an outcome that `chunk._File.packed` returns."""
    return len(packed) if type(packed) is bytes else len(packed[0]) + sum(map(_size, packed[1]))


def _size(place: Place) -> int:
    return place[1]


def unpacked(packed: Any, results: ResultFile) -> Value:
    """The outcome of a call as `chunk._File.packed` has packed it. Raises what reading a pickle raises."""
    if type(packed) is bytes:
        return pickle.loads(packed)
    data, places = packed
    # An empty pickle: it is itself the last part in the file.
    if not data:
        *places, last = places
        data = results.read(last)
    return pickle.loads(data, buffers=results.buffers(places))


def _read(file: int, place: Place) -> bytearray:
    start, size = place
    _check(file, place)
    data = bytearray(size)
    view = memoryview(data)
    with os.fdopen(file, "rb", buffering=0, closefd=False) as reader:
        reader.seek(start)
        while view and (count := reader.readinto(view)):
            view = view[count:]
    if view:
        raise ValueError("its file was cut")
    return data


def _check(file: int, place: Place) -> None:
    facts, (start, size) = os.fstat(file), place
    if not stat.S_ISREG(facts.st_mode) or min(place) < 0 or facts.st_size < start + size:
        raise ValueError("its file is not what the worker wrote")
