"""Outputs of a cell that are shown once or can be replaced. IPython's functions for it have no
types."""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import Any

from IPython.display import DisplayHandle, display

Bundle = dict[str, Any]
"""A text for each MIME type."""

FRAMED = ("VSCODE_PID", "COLAB_RELEASE_TAG")
"""Those of front ends that show each output in a frame of its own. The page's script cannot find an
element there, so the output has the explorer as a widget during the run."""

EMPTY: Bundle = {"text/html": "", "text/plain": ""}
"""An output that keeps a place."""


def in_frames() -> bool:
    """Whether the front end shows each output in a frame of its own."""
    return any(name in os.environ for name in FRAMED)


def hears_while_busy(shell: Any) -> bool:
    """Whether the kernel receives messages while a cell waits (ipykernel 7). Without it there is no
    button."""
    return _has_subshells(getattr(shell, "kernel", None))


@lru_cache(maxsize=1)
def _has_subshells(kernel: Any) -> bool:
    """Found once for a kernel: ipykernel writes its banner for each answer, 0.1 ms."""
    return "kernel subshells" in getattr(kernel, "kernel_info", {}).get("supported_features", ())


def show(bundle: Bundle) -> None:
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def receive_while_busy(widget: Any) -> None:
    """Let the kernel receive the events of ``widget`` while a cell waits, if the kernel has
    subshells.

    ipykernel 7.4 sends them to the shell that opened the widget, which may be the one that waits.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default


class OutputSlot:
    """One output, which keeps its place among everything that is printed later."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._lock = threading.Lock()

    def reserve(self, first: Bundle) -> None:
        """Show ``first``; a second call does nothing."""
        with self._lock:
            if self._handle is None:
                self._handle = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def put(self, bundle: Bundle) -> None:
        """Replace the output."""
        self.reserve({})
        assert self._handle is not None
        self._handle.update(bundle, raw=True)  # type: ignore[no-untyped-call]
