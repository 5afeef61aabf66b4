"""The built-in tools: ``file__read``, ``file__write`` and ``shell`` (decisions A14, P8).

The file tools use the files below the notebook's folder that are not protected (notebook_files.py).
The shell is off until the person turns it on; a definition cannot.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, TypedDict

from ..flow.values import Value, is_json, type_name
from ..text.diagnostics import Diagnostic, StepError, suggest
from . import shell as process
from .decorators import tool
from .notebook_files import (
    OWN_TOOL,
    Found,
    NotThere,
    fold,
    is_protected,
    names,
    opened,
    refuse_runnable,
)
from .registry import Registry

MOST_READ = 10_000_000
"""Bytes of a file that ``file__read`` reads."""

SWITCH = "%config AgfMagics.allow_shell = True"


class Written(TypedDict):
    """The result of ``file__write``. A dry run makes its samples from these types."""

    path: str
    bytes: int


class Ran(TypedDict):
    """The result of ``shell``."""

    stdout: str
    stderr: str
    exit_code: int


def install(
    registry: Registry,
    *,
    folder: Callable[[], Path],
    allow_shell: Callable[[], bool],
    stopped: Callable[[], bool] = lambda: False,
    protected: Callable[[], Collection[Path]] = tuple,
) -> None:
    """Register the built-in tools.

    ``folder``, ``protected``: called for each call, return the notebook's folder and this package's
    own files, which the file tools do not open. ``stopped``: whether the call on this thread was
    cancelled; a running command calls it, because an interrupt reaches only the main thread.
    """

    def read(path: str) -> str:
        """The text of a file below the notebook's folder."""
        return _read(Path(os.path.realpath(folder())), path, protected())

    def write(path: str, content: Any) -> Written:
        """Write text, or any JSON value as JSON, to a file below the notebook's folder."""
        return write_file(Path(os.path.realpath(folder())), path, content, protected())

    def shell(
        command: list[str], timeout: float | None = None, success_codes: Sequence[int] = (0,)
    ) -> Ran:
        """Run a program with its arguments in the notebook's folder (off until
        AgfMagics.allow_shell is True)."""
        if not allow_shell():
            raise StepError(Diagnostic("tool.shell-off", "the shell is off", hint=SWITCH))
        ran = process.run(command, folder(), timeout, success_codes, stopped)
        return Ran(stdout=ran.stdout, stderr=ran.stderr, exit_code=ran.exit_code)

    tool(read, group="file", registry=registry, reuse=False)
    tool(write, group="file", registry=registry, reuse=False)
    tool(shell, registry=registry, reuse=False)
    for name in ("file__read", "file__write", "shell"):
        registry.tools.add(replace(registry.tools[name], kernel_only=True, listed_only=True))


def _read(root: Path, path: str, protected: Collection[Path]) -> str:
    try:
        with opened(root, path, _names(root, path, protected), "read") as file:
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
    if not isinstance(content, str) and not is_json(content):
        message = (
            f"{path!r} cannot be written: the content ({type_name(content)}) is neither "
            f"text nor JSON"
        )
        raise StepError(Diagnostic("tool.file-write", message))
    text = (
        content
        if isinstance(content, str)
        else json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    )
    try:
        written = text.encode("utf-8")
        parts = _names(root, path, protected)
        refuse_runnable(path, parts, root)
        with opened(root, path, parts, "write") as file:
            _refuse_protected(file, path, protected)
            os.ftruncate(file.descriptor, 0)
            with open(file.descriptor, "wb", closefd=False) as out:
                out.write(written)
        return {"path": PurePath(path).as_posix(), "bytes": len(written)}
    except NotThere as error:
        raise StepError(Diagnostic("tool.file-write", f"{path!r} {error}")) from None
    except UnicodeEncodeError:
        why = "the content has lone surrogates, which are not text"
    except OSError as error:
        why = str(error.strerror)
    raise StepError(Diagnostic("tool.file-write", f"{path!r} cannot be written: {why}"))


def _names(root: Path, path: str, protected: Collection[Path]) -> tuple[str, ...]:
    below = [Path(os.path.realpath(file)) for file in protected]
    return names(
        path, [file.relative_to(root).parts for file in below if file.is_relative_to(root)]
    )


def _refuse_protected(file: Found, path: str, protected: Collection[Path]) -> None:
    """Also under another name: a hard link, a folder that is mounted twice."""
    for one in protected:
        with suppress(OSError):
            if os.path.samestat(file.status, os.stat(one)):
                message = f"{path!r} is protected: it belongs to agf-magics"
                raise StepError(Diagnostic("tool.file-path", message, hint=OWN_TOOL))


def _near(place: Path) -> str | None:
    try:
        with os.scandir(place.parent) as entries:
            seen = (entry.name for entry in itertools.islice(entries, 1000))
            return suggest(place.name, [name for name in seen if not is_protected(fold(name))])
    except OSError:
        return None
