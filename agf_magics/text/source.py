"""A named text and a half-open range of it.

Everything parsed carries a Span; a line and a column are computed only when somebody asks, because almost nobody does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

UNUSABLE = (OSError, ValueError, RuntimeError)
"""What the operating system and Python raise for a path that cannot be one: too long, with a NUL or half a character in
it, a link in a circle."""


def why(error: Exception) -> str:
    """The reason of one of these, in a few words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def beside(name: str) -> Path:
    """The folder of the file that a source is called after; the current folder where it is no file."""
    try:
        file = Path(name)
        return file.resolve().parent if file.is_file() else Path.cwd().resolve()
    except UNUSABLE:
        return Path.cwd().resolve()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A text as its author knows it: ``name`` is what an error calls it (``In[6] %%pipeline``, ``flows/review.yaml``).

    ``first_line`` is the number the author's editor shows for the first line: 2 for the body of a cell, whose line 1 is
    the magic. Two sources are the same only if they are the same object.
    """

    name: str
    text: str = field(repr=False)
    first_line: int = 1

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """The range from ``start`` to ``end`` (the end of the text)."""
        return Span(self, start, len(self.text) if end is None else end)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of ``offset``, as an editor counts them: both from 1, lines from ``first_line``."""
        starts = _line_starts(self)
        index = bisect_right(starts, offset) - 1
        return index + self.first_line, offset - starts[index] + 1

    def line(self, number: int) -> str:
        """The text of line ``number``, counted from ``first_line``; empty where there is no such line."""
        starts = _line_starts(self)
        index = number - self.first_line
        if not 0 <= index < len(starts):
            return ""
        end = starts[index + 1] - 1 if index + 1 < len(starts) else len(self.text)
        return self.text[starts[index] : end].rstrip("\r")


# Asked once for each finding and each step that is shown: what it takes must not grow with the text each time.
@lru_cache(maxsize=16)
def _line_starts(source: Source) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", source.text))]


class Span(NamedTuple):
    """A half-open range of a source, in characters. A NamedTuple: loading makes thousands."""

    source: Source
    start: int
    end: int

    def __repr__(self) -> str:
        """Without the source's text: a flow has thousands of spans."""
        return f"<{self.source.name}:{self.start}-{self.end}>"

    @property
    def text(self) -> str:
        """What stands there."""
        return self.source.text[self.start : self.end]

    @property
    def place(self) -> tuple[int, int]:
        """Line and column of its first character."""
        return self.source.place(self.start)

    def locate(self, start: int, end: int) -> Span:
        """The part of this span from ``start`` to ``end``, counted from its own beginning."""
        return Span(self.source, self.start + start, self.start + end)


class Text(Protocol):
    """A text that stands somewhere: what a small language's parser is given.

    A Span is one; so is a YAML scalar, whose text may stand in the source with quotes, escapes and folds. ``locate``
    turns offsets in ``text`` into the place an error points at.
    """

    @property
    def text(self) -> str: ...

    def locate(self, start: int, end: int) -> Span: ...
