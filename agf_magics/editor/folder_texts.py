"""Reads the Python files and definitions of a folder, whose names other texts in it may use.

The folder of an editor may be any folder, even a home folder, so reading is bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath, PureWindowsPath
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlparse

from ..languages.ours import recognized_language
from ..lifecycle.definitions.file_sets import DEFINITIONS
from ..text.files import open_file
from ..text.source import UNUSABLE

MOST_ENTRIES = 10_000
"""Entries of a folder and of the folders below it that are looked at."""

MOST_FILES = 300
"""Files that are read."""

LARGEST = 300_000
"""Bytes of a file that is read."""

FOREIGN_FOLDERS = frozenset({"node_modules", "venv", "build", "dist", "site-packages"})
"""Folders with files of other people or of tools, which are not read."""


class FolderText(NamedTuple):
    uri: str
    text: str


AnyPath = TypeVar("AnyPath", bound=PurePath)
_HERE = type(Path())
"""The kind of paths of this machine."""


def path_of(uri: str, kind: type[AnyPath] = _HERE) -> AnyPath | None:  # type: ignore[assignment]
    """The file of an address; None if the text is in no file. ``kind``: the kind of its path, by
    whose rules the address is read; default: that of this machine.

    >>> path_of("file:///c%3A/flows/a.yaml", PureWindowsPath)
    PureWindowsPath('c:/flows/a.yaml')
    """
    parts = urlparse(uri)
    if parts.scheme not in ("file", "vscode-notebook-cell") or not parts.path:
        return None
    place = unquote(parts.path)
    if issubclass(kind, PureWindowsPath):
        place = place[1:] if re.match("/[A-Za-z]:", place) else place
        # The authority of a file is a computer; that of the cell of a notebook is not.
        place = f"//{parts.netloc}{place}" if parts.scheme == "file" and parts.netloc else place
    return kind(place)


def folder_texts(folder: Path) -> Iterator[FolderText]:
    """The Python files that use this package, and the definitions, in the order of their names."""
    count = 0
    for path in _files(folder):
        text = text_of(path)
        if text is not None:
            count += 1
            yield FolderText(path.as_uri(), text)
        if count >= MOST_FILES:
            return


def text_of(path: Path) -> str | None:
    """The text of a file that may use or register a name; None for any other file."""
    with suppress(*UNUSABLE):
        if path.stat().st_size > LARGEST:
            return None
        with open_file(path) as opened:
            text = opened.read(LARGEST).decode("utf-8-sig")
        is_ours = "agf_magics" in text if path.suffix == ".py" else recognized_language(text)
        return text if is_ours else None
    return None


def is_below(path: Path, key: str) -> bool:
    """Whether a file is in the folder of an address, or in the folder of a notebook."""
    home = path_of(key)
    if home is None or not home.is_absolute():
        return False
    folder = home.parent if home.suffix == ".ipynb" else home
    if not path.is_relative_to(folder):
        return False
    inner = path.relative_to(folder).parts[:-1]
    return not any(name[0] in "._" or name in FOREIGN_FOLDERS for name in inner)


def _files(folder: Path) -> Iterator[Path]:
    """The readable files below a folder. The files of each folder come before those of its
    subfolders."""
    entries = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name[0] not in "._" and name not in FOREIGN_FOLDERS
        )
        for name in sorted(files):
            if name.endswith((".py", *DEFINITIONS)) and not name.startswith("."):
                yield Path(root, name)
        entries += len(files) + len(folders)
        if entries > MOST_ENTRIES:
            return
