"""Writes the output file that a word of the line names, and prints its path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from ..text.diagnostics import DefinitionError
from ..text.replaced_file import replaced_file
from ..text.shorten import shorten
from ..text.source import UNUSABLE, path_error_reason
from .words import Token, line_error


def write_file(word: Token, text: str) -> None:
    """Write ``text`` to the file that ``word`` names, in new folders if needed, and print the path."""

    def write(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as file:
            file.write(text)
        return path

    write_with(word, write)


def write_with(word: Token, write: Callable[[Path], object], out: TextIO | None = None) -> None:
    """Let ``write`` write the file that ``word`` names, and print the path that it returns to
    ``out``. None: print to the standard output."""
    try:
        written = write(Path(word.text))
    except UNUSABLE as error:
        raise unwritable(word, error) from None
    print(f"wrote {written}", file=out)


def unwritable(word: Token, error: Exception) -> DefinitionError:
    """The error for a file that cannot be written, at the place of ``word``."""
    return line_error(
        "file", f"{shorten(word.text)!r} cannot be written: {path_error_reason(error)}", word
    )
