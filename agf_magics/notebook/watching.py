"""A run is started and shown until its end: by the cell that waits for it, or while other cells
run."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from ..host.held import held_interrupts
from ..lifecycle.driving import wait_for
from ..lifecycle.launch import Run
from .view import View

Start = Callable[[Callable[[], None]], Run]
"""Starts a run and calls its argument first: the output must be above everything that the run
prints."""


def watch(start: Start, view: View, hz: float) -> Run:
    """Start a run, show it and wait for its end. The view is closed in any case."""
    over: SimpleQueue[None] = (
        SimpleQueue()
    )  # an interrupt can leave the lock of a `threading.Event` locked

    def wait(run: Run) -> None:
        def tick() -> None:
            while True:
                with suppress(Empty):
                    return over.get(timeout=1 / hz)
                if not _tick(view, run):
                    return

        # In the context of the cell, to which the output of the thread then belongs.
        context = contextvars.copy_context()
        ticker = threading.Thread(target=context.run, args=(tick,), name="agf-view", daemon=True)
        ticker.start()
        try:
            run.wait()
        finally:
            over.put(None)
            ticker.join()
            view.close(run)

    with held_interrupts() as held:
        return wait_for(start(view.reserve), held, wait)


def follow(start: Start, view: View, hz: float) -> Run:
    """Start a run in the background and show it in the output of this cell, from a thread that ends
    with the run."""
    run = start(view.reserve)

    def show() -> None:
        ticks = True
        while not run.wait(1 / hz).done:
            ticks = ticks and _tick(view, run)
        view.close(run)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(show,), name=_thread_name(run), daemon=True).start()
    return run


def _tick(view: View, run: Run) -> bool:
    """Whether the view still works. If not, it only shows the end of the run: its thread must not
    print into a cell."""
    try:
        view.tick(run)
    except Exception:
        return False
    return True


def join_views(run: Run, seconds: float = 5.0) -> None:
    """Wait until every view of an ended background run shows its end."""
    for thread in threading.enumerate():
        if thread.name == _thread_name(run):
            thread.join(seconds)


def _thread_name(run: Run) -> str:
    return f"agf-view {run.run_id}"
