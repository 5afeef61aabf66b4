"""Finds the files of definitions that the words of a line name: files, folders, patterns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..lifecycle.definitions.file_sets import definition_files
from ..text.diagnostics import DefinitionError, Diagnostic
from .values import near_file
from .words import Token, line_error


def named_definitions(words: Sequence[Token]) -> tuple[list[Path], list[Diagnostic]]:
    """The files that exist, each once and in order, and a problem for each word that names none."""
    files = dict[Path, None]()
    problems = list[Diagnostic]()
    for word in words:
        existing = [file for file in definition_files(word.text) if os.path.exists(file)]
        if not existing:
            message = f"no file {word.text!r}"
            if os.path.isdir(word.text):
                message = f"no definition in the folder {word.text!r}"
            problems.append(line_error("file", message, word, near_file(word.text)).diagnostic)
        files |= dict.fromkeys(existing)
    return list(files), problems


def all_definitions(words: Sequence[Token]) -> list[Path]:
    """The files that the words name. Raises DefinitionError if a word names none."""
    files, problems = named_definitions(words)
    if problems:
        raise DefinitionError(*problems)
    return files


def one_file(word: Token) -> Path:
    """The file or folder that the word names. Raises DefinitionError if there is none."""
    if not os.path.exists(word.text):  # False also for a name that is too long
        raise line_error("file", f"no file {word.text!r}", word, near_file(word.text))
    return Path(word.text)
