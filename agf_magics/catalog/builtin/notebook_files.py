"""Opens the files of the notebook's folder that a definition or a model may use (decision D3).

A path is relative, has no ``..`` and no symbolic link. Protected files are never opened: dot-files,
files that run code or configure programs, and the files of this package (`text/file_names`). A path
is opened folder by folder, each relative to its parent (``dir_fd``), so that nobody can insert a
link between the check and the use. Windows has no such calls: there each name is checked before the
file is opened.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import unicodedata
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from ...text.diagnostics import Diagnostic, StepError
from ...text.file_names import fold, fold_whole, is_protected


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRITTEN = _words("""
    txt text md markdown rst adoc org tex bib log csv tsv psv json jsonl ndjson geojson yaml
    yml xml html htm xhtml css svg sql srt vtt ics vcf eml diff patch po pot gv mmd puml drawio
    c h
""")
"""The suffixes of files that may be written: texts and data (decision D165). A list of suffixes
that run code could never be complete."""

CONFIGURES = _words("""
    package.json package-lock.json composer.json deno.json
    requirements.txt constraints.txt cmakelists.txt environment.yml environment.yaml apt.txt
    runtime.txt docker-compose.yml docker-compose.yaml compose.yml compose.yaml mkdocs.yml
    taskfile.yml taskfile.yaml action.yml action.yaml pnpm-workspace.yaml pnpm-lock.yaml
    pom.xml build.xml readthedocs.yml readthedocs.yaml azure-pipelines.yml cloudbuild.yaml
    serverless.yml entry_points.txt top_level.txt direct_url.json pyvenv.cfg bsdmakefile
    dockerfile containerfile jenkinsfile rakefile justfile vagrantfile procfile snakefile
    gemfile brewfile podfile guardfile sconstruct sconscript wscript tiltfile earthfile build
    workspace postbuild start configure gradlew mvnw crontab dagfile
""")
"""Files with an allowed suffix, or none, that a program in their folder runs or reads as
configuration."""

FOLDERS = _words("__pycache__ node_modules site-packages")
"""Folders whose files are loaded as code."""
FOLDER_SUFFIXES = _words("app workflow scptd framework pkg bundle dist-info egg-info egg")
"""The suffixes of folders from which a system or Python runs something."""

RUNNABLE = _words("py pyc pyd pyi pyo pyw pyx so dylib dll pth sh bat cmd exe js")
"""Suffixes that a folder must not have, because it could be taken for a module or a program."""

MAX_NAME = 255
MAX_PATH = 4_096
"""The longest name and the longest path, in bytes."""

ANCHORED = (
    os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
)
"""Whether this system can open a file relative to an open folder."""

UNUSABLE = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories that no path may have: control characters, lone surrogates, line ends."""

HINT = "a path is relative to the notebook's folder and may not leave it"
OWN_TOOL = "definitions cannot use it; your own tool can"


class OpenFile(NamedTuple):
    """An open file."""

    descriptor: int
    status: os.stat_result
    """Its size, its kind and its rights."""


class NotThere(Exception):
    """A file cannot be opened. The message is the reason: ``does not exist``."""


def names(path: str, protected: Collection[tuple[str, ...]] = ()) -> tuple[str, ...]:
    """The parts of ``path``. Raises StepError ``tool.file-path`` for a path that cannot be used.

    ``protected``: further protected files and folders, relative to the notebook's folder.
    """
    written_path = PurePath(path)
    if not path.strip() or any(unicodedata.category(letter) in UNUSABLE for letter in path):
        raise _path_error(f"{path!r} is not a path", HINT)
    if written_path.drive or written_path.root or ".." in written_path.parts:
        raise _path_error(f"{path!r} is outside of the notebook's folder", HINT)
    if any("\\" in name for name in written_path.parts):
        raise _path_error(f"{path!r} has a backslash", "write / between folders")
    longest_name = max((len(os.fsencode(name)) for name in written_path.parts), default=0)
    if len(os.fsencode(path)) > MAX_PATH or longest_name > MAX_NAME:
        shown = f"{path[:40]}…"
        raise _path_error(
            f"{shown!r} is too long", f"a name has at most {MAX_NAME} bytes, a path {MAX_PATH:,}"
        )
    folded = tuple(map(fold, written_path.parts))
    for name, as_written in zip(folded, written_path.parts, strict=True):
        if is_protected(name):
            raise _path_error(f"{path!r} is protected: {as_written!r}", OWN_TOOL)
    for protected_parts in protected:
        if folded[: len(protected_parts)] == tuple(map(fold, protected_parts)):
            raise _path_error(f"{path!r} is protected: it belongs to agf-magics", OWN_TOOL)
    return written_path.parts


def refuse_runnable(path: str, parts: tuple[str, ...], root: Path) -> None:
    """Raise StepError ``tool.file-path`` for a file that Python would import or a program would run
    or be configured by, and for a file in a folder with the name of an installed package (decisions
    D3, D165)."""
    for as_written in parts[:-1]:
        name = fold(as_written)
        if name in FOLDERS or _suffix(name) in RUNNABLE | FOLDER_SUFFIXES:
            raise _path_error(f"{path!r} is protected: {as_written!r} could be run", OWN_TOOL)
    if not parts:
        return
    # On Windows, the text after a colon does not belong to the name. Both readings must be allowed.
    for name in {fold(parts[-1]), fold_whole(parts[-1])}:
        suffix = _suffix(name)
        if suffix and suffix not in WRITTEN:
            hint = (
                "texts and data are written, such as notes.md, table.csv, result.json; " + OWN_TOOL
            )
            raise _path_error(f"{path!r} is protected: {parts[-1]!r} could be run", hint)
        if name in CONFIGURES or (name.startswith("requirements") and suffix == "txt"):
            raise _path_error(
                f"{path!r} is protected: {parts[-1]!r} configures a program", OWN_TOOL
            )
        if name.startswith("test") and suffix in ("txt", "text", "md", "rst"):
            hint = "another name, such as notes_test.txt; " + OWN_TOOL
            raise _path_error(f"{path!r} is protected: pytest would run {parts[-1]!r}", hint)
    if len(parts) > 1 and _is_package(fold(parts[0]), root):
        raise _path_error(f"{path!r} is protected: {parts[0]!r} is the name of a package", OWN_TOOL)


def _suffix(name: str) -> str:
    return name.rpartition(".")[2] if "." in name else ""


def _is_package(name: str, root: Path) -> bool:
    """Whether ``import name`` finds a module that is not in the notebook's folder."""
    if name in sys.stdlib_module_names:
        return True
    elsewhere = [part for part in sys.path if part and Path(part).resolve() != root]
    spec = PathFinder.find_spec(name, elsewhere) if name.isidentifier() else None
    return spec is not None and spec.origin is not None


@contextmanager
def open_below(
    root: Path, path: str, parts: tuple[str, ...], how: Literal["read", "write"]
) -> Iterator[OpenFile]:
    """Open the regular file ``parts`` below ``root``; for writing, create the file and its folders.

    ``path``: for messages. Raises StepError ``tool.file-path`` for a symbolic link, NotThere for
    any other object, OSError.
    """
    open_file = _open_anchored if ANCHORED else _open_checked
    file = open_file(root, path, parts, how)
    try:
        status = os.fstat(file)
        if stat.S_ISDIR(status.st_mode) and how == "read":
            raise NotThere("is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise NotThere("is not a file")
        if how == "write" and os.name == "posix" and status.st_mode & 0o111:
            raise _path_error(f"{path!r} is protected: it is a program", OWN_TOOL)
        if how == "write" and status.st_nlink > 1:  # another name of the file may be protected
            raise _path_error(f"{path!r} is protected: the file has another name, too", OWN_TOOL)
        yield OpenFile(file, status)
    finally:
        os.close(file)


def _open_anchored(root: Path, path: str, parts: tuple[str, ...], how: str) -> int:
    """The descriptor of the file, opened through a descriptor of each folder."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in parts[:-1]:
            if how == "write":
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = _open(name, flags, folder, path)
            os.close(folder)
            folder = inner
        if not parts:
            return os.dup(folder)
        # O_NONBLOCK: otherwise a pipe without a reader would block.
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        flags |= os.O_RDONLY if how == "read" else os.O_WRONLY | os.O_CREAT
        return _open(parts[-1], flags, folder, path)
    finally:
        os.close(folder)


def _open(name: str, flags: int, folder: int, path: str) -> int:
    """Open ``name`` in an open folder. Raises as `open_below` does."""
    try:
        return os.open(name, flags, 0o666, dir_fd=folder)
    except OSError as error:
        if _is_link(name, folder):
            raise _path_error(f"{path!r} goes through a symbolic link", HINT) from None
        if error.errno == errno.ENOENT:
            raise NotThere("does not exist") from None
        if error.errno in (errno.EISDIR, errno.ENXIO):  # it is a pipe without a reader, or a socket
            raise NotThere("is not a file") from None
        raise


def _is_link(name: str, folder: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _open_checked(root: Path, path: str, parts: tuple[str, ...], how: str) -> int:
    """The descriptor of the file on a system without ``dir_fd``."""
    place = root
    for name in parts:
        place = place / name
        is_junction = getattr(os.path, "isjunction", lambda _: False)
        if os.path.islink(place) or is_junction(place):
            raise _path_error(f"{path!r} goes through a symbolic link", HINT)
    if os.path.isdir(place):
        raise NotThere("is a folder" if how == "read" else "is not a file")
    if how == "write":
        place.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDONLY if how == "read" else os.O_WRONLY | os.O_CREAT
    try:
        return os.open(place, flags | getattr(os, "O_BINARY", 0), 0o666)
    except FileNotFoundError:
        raise NotThere("does not exist") from None


def _path_error(message: str, hint: str) -> StepError:
    return StepError(Diagnostic("tool.file-path", message, hint=hint))
