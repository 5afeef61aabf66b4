"""Writes the excerpt of a source in an error: the line with carets below the marked characters."""

from __future__ import annotations

from .columns import WIDTH, cells, fitting, readable
from .source import Span

AFTER = 12
"""The number of columns of a long line that are shown after the marked characters."""


def excerpt(span: Span) -> list[str]:
    """The lines of the excerpt: file and line of ``span``, the line of source, the carets below."""
    line, column = span.place
    gutter = f"{line:>4}"
    shown, lead, carets = _window(
        span.source.line(line), column - 1, span.end - span.start, WIDTH - len(gutter) - 3
    )
    return [
        f"  --> {span.source.name}, line {line}, column {column}",
        f"{gutter} | {shown}",
        f"{' ' * len(gutter)} | {' ' * lead}{'^' * carets}",
    ]


def _window(text: str, at: int, size: int, room: int) -> tuple[str, int, int]:
    """The part of ``text``, a line, that fits into ``room`` columns, around the ``size`` characters
    at ``at``; the columns before the marked characters, and their own columns.

    Only the characters near the mark are read: a line may have a megabyte.
    """
    begin = 0
    end = len(text)
    if fitting(text[: 2 * room], room) < len(text):
        end = min(at + size, len(text), at + fitting(text[at : at + room], room // 2))
        end += fitting(text[end : end + AFTER], AFTER)
        begin = end - fitting(text[max(0, end - room) : end][::-1], room - 2)
        end = begin + fitting(text[begin : begin + 2 * room], room - 2)
    cut = "…" * (begin > 0)
    carets = cells(text[at : min(at + size, end)])
    return (
        cut + readable(text[begin:end]) + "…" * (end < len(text)),
        cells(cut + text[begin:at]),
        max(1, carets),
    )
