"""A text with the place where a person typed it: an error that comes later has its caret."""

from __future__ import annotations

from typing import Self

from .source import Span


class PlacedText(str):
    """A text and the place where it stands."""

    __slots__ = ("span",)
    span: Span

    @classmethod
    def at(cls, span: Span, text: str) -> Self:
        placed = cls(text)
        placed.span = span
        return placed


def place_of(text: str) -> Span | None:
    """The place of ``text``; None: it was not typed on a line."""
    return text.span if isinstance(text, PlacedText) else None
