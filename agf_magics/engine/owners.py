"""Who is alive: a process that keeps runs holds a lock on a file of its own, and loses it however it dies.

Process ids are reused and mean nothing in another container; a lock is given back by the operating system. POSIX record
locks, not flock: a child that was forked does not hold them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Owner:
    """This process, as one folder knows it."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError where no file can be made."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._path = folder / self.name
        self._file: IO[bytes] = self._path.open("w+b")
        self._file.write(b".")
        self._file.flush()
        _lock(self._file)

    def leave(self) -> None:
        """Say that this process keeps no runs any more."""
        self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink()


def alive(folder: Path, name: str) -> bool:
    """Whether the process of that name lives; never ask for one's own: looking would give the lock back."""
    path = folder / name
    try:
        with path.open("r+b") as file:
            _lock(file)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with contextlib.suppress(OSError):
        path.unlink()
    return False


def _lock(file: IO[bytes]) -> None:
    """Raises OSError when somebody else holds it."""
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
