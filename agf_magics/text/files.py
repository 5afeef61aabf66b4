"""Opens files for reading, and refuses pipes and devices."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open the regular file ``path`` for reading. A pipe or a device is refused before anything is
    read: a pipe would wait for ever, a device has no end. Raises one of `UNUSABLE`."""
    # O_NONBLOCK: otherwise the opening of a pipe without a writer would wait.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise ValueError("it is a pipe or a device, not a file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: Path) -> bytes:
    """The content of the file ``path``. Raises as `open_file` does."""
    with open_file(path) as file:
        return file.read()
