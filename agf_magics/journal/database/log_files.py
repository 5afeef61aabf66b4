"""The files of SQLite beside a journal, its log and its index; and which file a path leads to now."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

Identity = tuple[int, int]
"""Device and inode."""


def identity(path: Path | str) -> Identity | None:
    """The file at ``path``, or the link itself; None if there is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        # Not `stat`: a link that replaced the file must count as another file.
        facts = os.lstat(path)
        return facts.st_dev, facts.st_ino
    return None


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def index_of(path: Path) -> Path:
    return Path(f"{path}-shm")
