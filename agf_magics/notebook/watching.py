"""A run begun and shown until its end: by the cell that waits for it, or beside the cells that run meanwhile."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from ..lifecycle.driving import driven
from ..lifecycle.launch import Run
from .view import View

Begin = Callable[[Callable[[], None]], Run]


def watch(begin: Begin, view: View, hz: float) -> Run:
    """Begin a run and wait for its end, showing it meanwhile. The view is closed whatever happens.

    ``begin`` is given what is to be called before anything of the run is: the output must stand above all prints.
    """
    over = threading.Event()

    def wait(run: Run) -> None:
        def tick() -> None:
            while not over.wait(1 / hz):
                view.tick(run)

        # In the cell's context: what a thread displays belongs to the cell by that alone.
        context = contextvars.copy_context()
        ticker = threading.Thread(target=context.run, args=(tick,), name="agf-view", daemon=True)
        ticker.start()
        try:
            run.wait()
        finally:
            over.set()
            ticker.join()
            view.close(run)

    return driven(lambda: begin(view.reserve), wait)


def follow(begin: Begin, view: View, hz: float) -> Run:
    """Begin a run in the background and go on showing it in this cell's output, from a thread that ends with it."""
    run = begin(view.reserve)

    def show() -> None:
        while not run.wait(1 / hz).done:
            view.tick(run)
        view.close(run)

    # In the cell's context, as above: other cells run meanwhile.
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(show,), name=_follower(run), daemon=True).start()
    return run


def settled(run: Run, seconds: float = 5.0) -> None:
    """Wait until every view of a run in the background that has ended shows its end."""
    for thread in threading.enumerate():
        if thread.name == _follower(run):
            thread.join(seconds)


def _follower(run: Run) -> str:
    return f"agf-view {run.run_id}"
