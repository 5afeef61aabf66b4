"""How a flow, a registry, a run, a list of runs and a comparison are displayed as the value of a cell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from IPython.core.displayhook import CapturingDisplayHook

from ...catalog import Registry
from ...catalog.registry import default
from ...flow.flow import Flow
from ...lifecycle.definitions.linking import link_flow
from ...lifecycle.past.comparison_tables import Comparison
from ...lifecycle.past.past_run import PastRun
from ...lifecycle.past.past_runs import Runs
from ...lifecycle.runs.run import Run
from ...pictures.pages.run_list import ALL
from ..output.output import show
from . import registry_page
from .run_comparison import show_comparison
from .run_list import as_now, show_runs
from .view import is_watched, show_ended


def install_formats(undo: ExitStack, shell: Any, is_shown: Callable[[Run], bool]) -> None:
    """Register the display of flows, registries, runs, lists of runs and comparisons. ``is_shown``: whether the
    cell already shows the run."""

    def flow(found: Flow, **_: Any) -> dict[str, str]:
        from ...pictures.diagram import Diagram

        linked = link_flow(found, default(None))[0]
        return Diagram(found, callees=linked.callees)._repr_mimebundle_()

    def registry(found: Registry, **_: Any) -> dict[str, str]:
        return registry_page.everything(found)

    def run(found: Run) -> None:
        # Under `%%capture` the function `captured` displays the run: this one would leave an empty output.
        if isinstance(sys.displayhook, CapturingDisplayHook):
            raise NotImplementedError
        if not found.done and not is_watched(shell):
            show(dict(found._repr_mimebundle_()))  # a terminal shows nothing else until its end
        if not is_shown(found):
            show_ended(found, shell)

    def runs(found: Runs) -> None:
        # Without a view the default display shows the runs as a table.
        if isinstance(sys.displayhook, CapturingDisplayHook) or not is_watched(shell):
            raise NotImplementedError
        show_runs(Runs(as_now(found)), ALL, shell, lambda: Runs(as_now(found)))

    def captured(found: Run, **_: Any) -> dict[str, str]:
        if is_shown(found):
            return {"text/plain": repr(found)}
        return dict(found._repr_mimebundle_())

    formatter = shell.display_formatter
    for table, kind, shown in (
        (formatter.mimebundle_formatter, Flow, flow),
        (formatter.mimebundle_formatter, Registry, registry),
        (formatter.mimebundle_formatter, Run, captured),
        (formatter.ipython_display_formatter, Run, run),
        (formatter.ipython_display_formatter, Runs, runs),
        (formatter.ipython_display_formatter, Comparison, partial(show_comparison, shell=shell)),
        (formatter.ipython_display_formatter, PastRun, partial(show_ended, shell=shell)),
    ):
        table.for_type(kind, shown)
        undo.callback(table.pop, kind, None)
