"""The failures of background runs that Python code started: their pages, with a notice, in the cell of the
start.

A magic shows its background run from the beginning. A run of `agf.start` belongs to the code that started
it, which may never look at it. So nothing is shown while the cell of the start still runs, since it may
wait for the run, and nothing of a run that ends well.
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
from .view import Explorer, Page, framed

_SECONDS = 0.2
"""Seconds between two looks whether a run that has failed is done."""


def failure_watcher(
    has_views: Callable[[], bool], shell: Any, config: AgfMagics
) -> Callable[[Run], Callable[[], object] | None]:
    """The value of `Live.watch`. ``has_views()``: whether runs are shown as explorers."""

    def watch(run: Run) -> Callable[[], object] | None:
        if not has_views() or Explorer.shows(run):
            return None
        context, cell = contextvars.copy_context(), shell.execution_count

        def show() -> None:
            with giving_up(__name__, "the failure of a background run is not shown"):
                if shell.execution_count != cell and run.status == "error":
                    _show(run, config)

        return lambda: context.run(accompany, run, _SECONDS, lambda: None, show, "agf-failure")

    return watch


def _show(run: Run, config: AgfMagics) -> None:
    """Show the page of a run in the cell of its start, and draw an explorer over it."""
    slot, mark = OutputSlot(), new_mark()
    slot.reserve(framed(Page(config, None).page(run), mark, run.run_id))
    Explorer.open(run, waits=False, show=lambda _: None, mark=mark)
