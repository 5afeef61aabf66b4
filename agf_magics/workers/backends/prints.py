"""Prints in this process what a worker has printed."""

from __future__ import annotations

import sys


def write_print(stream: str, text: str) -> None:
    """Print what a worker has printed to ``stdout`` or ``stderr``."""
    target = sys.stderr if stream == "stderr" else sys.stdout
    if target is not None:
        target.write(text)
