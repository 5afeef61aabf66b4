"""Prints in this process the texts that a worker has printed."""

from __future__ import annotations

import sys


def write_print(stream: str, text: str) -> None:
    """Print a text that a worker has printed to ``stdout`` or ``stderr``, named by ``stream``."""
    target = sys.stderr if stream == "stderr" else sys.stdout
    if target is not None:
        target.write(text)
