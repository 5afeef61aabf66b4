"""The tools that are there from the start: ``file__read``, ``file__write``, ``shell`` (decisions A14, P8).

Files are those below the notebook's folder and no others: a path is relative, has no ``..`` and goes through no
symbolic link. The shell is off until the person in the notebook turns it on; no definition can.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, TypedDict

from ..flow.values import Value, is_json, type_name
from ..text.diagnostics import Diagnostic, StepError, suggest
from . import shell as process
from .registry import Registry
from .tools import tool

SWITCH = "%config AgfMagics.allow_shell = True"


class Written(TypedDict):
    """What ``file__write`` gives; said so that a dry run has an answer with these keys."""

    path: str
    bytes: int


class Ran(TypedDict):
    """What ``shell`` gives."""

    stdout: str
    stderr: str
    exit_code: int


def install(
    registry: Registry,
    *,
    folder: Callable[[], Path],
    allow_shell: Callable[[], bool],
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Register the built-in tools.

    ``folder``: the notebook's, asked at each call. ``stopped``: whether the call on this thread has been cancelled; a
    running command asks, because no interrupt reaches a thread that is not the main one.
    """

    def read(path: str) -> str:
        """The text of a file below the notebook's folder."""
        return _read(_below(folder(), path), path)

    def write(path: str, content: Any) -> Written:
        """Write text, or any JSON value as JSON, to a file below the notebook's folder."""
        return _write(_below(folder(), path), path, content)

    def shell(command: list[str], timeout: float | None = None, success_codes: Sequence[int] = (0,)) -> Ran:
        """Run a program with its arguments in the notebook's folder (off until AgfMagics.allow_shell is True)."""
        if not allow_shell():
            raise StepError(Diagnostic("tool.shell-off", "the shell is off", hint=SWITCH))
        ran = process.run(command, folder(), timeout, success_codes, stopped)
        return Ran(stdout=ran.stdout, stderr=ran.stderr, exit_code=ran.exit_code)

    tool(read, group="file", registry=registry, reuse=False)
    tool(write, group="file", registry=registry, reuse=False)
    tool(shell, registry=registry, reuse=False)


# os.path asks and answers; a Path raises for a name that is too long.


def _below(folder: Path, path: str) -> Path:
    root = Path(os.path.realpath(folder))
    asked = PurePath(path)
    hint = "a path is relative to the notebook's folder and may not leave it"
    if not path.strip() or any(c < " " or "\ud800" <= c <= "\udfff" for c in path):
        raise StepError(Diagnostic("tool.file-path", f"{path!r} is no path", hint=hint))
    if asked.drive or asked.root or ".." in asked.parts:
        raise StepError(Diagnostic("tool.file-path", f"{path!r} leads out of the notebook's folder", hint=hint))
    place = root / asked
    if os.path.islink(place) or Path(os.path.realpath(place)) != place:  # a link to itself is its own real path
        raise StepError(Diagnostic("tool.file-path", f"{path!r} goes through a symbolic link", hint=hint))
    return place


def _read(place: Path, path: str) -> str:
    if not os.path.isfile(place):
        there = os.path.exists(place)
        what = "is a folder" if os.path.isdir(place) else "is not a file" if there else "does not exist"
        raise StepError(Diagnostic("tool.file-read", f"{path!r} {what}", hint=None if there else _near(place)))
    try:
        with open(place, "rb", opener=_opener) as file:
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"is not UTF-8 text (byte {error.start})"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    raise StepError(Diagnostic("tool.file-read", f"{path!r} {why}"))


def _write(place: Path, path: str, content: Value) -> Written:
    if not isinstance(content, str) and not is_json(content):
        message = f"{path!r} cannot be written: the content is {type_name(content)} and not text or JSON throughout"
        raise StepError(Diagnostic("tool.file-write", message))
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    try:
        written = text.encode("utf-8")
        if os.path.exists(place) and not os.path.isfile(place):
            raise StepError(Diagnostic("tool.file-write", f"{path!r} is not a file"))
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "wb", opener=_opener) as file:
            file.write(written)
        return {"path": PurePath(path).as_posix(), "bytes": len(written)}
    except UnicodeEncodeError:
        why = "the content has characters that are no text (lone surrogates)"
    except OSError as error:
        why = str(error.strerror)
    raise StepError(Diagnostic("tool.file-write", f"{path!r} cannot be written: {why}"))


def _opener(place: str, flags: int) -> int:
    # Not through a link that somebody puts there between the check and now.
    return os.open(place, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _near(place: Path) -> str | None:
    try:
        with os.scandir(place.parent) as entries:
            return suggest(place.name, [entry.name for entry in itertools.islice(entries, 1000)])
    except OSError:
        return None
