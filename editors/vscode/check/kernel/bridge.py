"""A kernel for the check in VS Code, over lines of JSON: it sets what VS Code sets, and names no subshell."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from jupyter_client.manager import start_new_kernel

SHOWN = ("stream", "error", "display_data", "execute_result", "update_display_data")

os.environ.pop("JPY_SESSION_NAME", None)
manager, client = start_new_kernel(kernel_name="python3")
cells: dict[str, Any] = {}
"""The number of a cell, by the message that runs it."""
lock = threading.Lock()


def say(message: dict[str, Any], **told: Any) -> None:
    cell = cells.get(message["parent_header"].get("msg_id", ""))
    if cell is not None:
        with lock:
            print(json.dumps({"id": cell, **told}, default=str), flush=True)


def outputs() -> None:
    while True:
        message = client.get_iopub_msg(timeout=None)
        if message["msg_type"] in SHOWN:
            say(message, type=message["msg_type"], content=message["content"])


def replies() -> None:
    while True:
        message = client.get_shell_msg(timeout=None)
        content = message["content"]
        say(
            message, type="done", ok=content["status"] == "ok", count=content.get("execution_count")
        )


for listen in (outputs, replies):
    threading.Thread(target=listen, daemon=True).start()
is_first = True
for line in sys.stdin:
    asked = json.loads(line)
    if is_first:
        client.execute(f"__vsc_ipynb_file__ = {asked['file']!r}", silent=True)
        is_first = False
    cells[client.execute(asked["code"])] = asked["id"]
manager.shutdown_kernel(now=True)
