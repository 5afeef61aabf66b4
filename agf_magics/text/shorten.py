"""Shortens a text that a message quotes."""

from __future__ import annotations


def shorten(text: str) -> str:
    """``text``, or its beginning with an ellipsis if it is long."""
    return text if len(text) <= 40 else text[:39] + "…"
