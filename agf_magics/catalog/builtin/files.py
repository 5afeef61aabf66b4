"""The built-in tools of files: ``file__read`` and ``file__write`` (decisions A14, D3).

The tools open files below the notebook's folder, except protected files (notebook_files.py).
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TypedDict

from ...text.diagnostics import Diagnostic, StepError
from ...text.file_names import fold, is_protected
from ...text.suggestions import suggest
from ...values.extent import TooDeep, dump_bounded
from ...values.value import Value, is_json, type_name
from .notebook_files import OWN_TOOL, NotThere, OpenFile, names, open_below, refuse_runnable

MOST_WRITTEN = 100_000_000
"""The largest number of characters of a value that is written as JSON. The value may be much
smaller in memory."""
MOST_READ = 10_000_000
"""The largest number of bytes of a file that ``file__read`` reads."""


class Written(TypedDict):
    """The result of ``file__write``. A dry run makes its samples from these types."""

    path: str
    bytes: int


def read_file(root: Path, path: str, protected: Collection[Path]) -> str:
    try:
        with open_below(root, path, _names(root, path, protected), "read") as file:
            _refuse_protected(file, path, protected)
            if file.status.st_size > MOST_READ:
                raise NotThere(f"has more than {MOST_READ // 10**6} MB")
            with open(file.descriptor, "rb", closefd=False) as content:
                return content.read(MOST_READ).decode("utf-8-sig")
    except NotThere as error:
        near = _near(root / path) if str(error) == "does not exist" else None
        raise StepError(Diagnostic("tool.file-read", f"{path!r} {error}", hint=near)) from None
    except UnicodeDecodeError as error:
        why = f"is not UTF-8 text (byte {error.start})"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    raise StepError(Diagnostic("tool.file-read", f"{path!r} {why}"))


def write_file(root: Path, path: str, content: Value, protected: Collection[Path]) -> Written:
    """Write text, or any other JSON value as JSON, to a file below ``root``. Raises StepError
    ``tool.file-…``."""
    if not isinstance(content, str):
        if not is_json(content):
            message = (
                f"{path!r} cannot be written: the content ({type_name(content)}) is neither "
                f"text nor JSON"
            )
            raise StepError(Diagnostic("tool.file-write", message))
        try:
            content = dump_bounded(content, MOST_WRITTEN, ensure_ascii=False, indent=2) + "\n"
        except TooDeep as error:
            message = f"{path!r} cannot be written: {error}"
            raise StepError(Diagnostic("tool.file-write", message)) from None
    try:
        written = content.encode("utf-8")
        parts = _names(root, path, protected)
        refuse_runnable(path, parts, root)
        with open_below(root, path, parts, "write") as file:
            _refuse_protected(file, path, protected)
            _make_room(file, len(written))
            with open(file.descriptor, "wb", closefd=False) as out:
                out.write(written)
            os.ftruncate(file.descriptor, len(written))
        return {"path": PurePath(path).as_posix(), "bytes": len(written)}
    except NotThere as error:
        raise StepError(Diagnostic("tool.file-write", f"{path!r} {error}")) from None
    except UnicodeEncodeError:
        why = "the content has lone surrogates, which are not text"
    except OSError as error:
        why = str(error.strerror)
    raise StepError(Diagnostic("tool.file-write", f"{path!r} cannot be written: {why}"))


def _make_room(file: OpenFile, size: int) -> None:
    """Let ``file`` have room for ``size`` bytes before the first one is overwritten: if the disk is
    full, the file keeps its content. Raises OSError."""
    before = file.status.st_size
    if size <= before:
        return
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.descriptor, 0, size)
        else:
            os.ftruncate(file.descriptor, size)
    except OSError as error:
        os.ftruncate(file.descriptor, before)
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not every kind of disk makes room
            raise


def _names(root: Path, path: str, protected: Collection[Path]) -> tuple[str, ...]:
    below = [Path(os.path.realpath(file)) for file in protected]
    return names(
        path, [file.relative_to(root).parts for file in below if file.is_relative_to(root)]
    )


def _refuse_protected(file: OpenFile, path: str, protected: Collection[Path]) -> None:
    """Refuse a protected file, even under another name: by a hard link or a folder that is mounted
    twice."""
    for protected_file in protected:
        with suppress(OSError):
            if os.path.samestat(file.status, os.stat(protected_file)):
                message = f"{path!r} is protected: it belongs to agf-magics"
                raise StepError(Diagnostic("tool.file-path", message, hint=OWN_TOOL))


def _near(place: Path) -> str | None:
    with suppress(OSError), os.scandir(place.parent) as entries:
        seen = (entry.name for entry in itertools.islice(entries, 1000))
        return suggest(place.name, [name for name in seen if not is_protected(fold(name))])
    return None
