"""A text that a person typed, with its place: a value for whoever reads the text, and a caret for whoever
finds that it is wrong."""

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
