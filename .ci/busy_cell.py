"""Cancel a run while its cell waits, as a front end does that names no subshell, and say how long it took.

    python .ci/busy_cell.py hears|hears-not      (run by .ci/colab.py)

The client sends what a view sends: the message of each view that opens, and Cancel when the answer has the button. A
second cell is queued meanwhile, and must run after the first one. ``hears-not``: a kernel that receives nothing while a
cell runs (ipykernel 7.0 to 7.3), whose views must have no button.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from jupyter_client.manager import start_new_kernel

TOOL = """
from agf_magics import tool
import asyncio

@tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"
"""
CELL = """\
%%pipeline --run
pipeline: naps
steps:
- tool: {name: nap, args: {seconds: 10}}
"""
PATIENCE = 60.0
"""Seconds after which the kernel is taken for dead."""

MOST = 2.0
"""Seconds from Cancel to the end of the run that are allowed: the machine of a check may be slow."""


class Client:
    """A client of a new kernel, with the times at which it sent something."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(kernel_name="python3")

    def messages(self) -> Iterator[dict[str, Any]]:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            yield self.client.get_iopub_msg(timeout=PATIENCE)
        raise SystemExit("the kernel goes on without an end")

    def run(self, code: str) -> None:
        cell = self.client.execute(code)
        for message in self.messages():
            if message["msg_type"] == "error":
                raise SystemExit("\n".join(message["content"]["traceback"]))
            if (
                message["content"].get("execution_state") == "idle"
                and message["parent_header"].get("msg_id") == cell
            ):
                return

    def send(self, comm: str, **content: Any) -> float:
        """Send what a view sends, and return when."""
        data = {"comm_id": comm, "data": {"method": "custom", "content": content}}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", data))
        return time.monotonic()


def main(hears: bool) -> None:
    client = Client()
    try:
        client.run(
            "import IPython, ipykernel\n%load_ext agf_magics\n%config AgfMagics.progress_after = 0"
        )
        client.run("%config AgfMagics.progress = 'widget'")
        client.run(TOOL)
        print(cancelled(client, hears))
        client.run("assert 2 + 2 == 4")
    finally:
        client.client.stop_channels()
        client.manager.shutdown_kernel(now=True)


def cancelled(client: Client, hears: bool) -> str:
    """Cancel the run of a cell, and say how it went."""
    client.client.execute(CELL, stop_on_error=False)  # the next cell runs after its error
    second = client.client.execute("print('the second cell')")
    comm = mark = ""
    asked = answered = cancelled = ended = 0.0
    for message in client.messages():
        kind, content = message["msg_type"], message["content"]
        data = content.get("data", {})
        runs = data.get("state", {}).get("runs") if kind == "comm_open" else None
        if runs:
            comm, mark = content["comm_id"], next(iter(runs))
            assert runs[mark]["update"]["can"] == [], "a button before the kernel has heard a view"
            asked = client.send(comm, do="runs")
        elif asked and not answered and data.get("content", {}).get("type") == "runs":
            answered = time.monotonic()
            if "cancel" in data["content"]["runs"][mark]["update"]["can"]:
                cancelled = client.send(comm, mark=mark, do="cancel", id=1)
        elif kind == "error":
            ended = time.monotonic()
            assert "Cancel button" in content["evalue"], content["evalue"]
        elif kind == "stream" and "the second cell" in content["text"]:
            assert message["parent_header"]["msg_id"] == second, "the output of another cell"
            break
    if not hears:
        assert asked > 0 == answered == ended, "it hears"
        return "no view is heard while a cell runs, and no button is shown"
    assert 0 < ended - cancelled < MOST, (asked, answered, cancelled, ended)
    heard, took = answered - asked, ended - cancelled
    return f"a view is heard after {heard:.3f} s, and its Cancel ends the cell after {took:.3f} s"


if __name__ == "__main__":
    main(sys.argv[1] == "hears")
