"""Outputs of a cell: shown once, or one that can be changed later. IPython's own functions for it carry no types."""

from __future__ import annotations

import threading
from typing import Any

from IPython.display import DisplayHandle, display

Bundle = dict[str, Any]
"""By mime type."""


def show(bundle: Bundle) -> None:
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def heard(widget: Any) -> None:
    """What a person does to this widget reaches the kernel while a cell waits, where a kernel can be reached then.

    ipykernel 7.4 would send it to the shell that opened the widget, which may be the very one that waits.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default


class Slot:
    """One output, which stands where it was reserved, whatever is printed later."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._lock = threading.Lock()

    def reserve(self, first: Bundle) -> None:
        """Take the place, with ``first`` in it; nothing happens the second time."""
        with self._lock:
            if self._handle is None:
                self._handle = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def put(self, bundle: Bundle) -> None:
        """Replace what it shows."""
        self.reserve({})
        assert self._handle is not None
        self._handle.update(bundle, raw=True)  # type: ignore[no-untyped-call]
