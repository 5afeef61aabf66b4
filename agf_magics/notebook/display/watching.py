"""A run is started and shown until its end: by the cell that waits for it, or while other cells
run.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from logging import DEBUG
from queue import Empty, SimpleQueue

from ...compat.browser import IN_BROWSER
from ...engine.host.hold_interrupts import hold_interrupts
from ...lifecycle.launch.driving import wait_for
from ...lifecycle.runs.run import Run, state_of
from ...text.giving_up import giving_up
from ..output.output import accompany
from ..output.receiving import tell_busy
from .view import View

Start = Callable[[Callable[[Run], None]], Run]
"""Starts a run. It calls its argument first, which reserves an output: the output must be above
everything that the run prints."""


def watch(start: Start, view: View, hz: float) -> Run:
    """Start a run, show it and wait for its end. ``hz``: updates of the view per second. The view is
    closed in any case."""
    over: SimpleQueue[None] = (
        SimpleQueue()
    )  # an interrupt can leave the lock of a `threading.Event` locked

    def wait(run: Run) -> None:
        def tick() -> None:
            while True:
                with suppress(Empty):
                    return over.get(timeout=1 / hz)
                _tick(view, run)
                tell_busy()

        if IN_BROWSER:
            job = state_of(run).job
            assert job is not None
            job.every(1 / hz, partial(_tick, view, run), lambda: None)
            try:
                run.wait()
            finally:
                view.close(run)
            return
        # In the context of the cell, so that the output of the thread belongs to the cell.
        context = contextvars.copy_context()
        ticker = threading.Thread(target=context.run, args=(tick,), name="agf-view", daemon=True)
        ticker.start()
        try:
            run.wait()
        finally:
            over.put(None)
            ticker.join()
            view.close(run)

    with hold_interrupts() as held:
        return wait_for(start(view.reserve), held, wait)


def follow(start: Start, view: View, hz: float) -> Run:
    """Start a run in the background and show it in the output of this cell, from a thread that ends
    with the run."""
    run = start(view.reserve)
    accompany(run, 1 / hz, partial(_tick, view, run), partial(view.close, run), _thread_name(run))
    return run


def _tick(view: View, run: Run) -> None:
    """Update a view. A view that fails shows only the end of the run: an error in its thread must not be
    printed into a cell."""
    with giving_up(__name__, "the view of a run was not updated", DEBUG):
        view.tick(run)


def join_views(run: Run, seconds: float = 5.0) -> None:
    """Wait until every view of an ended background run shows the end, at most ``seconds`` for each."""
    for thread in threading.enumerate():
        if thread.name == _thread_name(run):
            thread.join(seconds)


def _thread_name(run: Run) -> str:
    return f"agf-view {run.run_id}"
