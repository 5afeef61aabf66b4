"""Outputs of a cell that are shown once or can be replaced. IPython's functions for it have no types."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections import deque
from typing import Any

from IPython import get_ipython
from IPython.display import display

Bundle = dict[str, Any]
"""A text for each MIME type."""

FRAMED = ("VSCODE_PID", "COLAB_RELEASE_TAG")
"""Those of front ends that show each output in a frame of its own. The page's script cannot find an element there, so
the output has the explorer as a widget during the run."""

EMPTY: Bundle = {"text/html": "", "text/plain": ""}
"""An output that keeps a place."""


def in_frames() -> bool:
    """Whether the front end shows each output in a frame of its own."""
    return any(name in os.environ for name in FRAMED)


def show(bundle: Bundle) -> None:
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def receive_while_busy(widget: Any) -> None:
    """Let the kernel receive the events of ``widget`` while a cell waits, if the kernel has subshells.

    ipykernel 7.4 sends them to the shell that opened the widget, which may be the one that waits.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default


class OutputSlot:
    """One output, which keeps its place among everything that is printed later.

    Before each message IPython's `display` lets the kernel's output thread send what was printed, once for each stream,
    and waits for it. That is half of its cost, and a run waits with it. The thread does everything in order: so it
    flushes the streams and sends the output in one go, and nothing waits. An update has its place and needs no flush.
    """

    def __init__(self) -> None:
        self._id = ""
        self._lock = threading.Lock()
        self._waiting: deque[Any] = deque()
        """Messages that the output thread has not sent yet: no other message may overtake them."""

    def reserve(self, first: Bundle) -> None:
        """Show ``first``; a second call does nothing."""
        with self._lock:
            if not self._id:
                self._id = uuid.uuid4().hex
                self._show(first)

    def _show(self, first: Bundle) -> None:
        publisher = _plain_publisher()
        if publisher is None or not _has_plain_streams():
            display(first, raw=True, display_id=self._id)  # type: ignore[no-untyped-call]
            return
        streams = sys.stdout, sys.stderr
        self._waiting.append(self._message(publisher, "display_data", first))

        def flush_and_send() -> None:
            for stream in streams:
                stream.flush()
            self._send_first(publisher)

        publisher.pub_socket.io_thread.schedule(flush_and_send)

    def put(self, bundle: Bundle) -> None:
        """Replace the output."""
        self.reserve({})
        publisher = _plain_publisher()
        if publisher is None:
            display(bundle, raw=True, display_id=self._id, update=True)  # type: ignore[no-untyped-call]
            return
        message = self._message(publisher, "update_display_data", bundle)
        if self._waiting:
            self._waiting.append(message)
            publisher.pub_socket.io_thread.schedule(lambda: self._send_first(publisher))
        else:
            _send(publisher, message)

    def _message(self, publisher: Any, kind: str, bundle: Bundle) -> Any:
        content = {"data": bundle, "metadata": {}, "transient": {"display_id": self._id}}
        return publisher.session.msg(kind, content, parent=publisher.parent_header)

    def _send_first(self, publisher: Any) -> None:
        _send(publisher, self._waiting[0])
        self._waiting.popleft()


def _send(publisher: Any, message: Any) -> None:
    publisher.session.send(publisher.pub_socket, message, ident=publisher.topic)


def _plain_publisher() -> Any:
    """The display publisher of a kernel whose outputs go to the front end only; None if something else gets them: a
    capture, a hook, the history."""
    shell, iostream = sys.modules.get("ipykernel.zmqshell"), sys.modules.get("ipykernel.iostream")
    publisher: Any = getattr(get_ipython(), "display_pub", None)
    if shell is None or iostream is None or type(publisher) is not shell.ZMQDisplayPublisher:
        return None
    is_plain = (
        type(publisher.pub_socket) is iostream.BackgroundSocket
        and not getattr(publisher, "_hooks", True)
        and not getattr(publisher, "store_display_history", False)
    )
    return publisher if is_plain else None


def _has_plain_streams() -> bool:
    """Whether the streams are the kernel's own, which its output thread may flush."""
    return type(sys.stdout) is type(sys.stderr) is sys.modules["ipykernel.iostream"].OutStream
