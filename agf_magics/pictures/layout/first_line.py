"""The first line of what a program or an exception says, for the error of a picture."""

from __future__ import annotations


def first_line(error: object) -> str:
    """Of its text; of an error without a text its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
