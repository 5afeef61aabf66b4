"""Defines or checks several files together, which may call each other in any order.

If the files were read one after another, the first file would get a warning for each name that a
later file defines, and ``--strict`` would refuse it: the result would depend on the alphabet.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...catalog import Registry
from ...languages.ours import recognized_language
from ...text.diagnostics import AgfError, Diagnostic
from ...text.files import open_file
from ...text.source import UNUSABLE
from .define import register

DEFINITIONS = (".yaml", ".yml", ".json")
"""Suffixes of files of definitions."""


MOST_READ = 100_000
"""Bytes of a file that are looked at to see whether it is a definition."""


def definition_files(word: str) -> list[Path]:
    """The files that a word names: a file; of a folder all definitions in it and below; the matches
    of a pattern. Empty if no file matches."""
    return [file for place in places(word) for file in _of_place(place)]


def places(word: str) -> list[Path]:
    """The path itself, even if nothing exists there, or the matches of a pattern."""
    if glob.has_magic(word) and not os.path.exists(word):
        return [Path(file) for file in sorted(glob.glob(word, recursive=True))]
    return [Path(word)]


def _of_place(place: Path) -> list[Path]:
    if not os.path.isdir(place):
        return [place]
    return [
        file
        for file in sorted(place.rglob("*"))
        if file.suffix in DEFINITIONS
        and not any(part.startswith(".") for part in file.relative_to(place).parts)
        and _is_definition(file)
    ]


def _is_definition(file: Path) -> bool:
    """Whether a file of a folder is a definition, and not the settings of another program."""
    try:
        with open_file(file) as opened:
            data = opened.read(MOST_READ)
    except UNUSABLE:
        return False
    # A file in UTF-16, from an editor on Windows, is included: its check reports the mistake.
    text = data.replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufffd\ufeff")
    return recognized_language(text) is not None


def registry_with(
    files: Iterable[Path], registry: Registry
) -> tuple[Registry, dict[Path, tuple[Diagnostic, ...]]]:
    """A copy of ``registry`` with the definitions of these files, and the notes about files that
    replace each other's definitions. A file with an error adds nothing, because its own check
    reports it."""
    with_files = registry.without("flows", "schemas")
    for flow in registry.flows.values():
        with_files.flows.define(flow, registry.flows.origin(flow.name))
    for schema in registry.schemas.values():
        with_files.schemas.define(schema, registry.schemas.origin(schema.name))
    notes = dict[Path, tuple[Diagnostic, ...]]()
    for file in files:
        with suppress(AgfError):
            notes[file] = register(
                file, registry=with_files, origin=str(file.resolve())
            ).replacements
    return with_files, notes
