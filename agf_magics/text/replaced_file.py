"""Replaces a file as a whole: a reader finds the old file or the new one, never half a file."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TextIO


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[TextIO]:
    """A stream for the new text of the file ``path``. The file is replaced when the block ends
    without an error; a link stays, and what is no file, such as a pipe, gets the text at once. Raises
    OSError."""
    target = Path(os.path.realpath(path))
    is_other = target.exists() and not target.is_file()
    # "x", and a name that nobody has chosen: a file NAME.part may be a person's own.
    part = target if is_other else target.with_name(f".{token_hex(8)}.part")
    try:
        # A lone surrogate is written as its JSON escape.
        with part.open(
            "w" if is_other else "x", encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as file:
            yield file
        if is_other:
            return
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    except OSError as error:
        if error.filename == str(part):  # a name that the person has not written
            error.filename = str(path)
        raise
    finally:
        if not is_other:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
