"""Files in memory that nobody can change any more, and what this process has mapped of them.

The system refuses to cut or to write a sealed file, whoever has it open. What this process writes
into its map of one becomes a page of its own, and the system tells which pages are: a part of a map
that has none is still as in the file. Such a file is in no folder, and goes with the last process
that has it. Only Linux has them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import weakref
from functools import cache, partial
from typing import NamedTuple

from ...compat.imports import module_if_loaded

_FEWEST, _MOST = 16, 1_000
"""Files at the same time; between them, a sixteenth of the descriptors that this process may have."""

_CLOSED_BY_EXEC, _SEALABLE = 1, 2
_ADD_SEALS = 1033
_NO_OTHER_SEAL, _NO_CUT, _NO_GROWTH, _NO_WRITE = 1, 2, 4, 8
"""Of Linux, by their numbers: a Python that was built for an older one has no names for them."""

_PRESENT, _SWAPPED, _OF_FILE = 0x80, 0x40, 0x20
"""Bits of the last byte of an entry of ``/proc/self/pagemap``."""


class MemoryFile:
    """A file that has no name."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        _files.add(self)

    @property
    def path(self) -> str:
        """Where another process of this user opens it, as long as this process has it."""
        # The number is the same in a process that was forked from this one.
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def map(self, size: int) -> mmap.mmap | None:
        """Cut what is behind ``size`` bytes, let nobody change the file any more, and map it. None:
        it is shorter, or another process can still write it."""
        whole: mmap.mmap | None = None
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):
                # First of all: a file that was cut meanwhile must not get zeros for what is lost.
                fcntl.fcntl(self.descriptor, _ADD_SEALS, _NO_GROWTH)
                os.ftruncate(self.descriptor, size)
                fcntl.fcntl(self.descriptor, _ADD_SEALS, _NO_CUT | _NO_WRITE | _NO_OTHER_SEAL)
                whole = mmap.mmap(self.descriptor, size, access=mmap.ACCESS_COPY)
        if whole is not None:
            forget = partial(_forget, id(whole))
            _maps[id(whole)] = _Map(weakref.ref(whole, forget), self)
        return whole


class _Map(NamedTuple):
    look: weakref.ref[mmap.mmap]
    """Returns it, as long as a value has it."""
    file: MemoryFile


class Part(NamedTuple):
    """A part of a sealed file."""

    path: str
    size: int
    """Of the file."""
    start: int
    length: int
    whole: mmap.mmap
    """As long as somebody has it, the file is there."""


_files = weakref.WeakSet[MemoryFile]()
_maps: dict[int, _Map] = {}


def _forget(number: int, _: object) -> None:
    _maps.pop(number, None)


def create() -> MemoryFile | None:
    """An empty file; None: the system has no such files, or this process has too many."""
    if sys.platform != "linux" or len(_files) >= _most() or not sees_changes():
        return None
    try:
        return MemoryFile(_new())
    except OSError:
        return None


def find(view: memoryview) -> Part | None:
    """The part of a sealed file that has the bytes of ``view``, which is in a map of it and was not
    written; None: there is none."""
    numpy = module_if_loaded("numpy")
    if numpy is None or not view.nbytes:
        return None
    place = int(numpy.frombuffer(view, "u1").__array_interface__["data"][0])
    for look, file in list(_maps.values()):
        whole = look()
        if whole is None:
            continue
        start = place - _address_of_map(whole)
        if start >= 0 and start + view.nbytes <= len(whole):
            if not _is_unwritten(place, view.nbytes):
                return None
            return Part(file.path, len(whole), start, view.nbytes, whole)
    return None


def _address_of_map(whole: mmap.mmap) -> int:
    import ctypes  # only where there are such files

    return ctypes.addressof(ctypes.c_char.from_buffer(whole))


def _is_unwritten(place: int, size: int) -> bool:
    """Whether all pages of a private map that have these bytes are still the pages of its file."""
    first, last = place // mmap.PAGESIZE, (place + size - 1) // mmap.PAGESIZE
    count = last - first + 1
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pages:
            pages.seek(first * 8)
            states = pages.read(count * 8)[7::8]
    except OSError:
        return False
    # Of a page that was never read, nothing is known here: it is in the file alone.
    return len(states) == count and all(
        state & _OF_FILE or not state & (_PRESENT | _SWAPPED) for state in set(states)
    )


def _new() -> int:
    """The descriptor of a new file. Raises OSError."""
    make = getattr(os, "memfd_create", None)
    if make is not None:
        return int(make("agf-workers", _CLOSED_BY_EXEC | _SEALABLE))
    import ctypes

    make = getattr(ctypes.CDLL(None), "memfd_create", None)
    descriptor = make(b"agf-workers", _CLOSED_BY_EXEC | _SEALABLE) if make is not None else -1
    if descriptor < 0:
        raise OSError("this system has no files in memory")
    return int(descriptor)


def _most() -> int:
    if sys.platform == "linux":
        import resource

        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return max(_FEWEST, min(_MOST, allowed // 16))
    return 0


@cache
def sees_changes() -> bool:
    """Whether this system tells which pages of a map were written: one that only looks like Linux may
    not."""
    page = mmap.PAGESIZE
    try:
        tried = MemoryFile(_new())
    except OSError:
        return False
    os.truncate(tried.descriptor, 3 * page)
    whole = tried.map(3 * page)
    if whole is None:
        return False
    place = _address_of_map(whole)
    whole[page] = whole[0] + 1
    found = [_is_unwritten(place + number * page, page) for number in range(3)]
    return found == [True, False, True]
