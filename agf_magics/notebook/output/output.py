"""Outputs of a cell that are shown once or can be replaced."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

from IPython import get_ipython
from IPython.display import DisplayHandle, display

from ...compat.browser import IN_BROWSER
from ...lifecycle.runs.run import Run
from ...pictures.plain import untypeset

Bundle = dict[str, Any]
"""A text for each MIME type."""

VSCODE = "__vsc_ipynb_file__"
"""The name that VS Code sets in the namespace of each kernel that it uses, also of a remote one."""

EMPTY: Bundle = {"text/html": "", "text/plain": ""}
"""An output that keeps a place."""


def in_frames() -> bool:
    """Whether the front end shows each output in a frame of its own. The page's script cannot find
    an element there, so the output has the explorer as a widget during the run. `VSCODE_PID` does
    not tell: a JupyterLab that was started in a terminal of VS Code has it, a remote kernel of VS
    Code has not."""
    names = getattr(get_ipython(), "user_ns", {})
    return "COLAB_RELEASE_TAG" in os.environ or VSCODE in names


def hears_while_busy(shell: Any) -> bool:
    """Whether the kernel receives messages while a cell waits (ipykernel 7). Without it there is no
    button. JupyterLite hands its kernel one message at a time: `kernel_info` names no subshells."""
    kernel = getattr(shell, "kernel", None)
    return "kernel subshells" in getattr(kernel, "kernel_info", {}).get("supported_features", ())


def receive_while_busy(channel: Any) -> None:
    """Let the kernel receive the messages of a comm while a cell waits, if the kernel has
    subshells.

    ipykernel 7.4 sends them to the shell that opened the comm, which may be the one that waits.
    """
    if hasattr(channel, "_reply_subshell_for"):
        channel._reply_subshell_for = lambda data, default: default


def show(bundle: Bundle) -> None:
    display(_as_text(bundle), raw=True)  # type: ignore[no-untyped-call]


def _as_text(bundle: Bundle) -> Bundle:
    """``bundle`` whose HTML is not read as mathematics."""
    page = bundle.get("text/html")
    return {**bundle, "text/html": untypeset(page)} if page else bundle


class OutputSlot:
    """One output, which keeps its place among everything that is printed later."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._lock = threading.Lock()

    def reserve(self, first: Bundle) -> None:
        """Show ``first``; a second call does nothing."""
        with self._lock:
            if self._handle is None:
                self._handle = display(_as_text(first), raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def put(self, bundle: Bundle) -> None:
        """Replace the output."""
        self.reserve({})
        assert self._handle is not None
        self._handle.update(_as_text(bundle), raw=True)  # type: ignore[no-untyped-call]


def accompany(
    run: Run,
    seconds: float,
    tick: Callable[[], object],
    close: Callable[[], object],
    name: str,
) -> None:
    """Call ``tick`` every ``seconds`` until the end of ``run``, then ``close``: on a thread of this
    ``name``, in a browser on the loop of the run."""
    if run.done:  # it may have ended before it had a loop
        close()
        return None
    if IN_BROWSER:
        assert run._job is not None
        return run._job.every(seconds, tick, close)

    def show() -> None:
        while not run.wait(seconds).done:
            tick()
        close()

    # In the context of the cell, to which the output of the thread then belongs.
    context = contextvars.copy_context()
    return threading.Thread(target=context.run, args=(show,), name=name, daemon=True).start()
