"""`input` in code of a user asks one question at a time, where the run is waited for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ...engine.host.prompts import in_turn


def ask_in_turn(undo: ExitStack, shell: Any) -> None:
    """Let `input` of the kernel ask one thread at a time. Set on the kernel: it gives a new `input` to
    each cell, also while a run of an earlier cell goes on, in which nobody can type."""
    kernel = getattr(shell, "kernel", None)
    for name in ("raw_input", "getpass"):
        if kernel is not None and hasattr(kernel, name):
            setattr(kernel, name, in_turn(getattr(kernel, name), in_background=False))
            undo.callback(delattr, kernel, name)
