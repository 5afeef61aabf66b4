"""Messages of a page that arrive while a cell runs are received on a subshell.

A subshell is a further thread of a kernel that handles messages. If the front end names no subshell, as
VS Code does not, the kernel makes one. A kernel without subshells takes the messages from its queue: see
`message_queue`.

After each message the kernel says that it is idle, also while a cell runs on its main thread, and a front
end shows the last status. So the cell that waits says again that the kernel is busy.
"""

from __future__ import annotations

import time
from logging import DEBUG
from typing import Any

from IPython import get_ipython

from ...text.giving_up import giving_up
from .front_end import page

SAID = 0.2
"""Seconds after an answer in which the kernel says that it is idle."""


def receive_while_busy(channel: Any) -> None:
    """Let the kernel receive the messages of a comm while a cell runs, if the kernel has subshells: on
    the subshell that the front end names, else on one that the kernel makes.

    ipykernel 7.4 asks the comm for the subshell, on the thread that may make one. Without an answer it
    gives the messages to the shell that opened the comm, which may be the shell that waits.
    """
    setattr(channel, _OURS, True)
    if not hasattr(channel, "_reply_subshell_for"):
        return
    kernel = getattr(get_ipython(), "kernel", None)
    channel._reply_subshell_for = lambda _, named: _own(kernel) if named is None else named


def is_ours(channel: object) -> bool:
    """Whether `receive_while_busy` was called for this comm."""
    return getattr(channel, _OURS, False) is True


_OURS = "_agf_is_received_while_busy"
"""The attribute by which a comm is known as ours."""

_OWN = "_agf_subshell"
"""The attribute of a kernel with the id of the subshell that was made here."""


def _own(kernel: Any) -> str | None:
    """The id of the subshell that is made here at the first message; None if that fails. The functions
    for it are private to ipykernel and may change: then the main shell receives, after the cell."""
    with giving_up(__name__, "the kernel has no subshell of its own", DEBUG):
        manager = kernel.shell_channel_thread.manager
        subshell: str | None = getattr(kernel, _OWN, None)
        if subshell not in manager.list_subshell():
            subshell = manager._create_subshell()
            setattr(kernel, _OWN, subshell)
        return subshell
    return None


def tell_busy() -> None:
    """Say that the kernel is busy, if an answer has made it say otherwise. Called while a cell waits, and
    never after its end. A kernel without subshells says it with each answer (`message_queue`)."""
    answered = page.answered_at
    if answered is None or time.monotonic() - answered < SAID:
        return
    page.answered_at = None
    kernel: Any = getattr(get_ipython(), "kernel", None)
    if "kernel subshells" in getattr(kernel, "kernel_info", {}).get("supported_features", ()):
        with giving_up(__name__, "the kernel is shown as idle while a cell runs", DEBUG):
            kernel._publish_status("busy", "shell")
