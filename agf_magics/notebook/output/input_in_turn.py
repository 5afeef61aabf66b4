"""`input` in a user's code asks one question at a time, and only in a run that a cell waits for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ...engine.host.prompts import in_turn


def ask_in_turn(undo: ExitStack, shell: Any) -> None:
    """Let `input` of the kernel serve one thread at a time. The functions are replaced on the kernel,
    because the kernel gives a new `input` to each cell, also while a run of an earlier cell, for which
    nobody can type, goes on."""
    kernel = getattr(shell, "kernel", None)
    for name in ("raw_input", "getpass"):
        if kernel is not None and hasattr(kernel, name):
            setattr(kernel, name, in_turn(getattr(kernel, name), in_background=False))
            undo.callback(delattr, kernel, name)
