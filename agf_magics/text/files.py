"""Files that are read: only what is a file, and neither a pipe nor a device."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. What is no file is refused before anything is read: a pipe would wait
    for ever, a device has no end. Raises one of `UNUSABLE`."""
    # O_NONBLOCK: to open a pipe without a writer would wait too.
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
    """The content of a file, as `open_file` opens it."""
    with open_file(path) as file:
        return file.read()
