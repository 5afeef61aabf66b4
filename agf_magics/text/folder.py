"""The notebook's folder, which contains the files of definitions, of the file tools and of the
journal.

The folder is determined once: when the extension is loaded, from the file on the command line, or
at the first run in plain Python. After that only a person changes it, with ``%config
AgfMagics.folder``. A later ``%cd``, or a tool that calls `os.chdir`, does not change it: the same
definition would read other files, and its earlier runs would not be found (decision A16).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .diagnostics import DefinitionError, Diagnostic
from .source import UNUSABLE, Source


def working_folder() -> Path:
    """The current folder of the process. Raises DefinitionError if the folder has been removed."""
    try:
        return Path.cwd()
    except OSError:
        message = "the working folder has been removed"
        hint = "go to another one: %cd FOLDER (in Python: os.chdir(…))"
        raise DefinitionError(Diagnostic("define.file", message, hint=hint)) from None


class NotebookFolder:
    """The notebook's folder of this process."""

    def __init__(self) -> None:
        self.fixed: Path | None = None
        """The folder; None: not determined yet. Until then it is the current folder."""

    @property
    def path(self) -> Path:
        return self.fixed if self.fixed is not None else working_folder()

    def fix(self) -> None:
        """Determine the folder now, unless that is done already or the current folder was
        removed."""
        if self.fixed is None:
            with suppress(OSError):
                self.fixed = Path.cwd()

    def change(self, folder: Path | None) -> None:
        """Set the folder. ``folder``: None: it is determined again at the next `fix`."""
        self.fixed = folder.resolve() if folder is not None else None


notebook_folder = NotebookFolder()
"""The only `NotebookFolder` of this process."""


def source_folder(source: Source) -> Path:
    """The folder of the file from which ``source`` was read; the notebook's folder if it is from no
    file."""
    if source.folder is not None:
        return source.folder
    notebook = notebook_folder.path.resolve()
    try:
        file = notebook / source.name
        return file.resolve().parent if file.is_file() else notebook
    except UNUSABLE:
        return notebook
