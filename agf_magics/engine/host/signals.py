"""Reads the handler of SIGINT, sends a signal to the main thread, and lets signals wake a loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ...compat.browser import IN_BROWSER


@contextlib.contextmanager
def woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let signals wake ``loop``, which runs on this thread.

    A notebook's handler of SIGINT cancels the task of the cell, but the loop would sleep until its
    next timer.
    """
    if not on_main_thread() or IN_BROWSER:
        yield
        return
    ear, mouth = socket.socketpair()
    with ear, mouth:
        # A full pipe must not block the handler, nor an empty pipe the loop.
        ear.setblocking(False)
        mouth.setblocking(False)
        before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        if before == -1:  # otherwise the loop or its owner handles wake-ups
            loop.add_reader(ear, ear.recv, 4096)
        else:
            signal.set_wakeup_fd(before)
        try:
            yield
        finally:
            if before == -1:
                loop.remove_reader(ear)
                signal.set_wakeup_fd(-1)


def on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def sigint_handler() -> Any:
    return signal.getsignal(signal.SIGINT)


def signal_main_thread() -> None:
    if sys.platform == "win32":
        import _thread

        _thread.interrupt_main()
    else:
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)
