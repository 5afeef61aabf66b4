"""The beginning of a text, as a message quotes it."""

from __future__ import annotations


def shorten(text: str) -> str:
    """The beginning of a text, to be quoted in a message."""
    return text if len(text) <= 40 else text[:39] + "…"
