"""`ValueFiles`, the folder of large values beside the journal: files named by their SHA-256.

A file is written under a temporary name and renamed when it is complete, so the process may be
killed at any time. The folder may come from a stranger, and a power cut may leave zeros. So the
bytes are read into memory, and their digest is compared before they are used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import shutil
import stat
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, NamedTuple

from .locks import NAME as OWNER

PIECE = 1 << 24
"""The number of bytes that are read or written at a time."""

FREE = 0.1
"""The share of the disk that stays free."""

RATE = 500e6
"""The assumed number of bytes that are stored in a second, before any measurement."""
MEASURED = 50_000_000
"""The number of bytes from which on the time to store a value is measured."""

DIGEST = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(rf"({OWNER.pattern})-[0-9]+\.part")
"""The name of a file that is being written: it begins with the name of its process's lock."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class PartError(Exception):
    """A part is missing or damaged. The message has the reason."""


class NoRoom(OSError):
    """The part would fill the disk."""


class Part(NamedTuple):
    """A file of the folder."""

    digest: str
    size: int


class Freed(NamedTuple):
    """The number and the size of deleted files."""

    files: int = 0
    size: int = 0


class NewPart:
    """A part that is being written."""

    def __init__(
        self, folder: Path, name: str, check_room: Callable[[int], None], digest: str | None = None
    ) -> None:
        """``check_room``: is called with the size of the next bytes. ``digest``: the digest of the
        part; default None: it is known only at the end. Raises OSError."""
        self._folder = folder
        self._path = folder / name
        self._check_room = check_room
        self._file = os.open(self._path, _NEW, 0o600)
        self._digest = digest
        self._size = 0
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> None:
        """Add bytes. Raises OSError."""
        view = memoryview(data)
        self._check_room(view.nbytes)
        # A digest that is known before is compared when the part is read.
        if self._digest is None:
            self._hash.update(view)
        self._size += view.nbytes
        view = view.cast("B") if view.nbytes else view[:0]
        while view.nbytes:
            view = view[os.write(self._file, view[:PIECE]) :]

    @property
    def part(self) -> Part:
        """The name and the size of what was written so far."""
        return Part(self._digest or self._hash.hexdigest(), self._size)

    def keep(self) -> None:
        """Give the part its name. Raises OSError."""
        path = self._folder / self.part.digest
        os.close(self._file)
        self._file = -1
        os.replace(self._path, path)
        # Some network folders lose a rename.
        if os.lstat(path).st_size != self._size:
            raise OSError(f"{path} was not written")

    def drop(self) -> None:
        """Delete the part, unless it has its name."""
        with contextlib.suppress(OSError):
            if self._file >= 0:
                os.close(self._file)
            self._file = -1
            self._path.unlink()


class ValueFiles:
    """The folder of one journal."""

    def __init__(self, folder: Path, owner: str) -> None:
        """``owner``: the name of this process's lock, with which its temporary files begin."""
        self.folder = folder
        self._owner = owner
        self._numbers = itertools.count()
        self._sound: dict[str, tuple[int, int]] = {}
        """The inode and the time of change of the files that this process has written or read."""
        self.rate = RATE
        """The measured number of bytes that are stored in a second."""

    def measure(self, size: int, seconds: float) -> None:
        """Note the time that it took to store a value."""
        if size >= MEASURED:
            self.rate = 0.5 * self.rate + 0.5 * size / max(seconds, 1e-3)

    def create(self, fills: bool = False, digest: str | None = None) -> NewPart:
        """A new part to write. ``fills``: whether it may fill the disk; default False. ``digest``:
        the digest of the part; default None: it is known only at the end. Raises OSError."""
        self._make_folder()
        check = _has_room if fills else self._check_room
        name = f"{self._owner}-{next(self._numbers)}.part"
        return NewPart(self.folder, name, check, digest)

    def add(self, part: Part, data: memoryview, fills: bool = False) -> None:
        """Write a part, unless it exists and is sound. ``fills``: as for `create`. Raises
        OSError."""
        if self.has(part):
            return
        new = self.create(fills, part.digest)
        try:
            new.write(data)
            self.keep(new)
        except BaseException:
            new.drop()
            raise

    def keep(self, new: NewPart) -> None:
        """Give a part its name. Raises OSError."""
        new.keep()
        self._note(new.part.digest, os.lstat(self.folder / new.part.digest))

    def _check_room(self, size: int) -> None:
        """Raise NoRoom if ``size`` more bytes would take the disk's last share."""
        disk = shutil.disk_usage(self.folder)
        if disk.free - size < disk.total * FREE:
            raise NoRoom(errno.ENOSPC, f"less than {FREE:.0%} of the disk would stay free")

    def has(self, part: Part) -> bool:
        """Whether the part exists. A file that this process has not read before is checked, because
        a damaged file must be written again."""
        try:
            facts = os.lstat(self.folder / part.digest)
        except OSError:
            return False
        if self._sound.get(part.digest) == _identity(facts):
            return True
        try:
            self._read(part)
        except PartError:
            return False
        return True

    def read(self, part: Part) -> bytearray:
        """The bytes of a part. Raises PartError if the part is missing or damaged."""
        # Read, not mapped, because another process may cut or change the file later.
        return self._read(part, keeps=True)

    def clean(self, named: Container[str], lives: Callable[[str], bool]) -> Freed:
        """Delete the parts whose digests are not in ``named``, and the temporary files of dead
        processes. ``lives``: whether the process with this lock lives. Raises OSError."""
        files = size = 0
        for name, facts in self._entries():
            temporary = _TEMPORARY.fullmatch(name)
            if temporary is not None:
                is_unused = not lives(temporary[1])
            else:
                is_unused = DIGEST.fullmatch(name) is not None and name not in named
            if not is_unused:
                continue
            with contextlib.suppress(OSError):  # on Windows, somebody may be reading the file
                (self.folder / name).unlink()
                files += 1
                size += facts.st_size
        return Freed(files, size)

    @property
    def size(self) -> int:
        """The bytes of all files in the folder."""
        return sum(facts.st_size for _, facts in self._entries())

    def _entries(self) -> list[tuple[str, os.stat_result]]:
        entries = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._refuse_link()
            with os.scandir(self.folder) as inside:
                for entry in inside:
                    with contextlib.suppress(FileNotFoundError):
                        facts = entry.stat(follow_symlinks=False)
                        if not stat.S_ISDIR(facts.st_mode):
                            entries.append((entry.name, facts))
        return entries

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._refuse_link()

    def _refuse_link(self) -> None:
        if stat.S_ISLNK(os.lstat(self.folder).st_mode):
            raise NotADirectoryError(f"{self.folder} is a symbolic link")

    def _read(self, part: Part, keeps: bool = False) -> bytearray:
        """Read and check a part. Returns its bytes if ``keeps`` is true. Raises PartError."""
        if DIGEST.fullmatch(part.digest) is None:
            raise PartError("the name of a part of it is damaged")
        try:
            self._refuse_link()
            file = os.open(self.folder / part.digest, _READ)
        except OSError as error:
            raise PartError(f"a part of it is not there: {error.strerror or error}") from None
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != part.size:
                raise PartError("a part of it is not what was written")
            # Allocated only now: a missing file, or one of another size, takes no memory.
            data = bytearray(part.size if keeps else 0)
            if _digest(file, part.size, data if keeps else None) != part.digest:
                raise PartError("a part of it is not what was written")
        except OSError as error:
            raise PartError(f"a part of it cannot be read: {error.strerror}") from None
        finally:
            os.close(file)
        self._note(part.digest, facts)
        return data

    def _note(self, digest: str, facts: os.stat_result) -> None:
        """Note that a file is sound, as long as it does not change."""
        self._sound[digest] = _identity(facts)


def _has_room(size: int) -> None:
    """Do nothing: writing raises when the disk is full."""


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_ino, facts.st_mtime_ns


def _digest(file: int, size: int, into: bytearray | None) -> str:
    """The digest of the first ``size`` bytes of an open file. ``into``: gets the bytes; None: they
    are not kept."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(PIECE, size)) if into is None else into)
    read_so_far = 0
    with os.fdopen(file, "rb", buffering=0, closefd=False) as reader:
        while read_so_far < size:
            start = 0 if into is None else read_so_far
            count = reader.readinto(buffer[start : start + min(PIECE, size - read_so_far)])
            if not count:
                break
            digest.update(buffer[start : start + count])
            read_so_far += count
    return digest.hexdigest()
