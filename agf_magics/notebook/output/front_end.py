"""What the front end of the kernel can do, as far as the kernel sees it.

The kernel learns most from the messages of its views. Environment variables decide only whether a widget
is opened (decision D142).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from IPython import get_ipython

VSCODE = "__vsc_ipynb_file__"
"""The name that VS Code sets in the namespace of each kernel that it uses, also of a remote kernel."""


BEAT = 0.02
"""Seconds between two looks for a message, while `Page.hears_soon` waits."""


class Page:
    """What the kernel has learned from the messages of its pages."""

    has_reported = False
    """Whether a view has sent a message. No view ever does where the script of the widgets cannot be
    loaded, whatever the environment looks like."""
    hears_while_busy = False
    """Whether the kernel has received a message in a way that works while a cell runs: on a subshell,
    or from the queue (see `receiving`, `message_queue`). Each view sends a message when it opens. Until
    then a run that a cell waits for has no buttons."""

    _is_awaited = True
    """Whether a message may still come: only the first caller of `hears_soon` waits for it."""

    def hears_soon(self, seconds: float, meanwhile: Callable[[], object]) -> bool:
        """`hears_while_busy`. The first caller waits up to ``seconds`` for it: where there is a page, the
        view that was opened just now sends a message at once."""
        end = time.monotonic() + seconds
        while self._is_awaited and not self.hears_while_busy and time.monotonic() < end:
            time.sleep(BEAT)
            meanwhile()
        self._is_awaited = False
        return self.hears_while_busy

    answered_at: float | None = None
    """When a message was answered last, after which the kernel says that it is idle; None: since then it
    has said that it is busy."""

    def note_answer(self) -> None:
        """Note that a message of a page has been answered."""
        self.answered_at = time.monotonic()

    def report(self) -> None:
        """Note a message of a view, on the thread that received it."""
        self.has_reported = True
        # Subshells have threads of their own. JupyterLite and ipykernel 7.0 to 7.3 with a front end
        # that names no subshell hand the main thread one message after the other.
        self.hears_while_busy |= threading.current_thread() is not threading.main_thread()


page = Page()


def in_frames() -> bool:
    """Whether the front end shows each output in a frame of its own, as Colab and VS Code do. The page's
    script cannot find an element there, so the output has the explorer as a widget during the run.
    `VSCODE_PID` cannot decide this: a JupyterLab that was started in a terminal of VS Code has it, and a
    remote kernel of VS Code does not."""
    names = getattr(get_ipython(), "user_ns", {})
    return "COLAB_RELEASE_TAG" in os.environ or VSCODE in names
