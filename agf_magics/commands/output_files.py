"""Writes the output file that a word of the line names, and prints its path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from ..text.diagnostics import DefinitionError
from ..text.replaced_file import NOT_WRITTEN, replaced_file
from .words import Token


def write_file(word: Token, text: str) -> None:
    """Write ``text`` to the file that ``word`` names, in new folders if needed, and print the path."""

    def write(path: Path) -> Path:
        with replaced_file(path, with_folders=True) as file:
            file.write(text)
        return path

    write_with(word, write)


def write_with(word: Token, write: Callable[[Path], object], out: TextIO | None = None) -> None:
    """Let ``write`` write the file that ``word`` names, and print the path that it returns to
    ``out``. None: print to the standard output. A file that cannot be written is an error at the
    place of ``word``; any other error is about what is to be written."""
    try:
        written = write(Path(word.text))
    except DefinitionError as error:
        if error.code != NOT_WRITTEN:
            raise
        raise DefinitionError(replace(error.diagnostic, span=word.span)) from None
    print(f"wrote {written}", file=out)
