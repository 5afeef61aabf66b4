"""The first line of what a program or an exception says, for the error of a picture."""

from __future__ import annotations


def first_line(error: object) -> str:
    """The first line of an error's text, at most 200 characters; without a text the name of its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
