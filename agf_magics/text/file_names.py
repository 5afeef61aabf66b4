"""Decides which files of a folder a definition may name (decision D164).

The rule is the same for prompts, sources, subgraphs, attachments and the built-in file tools. Names
are compared as the least strict file system compares them: two spellings that are different files
on Linux may be one file on another computer.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Literal

RUN_LATER = frozenset({"pyproject.toml", "setup.cfg", "conftest.py", "makefile", "gnumakefile"})
"""Files that run code or configure a program in their folder."""

IMPORTED = frozenset({"sitecustomize", "usercustomize", "conftest"})
"""Modules that Python or pytest imports automatically, as a source, a compiled file or a folder."""

PROTECTED = (
    "a definition cannot name a dot-file, a file in a dot-folder, or one that configures a program"
)
"""The hint of an error about a protected name."""


def fold(name: str) -> str:
    """The form in which the least strict file system compares ``name``: without case, variants of
    letters, invisible characters, and the ending that Windows removes.

    >>> fold("PyProject.TOML. "), fold("\\uff0eg\\u200cit"), fold("conftest.py::$DATA")
    ('pyproject.toml', '.git', 'conftest.py')
    """
    return fold_whole(unicodedata.normalize("NFKC", _readable_name(name)).partition(":")[0])


def fold_whole(name: str) -> str:
    """`fold`, but the text after a colon stays. Only Windows takes it for the name of a stream.

    >>> fold_whole("x:Y.SH ")
    'x:y.sh'
    """
    letters = unicodedata.normalize("NFKC", _readable_name(name)).casefold()
    return unicodedata.normalize("NFKC", letters).strip(" ").rstrip(". ")


def _readable_name(name: str) -> str:
    return "".join(letter for letter in name if unicodedata.category(letter) != "Cf")


def is_protected(name: str) -> bool:
    """Whether the folded name of a file or a folder is protected."""
    short = os.name == "nt" and "~" in name  # PYPROJ~1.TOM is pyproject.toml
    return (
        not name
        or name.startswith(".")
        or name.endswith(".pth")
        or name in RUN_LATER
        or name.partition(".")[0] in IMPORTED
        or short
    )


def refusal(path: Path, root: Path) -> Literal["outside", "protected"] | None:
    """The reason why a definition may not name ``path``; None: it may. ``path`` must be below
    ``root``, both as it is written and where links lead. Both are absolute, and ``root`` is without
    links. Raises one of `UNUSABLE`."""
    leads_to = path.resolve()
    if not leads_to.is_relative_to(root):
        return "outside"
    written = Path(os.path.normpath(path))
    names = [*leads_to.relative_to(root).parts]
    if written.is_relative_to(root):
        names += written.relative_to(root).parts
    return "protected" if any(is_protected(fold(name)) for name in names) else None
