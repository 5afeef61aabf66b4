"""The picture of a run, drawn in the background: a run does not wait for graphviz.

The thread ends by itself, because a layout has a limit of work. Nothing that happens on it is
printed into a cell.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...compat.browser import IN_BROWSER
from ...engine.linking.linked import Callee
from ...flow.flow import Flow
from ...flow.progress.progress import Progress
from ...text.giving_up import giving_up
from .output import Bundle

if TYPE_CHECKING:
    from ...pictures.diagram import Diagram


class Drawing:
    """The picture of one flow. All methods may be called on any thread."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._diagram: Diagram | None = None
        """The picture; None until it is drawn."""
        self._thread: threading.Thread | None = None

    def begin(self, show: Callable[[Bundle], object], callees: Mapping[str, Callee]) -> None:
        """Draw the picture on a thread of its own, which then calls ``show`` with it. ``callees``: the
        tools, agents and flows to which the calls of the flow are linked."""
        if IN_BROWSER:
            return self._draw(show, callees)
        # In the context of the cell, so that the output of the thread belongs to the cell.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._draw, show, callees), name="agf-picture", daemon=True
        )
        return self._thread.start()

    def html(self, progress: Progress) -> str:
        """The picture in the colours of a run. Empty as long as the picture is not ready, and for a large
        flow: its steps are on the page of the run anyway."""
        drawn = self._diagram
        return drawn.of_run(progress).html() if drawn is not None and not drawn.is_large else ""

    def wait(self) -> None:
        """Wait until the picture is ready and shown. Returns at once without `begin`."""
        if self._thread is not None:
            self._thread.join()

    def _draw(self, show: Callable[[Bundle], object], callees: Mapping[str, Callee]) -> None:
        # Imported here: scene and layout are an eighth of the package, and not each notebook draws.
        from ...pictures.diagram import Diagram

        # Not even a mistake of this package may print an error into the cell.
        with giving_up(__name__, "a flow was not drawn"):
            diagram = Diagram(self._flow, callees=callees)
            bundle: Bundle = dict(diagram._repr_mimebundle_())
            self._diagram = diagram
            show(bundle)
