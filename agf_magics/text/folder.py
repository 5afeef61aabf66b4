"""The notebook's folder: where the files of definitions, of the file tools and of the journal are.

It is found once: when the extension is loaded, on the command line from the file, in plain Python
at the first run. After that only a person changes it, with ``%config AgfMagics.folder``. Never is it
the current folder of the process at a later moment: a ``%cd``, or a tool that calls `os.chdir`,
would make other files of the same definition, and lose the runs (decision A16′).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .diagnostics import DefinitionError, Diagnostic
from .source import UNUSABLE, Source


def working_folder() -> Path:
    """The current folder. Raises DefinitionError if it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        message = "the working folder has been removed"
        hint = "go to another one: %cd FOLDER (in Python: os.chdir(…))"
        raise DefinitionError(Diagnostic("define.file", message, hint=hint)) from None


class NotebookFolder:
    """The folder, once it is found."""

    def __init__(self) -> None:
        self.fixed: Path | None = None
        """The folder; None: it is not found yet, and would be the current folder."""

    @property
    def path(self) -> Path:
        return self.fixed if self.fixed is not None else working_folder()

    def fix(self) -> None:
        """Find it now, if it is not found yet and the current folder still exists."""
        if self.fixed is None:
            with suppress(OSError):
                self.fixed = Path.cwd()

    def change(self, folder: Path | None) -> None:
        """``folder``: None: it is to be found again."""
        self.fixed = folder.resolve() if folder is not None else None


notebook_folder = NotebookFolder()
"""The one of this process."""


def source_folder(source: Source) -> Path:
    """The folder of the file that ``source`` was read from; the notebook's if it is from none."""
    if source.folder is not None:
        return source.folder
    notebook = notebook_folder.path.resolve()
    try:
        file = notebook / source.name
        return file.resolve().parent if file.is_file() else notebook
    except UNUSABLE:
        return notebook
