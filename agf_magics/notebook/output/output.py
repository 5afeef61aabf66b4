"""Outputs of a cell that are shown once or can be replaced."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from IPython.display import DisplayHandle, display

from ...compat.browser import IN_BROWSER
from ...lifecycle.runs.run import Run, state_of
from ...pictures.markdown import markdown_html
from ...pictures.plain import plain, untypeset
from .place import Place

MOST_MARKDOWN = 50_000
"""The most characters of a text of ours that is displayed."""

Bundle = dict[str, Any]
"""A text for each MIME type."""

EMPTY: Bundle = {"text/html": "", "text/plain": ""}
"""An output that shows nothing and only keeps a place."""


def show(bundle: Bundle) -> None:
    display(_as_text(bundle), raw=True)  # type: ignore[no-untyped-call]


def show_markdown(text: str) -> None:
    """Display ``text``. Its HTML is ours, because nbconvert writes the code of Markdown in a proportional
    font, in which its columns and carets move."""
    page = markdown_html(plain(text, MOST_MARKDOWN))
    show({"text/html": page, "text/markdown": text, "text/plain": text})


def _as_text(bundle: Bundle) -> Bundle:
    """``bundle`` with HTML that no front end reads as mathematics."""
    page = bundle.get("text/html")
    return {**bundle, "text/html": untypeset(page)} if page else bundle


class OutputSlot:
    """One output, which keeps its place among everything that is printed later. Where the front end
    cannot replace the output (see `Place`), the last bundle becomes a further output."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._place = Place("")
        self._shown: Bundle | None = None
        """The bundle that was shown last."""
        self._lock = threading.Lock()

    @property
    def is_updated(self) -> bool:
        """Whether the front end replaces the output."""
        return self._place.is_updated

    def reserve(self, first: Bundle) -> None:
        """Show ``first``; a second call does nothing."""
        with self._lock:
            if self._handle is None:
                self._show(first)

    def put(self, bundle: Bundle) -> None:
        """Replace the output by a bundle that is not the last. After the person has cleared the output,
        this does nothing until it may be shown again (`Place.is_quiet`)."""
        with self._lock:
            if self._handle is None:
                self._show(bundle)
            elif not self._place.is_gone:
                self._update(bundle)
            elif self._place.is_quiet:
                self._show(bundle)

    def end(self, bundle: Bundle) -> None:
        """Replace the output by its last bundle. Where the output cannot be replaced, the bundle is shown
        as a new output, unless it is what is shown already."""
        with self._lock:
            is_lost = self._place.is_gone or not self._place.is_updated
            is_news = bundle != self._shown
            if self._handle is not None and not (is_lost and is_news):
                self._update(bundle)
                return
            if not self._place.is_updated:
                # An unknown front end may replace the old output all the same.
                self._update(EMPTY)
            self._show(bundle, is_last=True)

    def _show(self, bundle: Bundle, is_last: bool = False) -> None:
        with self._place.inside():
            self._place = Place.now()
            self._shown = bundle
            if self._place.is_captured and not is_last:
                # A captured output has only its last bundle. The handle says that it has begun.
                self._handle = DisplayHandle()  # type: ignore[no-untyped-call]
                return
            self._handle = display(_as_text(bundle), raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def _update(self, bundle: Bundle) -> None:
        self._shown = bundle
        if self._handle is not None and not self._place.is_captured:
            self._handle.update(_as_text(bundle), raw=True)  # type: ignore[no-untyped-call]


def accompany(
    run: Run,
    seconds: float,
    tick: Callable[[], object],
    close: Callable[[], object],
    name: str,
) -> None:
    """Call ``tick`` every ``seconds`` until the end of ``run``, then ``close``. They are called on a new
    thread with this ``name``, in a browser on the loop of the run."""
    if run.done:  # in a browser the run may have ended before it had a loop
        close()
        return None
    if IN_BROWSER:
        job = state_of(run).job
        assert job is not None
        return job.every(seconds, tick, close)

    def show() -> None:
        while not run.wait(seconds).done:
            tick()
        close()

    # In the context of the cell, so that the output of the thread belongs to the cell.
    context = contextvars.copy_context()
    return threading.Thread(target=context.run, args=(show,), name=name, daemon=True).start()
