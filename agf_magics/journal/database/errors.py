"""`JournalError`, the exception for any problem with the journal's file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ...text.diagnostics import DefinitionError, Diagnostic


class JournalError(Exception):
    """The file cannot be used. ``code``: the code of the diagnostic."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DeletedRun(JournalError):
    """The file has this run no more: here or in another kernel, it was deleted."""

    def __init__(self) -> None:
        super().__init__("journal.unknown-run", "this run was deleted from the journal")


@contextlib.contextmanager
def journal_errors(path: Path) -> Iterator[None]:
    """Raise any problem with the file as a JournalError."""
    try:
        yield
    # Not `Exception`: a bug of this package must not be reported as a broken file.
    except (
        sqlite3.Error,
        OSError,
        ValueError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise journal_error_of(path, error) from None


def journal_error_of(path: Path, error: Exception) -> JournalError:
    match error:
        case JournalError():
            return error
        case sqlite3.Error():
            return JournalError(_code(getattr(error, "sqlite_errorname", "")), f"{path}: {error}")
        case OSError():
            # ENOSPC, EDQUOT and EFBIG.
            code = "journal.full" if error.errno in (28, 122, 27) else "journal.unwritable"
            return JournalError(code, f"{path}: {error.strerror or error}")
        # SQLite itself accepts texts that are not UTF-8 or JSON, and numbers beyond 64 bits.
        case ValueError() | OverflowError() | RecursionError():
            return JournalError("journal.damaged", f"{path}: {error}")
        case MemoryError():
            return JournalError("journal.full", f"{path}: out of memory")
    return JournalError("journal.unwritable", f"{path}: {error!r}")


def _code(name: str) -> str:
    if (
        name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ"))
        or name == "SQLITE_ERROR"  # a table or column is missing
    ):
        return "journal.damaged"
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return "journal.full"
    return "journal.unwritable"


CURES = {
    "journal.full": "make room on the disk; until then this run cannot be resumed from here",
    "journal.unwritable": "%config AgfMagics.journal sets the path of the journal; None turns it "
    "off",
    "journal.foreign": "move the file away, or set another path: %config AgfMagics.journal",
    "journal.replaced": "the next run uses the new file; the rows of this run stay in a file next "
    "to it",
    "journal.cut": "restart the kernel: until then no run is journaled",
    "journal.gone": "run it again: this run cannot be listed, resumed or reused",
    "journal.unknown-run": "run it again: what it had cannot be read any more",
    "journal.damaged": "move the file away: the next run creates a new one",
    "journal.newer": "update agf-magics, or move the file away",
    "journal.older": "move the file away, or read it with that version: the next run creates a "
    "new one",
}
"""The hint for each code: what a person can do."""


@contextlib.contextmanager
def as_definition_errors() -> Iterator[None]:
    """Raise a JournalError of the block as a DefinitionError with a hint."""
    try:
        yield
    except JournalError as error:
        raise unusable(error) from None


def unusable(error: JournalError) -> DefinitionError:
    is_of_one_run = isinstance(error, DeletedRun)
    message = str(error) if is_of_one_run else f"the journal cannot be used: {error}"
    return DefinitionError(Diagnostic(error.code, message, hint=CURES[error.code]))


def not_journaled(error: JournalError) -> Diagnostic:
    """The warning that a run continues without a journal."""
    return Diagnostic(
        error.code, f"this run is not journaled: {error}", None, CURES[error.code], "warning"
    )
