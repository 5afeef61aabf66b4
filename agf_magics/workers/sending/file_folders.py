"""Where the files of large arguments and results are: folders that belong to this process alone.

They are in memory (``/dev/shm``) where there is room, as joblib does it: a file on a disk costs three
times the CPU. A folder is removed when its process ends. The folder of a killed process is removed when
the next process of this user needs a folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

from ...journal.database.locks import NAME, ProcessLock, alive

ROOM = 2_000_000_000
"""Bytes that must be free in the memory file system, as joblib asks: a container often has only 64 MB."""
IN_MEMORY = "/dev/shm"
"""The folder of Linux whose files are in memory."""
PREFIX, FILES = "agf-workers-", "files"
"""The beginning of a folder's name, and the name of the folder in it that has the files. Beside it is the
lock of the process."""


class FileFolders:
    """The folders of one backend."""

    def __init__(self) -> None:
        self._folders: dict[str, tuple[Path, ProcessLock]] = {}
        """The folder in each file system, with the lock of this process in it."""
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def folder(self) -> str:
        """A folder that only this user can read, in a file system with room."""
        base = IN_MEMORY if _has_room(IN_MEMORY) else tempfile.gettempdir()
        with self._lock:
            if base not in self._folders:
                remove_dead(base)
                self._folders[base] = _make(base)
            return str(self._folders[base][0] / FILES)

    def close(self) -> None:
        """Remove the folders, unless this process was forked from the process that they belong to."""
        folders, self._folders = self._folders, {}
        for path, lock in folders.values() if self._pid == os.getpid() else ():
            shutil.rmtree(path / FILES, ignore_errors=True)
            lock.leave()
            shutil.rmtree(path, ignore_errors=True)


def _make(base: str) -> tuple[Path, ProcessLock]:
    """Create a folder in the file system ``base``."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    lock = ProcessLock(path)
    (path / FILES).mkdir(mode=0o700)
    return path, lock


def _user(owner: int) -> int:
    """The number of this user. Windows has none: there ``owner`` is returned, as a temporary folder has
    only one user."""
    return os.getuid() if hasattr(os, "getuid") else owner


def _has_room(base: str) -> bool:
    try:
        free = os.statvfs(base)
    except (OSError, AttributeError):
        return False
    return free.f_bavail * free.f_frsize >= ROOM and os.access(base, os.W_OK | os.X_OK)


def remove_dead(base: str) -> None:
    """Remove the folders of processes of this user that have ended without removing them."""
    for path in Path(base).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = os.lstat(path)
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != _user(facts.st_uid):
                continue
            # A folder without a lock is just being made.
            locks = [name for name in os.listdir(path) if NAME.fullmatch(name)]
            if locks and not any(alive(path, name) for name in locks):
                shutil.rmtree(path, ignore_errors=True)
