"""Runs a chunk as a task on a Dask worker. It imports nothing of ours, because workers may lack it."""

from __future__ import annotations

import importlib
import os
import platform
import sys
import threading
import types
from collections.abc import Callable
from functools import partial
from typing import Any

PACKAGES = ("cloudpickle", "pydantic", "numpy", "pandas", "agf-magics")
"""Packages whose versions should be the same here and on the workers."""

FIRST_PRINTS = 5.0
"""Seconds after which the prints of a chunk are reported while it runs."""


def describe_process() -> dict[str, Any]:
    """The versions of Python and of `PACKAGES` in this process; empty for a package that is missing."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = ""
    return versions


def process_token() -> str:
    """A text that is different in each process, also in one that has restarted at the same
    address."""
    state = _state()
    if state.token[1] != os.getpid():
        state.token = (os.urandom(16).hex(), os.getpid())
    token: str = state.token[0]
    return token


def run_task(key: str, token: str, topic: str, run: Callable[..., Any], *order: Any) -> Any:
    """The result of ``run(*order)``. None if ``token`` names another process: the scheduler has then
    repeated a task that must not run twice.

    Prints become events of ``topic`` if the chunk takes more than `FIRST_PRINTS` seconds."""
    # Checked on the worker: the scheduler has moved a task to another worker before it tells anybody.
    if token and process_token() != token:
        return None
    state, ended = _state(), threading.Event()
    state.running[key] = captures = list[Any]()
    state.captures[threading.get_ident()] = captures
    from distributed import get_worker

    state.tellers[threading.get_ident()] = partial(get_worker().log_event, topic)
    threading.Thread(
        target=_report, args=(get_worker(), topic, captures, ended), daemon=True
    ).start()
    try:
        return run(*order)
    finally:
        ended.set()
        # The kernel asks for the running tasks before it ends a worker that is busy.
        state.running.pop(key, None)
        state.captures.pop(threading.get_ident(), None)
        state.tellers.pop(threading.get_ident(), None)


def running_tasks() -> list[str]:
    """The keys of the chunks that this process executes."""
    return list(_state().running)


def _report(worker: Any, topic: str, captures: list[Any], ended: threading.Event) -> None:
    while not ended.wait(FIRST_PRINTS):
        for capture in list(captures):
            texts = capture.take()
            if texts:
                worker.log_event(topic, texts)


def _state() -> Any:
    """The state of this process between chunks, in the module ``_agf_chunk`` that `chunk` uses, too."""
    state: Any = sys.modules.setdefault("_agf_chunk", types.ModuleType("_agf_chunk"))
    if not hasattr(state, "running"):
        state.captures = {}
        state.token = ("", 0)
        state.running = {}
        state.tellers = {}
    return state
