"""Simulates Python in a web page in an ordinary process: no threads, processes, sockets or locks, and a running loop.

`python page.py PROGRAM jspi|plain` runs a program as a cell of JupyterLite. A few lines over the running loop stand in
for ``pyodide.ffi``, which Pyodide adds to Python. Nothing of this package is replaced. Modules that must see the real
system at their import are imported first.
"""

from __future__ import annotations

import _thread
import asyncio
import fcntl
import os
import runpy
import socket
import sqlite3  # noqa: F401  before the platform changes
import subprocess
import sys
import threading
import types
from collections.abc import Coroutine
from typing import Any, NoReturn

import IPython  # noqa: F401
import jinja2.sandbox  # noqa: F401
import jsonschema  # noqa: F401
import pydantic  # noqa: F401
import yaml  # noqa: F401


def refuse(*arguments: object, **named: object) -> NoReturn:
    raise RuntimeError("can't start new thread")


def refuse_call(*arguments: object, **named: object) -> NoReturn:
    raise OSError(138, "emscripten does not support this")


def run_sync(work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for ``work`` while the loop continues, as a page with JSPI does."""
    loop: Any = asyncio.get_running_loop()
    task, around = loop.create_task(work), asyncio.current_task()
    assert around is not None
    asyncio._leave_task(loop, around)
    try:
        while not task.done():
            loop._run_once()
    finally:
        asyncio._enter_task(loop, around)
    return task.result()


def become_a_page(jspi: bool) -> None:
    """Take away what a page does not have. ``jspi``: whether the browser lets Python wait for its own loop."""
    ffi = types.ModuleType("pyodide.ffi")
    ffi.__dict__.update(can_run_sync=lambda: jspi, run_sync=run_sync)
    sys.modules["pyodide"], sys.modules["pyodide.ffi"] = types.ModuleType("pyodide"), ffi
    sys.modules["re2"] = None  # type: ignore[assignment]
    sys.platform = "emscripten"
    threading.Thread.start = refuse  # type: ignore[method-assign]
    _thread.start_new_thread = refuse
    subprocess.Popen.__init__ = refuse_call  # type: ignore[method-assign]
    socket.socketpair = refuse_call
    del os.link
    fcntl.__dict__.pop("lockf")


async def main(program: str, jspi: bool) -> None:
    become_a_page(jspi)
    runpy.run_path(program, run_name="__main__")
    # The tasks that are still on the loop are runs in the background.
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] == "jspi"))
