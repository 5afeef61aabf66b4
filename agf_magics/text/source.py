"""`Source`, a named text, and `Span`, a half-open range of its characters.

Everything that is parsed has a Span. Line and column are computed only when an error needs them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

UNUSABLE = (OSError, ValueError, RuntimeError)
"""The errors that Python raises for a path that cannot exist: too long, with a NUL or half a
surrogate pair, a cycle of links."""


def path_error_reason(error: Exception) -> str:
    """The reason of ``error``, one of `UNUSABLE`, in a few words."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8: save it in that encoding"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@dataclass(slots=True, eq=False)
class Source:
    """``first_line`` is the number of the first line in the author's editor: 2 for the body of a
    cell, whose line 1 is the magic. Two sources are equal only if they are the same object. The
    name of a text without a file or a cell is set when its flow is known; nothing else ever
    changes. ``folder`` is the folder of the file from which the text was read; None: the text is
    from no file, or its name tells the folder.
    """

    name: str
    text: str = field(repr=False)
    first_line: int = 1
    folder: Path | None = field(default=None, repr=False)

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """The range from ``start`` to ``end``; default: the whole text."""
        return Span(self, start, len(self.text) if end is None else end)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of ``offset`` as in an editor: columns from 1, lines from
        ``first_line``."""
        starts = _line_starts(self)
        index = bisect_right(starts, offset) - 1
        return index + self.first_line, offset - starts[index] + 1

    def line(self, number: int) -> str:
        """The text of line ``number``, counted from ``first_line``; empty if there is no such
        line."""
        starts = _line_starts(self)
        index = number - self.first_line
        if not 0 <= index < len(starts):
            return ""
        end = starts[index + 1] - 1 if index + 1 < len(starts) else len(self.text)
        return self.text[starts[index] : end].rstrip("\r")


# Cached: each problem and each step that is shown needs the starts of the lines.
@lru_cache(maxsize=16)
def _line_starts(source: Source) -> list[int]:
    return [0, *(line_end.end() for line_end in re.finditer("\n", source.text))]


class Span(NamedTuple):
    """A half-open range of a source, in characters. It is a NamedTuple for speed: loading makes
    thousands."""

    source: Source
    start: int
    end: int

    def __repr__(self) -> str:
        """Without the source's text: a flow has thousands of spans."""
        return f"<{self.source.name}:{self.start}-{self.end}>"

    @property
    def text(self) -> str:
        """The text of the range."""
        return self.source.text[self.start : self.end]

    @property
    def place(self) -> tuple[int, int]:
        """Line and column of its first character."""
        return self.source.place(self.start)

    def locate(self, start: int, end: int) -> Span:
        """The part of this span from ``start`` to ``end``, relative to its beginning."""
        return Span(self.source, self.start + start, self.start + end)


class Text(Protocol):
    """A text that knows its place: the input of the parsers of expressions, paths and templates.

    A Span is such a text, and so is a YAML scalar, whose source may have quotes, escapes and folds.
    ``locate`` turns offsets in ``text`` into the place that an error points at.
    """

    @property
    def text(self) -> str: ...

    def locate(self, start: int, end: int) -> Span: ...
