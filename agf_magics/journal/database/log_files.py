"""The paths of SQLite's log and index beside a journal, and the identity of the file at a path."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

Identity = tuple[int, int]
"""The device and the inode of a file."""


def identity(path: Path | str) -> Identity | None:
    """The identity of the file or the link at ``path``; None if there is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        # Not `stat`, because a link that replaced the file must count as another file.
        facts = os.lstat(path)
        return facts.st_dev, facts.st_ino
    return None


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def index_of(path: Path) -> Path:
    return Path(f"{path}-shm")
