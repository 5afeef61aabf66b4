"""The display of a run while it runs: one output of the cell, reserved before the first print and
static at the end.

The static end is HTML and text, so that a saved notebook reads without a kernel. A view renders the
page of the run at most `refresh_hz` times a second, on one thread of its own, and only if something
changed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ...compat.browser import IN_BROWSER
from ...engine.runner import clock
from ...engine.threads.prints import lines_away
from ...flow.flow import Flow
from ...flow.progress.rows import Row
from ...lifecycle.past.past_run import PastRun
from ...lifecycle.run_internals import linked_flow
from ...lifecycle.runs.pending_questions import PendingQuestion
from ...lifecycle.runs.run import Run, state_of
from ...pictures.pages.live_line import LiveLine
from ...pictures.pages.parts import headline
from ...pictures.pages.run_page import MOST_BODY, body_html, body_text, fitted, run_header_html
from ...pictures.plain import html, line
from ...pictures.row_words import (
    activity,
    does,
    listed,
    reports,
    share_of,
    shown_name,
    state_words,
    took,
)
from ...text.giving_up import giving_up, note_given_up
from ..config import AgfMagics
from ..explorer.open_views import close_explorer, new_mark, open_explorer
from ..explorer.request_types import Json, Requests
from ..output.drawing import Drawing
from ..output.front_end import in_frames
from ..output.output import EMPTY, Bundle, OutputSlot, show
from .framed import framed
from .print_problems import print_problems

if TYPE_CHECKING:
    from ..explorer.run_channel import Channel

CLOCK = 1.0
"""Seconds after which a page is rendered again without an event, for its durations."""


REPORTS = 5.0
"""Seconds between two lines of a terminal about the progress of a step; the first line comes when the
step has reported for a second."""


class View:
    """How a run is shown; this base class shows nothing. `reserve` may be called from any thread, then
    `tick` always from one thread, then `close` once."""

    shows_page = False
    """Whether the page of the run stays in the output."""

    def reserve(self, run: Run) -> None:
        """No output."""

    def tick(self, run: Run) -> None:
        """No output."""

    def close(self, run: Run) -> None:
        """No output."""

    def refresh(self, run: Run) -> None:
        """Show a run that has ended once more: its rows have scores now. No output."""

    def leave(self) -> None:
        """The output is another view's from now on. No output."""


class Page(View):
    """Static HTML and text, sent again after a change."""

    shows_page = True

    def __init__(
        self,
        config: AgfMagics,
        flow: Flow | None,
        elsewhere: bool = False,
        slot: OutputSlot | None = None,
    ) -> None:
        """``flow``: the flow whose picture is above the steps, as soon as it is drawn. ``elsewhere``:
        whether the run asks its questions in the output of another cell; in its own output the page
        does not repeat them. ``slot``: the output; None: a new one."""
        self.config = config
        self._elsewhere = elsewhere
        self.slot = slot or OutputSlot()
        self._flow = flow
        self._drawing = Drawing(flow) if flow else None
        self._lock = threading.Lock()
        self._has_page = False
        """Whether the output has the page. Before that, the picture is shown alone."""
        self._started = self._drawn = time.monotonic()
        """When the view was made, and when its page was rendered last."""
        self._seen = -1
        """`Progress.changes` of the rendered page; -1: the page must be rendered again."""

    def reserve(self, run: Run) -> None:
        self.slot.reserve(self._first(run))
        if self._drawing is not None:
            self._drawing.begin(self._show_picture, linked_flow(run).callees)

    def tick(self, run: Run) -> None:
        now = time.monotonic()
        changes = run.progress.changes
        if now - self._started < self.config.progress_after:
            return
        if changes != self._seen or now - self._drawn >= CLOCK:
            self._seen = changes
            self._drawn = now
            self.draw(run)

    def draw(self, run: Run) -> None:
        (self.slot.end if run.done else self.slot.put)(self.page(run))

    def close(self, run: Run) -> None:
        self.draw(run)

    def refresh(self, run: Run) -> None:
        if self.slot.is_updated:  # elsewhere the page would stand there twice
            self.close(run)

    def _first(self, run: Run) -> Bundle:
        """The output until there is a page: the name of the flow, its state and the id of the run. It
        stays for good in a front end that does not replace outputs."""
        text = " · ".join((line(run.name, 80), "▶ running", line(run.run_id, 80)))
        return {"text/html": f"<div>{html(text)}</div>", "text/plain": text}

    def page(self, run: Run) -> Bundle:
        """The page of the run. A notebook that is saved during the run keeps this page, so the page says
        that the run had not ended."""
        picture = ""  # stays empty during the run until the picture is ready
        if self._drawing is not None:
            if run.done:
                self._drawing.wait()
            picture = self._drawing.html(run.progress)
        with self._lock:
            self._has_page = True
        # The page has the error only of a background run: a cell that waits raises the error itself.
        parts = {
            "error": run.background,
            "questions": self._elsewhere or run.done,
            "rows": run.done,
        }
        at = "" if run.done else time.strftime("%H:%M:%S")
        text = [headline(run.progress, run.run_id, now=clock(), at=at), *body_text(run, **parts)]
        page = run_header_html(run, at)
        if at:
            goes_on = f"if that kernel is gone, %resume {run.run_id} in another one"
            later = (
                "the run had not ended: the page is live again when its kernel is free; "
                f"{goes_on if run.journal is not None else 'another kernel has nothing of it'}"
            )
            page += f'<p style="margin:0 0 4px"><em>{html(later)}</em></p>'
            text.append(later)
        page += fitted([("the picture", picture)], run.run_id, MOST_BODY)
        conversations = ""
        if run.done:
            # Imported here: the answers to the explorer import an eighth of the package.
            from .conversation import conversations_html

            conversations = conversations_html(run)
        page += body_html(run, **parts, more=[("the conversations", conversations)])
        return {"text/html": page, "text/plain": "\n".join(text)}

    def _show_picture(self, picture: Bundle) -> None:
        with self._lock:
            if not self._has_page:
                self.slot.put(picture)
        self._seen = -1  # the page is rendered again, now with the picture


class Explorer(Page):
    """The page of the run, over which the explorer draws where the front end can; static HTML and
    text at the end."""

    _broken_runs: ClassVar[deque[str]] = deque(maxlen=100)
    """The ids of runs whose explorer failed."""

    without_page: ClassVar[set[str]] = set()
    """The ids of runs that their cell only mentions in a line."""

    def __init__(
        self,
        config: AgfMagics,
        flow: Flow | None,
        elsewhere: bool,
        waits: bool,
        slot: OutputSlot | None = None,
    ) -> None:
        """``waits``: whether a cell waits for the run."""
        super().__init__(config, flow, elsewhere, slot)
        self._waits = waits
        self._mark = new_mark()
        self._channel: Channel | None = None
        self._broken = False
        """Whether the explorer failed: the static page is shown then."""

    def tick(self, run: Run) -> None:
        if self._broken:
            super().tick(run)
        elif self._channel is None:
            if time.monotonic() - self._started >= self.config.progress_after:
                self._try(run, self._put)
        else:
            self._try(run, self._update)

    def close(self, run: Run) -> None:
        if self._broken:
            self.draw(run)
        else:
            self._try(run, self._end)

    def leave(self) -> None:
        if self._channel is not None:
            close_explorer(self._mark)
            self._channel = None

    def _first(self, run: Run) -> Bundle:
        # With the mark, so that the explorer can draw also over an output that is never replaced.
        return framed(super()._first(run), self._mark, run.run_id, is_live=True)

    def _update(self, run: Run) -> None:
        if self._channel is not None:
            self._channel.tick()
        if self._seen < 0:  # the picture has become ready
            self._put(run)

    def _end(self, run: Run) -> None:
        if self._channel is not None and not self.slot.is_updated:
            # The page at the end is another output, over which another explorer draws.
            close_explorer(self._mark)
            self._channel = None
            self._mark = new_mark()
        if self._channel is not None:
            self._channel.finish()
        self._put(run)

    def _put(self, run: Run) -> None:
        """Show the page, and open the explorer over it."""
        if self._channel is None:
            self._channel = Explorer.open(
                run,
                waits=self._waits and not run.done,
                show=self._put,
                draw=self._flow is not None,
                mark=self._mark,
            )
        self._seen = run.progress.changes
        view = self._channel.widget_view if in_frames() and not run.done else {}
        page = framed(self.page(run), self._channel.mark, run.run_id, is_live=not run.done)
        bundle = {**view, **page}
        (self.slot.end if run.done else self.slot.put)(bundle)

    def _try(self, run: Run, do: Callable[[Run], object]) -> None:
        """Call ``do``; if the explorer fails, show the static page from now on. The failure must not
        print into the cell, nor end the view."""
        try:
            do(run)
        except Exception as error:
            note_given_up(__name__, "no explorer could be shown; the page of the run is", error)
            self._broken = True
            self._channel = None
            Explorer._broken_runs.append(run.run_id)
            for question in list(run.progress.open_questions.values()):
                if (pending := PendingQuestion.of(question)) is not None:
                    # There is no field to type into: the run ends, and can be resumed with an answer.
                    pending.give_up()
            self.draw(run)

    @classmethod
    def shows(cls, run: Run) -> bool:
        """Whether an explorer shows ``run``, or soon will, if runs are shown as explorers."""
        hidden = run.run_id in cls._broken_runs or run.run_id in cls.without_page
        return state_of(run).options.shown and not hidden

    @classmethod
    def open(
        cls,
        run: Run | PastRun,
        waits: bool,
        show: Callable[[Run], object],
        draw: bool = False,
        mark: str = "",
    ) -> Channel:
        """Open an explorer."""
        from ..explorer.run_channel import Channel

        return open_explorer(lambda: Channel(run, waits, show, draw, mark))


def show_over(page: Bundle, shell: Any, begin: Json, requests: Requests) -> None:
    """Show a static page. Where the front end can, a view draws over it (see `open_views.Answers`).
    ``begin``: what the view shows at first. ``requests``: what the view may ask."""
    if is_watched(shell) and not in_frames():
        from ..explorer.open_views import Answers

        # The widgets of this environment may not work.
        with giving_up(__name__, "a page has no explorer over it"):
            page = framed(page, open_explorer(lambda: Answers(begin, requests)).mark)
    show(page)


def show_ended(run: Run | PastRun, shell: Any) -> None:
    """Show the page of a run that has ended, with an explorer over it. If a person starts a run in the
    explorer, the page of that run replaces this one."""
    page = dict(run._repr_mimebundle_())
    slot = OutputSlot()
    if not is_watched(shell):
        return show(page)
    # A run whose definitions can no longer be loaded has only its page.
    with giving_up(__name__, "the page of a run that has ended has no explorer over it"):
        channel = Explorer.open(
            run,
            False,
            lambda run: slot.put(framed(dict(run._repr_mimebundle_()), mark, run.run_id)),
        )
        page = framed(page, mark := channel.mark, run.run_id)
    return slot.reserve(page)


class TextView(View):
    """For a terminal: a line for each step that ended, and below them a line that says how far the run
    is. The result is not printed: it is the value of the cell."""

    def __init__(self) -> None:
        self._live = LiveLine(sys.stderr)
        self._printed: dict[str, int] = {}
        """The number of runs of each step when its last line was printed."""
        self._reported: dict[str, float] = {}
        """When a line about the progress of a step was printed last."""

    def tick(self, run: Run) -> None:
        if self._live.away not in lines_away:
            lines_away.append(self._live.away)
        for row in listed(run.progress):
            if self._has_ended_again(row) or self._has_news(row):
                self._live.clear()
                print(_line(row))
        self._live.show(run.progress, clock())

    def _has_ended_again(self, row: Row) -> bool:
        """Whether a step has ended since its last line. Each iteration of a loop and each visit of a
        node has a line; a fan-out has one line for all its elements."""
        if (
            row.many
            or row.state in ("pending", "running")
            or self._printed.get(row.id) == row.times
        ):
            return False
        self._printed[row.id] = row.times
        return True

    def _has_news(self, row: Row) -> bool:
        """Whether a line about the progress of a step is due. The line is added, not written over an
        earlier one: what the tool prints stays readable."""
        now = time.monotonic()
        if not reports(row):
            return False
        if now - self._reported.setdefault(row.id, now - REPORTS + 1) < REPORTS:
            return False
        self._reported[row.id] = now
        return True

    def close(self, run: Run) -> None:
        self.tick(run)
        lines_away.remove(self._live.away)
        print(headline(run.progress, "" if run.status == "ok" else run.run_id, now=clock()))
        if run.error is None:  # else the cell raises the error, which counts more
            print_problems(run.progress.warnings)
        for text in filter(None, (run.note, run.how_to_continue)):
            print(text)


class EndLine(View):
    """For a terminal: one line about the end of a background run, at the next prompt and not while
    a person types."""

    def __init__(self, shell: Any, has_notices: bool) -> None:
        self._shell = shell
        self._has_notices = has_notices

    def close(self, run: Run) -> None:
        events = self._shell.events
        if not self._has_notices:
            return

        def prompt(result: Any = None) -> None:
            events.unregister("post_run_cell", prompt)
            print(headline(run.progress, run.run_id, now=clock()))

        events.register("post_run_cell", prompt)


class Pictured(View):
    """A picture in an output of its own, above another view."""

    def __init__(self, lines: View, flow: Flow) -> None:
        self.shows_page = lines.shows_page
        self._lines = lines
        self._drawing = Drawing(flow)
        self._slot = OutputSlot()

    def reserve(self, run: Run) -> None:
        self._slot.reserve(EMPTY)
        self._drawing.begin(self._slot.end, linked_flow(run).callees)
        self._lines.reserve(run)

    def tick(self, run: Run) -> None:
        self._lines.tick(run)

    def close(self, run: Run) -> None:
        self._drawing.wait()
        self._lines.close(run)


def choose_view(
    config: AgfMagics,
    shell: Any,
    *,
    quiet: bool,
    drawn: Flow | None,
    background: bool = False,
    elsewhere: bool = False,
    slot: OutputSlot | None = None,
) -> View:
    """The view that the settings name; with ``auto`` the view that fits the front end. ``drawn``: the
    flow of the picture, if one is shown. ``elsewhere``: whether the run asks its questions in the output
    of another cell. ``slot``: the output of a page; None: a new one."""
    mode = "off" if quiet else view_mode(config.progress, shell)
    if mode == "widget":
        return Explorer(config, drawn, elsewhere, waits=not background, slot=slot)
    if mode == "html":
        return Page(config, drawn, elsewhere, slot)
    if drawn is not None and getattr(shell, "kernel", None) is None:
        from ...pictures.diagram import Diagram

        show({"text/plain": Diagram(drawn).outline()})
        drawn = None
    lines = View()
    if mode == "text":
        lines = EndLine(shell, config.notices) if background else TextView()
    return lines if drawn is None else Pictured(lines, drawn)


def view_mode(setting: str, shell: Any) -> str:
    """``widget``, ``html``, ``text`` or ``off``: the view of the setting; with ``auto`` the view that
    fits the front end."""
    if setting != "auto":
        return setting
    if getattr(shell, "kernel", None) is None:
        return "text"
    return "widget" if is_watched(shell) else "html"


def is_watched(shell: Any) -> bool:
    """Whether the kernel has a front end that shows widgets."""
    # A Jupyter server sets JPY_SESSION_NAME for a front end. JupyterLite sets no variable and always has one;
    # nbclient sets no variable, has no front end, and would save an empty widget.
    return getattr(shell, "kernel", None) is not None and (
        IN_BROWSER or "JPY_SESSION_NAME" in os.environ or in_frames()
    )


def _line(row: Row) -> str:
    """``✓ ok  page tool fetch  steps[0]  12 ms``"""
    name = f"{line(shown_name(row), 60)} {line(does(row), 60)}".rstrip()
    if row.times > 1:
        name += f" ×{row.times:,}"
    share = share_of(row)
    bar = f"{'▰' * int(share * 10):▱<10}" if share is not None else ""
    parts = (state_words(row), name, line(row.id, 100), took(row), bar, activity(row))
    return "  ".join(filter(None, parts))
