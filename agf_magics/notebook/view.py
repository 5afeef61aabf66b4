"""The display of a run while it runs: one output of the cell, reserved before the first print and static at the end.

The static end is HTML and text, so that a saved notebook reads without a kernel. A view renders the page of the run at
most `refresh_hz` times a second, on one thread of its own, and only if something changed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any, ClassVar, Protocol

from ..engine.runner import clock
from ..flow.steps import Flow
from ..lifecycle.launch import Run
from ..pictures.counters import words
from ..pictures.diagram import Diagram
from ..pictures.page import DIM, headline
from ..pictures.plain import duration, html, line
from ..pictures.run_page import body_html, body_text, how_to_continue, run_header_html
from ..progress.progress import Row
from .config import AgfMagics
from .drawing import Drawing
from .output import EMPTY, Bundle, OutputSlot, receive_while_busy, show

FRONT_ENDS = ("JPY_SESSION_NAME", "VSCODE_PID", "COLAB_RELEASE_TAG")
"""Environment variables of a kernel with a front end. nbclient sets none and would save an empty widget."""

KEPT = 10
"""Runs whose widgets stay open. A reloaded page looks for their models and shows an error if there are none."""

CLOCK = 1.0
"""Seconds after which a page is rendered again without an event, for its durations."""


class View(Protocol):
    """How a run is shown. `reserve` may come from any thread; then `tick` from one, then `close` from one."""

    shows_page: bool
    """Whether the page of the run stays in the output."""

    def reserve(self) -> None: ...

    def tick(self, run: Run) -> None: ...

    def close(self, run: Run) -> None: ...


class Page:
    """Static HTML and text, sent again after a change."""

    shows_page = True

    def __init__(self, config: AgfMagics, flow: Flow | None, elsewhere: bool = False) -> None:
        """``flow``: shown as a picture above the steps, as soon as it is drawn. ``elsewhere``: whether the run asks its
        questions in the output of another cell; in its own output the page does not repeat them."""
        self.config, self._elsewhere = config, elsewhere
        self.slot = OutputSlot()
        self._flow = flow
        self._drawing = Drawing(flow) if flow else None
        self._lock = threading.Lock()
        self._has_page = False
        """Whether the output has the page, of which the picture is a part."""
        self._started = self._drawn = time.monotonic()
        self._seen = -1

    def reserve(self) -> None:
        self.slot.reserve(EMPTY)
        if self._drawing is not None:
            self._drawing.begin(self._show_picture)

    def tick(self, run: Run) -> None:
        now, changes = time.monotonic(), run.progress.changes
        if now - self._started < self.config.progress_after:
            return
        if changes != self._seen or now - self._drawn >= CLOCK:
            self._seen, self._drawn = changes, now
            self.draw(run)

    def draw(self, run: Run) -> None:
        self.slot.put(self.page(run))

    close = draw

    def page(self, run: Run) -> Bundle:
        return self.bundle(run, self.picture(run), self.body(run))

    def bundle(self, run: Run, picture: str, body: str) -> Bundle:
        """The page of the run. A notebook that is saved during the run has it for good, so it says that."""
        with self._lock:
            self._has_page = True
        saved = "" if run.done else f"at {time.strftime('%H:%M:%S')} the run had not ended: %runs {run.run_id}"
        text = [headline(run.progress, run.run_id, now=clock()), *body_text(run, **self._parts(run))]
        note = f'<p style="margin:4px 0 0;{DIM}"><em>{html(saved)}</em></p>' if saved else ""
        return {
            "text/html": run_header_html(run) + picture + body + note,
            "text/plain": "\n".join([*text, *([saved] if saved else [])]),
        }

    def body(self, run: Run) -> str:
        return body_html(run, **self._parts(run))

    def picture(self, run: Run) -> str:
        """The picture in the colors of the run; empty if none is wanted or, during the run, ready."""
        if self._drawing is None:
            return ""
        if run.done:
            self._drawing.wait()
        return self._drawing.html(run.progress)

    def _show_picture(self, picture: Bundle) -> None:
        with self._lock:
            if not self._has_page:
                self.slot.put(picture)
        self._seen = -1  # the page is rendered again, now with the picture

    def _parts(self, run: Run) -> dict[str, bool]:
        """The cell itself raises the error of a run that it waits for."""
        return {"error": run.background, "questions": self._elsewhere or run.done}


class Widget(Page):
    """The same page as a widget with a Cancel button, and the static page at the end."""

    _kept: ClassVar[deque[list[Any]]] = deque()

    def __init__(self, config: AgfMagics, flow: Flow | None, elsewhere: bool, hears_clicks: bool) -> None:
        """``hears_clicks``: whether the kernel receives a click while the cell waits."""
        super().__init__(config, flow, elsewhere)
        self._hears_clicks = hears_clicks
        self._box: Any = None
        """The status with the button, the picture, the steps."""

    def draw(self, run: Run) -> None:
        if self._box is None:
            self._open(run)
        else:
            self._fill(run, self.picture(run), self.body(run))

    def close(self, run: Run) -> None:
        picture, body = self.picture(run), self.body(run)
        self.slot.put(self.bundle(run, picture, body))
        if self._box is not None:
            self._fill(run, picture, body)
            self._box.children[0].children = self._box.children[0].children[:1]

    def _fill(self, run: Run, picture: str, body: str) -> None:
        # ipywidgets sends only what differs: the picture does not flicker while the durations change.
        top, *parts = self._box.children
        for widget, text in zip([top.children[0], *parts], self._texts(run, picture, body), strict=True):
            widget.value = text

    def _texts(self, run: Run, picture: str, body: str) -> list[str]:
        """The status, the picture if there is one, the steps."""
        # As wide as the output: a widget would grow with its longest word.
        fitted = '<div style="line-height:1.4;width:0;min-width:100%">{}</div>'
        return [run_header_html(run), *(fitted.format(part) for part in [*([picture] if self._flow else []), body])]

    def _open(self, run: Run) -> None:
        import ipywidgets  # type: ignore[import-untyped]

        # Each model is a message to the front end and costs as much as a page.
        picture, body = self.picture(run), self.body(run)
        layout, style = ipywidgets.Layout(), ipywidgets.HTML.style.klass()
        texts = self._texts(run, picture, body)
        shrinking = ipywidgets.Layout(flex="0 1 auto", min_width="0")
        header = ipywidgets.HTML(texts[0], layout=shrinking, style=style)
        parts = [ipywidgets.HTML(text, layout=layout, style=style) for text in texts[1:]]
        models = [header, *parts, layout, style, shrinking]
        buttons = [self._cancel_button(run)] if self._hears_clicks else []
        for button in buttons:
            models += [button, button.style, button.layout]
        top = ipywidgets.HBox([header, *buttons], layout=ipywidgets.Layout(align_items="center"))
        self._box = ipywidgets.VBox([top, *parts], layout=layout)
        self._keep([self._box, top, top.layout, *models])
        self.slot.put({**self._box._repr_mimebundle_(), **self.bundle(run, picture, body)})

    @staticmethod
    def _cancel_button(run: Run) -> Any:
        import ipywidgets

        layout = ipywidgets.Layout(flex="0 0 auto", width="auto", margin="0 0 4px 16px")
        other = f"%runs --cancel {run.run_id}" if run.background else "Kernel ▸ Interrupt (■)"
        tooltip = f"Cancel this run; {other} does the same"
        button = ipywidgets.Button(description="Cancel", icon="stop", tooltip=tooltip, layout=layout)
        button.on_click(lambda _: run.cancel("Cancel button"))
        receive_while_busy(button)
        return button

    @classmethod
    def _keep(cls, widgets: list[Any]) -> None:
        cls._kept.append(widgets)
        while len(cls._kept) > KEPT:
            for widget in cls._kept.popleft():
                widget.close()

    @classmethod
    def close_all(cls) -> None:
        """Close the widgets of all runs."""
        while cls._kept:
            for widget in cls._kept.popleft():
                widget.close()


class Nothing:
    """Nothing is shown."""

    shows_page = False

    def reserve(self) -> None:
        """No output."""

    def tick(self, run: Run) -> None:
        """No output."""

    def close(self, run: Run) -> None:
        """No output."""


class Text(Nothing):
    """For a terminal: a line for each step that ended; the result is the value of the cell."""

    def __init__(self) -> None:
        self._printed: dict[str, int] = {}
        """How often each step had run when its last line was printed."""

    def tick(self, run: Run) -> None:
        for row in list(run.progress.rows.values()):
            # A fan-out has one line; an iteration or a visit has a line of its own.
            if self._printed.get(row.id) != row.times and not row.many and row.state not in ("pending", "running"):
                self._printed[row.id] = row.times
                print(_line(row))

    def close(self, run: Run) -> None:
        self.tick(run)
        print(headline(run.progress, "" if run.status == "ok" else run.run_id, now=clock()))
        for text in filter(None, (run.note, how_to_continue(run))):
            print(text)


class EndLine(Nothing):
    """For a terminal: one line at the end of a background run."""

    def close(self, run: Run) -> None:
        print(headline(run.progress, run.run_id, now=clock()))


class Pictured:
    """A picture in an output of its own, above another view."""

    def __init__(self, lines: View, flow: Flow) -> None:
        self.shows_page = lines.shows_page
        self._lines, self._drawing, self._slot = lines, Drawing(flow), OutputSlot()

    def reserve(self) -> None:
        self._slot.reserve(EMPTY)
        self._drawing.begin(self._slot.put)
        self._lines.reserve()

    def tick(self, run: Run) -> None:
        self._lines.tick(run)

    def close(self, run: Run) -> None:
        self._drawing.wait()
        self._lines.close(run)


def choose_view(
    config: AgfMagics, shell: Any, *, quiet: bool, drawn: Flow | None, background: bool = False, elsewhere: bool = False
) -> View:
    """The view of the settings, or with ``auto`` the one that fits the front end. ``drawn``: the flow of the picture;
    ``elsewhere``: whether the run asks its questions in the output of another cell."""
    mode = "off" if quiet else _mode(config.progress, shell)
    if mode in ("widget", "html"):
        # After the end of a cell every kernel receives clicks.
        hears = background or _hears_clicks(shell)
        return Widget(config, drawn, elsewhere, hears) if mode == "widget" else Page(config, drawn, elsewhere)
    if drawn is not None and getattr(shell, "kernel", None) is None:
        show({"text/plain": Diagram(drawn).outline()})
        drawn = None
    lines: View = Nothing() if mode != "text" else EndLine() if background else Text()
    return lines if drawn is None else Pictured(lines, drawn)


def _mode(wanted: str, shell: Any) -> str:
    if wanted != "auto":
        return wanted
    if getattr(shell, "kernel", None) is None:
        return "text"
    return "widget" if is_watched(shell) else "html"


def is_watched(shell: Any) -> bool:
    """Whether the kernel has a front end that shows widgets."""
    return getattr(shell, "kernel", None) is not None and any(name in os.environ for name in FRONT_ENDS)


def _hears_clicks(shell: Any) -> bool:
    """Whether the kernel receives messages while a cell waits (ipykernel 7). Without it there is no button."""
    info = getattr(getattr(shell, "kernel", None), "kernel_info", {})
    return "kernel subshells" in info.get("supported_features", ())


def _line(row: Row) -> str:
    """``✓ ok  tool fetch  steps[0]  12 ms``"""
    what = f"{line(row.word, 24)} {line(row.label, 60)}".rstrip() + (f" ×{row.times:,}" if row.times > 1 else "")
    return "  ".join(part for part in (words(row), what, line(row.id, 100), duration(row.seconds)) if part)
