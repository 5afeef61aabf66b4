"""A file that is written as a whole: a reader finds the one before or the new one, never half of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[TextIO]:
    """The text that takes the place of the file ``path`` when the block ends without an error. Raises
    OSError."""
    part = path.with_name(f"{path.name}.part")
    try:
        # Lone surrogates are written as in JSON.
        with part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            yield file
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
