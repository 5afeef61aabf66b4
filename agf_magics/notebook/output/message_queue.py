"""Messages of our views are taken from the queue of a kernel without subshells while its cell waits.

ipykernel 6 handles one message after the other, on the thread that runs the cells. While that thread
waits for a run, it is free: then it handles the messages of our own views, and only those. All other
messages keep their order and wait for the end of the cell. Nothing is handled while a plain function of
the person has the thread. The queue is private to ipykernel: if it is not as in version 6, the messages
of views wait for the end of the cell, too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from logging import DEBUG
from typing import Any

from ...text.giving_up import giving_up
from .front_end import page
from .receiving import is_ours

DELIMITER = b"<IDS|MSG>"
"""The frame of a message after which its signature, header, parent, metadata and content come."""


def message_taker(kernel: Any) -> Callable[[], None] | None:
    """The function that takes the messages of our views from the queue of ``kernel``; None if the kernel
    has no such queue, or has subshells (see `receiving`)."""
    features = getattr(kernel, "kernel_info", {}).get("supported_features", ())
    if "kernel subshells" in features or not hasattr(kernel, "msg_queue"):
        return None

    def take() -> None:
        if threading.current_thread() is threading.main_thread():
            with giving_up(__name__, "the messages of views wait for the end of the cell", DEBUG):
                _take(kernel)

    return take


def _take(kernel: Any) -> None:
    kernel.shell_stream.flush()  # from the socket into the queue
    items = []
    while not kernel.msg_queue.empty():
        items.append(kernel.msg_queue.get_nowait())
    of_views = [item for item in items if _is_of_a_view(kernel, item)]
    for item in items:
        if item not in of_views:
            kernel.msg_queue.put_nowait(item)
    for _, _, (frames,) in of_views:
        with giving_up(__name__, "a message of a view was not handled", DEBUG):
            _handle(kernel, frames)


def _is_of_a_view(kernel: Any, item: Any) -> bool:
    """Whether an entry of the queue is a message for a comm of ours. The signature of the message is
    checked when it is handled."""
    with giving_up(__name__, "a message was left to the kernel", DEBUG):
        _, _, (frames,) = item
        parts = [bytes(frame.bytes) for frame in frames]
        start = parts.index(DELIMITER)
        if json.loads(parts[start + 2])["msg_type"] != "comm_msg":
            return False
        comm_id = json.loads(parts[start + 5])["comm_id"]
        return is_ours(kernel.comm_manager.comms.get(comm_id))
    return False


def _handle(kernel: Any, frames: Any) -> None:
    """Give a message to its comm, between the statuses that the protocol asks for; afterwards the kernel
    is busy with the cell again. The kernel's own handler is not used: it would also change the handler
    of interrupts."""
    idents, frames = kernel.session.feed_identities(frames, copy=False)
    message = kernel.session.deserialize(frames, content=True, copy=False)
    page.hears_while_busy = True
    kernel._publish_status("busy", "shell", message)
    try:
        kernel.comm_manager.comm_msg(kernel.shell_stream, idents, message)
    finally:
        kernel._publish_status("idle", "shell", message)
        kernel._publish_status("busy", "shell")
