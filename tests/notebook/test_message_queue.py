"""A kernel without subshells: which messages are taken from its queue while a cell waits, and which stay.

ipykernel 6 cannot be installed beside ipykernel 7. So the session, the queue and the frames are real here, and the
kernel around them imitates ipykernel 6.17. `make colab` runs the same with that kernel (see .ci/busy_cell.py).
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session
from tornado.queues import Queue

from agf_magics.notebook.output.front_end import page
from agf_magics.notebook.output.message_queue import message_taker
from agf_magics.notebook.output.receiving import receive_while_busy
from agf_magics.settings.settings import current
from tests.notebook.conftest import Shell


class OldKernel:
    """The parts of ipykernel 6.17 that the queue uses, with a record of their calls."""

    def __init__(self) -> None:
        self.session = Session(key=b"key")
        self.msg_queue: Queue[Any] = Queue()
        self.arrived: list[Any] = []
        """The messages in the socket."""
        self.handled: list[Any] = []
        self.statuses: list[str] = []
        self.shell_stream = SimpleNamespace(flush=self._flush)
        self.comm_manager = SimpleNamespace(comms={}, comm_msg=self._comm_msg)

    def _flush(self) -> None:
        for number, frames in enumerate(self.arrived):
            self.msg_queue.put_nowait((number, self._dispatch, (frames,)))
        self.arrived.clear()

    def _dispatch(self, frames: Any) -> None: ...

    def _comm_msg(self, stream: Any, idents: Any, message: Any) -> None:
        self.handled.append(message["content"]["data"])

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        self.statuses.append(status)

    def send(self, kind: str, session: Session | None = None, **content: Any) -> None:
        """Send a message as a client."""
        sender = session or self.session
        frames = sender.serialize(sender.msg(kind, content), ident=b"client")
        self.arrived.append([zmq.Frame(frame) for frame in frames])

    def waiting(self) -> list[str]:
        """The kinds of the messages in the queue, in its order."""
        kinds = []
        while not self.msg_queue.empty():
            _, dispatch, (frames,) = self.msg_queue.get_nowait()
            assert dispatch == self._dispatch
            _, parts = self.session.feed_identities([frame.bytes for frame in frames])
            kinds.append(self.session.unpack(parts[1])["msg_type"])
        return kinds


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> OldKernel:
    monkeypatch.setattr(page, "hears_while_busy", False)
    kernel = OldKernel()
    our_stream, their_stream = SimpleNamespace(), SimpleNamespace()
    receive_while_busy(our_stream)
    kernel.comm_manager.comms.update(ours=our_stream, theirs=their_stream)
    return kernel


def taker(kernel: OldKernel) -> Callable[[], None]:
    take = message_taker(kernel)
    assert take is not None
    return take


def test_only_messages_of_our_views_are_taken_and_the_others_keep_their_order(kernel: OldKernel) -> None:
    kernel.send("execute_request", code="1")
    kernel.send("comm_msg", comm_id="ours", data={"do": "runs"})
    kernel.send("comm_msg", comm_id="theirs", data={})
    kernel.send("comm_msg", comm_id="ours", data={"do": "cancel"})
    kernel.send("comm_msg", comm_id="closed", data={})
    kernel.send("complete_request", code="1")
    taker(kernel)()
    assert kernel.handled == [{"do": "runs"}, {"do": "cancel"}]
    assert kernel.waiting() == ["execute_request", "comm_msg", "comm_msg", "complete_request"]
    assert kernel.statuses == ["busy", "idle", "busy"] * 2, "the kernel is busy with its cell again"
    assert page.hears_while_busy


def test_a_message_that_is_signed_by_another_key_is_not_handled(kernel: OldKernel) -> None:
    kernel.send("comm_msg", Session(key=b"another"), comm_id="ours", data={"do": "cancel"})
    kernel.send("execute_request", code="1")
    kernel.send("comm_msg", comm_id="ours", data={"do": "runs"})
    taker(kernel)()
    assert kernel.handled == [{"do": "runs"}]
    assert kernel.waiting() == ["execute_request"]


def test_a_malformed_message_stays_in_the_queue(kernel: OldKernel) -> None:
    items = [("another", "form"), (2, print, ([zmq.Frame(b"no delimiter")],))]
    for item in items:
        kernel.msg_queue.put_nowait(item)
    taker(kernel)()
    assert [kernel.msg_queue.get_nowait() for _ in items] == items
    assert not page.hears_while_busy


def test_a_kernel_with_subshells_and_a_shell_without_a_kernel_have_no_queue(kernel: OldKernel) -> None:
    kernel.kernel_info = {"supported_features": ["kernel subshells"]}  # type: ignore[attr-defined]
    assert message_taker(kernel) is None
    assert message_taker(None) is None


def test_after_unloading_no_messages_are_taken(
    shell: Shell, kernel: OldKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, before = shell.ip.extension_manager, current.meanwhile
    manager.unload_extension("agf_magics")
    monkeypatch.setattr(shell.ip, "kernel", kernel, raising=False)
    manager.load_extension("agf_magics")
    assert current.meanwhile is not before, "a run that waits takes messages"
    manager.unload_extension("agf_magics")
    assert current.meanwhile is before
