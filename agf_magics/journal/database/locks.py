"""Tells which processes are alive: each process that journals runs locks its own file.

The system releases the lock when the process ends in any way. Process ids are reused and have no
meaning in another container. The locks are POSIX record locks, not flock, because a forked child
does not hold them. The names of these files are in the journal, which may come from a stranger. So
a name must have the form that `ProcessLock` gives it, and only a plain file of one byte in the
folder of locks is ever opened or removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
from pathlib import Path
from typing import IO

from ...compat.browser import IN_BROWSER

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

NAME = re.compile(r"[0-9]{1,20}-[0-9a-f]{12}")
"""The name of a lock file: a process id and 12 random digits."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_held: set[str] = set()
"""The names of this process's locks. The process could take them again, and closing such a file
would release its lock."""


class ProcessLock:
    """The lock of this process in one folder."""

    def __init__(self, folder: Path) -> None:
        """Create and lock a file in ``folder``. Raises OSError if that is not possible."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Random digits, because process ids repeat in the next container.
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._path = folder / self.name
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
        self._file: IO[bytes] = os.fdopen(descriptor, "r+b")
        # Windows locks bytes, so the file needs one.
        self._file.write(b".")
        self._file.flush()
        _lock(self._file)
        _held.add(self.name)

    def leave(self) -> None:
        self._file.close()
        _held.discard(self.name)
        with contextlib.suppress(OSError):
            self._path.unlink()


def alive(folder: Path, name: str) -> bool:
    """Whether the process with the lock ``name`` is alive. The lock of a dead process is
    removed."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        return False
    # Opening and closing the file of our own lock would release it (POSIX). A forked child has
    # `_held` too, but not the locks: the process id tells it.
    if name in _held and name.startswith(f"{os.getpid()}-"):
        return True
    path = folder / name
    try:
        # Checked before and after it is opened, because opening a device may do something.
        if stat.S_ISLNK(os.lstat(folder).st_mode) or not _is_lock(os.lstat(path)):
            return False
        with os.fdopen(os.open(path, os.O_RDWR | _NO_LINK), "r+b") as file:
            if not _is_lock(os.fstat(file.fileno())):
                return False
            _lock(file)
    except FileNotFoundError:
        return False
    # Another process holds the lock, or it is unknown: then nobody takes the run over.
    except OSError:
        return True
    with contextlib.suppress(OSError):
        path.unlink()
    return False


def _is_lock(facts: os.stat_result) -> bool:
    """Whether the file is a plain file of one byte, as `ProcessLock` creates it."""
    return stat.S_ISREG(facts.st_mode) and facts.st_size == 1


def _lock(file: IO[bytes]) -> None:
    """Lock ``file``. Raises OSError if another process holds the lock."""
    if IN_BROWSER:
        return  # a browser has one process, and JupyterLite's `fcntl` is empty
    if sys.platform == "win32":
        file.seek(0)  # it locks from the position on, which is behind the byte that was written
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
