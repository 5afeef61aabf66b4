"""A run while it goes on: one output of the cell, reserved before the first print, alive, and frozen when it is over.

What stays behind is static HTML and text, so that the saved notebook reads without a kernel. Nothing here computes what
is shown: a view asks for the page of the run at most `refresh_hz` times a second, from one thread of its own, and only
if something changed.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any, ClassVar, Protocol

from ..engine.runner import clock
from ..flow.steps import Flow
from ..lifecycle.launch import Run
from ..pictures.counters import words
from ..pictures.diagram import SMALLEST, Diagram
from ..pictures.page import (
    failures_html,
    failures_text,
    headline,
    questions_html,
    questions_text,
    steps_html,
    steps_text,
    warnings_html,
    warnings_text,
)
from ..pictures.plain import duration, line
from ..pictures.run_page import run_html, run_text
from ..progress.progress import Row
from .config import AgfMagics
from .output import Bundle, Slot, heard, show

FRONT_ENDS = ("JPY_SESSION_NAME", "VSCODE_PID", "COLAB_RELEASE_TAG")
"""Set in a kernel that somebody looks at; nbclient sets none, and would keep a widget nobody sees for ever."""

KEPT = 10
"""Runs whose widgets stay open: a page that is loaded again finds its models, or shows an error in their place."""

CLOCK = 1.0
"""Seconds after which a page is drawn again though nothing happened: it shows how long things take."""


class View(Protocol):
    """How a run is shown. `reserve` may come from any thread; then `tick` from one, then `close` from one."""

    shows_page: bool
    """Whether it leaves the page of the run behind."""

    def reserve(self) -> None: ...

    def tick(self, run: Run) -> None: ...

    def close(self, run: Run) -> None: ...


class Page:
    """Static HTML and text, sent again when it has changed."""

    shows_page = True

    def __init__(self, config: AgfMagics, flow: Flow | None, apart: bool = False) -> None:
        """``flow``: whose picture stands above the page, from the beginning on. ``apart``: whether the run asks in
        another cell's output; where it asks in this one, a question stands there already."""
        self.config, self._apart = config, apart
        self.slot = Slot()
        # Here and not in `reserve`, which the engine's thread calls: a first picture takes graphviz a while.
        self._first = _first(flow) if flow else {"text/html": "", "text/plain": ""}
        self._flow = flow
        self._diagram: Diagram | None = None
        self._began = self._drawn = time.monotonic()
        self._seen = -1

    def reserve(self) -> None:
        self.slot.reserve(self._first)

    def tick(self, run: Run) -> None:
        now, changes = time.monotonic(), run.progress.changes
        if now - self._began < self.config.progress_after:
            return
        if changes != self._seen or now - self._drawn >= CLOCK:
            self._seen, self._drawn = changes, now
            self.draw(run)

    def draw(self, run: Run) -> None:
        self.slot.put(self.page(run))

    def close(self, run: Run) -> None:
        self.slot.put(self.page(run))

    def page(self, run: Run) -> Bundle:
        return self.bundle(run, self.picture(run) + self.html(run))

    def bundle(self, run: Run, html: str) -> Bundle:
        return {"text/html": html, "text/plain": _text(run, self._apart or run.done)}

    def html(self, run: Run) -> str:
        return _html(run, self._apart or run.done)

    def picture(self, run: Run) -> str:
        """In the colours of the run as it stands; empty where none is wanted."""
        if self._flow is None:
            return ""
        self._diagram = self._diagram or Diagram(self._flow, run.progress)
        return self._diagram.html(SMALLEST)


class Widget(Page):
    """The same page alive, with a button that cancels the run; frozen to the page at the end."""

    _kept: ClassVar[deque[list[Any]]] = deque()

    def __init__(self, config: AgfMagics, flow: Flow | None, apart: bool, has_button: bool) -> None:
        """``has_button``: whether a click would be heard while the cell waits."""
        super().__init__(config, flow, apart)
        self._has_button = has_button
        self._box: Any = None
        """The picture, the steps, the button: as many of them as there are."""

    def draw(self, run: Run) -> None:
        if self._box is None:
            self._open(run)
        else:
            self._fill(self.picture(run), self.html(run))

    def close(self, run: Run) -> None:
        picture, html = self.picture(run), self.html(run)
        self.slot.put(self.bundle(run, picture + html))
        if self._box is not None:
            self._fill(picture, html)
            if self._has_button:
                self._box.children = self._box.children[:-1]

    def _fill(self, picture: str, html: str) -> None:
        # A widget is sent only what differs: the picture does not flicker while a clock beneath it goes on.
        for widget, text in zip(self._box.children, self._texts(picture, html), strict=False):
            widget.value = text

    def _texts(self, picture: str, html: str) -> list[str]:
        return [*([picture] if self._flow is not None else []), f'<div style="line-height:1.4">{html}</div>']

    def _open(self, run: Run) -> None:
        import ipywidgets  # type: ignore[import-untyped]

        # Each model is a message to the front end, and takes as long to make as a page: no more of them than are seen.
        picture, html = self.picture(run), self.html(run)
        layout, style = ipywidgets.Layout(), ipywidgets.HTML.style.klass()
        parts = [ipywidgets.HTML(text, layout=layout, style=style) for text in self._texts(picture, html)]
        models = [*parts, layout, style]
        if self._has_button:
            tooltip = "Kernel ▸ Interrupt (■) works too"
            button = ipywidgets.Button(description="Cancel", icon="stop", tooltip=tooltip, layout=layout)
            button.on_click(lambda _: run.cancel("Cancel button"))
            heard(button)
            parts.append(button)
            models += [button, button.style]
        self._box = ipywidgets.VBox(parts, layout=layout)
        self._keep([self._box, *models])
        self.slot.put({**self._box._repr_mimebundle_(), **self.bundle(run, picture + html)})

    @classmethod
    def _keep(cls, widgets: list[Any]) -> None:
        cls._kept.append(widgets)
        while len(cls._kept) > KEPT:
            for widget in cls._kept.popleft():
                widget.close()

    @classmethod
    def forget(cls) -> None:
        """Close what is still open of the runs before."""
        while cls._kept:
            for widget in cls._kept.popleft():
                widget.close()


class Text:
    """For a terminal: a line for each step as it ends, and the result is the cell's."""

    shows_page = False

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        """How often each step had run when it was told last."""

    def reserve(self) -> None:
        """Lines come as they come."""

    def tick(self, run: Run) -> None:
        for row in list(run.progress.rows.values()):
            # What stands in a fan-out is told by the fan-out's own line; an iteration or a visit has one of its own.
            if self._told.get(row.id) != row.times and not row.many and row.state not in ("pending", "running"):
                self._told[row.id] = row.times
                print(_line(row))

    def close(self, run: Run) -> None:
        self.tick(run)
        print(headline(run.progress, now=clock()))
        if run.note:
            print(run.note)


class Ending:
    """For a terminal, of a run in the background: the line of its end, among what else is written by then."""

    shows_page = False

    def reserve(self) -> None:
        """No output."""

    def tick(self, run: Run) -> None:
        """No output."""

    def close(self, run: Run) -> None:
        print(f"{headline(run.progress, now=clock())}  {line(run.run_id, 100)}")


class Nothing:
    """Nothing is shown."""

    shows_page = False

    def reserve(self) -> None:
        """No output."""

    def tick(self, run: Run) -> None:
        """No output."""

    def close(self, run: Run) -> None:
        """No output."""


def view(
    config: AgfMagics, shell: Any, *, quiet: bool, drawn: Flow | None, behind: bool = False, apart: bool = False
) -> View:
    """The view that the settings ask for; ``auto``: that suits where we are. ``drawn``: whose picture to show;
    ``apart``: whether the run asks in another cell's output."""
    mode = "off" if quiet else _mode(config.progress, shell)
    if mode in ("widget", "html"):
        # A cell that has ended keeps nobody waiting: the button is heard on every kernel.
        hears = behind or _hears_clicks(shell)
        return Widget(config, drawn, apart, hears) if mode == "widget" else Page(config, drawn, apart)
    if drawn is not None:
        show(_first(drawn))
    if mode != "text":
        return Nothing()
    return Ending() if behind else Text()


def _mode(wanted: str, shell: Any) -> str:
    if wanted != "auto":
        return wanted
    if getattr(shell, "kernel", None) is None:
        return "text"
    return "widget" if is_watched(shell) else "html"


def is_watched(shell: Any) -> bool:
    """Whether somebody looks at the kernel in a front end that shows widgets."""
    return getattr(shell, "kernel", None) is not None and any(name in os.environ for name in FRONT_ENDS)


def _hears_clicks(shell: Any) -> bool:
    """Whether the kernel can be reached while a cell waits (ipykernel 7); a dead button is worse than none."""
    told = getattr(getattr(shell, "kernel", None), "kernel_info", {})
    return "kernel subshells" in told.get("supported_features", ())


def _first(flow: Flow) -> Bundle:
    return dict(Diagram(flow)._repr_mimebundle_())


def _html(run: Run, asks: bool) -> str:
    """A run that came to its end with its result; otherwise its steps: the error is the cell's own output, but for a
    run in the background, whose cell ended long ago. ``asks``: with what it asks."""
    if _is_told_whole(run):
        return run_html(run)
    progress = run.progress
    asked = questions_html(progress) if asks else ""
    return "".join([steps_html(progress, now=clock()), asked, failures_html(progress), warnings_html(run.warnings)])


def _text(run: Run, asks: bool) -> str:
    """The same as text."""
    if _is_told_whole(run):
        return run_text(run)
    progress, now = run.progress, clock()
    asked = questions_text(progress) if asks else []
    text = [headline(progress, now=now), *steps_text(progress, now=now), *asked, *failures_text(progress)]
    return "\n".join([*text, *warnings_text(run.warnings)])


def _is_told_whole(run: Run) -> bool:
    return run.status == "ok" or (run.behind and run.done)


def _line(row: Row) -> str:
    """``✓ ok  tool fetch  steps[0]  12 ms``"""
    what = f"{line(row.word, 24)} {line(row.label, 60)}".rstrip() + (f" ×{row.times:,}" if row.times > 1 else "")
    return "  ".join(bit for bit in (words(row), what, line(row.id, 100), duration(row.seconds)) if bit)
