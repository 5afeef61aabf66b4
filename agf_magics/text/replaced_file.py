"""Replaces a file as a whole: a reader finds the old file or the new one, never half a file.

Whatever writes a file for a person writes it here, so that one error says why it could not:
``file.not-written``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TextIO

from .diagnostics import DefinitionError, refused
from .shorten import shorten
from .source import UNUSABLE, path_error_reason

NOT_WRITTEN = "file.not-written"

_NO_RIGHTS = "choose a folder in which you may write"
_NO_ROOM = "make room on the disk, or choose a folder on another one"
_HINTS = {
    errno.EACCES: _NO_RIGHTS,
    errno.EPERM: _NO_RIGHTS,
    errno.EROFS: _NO_RIGHTS,
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
}
"""What helps a person when the system refuses to write, by the number of its error."""


@contextlib.contextmanager
def replaced_file(path: Path, *, with_folders: bool = False) -> Iterator[TextIO]:
    """A stream for the new text of the file ``path``; its ``buffer`` takes bytes. The file is
    replaced when the block ends without an error; a link stays, and what is no file, such as a pipe,
    gets the text at once. ``with_folders``: make the folders that are not there; default False.
    Raises DefinitionError ``file.not-written``."""
    if not with_folders:
        check_writable(path)
    try:
        if with_folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        target = Path(os.path.realpath(path))
        is_other = target.exists() and not target.is_file()
        # "x", and a name that nobody has chosen: a file NAME.part may be a person's own.
        part = target if is_other else target.with_name(f".{token_hex(8)}.part")
        # A lone surrogate is written as its JSON escape.
        file = part.open(
            "w" if is_other else "x", encoding="utf-8", errors="backslashreplace", newline="\n"
        )
    except UNUSABLE as error:
        raise not_written(path, error) from None
    try:
        with file:
            yield file
        if is_other:
            return
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    except OSError as error:
        raise not_written(path, error) from None
    finally:
        if not is_other:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise DefinitionError ``file.not-written`` if no file can be written at ``path``, as far as it
    shows before the attempt."""
    try:
        if path.is_dir():
            raise _refused(path, "it is a folder", "name a file in the folder")
        if not path.parent.is_dir():
            hint = f"make the folder first, or write {path.name}"
            raise _refused(path, f"there is no folder {shorten(str(path.parent))!r}", hint)
    except UNUSABLE as error:
        raise not_written(path, error) from None


def refuse_same_file(path: Path, table: Path) -> None:
    """Raise DefinitionError ``file.not-written`` if ``path`` is the file from which a run reads its
    ``table``: the run could not be resumed, and the person's own data would be gone."""
    with contextlib.suppress(OSError):  # there is no such file yet
        if path.samefile(table):
            raise _refused(path, "the run reads its rows from it", "write to another file")


def not_written(path: Path, error: Exception) -> DefinitionError:
    """The error for a file that cannot be written because of ``error``, one of `UNUSABLE`."""
    number = error.errno if isinstance(error, OSError) else None
    return _refused(path, path_error_reason(error), _HINTS.get(number) if number else None)


def _refused(path: Path, reason: str, hint: str | None) -> DefinitionError:
    message = f"{shorten(str(path))!r} cannot be written: {reason}"
    return refused(NOT_WRITTEN, message, hint)
