"""Finds the files of this process: the journal, the project's folder, the notebook."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import warnings
from pathlib import Path

from ..compat.browser import IN_BROWSER
from ..journal.codec.signatures import key_file
from ..journal.database import file as journal
from ..journal.database.store import Store
from ..text.folder import notebook_folder
from .settings import current, user_file

# --- the files ---

PROJECT = ("pyproject.toml", ".git", ".agf")
"""Files and folders that mark a project's folder."""


def journal_file() -> Path | None:
    """The file of the journal: the setting ``journal``, relative to the project that contains the
    notebook's folder; None: there is no journal."""
    name = current.settings.journal
    if not name:
        return None
    path = Path(name).expanduser()
    # An absolute path is the user's choice, with the links in it. A link in the project's folder
    # may come from a stranger, with the project.
    chosen = path.parent.resolve() / path.name if path.is_absolute() else _project() / path
    return _hold_in_memory(chosen) if IN_BROWSER else chosen


IN_MEMORY = Path(tempfile.gettempdir()) / "agf-journals"
"""The folder in memory where SQLite works on a journal in a browser. The storage of JupyterLite,
/drive, has no locks and no shared memory, and keeps what is written only when a file is closed."""


def _hold_in_memory(path: Path) -> Path:
    """The path in memory of the journal ``path``. A journal in the storage is copied there
    first."""
    in_memory = IN_MEMORY / path.relative_to(path.anchor)
    if not in_memory.exists():
        in_memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists():
            shutil.copy(path, in_memory)
    return in_memory


def keep_journal(store: Store) -> None:
    """In a browser, copy the journal into the page's storage, which survives a reload."""
    store.flush()
    store.checkpoint()
    path = Path("/") / store.path.relative_to(IN_MEMORY)
    try:
        path.parent.mkdir(exist_ok=True)
        shutil.copy(store.path, path)
    except OSError as error:
        message = f"the journal is in memory only, and a reload ends it: {path}: {error}"
        warnings.warn(message, stacklevel=2)


def _project() -> Path:
    """The nearest folder at or above the notebook's with one of the `PROJECT` marks, else the
    notebook's.

    The search ends at the home folder, at a mount, and at a folder that others may write to: a
    folder above it may come from anybody (decision A19)."""
    here, home = notebook_folder.path, Path(os.path.expanduser("~"))
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in PROJECT):
            return folder
        is_ours = journal.is_private(folder) and journal.is_private(folder.parent)
        if folder == home or os.path.ismount(folder) or not is_ours:
            break
    return here


def own_files() -> tuple[Path, ...]:
    """The files that no definition may read or write: the journal, the user's key and settings."""
    files, path = list[Path](), journal_file()
    if path is not None:
        names = [path.name + end for end in ("", "-wal", "-shm", "-journal")]
        files += map(path.with_name, (*names, "owners"))
    with contextlib.suppress(RuntimeError):  # the user has no home folder
        files.append(key_file().parent)
    settings = user_file()
    return (*files, settings.parent) if settings is not None else tuple(files)


def this_notebook() -> str:
    """The path of this kernel's notebook, as Jupyter's server tells it; empty outside of a
    notebook."""
    return os.environ.get("JPY_SESSION_NAME", "")
