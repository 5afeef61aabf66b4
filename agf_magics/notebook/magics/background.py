"""Magics for background runs, for definitions that are not registered, and ``%runs``."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class, needs_local_scope

from ...commands import magics
from ...commands.line import ParsedLine
from ...lifecycle.definitions.define import load
from ...lifecycle.runs import live
from ...text.source import Source
from ..display.run_list import list_runs
from .base import NotebookMagics, takes
from .history import cancel_run, check_run_given, delete_runs, live_run, show_run


@magics_class
class BackgroundMagics(NotebookMagics):
    """``%run_pipeline_async``, ``%%run_pipeline_inline``, ``%%run_pipeline_inline_async`` and
    ``%runs``."""

    @line_magic
    @needs_local_scope
    @takes(magics.RUN_PIPELINE_ASYNC)
    def run_pipeline_async(self, parsed: ParsedLine) -> Any:
        flow = self.notebook.flow(parsed.words("NAME")[0])
        return self.notebook.run(flow, self.notebook.request(parsed, runs=True), background=True)

    @cell_magic
    @takes(magics.RUN_PIPELINE_INLINE)
    def run_pipeline_inline(self, parsed: ParsedLine, body: str) -> Any:
        return self._inline(parsed, body, background=False)

    @cell_magic
    @takes(magics.RUN_PIPELINE_INLINE_ASYNC)
    def run_pipeline_inline_async(self, parsed: ParsedLine, body: str) -> Any:
        return self._inline(parsed, body, background=True)

    @line_magic
    @takes(magics.RUNS)
    def runs(self, parsed: ParsedLine) -> Any:
        unwanted, word = parsed.word("--cancel"), parsed.word("RUN")
        if unwanted is not None:
            cancel_run(live_run(unwanted))
        if "--wait" in parsed:
            for run in [live_run(word)] if word is not None else live.live:
                if run.background:
                    self.notebook.wait(run)
        delete_runs(parsed)
        if word is not None:
            return show_run(parsed, word)
        check_run_given(parsed)
        if not {"--cancel", "--delete", "--prune"} & parsed.given.keys():
            list_runs(parsed, self.notebook.ipython)
        return None

    def _inline(self, parsed: ParsedLine, body: str, background: bool) -> Any:
        request = self.notebook.request(parsed, runs=True)
        name = "%%run_pipeline_inline_async" if background else "%%run_pipeline_inline"
        source = Source(f"{self.notebook.cell} {name}", body, first_line=2)
        flow = load(source, "pipeline", registry=self.notebook.registry)
        return self.notebook.run(flow, request, background=background, inline=True, shown=())
