"""Files in the user's cache folder, which only this user can read."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

MOST_STORED = 64 * 2**20
"""The most bytes of a stored file that is read. The machine code of graphviz has 3 MB."""


def cache_folder() -> Path:
    """The folder of this user's stored machine code."""
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            / "agf-magics"
            / "cache"
        )
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "agf-magics"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agf-magics"


def read_cached(file: Path) -> bytes:
    """The content of a regular file of at most `MOST_STORED` bytes; of anything else no bytes: a
    pipe, for instance, would let the reader wait."""
    status = file.stat()
    return (
        file.read_bytes() if stat.S_ISREG(status.st_mode) and status.st_size <= MOST_STORED else b""
    )


def write_cached(file: Path, data: bytes) -> None:
    """Write a file that only this user can read, all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, temporary = tempfile.mkstemp(dir=file.parent)  # mode 0600
    try:
        with os.fdopen(number, "wb") as out:
            out.write(data)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
