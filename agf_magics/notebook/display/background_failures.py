"""The failures of background runs that have no page: their pages, with a notice, in the cell of the start.

A magic shows its background run from the beginning, and a cell one of those that it starts itself
(`cell_runs`). Any other run of `agf.start` belongs to the code that started it, which may never look at it.
So nothing is shown while the cell of the start still runs, since it may wait for the run, and nothing of a
run that ends well.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from ...lifecycle.runs.run import Run
from ...text.giving_up import giving_up
from ..config import AgfMagics
from ..explorer.open_views import new_mark
from ..output.output import OutputSlot, accompany
from .framed import framed
from .view import Explorer, Page

_SECONDS = 0.2
"""Seconds between two looks whether a run that has failed is done."""


class RunningCell:
    """Which cell runs. IPython tells when each cell begins and ends. Its number of the cell does not tell:
    in some versions it grows at the beginning of a cell, in others at the end."""

    def __init__(self) -> None:
        self._begun = 1  # the cell that loads the extension
        self._runs = True

    def begin(self, info: Any = None) -> None:
        self._begun, self._runs = self._begun + 1, True

    def end(self, result: Any = None) -> None:
        self._runs = False

    @property
    def number(self) -> int | None:
        """Which cell runs now; None: none does."""
        return self._begun if self._runs else None

    def over(self) -> Callable[[], bool]:
        """A function that tells whether the cell that runs now has ended."""
        begun, runs = self._begun, self._runs
        return lambda: not runs or not self._runs or self._begun != begun


def failure_watcher(
    has_views: Callable[[], bool], cell: RunningCell, config: AgfMagics
) -> Callable[[Run], Callable[[], object] | None]:
    """The value of `Live.watch`. ``has_views()``: whether runs are shown as explorers."""

    def watch(run: Run) -> Callable[[], object] | None:
        if not has_views():
            return None
        context, is_over = contextvars.copy_context(), cell.over()

        def at_end() -> None:
            # Asked here and not where it is shown: a cell that waits for the run ends a moment after it.
            if not is_over() or Explorer.shows(run):
                return

            def show() -> None:
                with giving_up(__name__, "the failure of a background run is not shown"):
                    if run.status == "error":
                        _show(run, config)

            context.run(accompany, run, _SECONDS, lambda: None, show, "agf-failure")

        return at_end

    return watch


def _show(run: Run, config: AgfMagics) -> None:
    """Show the page of a run in the cell of its start, and draw an explorer over it."""
    slot, mark = OutputSlot(), new_mark()
    slot.reserve(framed(Page(config, None).page(run), mark, run.run_id))
    Explorer.open(run, waits=False, show=lambda _: None, mark=mark)
