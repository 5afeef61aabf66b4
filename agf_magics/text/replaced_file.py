"""Replaces a file as a whole: a reader finds the old file or the new one, never half a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[TextIO]:
    """A stream for the new text of the file ``path``. The file is replaced when the block ends
    without an error. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    try:
        # A lone surrogate is written as its JSON escape.
        with part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            yield file
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
