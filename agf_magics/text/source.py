"""A named text and a half-open range of it.

Everything parsed carries a Span; a line and a column are computed only when somebody asks, because almost nobody does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A text as its author knows it: ``name`` is what an error calls it (``In[6] %%pipeline``, ``flows/review.yaml``).

    ``first_line`` is the number the author's editor shows for the first line: 2 for the body of a cell, whose line 1 is
    the magic. Two sources are the same only if they are the same object.
    """

    name: str
    text: str
    first_line: int = 1

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """The range from ``start`` to ``end`` (the end of the text)."""
        return Span(self, start, len(self.text) if end is None else end)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of ``offset``, as an editor counts them: both from 1, lines from ``first_line``."""
        before = self.text[:offset]
        return before.count("\n") + self.first_line, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """The text of line ``number``, counted from ``first_line``; empty where there is no such line."""
        lines = self.text.split("\n")
        index = number - self.first_line
        return lines[index].rstrip("\r") if 0 <= index < len(lines) else ""


class Span(NamedTuple):
    """A half-open range of a source, in characters. A NamedTuple: loading makes thousands."""

    source: Source
    start: int
    end: int

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
