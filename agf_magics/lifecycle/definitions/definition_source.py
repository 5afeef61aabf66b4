"""Reads the source of a definition: a text itself, or the text of a file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.files import read_file
from ...text.folder import notebook_folder
from ...text.source import UNUSABLE, Source, path_error_reason
from ...values.value import type_name
from .flow_names import TEXT

_FILE_NAME = re.compile(r"[^\n:{}]+\.(?:yaml|yml|json)", re.ASCII)
"""A text that is the name of a file and not a definition."""


def source_of(text: str | Path | Source) -> Source:
    """The source of a definition. Raises DefinitionError if its file cannot be read."""
    if isinstance(text, Source):
        return text
    if isinstance(text, Path):
        try:
            body = read_file(text).decode("utf-8")
            return Source(_name_of_source(text), body, folder=text.resolve().parent)
        except UNUSABLE as error:
            message = f"{text} cannot be read: {path_error_reason(error)}"
            hint = current.words.define_folder if os.path.isdir(text) else None
            raise DefinitionError(Diagnostic("define.file", message, hint=hint)) from None
    if not isinstance(text, str):
        raise TypeError(
            f"a definition must be text or the Path of a file, not {type_name(text)}; "
            f"json.dumps(…) makes text of a dict"
        )
    if _FILE_NAME.fullmatch(text):
        hint = f"give a file as a Path: Path({text!r})"
        raise DefinitionError(Diagnostic("define.file", f"{text!r} is text", hint=hint))
    return Source(TEXT, text)


def _name_of_source(file: Path) -> str:
    """The name of a file's source: the path as a person wrote it, if it is absolute or relative to
    the notebook's folder; otherwise a path that is. The journal has only this name of the file."""
    if file.is_absolute() or notebook_folder.path == Path.cwd():
        return str(file)
    place, folder = file.resolve(), notebook_folder.path
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


def file_name(text: str | Path | Source) -> str | None:
    """The name of a definition without one, from its file: ``article`` for
    ``team/article.agf.yaml``."""
    return text.name.split(".")[0] or None if isinstance(text, Path) else None
