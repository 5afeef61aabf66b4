"""Files in memory that nobody can change any more, and the maps of them in this process.

The system refuses to cut or to write a sealed file, whoever has it open. If this process writes into its
private map of such a file, the page becomes a copy, and the system tells which pages are copies: a part
of a map without copies is still as in the file. A sealed file is in no folder, and disappears with the
last process that has it open. Only Linux has such files.
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
"""Bounds for the number of files at the same time, which is a sixteenth of the descriptors that this
process may have."""

_CLOSED_BY_EXEC, _SEALABLE = 1, 2
_ADD_SEALS = 1033
_NO_OTHER_SEAL, _NO_CUT, _NO_GROWTH, _NO_WRITE = 1, 2, 4, 8
"""Flags, a command and seals of Linux, by their numbers: a Python that was built on an older Linux has no
names for them."""

_PRESENT, _SWAPPED, _OF_FILE = 0x80, 0x40, 0x20
"""Bits of the last byte of an entry of ``/proc/self/pagemap``."""


class MemoryFile:
    """A file in memory, which has no name in any folder."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        _files.add(self)

    @property
    def path(self) -> str:
        """The path by which another process of this user can open the file, as long as this process has it
        open."""
        # A process that was forked from this one has the same descriptor.
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def map(self, size: int) -> mmap.mmap | None:
        """Cut the file to ``size`` bytes, let nobody change it any more, and map it. None if the file is
        shorter, or if another process can still write it."""
        whole: mmap.mmap | None = None
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):
                # Growth is forbidden first: a file that was cut must not get zeros for the lost part.
                fcntl.fcntl(self.descriptor, _ADD_SEALS, _NO_GROWTH)
                os.ftruncate(self.descriptor, size)
                fcntl.fcntl(self.descriptor, _ADD_SEALS, _NO_CUT | _NO_WRITE | _NO_OTHER_SEAL)
                whole = mmap.mmap(self.descriptor, size, access=mmap.ACCESS_COPY)
        if whole is not None:
            forget = partial(_forget, id(whole))
            _maps[id(whole)] = _Map(weakref.ref(whole, forget), self)
        return whole


class _Map(NamedTuple):
    """A map of a sealed file."""

    look: weakref.ref[mmap.mmap]
    """Returns the map, as long as a value has it."""
    file: MemoryFile


class Part(NamedTuple):
    """A part of a sealed file."""

    path: str
    size: int
    """The bytes of the file."""
    start: int
    """The offset of the part in the file."""
    length: int
    """The bytes of the part."""
    whole: mmap.mmap
    """The map of the file: as long as somebody has the map, the file exists."""


_files = weakref.WeakSet[MemoryFile]()
"""The files that this process has open."""
_maps: dict[int, _Map] = {}
"""The maps of sealed files that values have, by the id of the map."""


def _forget(number: int, _: object) -> None:
    _maps.pop(number, None)


def create() -> MemoryFile | None:
    """An empty file; None if the system has no such files, or if this process has too many."""
    if sys.platform != "linux" or len(_files) >= _most() or not sees_changes():
        return None
    try:
        return MemoryFile(_new())
    except OSError:
        return None


def find(view: memoryview) -> Part | None:
    """The part of a sealed file that has the bytes of ``view``. None if ``view`` is not in the map of a sealed
    file, or if this process has written to it."""
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
    import ctypes  # imported here: only Linux has such files

    return ctypes.addressof(ctypes.c_char.from_buffer(whole))


def _is_unwritten(place: int, size: int) -> bool:
    """Whether all pages of a private map with these bytes are still pages of the file, not copies."""
    first, last = place // mmap.PAGESIZE, (place + size - 1) // mmap.PAGESIZE
    count = last - first + 1
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pages:
            pages.seek(first * 8)
            states = pages.read(count * 8)[7::8]
    except OSError:
        return False
    # A page that was never read is neither present nor swapped: only the file has it.
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
    """Whether this system really tells which pages of a map were written: a system that only looks like
    Linux may not."""
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
    are_unwritten = [_is_unwritten(place + number * page, page) for number in range(3)]
    return are_unwritten == [True, False, True]
