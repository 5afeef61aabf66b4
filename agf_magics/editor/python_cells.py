"""Parses Python cells and files into trees of statements, without the lines of magics.

Each cell is parsed alone, so that an invalid or unfinished cell does not hide the others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

CELL_MAGICS = ("time", "timeit", "capture", "prun", "debug")
"""Cell magics of IPython that run their body in the notebook."""

UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)

_CELL_MAGIC = re.compile(r"\s*+%%(\w++)[^\n]*+")
_MAGIC = re.compile(r"[ \t]*+(?:[%!?]|[\w.,* \t\[\]]++=[ \t]*+[%!])")
"""A line that begins with a magic, or stores what one returns."""


def is_python(cell: str) -> bool:
    """Whether a cell is Python, not the text of a cell magic."""
    magic = _CELL_MAGIC.match(cell)
    return magic is None or magic[1] in CELL_MAGICS or is_file(cell)


def is_file(cell: str) -> bool:
    """Whether a cell writes a Python file, which is a separate program."""
    first, *rest = cell.lstrip().split("\n", 1)[0].split() or [""]
    return first in ("%%writefile", "%%file") and any(word.endswith(".py") for word in rest)


def tree_of(text: str) -> ast.Module | None:
    """The statements of a cell or a file, at their places; None: Python cannot read it."""
    if not is_python(text):
        return ast.Module([], [])
    # Magics are removed only if Python cannot read the text: a string may look like a magic.
    for written in (text, without_magics(text)):
        try:
            return ast.parse(written)
        except UNREADABLE:
            continue
    return None


def without_magics(text: str) -> str:
    """A cell as Python. A magic becomes a statement that does nothing, so that all places stay."""
    magic = _CELL_MAGIC.match(text)
    if magic is not None:
        text = "\n" * text.count("\n", 0, magic.end()) + text[magic.end() :]
    return "\n".join(_as_python(text.split("\n")))


def _as_python(lines: list[str]) -> Iterator[str]:
    is_continued = False
    for line in lines:
        if is_continued:
            is_continued = line.endswith("\\")
            yield ""
        elif _MAGIC.match(line) or line.rstrip().endswith("?"):
            is_continued = line.endswith("\\")
            yield line[: len(line) - len(line.lstrip())] + "pass"
        else:
            yield line
