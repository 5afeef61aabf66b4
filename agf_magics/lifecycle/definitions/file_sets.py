"""Files that are defined or checked together: they may call each other, in any order.

Read one after another, the first would be told that what the next one defines is not registered, and
``--strict`` would refuse it: which file is right would depend on the alphabet.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...catalog import Registry
from ...languages import recognized_language
from ...text.diagnostics import AgfError
from ...text.source import UNUSABLE
from .define import register
from .files import DEFINITIONS

MOST_READ = 100_000
"""Characters of a file that are looked at to see whether it is a definition."""


def definition_files(given: str) -> list[Path]:
    """The files that a word names: a file; of a folder all definitions in it and below; the matches
    of a pattern. Empty if no file matches."""
    return [file for place in places(given) for file in _of_place(place)]


def places(given: str) -> list[Path]:
    """The path itself, or the matches of a pattern, also where there is nothing at that path."""
    if glob.has_magic(given) and not os.path.exists(given):
        return [Path(file) for file in sorted(glob.glob(given, recursive=True))]
    return [Path(given)]


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
    """Whether a file of a folder is one, and not the settings of another program."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return recognized_language(opened.read(MOST_READ)) is not None
    except UNUSABLE:
        return False


def knowing(files: Iterable[Path], registry: Registry) -> Registry:
    """A copy of ``registry`` that has what these files define too. A file with an error adds
    nothing: its own check reports it."""
    known = registry.without("flows", "schemas")
    for flow in registry.flows.values():
        known.flows.define(flow, None)
    for schema in registry.schemas.values():
        known.schemas.define(schema, None)
    for file in files:
        with suppress(AgfError):
            register(file, registry=known)
    return known
