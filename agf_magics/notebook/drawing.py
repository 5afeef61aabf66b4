"""The picture of a run, drawn in the background: a run does not wait for graphviz.

The thread ends by itself, because a layout has a limit of work. Nothing that happens on it is
printed into a cell.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from ..flow.steps import Flow
from ..pictures.diagram import SMALLEST, Diagram
from ..pictures.plain import html
from ..progress.progress import Progress
from .output import Bundle


class Drawing:
    """The picture of one flow. `begin` may come from any thread, the others too."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._diagram: Diagram | None = None
        self._failure = ""
        """Why there is no diagram, as HTML: a mistake of this package."""
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, show: Callable[[Bundle], object]) -> None:
        """Draw the picture on a thread of its own, which then calls ``show`` with it."""
        # In the context of the cell, to which the output of the thread then belongs.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._draw, show), name="agf-picture", daemon=True
        )
        self._thread.start()

    def html(self, progress: Progress) -> str:
        """The picture in the colours of a run; empty as long as it is not ready."""
        if not self._ready.is_set():
            return ""
        return (
            self._diagram.of_run(progress).html(SMALLEST)
            if self._diagram is not None
            else self._failure
        )

    def wait(self) -> None:
        """Wait until it is ready and shown; not at all without `begin`."""
        if self._thread is not None:
            self._thread.join()

    def _draw(self, show: Callable[[Bundle], object]) -> None:
        try:
            diagram = Diagram(self._flow)
            bundle: Bundle = dict(diagram._repr_mimebundle_())
            self._diagram = diagram
        except Exception as error:
            reason = f"no picture: {type(error).__name__}"
            self._failure = f"<p><em>{html(reason)}</em></p>"
            bundle = {"text/html": self._failure, "text/plain": reason}
        self._ready.set()
        show(bundle)
