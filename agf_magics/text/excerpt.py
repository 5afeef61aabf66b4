"""The excerpt of a source in an error: its lines with carets."""

from __future__ import annotations

from .columns import WIDTH, cells, fitting, readable
from .source import Span

AFTER = 12
"""Characters of a long source line that are shown after the marked ones."""


def excerpt(span: Span) -> list[str]:
    """The place of ``span``, its line and the carets below it."""
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
    """The part of a line that fits into ``room`` cells, the cells before the marked characters, and
    the cells of these.

    Only the characters near the mark are looked at: a line may be a megabyte.
    """
    begin = 0
    end = len(text)
    if fitting(text[: 2 * room], room) < len(text):
        end = min(len(text), at + min(size, room // 2) + AFTER)
        begin = end - fitting(text[max(0, end - room) : end][::-1], room - 2)
        end = begin + fitting(text[begin : begin + 2 * room], room - 2)
    cut = "…" * (begin > 0)
    carets = cells(text[at : min(at + size, end)])
    return (
        cut + readable(text[begin:end]) + "…" * (end < len(text)),
        cells(cut + text[begin:at]),
        max(1, carets),
    )
