"""The runs that a cell starts itself with `agf.run` and its relatives: the cell shows them as it shows a run
of a magic.

A cell may start a hundred runs in a loop. So it has one page, and one line about the runs that have no
page. The first run has the page. A later one takes it when the page's run has ended and it has itself run
for a second, so that a person sees what goes on now; or when it is the first of the cell that fails. The
line counts the others.

Nothing is shown of a run that other code starts: a tool, a thread, a module, a callback of a widget. Nor
where nobody looks: in a document that a program executes, a cell has what its author displays.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ...engine.run_options import RunOptions
from ...engine.runner import clock
from ...engine.threads.rights import rights
from ...lifecycle.launch import launch, viewers
from ...lifecycle.past import rerun, resume
from ...lifecycle.runs.run import Run, state_of
from ...pictures.amounts import counted
from ...pictures.pages.parts import headline
from ...pictures.plain import html
from ...text.giving_up import giving_up
from ..output.output import Bundle, OutputSlot
from ..output.place import Place
from ..output.receiving import tell_busy
from . import view, watching
from .background_failures import RunningCell

LATER = 1.0
"""Seconds after which a later run of a cell may take the page."""

MOST_LINES = 20
"""The most ended runs that the line lists."""

BEAT = 0.5
"""Seconds between two changes of the line."""

STARTERS = frozenset(module.__name__ for module in (launch, viewers, rerun, resume)) | {__name__}
"""The modules between a person's call and here. Other parts of the package start runs of their own."""

AWAITED = "asyncio.events"
"""The module that calls an awaited run if the run is a task itself, as in ``asyncio.gather``."""


class Where(NamedTuple):
    """A cell that runs, and the place of its outputs."""

    number: int
    place: Place


class CellRuns:
    """The runs that cells start themselves."""

    def __init__(self, notebook: Any, cell: RunningCell) -> None:
        self._notebook = notebook
        self._cell = cell
        self._page: CellPage | None = None
        """The page of the last cell that started a run."""

    def finish(self, result: object = None) -> None:
        """Note the end of a cell. ``result`` is IPython's and not used."""
        if self._page is not None:
            with giving_up(__name__, "the runs of a cell were not counted"):
                self._page.finish()

    def find(self) -> RunViewer | None:
        """Who shows the run that is started now; None: nobody."""
        shell, number = self._notebook.ipython, self._cell.number
        is_seen = view.is_watched(shell) and view.view_mode(
            self._notebook.settings.progress, shell
        ) in (
            "widget",
            "html",
        )
        if number is None or not is_seen or not self._is_of_cell():
            return None
        where = Where(number, Place.now())
        if where.place.is_captured:
            return None
        if self._page is None or self._page.where != where:
            self._page = CellPage(self._notebook, where)
        return RunViewer(self._notebook, self._page)

    def _is_of_cell(self) -> bool:
        """Whether the code of a cell, or of a function that a cell defines, starts the run."""
        if threading.current_thread() is not threading.main_thread() or rights().inside:
            return False
        frame = inspect.currentframe()
        while frame is not None and frame.f_globals.get("__name__") in STARTERS:
            frame = frame.f_back
        if frame is None:
            return False
        names = frame.f_globals
        return names is self._notebook.ipython.user_global_ns or names.get("__name__") == AWAITED


class CellPage:
    """What one cell shows of the runs that it starts: the page of one, and a line about the others."""

    def __init__(self, notebook: Any, where: Where) -> None:
        self.where = where
        self._notebook = notebook
        self._number = notebook.number
        self._slot, self._line = OutputSlot(), OutputSlot()
        self._run: Run | None = None
        """The run that has the page."""
        self._view = view.View()
        self._others: dict[str, Run] = {}
        """The runs without the page that have not ended."""
        self._counts = Counter[str]()
        """How many runs without the page have ended, by status."""
        self._lines = deque[str](maxlen=MOST_LINES)
        """The last of them."""
        self._has_failed = False
        self._told = float("-inf")
        self._is_over = False
        """Whether the cell has ended."""
        self._lock = threading.RLock()

    def begin(self, run: Run) -> view.View | None:
        """Show a run that was just started. Returns its view; None: the run has no page yet."""
        state_of(run).origin = self._notebook.cell
        with self._lock:
            if self._run is None:
                return self._take(run)
            self._others[run.run_id] = run
            view.Explorer.without_page.add(run.run_id)
            self._tell()
        return None

    def tick(self, run: Run, lasted: float) -> None:
        """Show how far a run is, which has ``lasted`` so many seconds."""
        with self._lock:
            if self._run is run:
                return self._view.tick(run)
            if lasted >= LATER and self._is_free and not run.progress.open_questions:
                self._take(run)
            self._tell()

    def end(self, run: Run) -> None:
        """Show the end of a run."""
        failed = run.status == "error"
        with self._lock:
            is_first_failure = failed and not self._has_failed
            self._has_failed |= failed
            # The failure of a background run is told elsewhere (see `background_failures`).
            if self._run is not run and is_first_failure and self._is_free and not run.background:
                self._take(run)
            if self._run is run:
                self._view.close(run)
            else:
                self._note(run)
            self._tell()

    def finish(self) -> None:
        """Show the line as it is at the end of the cell."""
        with self._lock:
            self._is_over = True
            self._tell()

    @property
    def _is_free(self) -> bool:
        """Whether another run may take the page."""
        return self._run is not None and self._run.done and self._slot.is_updated

    def _take(self, run: Run) -> view.View:
        """Give the page to a run."""
        if self._run is not None:
            self._view.leave()
            self._note(self._run)
        self._others.pop(run.run_id, None)
        view.Explorer.without_page.discard(run.run_id)
        notebook = self._notebook
        self._run = run
        self._view = view.choose_view(
            notebook.settings,
            notebook.ipython,
            quiet=False,
            drawn=None,
            background=run.background,
            slot=self._slot,
        )
        self._view.reserve(run)
        notebook.shown = run, self._number
        return self._view

    def _note(self, run: Run) -> None:
        """Count an ended run that has no page."""
        self._others.pop(run.run_id, None)
        view.Explorer.without_page.discard(run.run_id)
        self._counts[run.status] += 1
        self._lines.append(headline(run.progress, run.run_id, now=clock()))

    def _tell(self) -> None:
        """Change the line, unless it has changed just now and its cell will tell more."""
        now = time.monotonic()
        if not (self._others or self._counts) or (now - self._told < BEAT and not self._is_over):
            return
        self._told = now
        bundle = self._bundle()
        self._line.reserve(bundle)
        self._line.put(bundle)

    def _bundle(self) -> Bundle:
        """The line: how many other runs this cell has started, and how they ended."""
        counts = {"running": len(self._others), **self._counts}
        states = ", ".join(f"{number:,} {status}" for status, number in counts.items() if number)
        text = f"{counted(sum(counts.values()), 'more run')} of this cell: {states}"
        rows = "".join(f"<div>{html(line)}</div>" for line in reversed(self._lines))
        hidden = self._counts.total() - len(self._lines)
        if hidden:
            rows += f"<div>and {hidden:,} before</div>"
        page = f"<details><summary>{html(text)}</summary>{rows}</details>" if rows else html(text)
        return {"text/html": f'<div style="font-size:13px">{page}</div>', "text/plain": text}


class RunViewer:
    """Shows one run that a cell starts (see `viewers.Viewer`)."""

    def __init__(self, notebook: Any, page: CellPage) -> None:
        self._notebook = notebook
        self._page = page

    def watch(self, begin: viewers.Begin, options: RunOptions) -> Run:
        return watching.watch(self._begun(begin, options), _Shared(self._page), self._hz)

    def follow(self, begin: viewers.Begin, options: RunOptions) -> Run:
        shared = _Shared(self._page)
        run = watching.follow(self._begun(begin, options), shared, self._hz)
        if shared.view is not None:
            self._notebook.keep(run, shared.view)
        return run

    async def attend(self, run: Run, drive: Callable[[Run], Awaitable[None]]) -> None:
        shared = _Shared(self._page)
        shared.reserve(run)
        ticks = asyncio.ensure_future(self._tick(run, shared))
        try:
            await drive(run)
        finally:
            ticks.cancel()
            shared.close(run)

    async def _tick(self, run: Run, shared: _Shared) -> None:
        while True:
            await asyncio.sleep(1 / self._hz)
            with giving_up(__name__, "the view of an awaited run was not updated"):
                shared.tick(run)
            tell_busy()

    @property
    def _hz(self) -> float:
        return float(self._notebook.settings.refresh_hz)

    def _begun(self, begin: viewers.Begin, options: RunOptions) -> watching.Start:
        return lambda enter: begin(replace(options, enter=enter, shown=True))


class _Shared(view.View):
    """The view of one run in the page of its cell."""

    def __init__(self, page: CellPage) -> None:
        self._page = page
        self._began = time.monotonic()
        self.view: view.View | None = None
        """The view of the run's page; None: the run began without one."""

    def reserve(self, run: Run) -> None:
        self.view = self._page.begin(run)

    def tick(self, run: Run) -> None:
        self._page.tick(run, time.monotonic() - self._began)

    def close(self, run: Run) -> None:
        self._page.end(run)
