"""Where an output is, and whether it can still be replaced there.

A front end replaces an output by its display id. The replacement is lost silently if the output is in an
ipywidgets `Output`, if the front end only appends (consoles, a server that executes cells by itself), if
`%%capture` keeps the output, and after `clear_output`. No message says so to the kernel; it concludes it
from the request of the cell, the widgets, and the calls of `clear_output`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, ClassVar, NamedTuple

from IPython import get_ipython
from IPython.core.displaypub import CapturingDisplayPublisher

from ...compat.browser import IN_BROWSER
from ...compat.imports import module_if_loaded
from .front_end import in_frames

QUIET = 1.0
"""Seconds after a `clear_output` in which a live run is not shown again: a loop that clears its output
in each round would make the page blink."""


class Place(NamedTuple):
    """Where an output is."""

    cell: str
    """The id of the request to which the output belongs."""
    widget: Any = None
    """The ipywidgets `Output` that takes the outputs of the cell; None if the cell has them itself."""
    is_updated: bool = True
    """Whether the front end replaces the output."""
    is_captured: bool = False
    """Whether `%%capture` keeps the output, with each update as one more output."""
    clears: int = 0
    """How often the outputs of this place had been cleared when the output was shown."""
    document_cell: str = ""
    """The id of the notebook's cell that has the output until it runs again; empty: not known, or an
    `Output` or `%%capture` has it."""

    @classmethod
    def now(cls) -> Place:
        """The place of an output that is shown now."""
        shell = get_ipython()
        if isinstance(getattr(shell, "display_pub", None), CapturingDisplayPublisher):
            return cls("", is_updated=False, is_captured=True)
        request = _request(shell)
        cell = _id(request)
        widget = _output_widget(cell)
        is_updated = widget is None and _replaces(request)
        document_cell = str(request.get("metadata", {}).get("cellId", "")) if widget is None else ""
        clears = Clears.of(cell, widget).times
        return cls(cell, widget, is_updated, clears=clears, document_cell=document_cell)

    def replaces(self, earlier: Place) -> bool:
        """Whether this is a later run of the cell that had ``earlier``: its outputs are gone."""
        is_same = bool(self.document_cell) and self.document_cell == earlier.document_cell
        return is_same and self.cell != earlier.cell

    def inside(self) -> AbstractContextManager[Any]:
        """A context whose outputs are in the `Output` of this place. It works also if the person's block
        with the `Output` has been left, or is left meanwhile: an `Output` counts its blocks."""
        return nullcontext() if self.widget is None else self.widget

    @property
    def is_gone(self) -> bool:
        """Whether the output was cleared."""
        return Clears.of(self.cell, self.widget).times != self.clears

    @property
    def is_quiet(self) -> bool:
        """Whether the last clearing was a while ago and is done. A ``clear_output(wait=True)`` waits for
        the next output, which must be the loop's and not ours."""
        return time.monotonic() >= Clears.of(self.cell, self.widget).when + QUIET


class Cleared(NamedTuple):
    """How often a place was cleared."""

    times: int = 0
    when: float = 0.0
    """The time of the last clearing, by the monotonic clock; infinite if it waits for the next output."""


class Clears:
    """The calls of `clear_output`, by cell and `Output`."""

    MOST = 100
    """The most places that are remembered."""
    _by_place: ClassVar[dict[tuple[str, str], Cleared]] = {}

    @classmethod
    def of(cls, cell: str, widget: Any) -> Cleared:
        return cls._by_place.get((cell, getattr(widget, "model_id", "")), Cleared())

    @classmethod
    def note(cls, waits: bool) -> None:
        cell = _id(_request(get_ipython()))
        key = cell, getattr(_output_widget(cell), "model_id", "")
        when = float("inf") if waits else time.monotonic()
        before = cls._by_place.pop(key, Cleared())
        cls._by_place[key] = Cleared(before.times + 1, when)
        for old in list(cls._by_place)[: -cls.MOST]:
            cls._by_place.pop(old, None)


def watch_clears(undo: ExitStack, shell: Any) -> None:
    """Notice the calls of `clear_output` of the kernel of ``shell``."""
    publisher = getattr(shell, "display_pub", None)
    if getattr(shell, "kernel", None) is None or publisher is None:
        return
    clear = publisher.clear_output

    def clear_output(wait: bool = False, *args: Any, **named: Any) -> Any:
        Clears.note(bool(wait))
        return clear(wait, *args, **named)

    publisher.clear_output = clear_output
    undo.callback(delattr, publisher, "clear_output")


def cell_id(shell: Any) -> str | None:
    """The id of the running cell in the notebook, if the front end sends it."""
    parent: Callable[[], dict[str, Any]] = getattr(shell, "get_parent", dict)
    cell: str | None = parent().get("metadata", {}).get("cellId")
    return cell


def cell_text(shell: Any) -> str | None:
    """The text of the running cell, as the front end sent it."""
    text = _request(shell).get("content", {}).get("code")
    return text if isinstance(text, str) else None


def _request(shell: Any) -> dict[str, Any]:
    """The message that the kernel answers now; empty without a kernel."""
    if getattr(shell, "kernel", None) is None:
        return {}
    # The shell of JupyterLite's kernel has no such method.
    parent: Callable[[], dict[str, Any] | None] = getattr(shell, "get_parent", dict)
    return parent() or {}


def _id(request: dict[str, Any]) -> str:
    return str(request.get("header", {}).get("msg_id", ""))


def _replaces(request: dict[str, Any]) -> bool:
    """Whether the front end that sent a request replaces outputs by their ids (decision D142).

    A document does: its requests name the cell, or nobody can type there (nbclient). Any other request
    comes from a console or a server, which only append."""
    if IN_BROWSER or in_frames() or "cellId" in request.get("metadata", {}):
        return True
    return not request.get("content", {}).get("allow_stdin", False)


def _output_widget(cell: str) -> Any:
    """The `Output` that takes the outputs of this request; None if no `Output` does."""
    widgets = module_if_loaded("ipywidgets")
    if widgets is None or not cell:
        return None
    with warnings.catch_warnings():
        # `Widget.widgets` is deprecated, and the only other name of the table is private.
        warnings.simplefilter("ignore", DeprecationWarning)
        existing = list(widgets.Widget.widgets.values())
    outputs = (widget for widget in existing if isinstance(widget, widgets.Output))
    return next((output for output in outputs if output.msg_id == cell), None)
