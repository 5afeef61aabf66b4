"""The magics of pipelines: their cells, their runs, and their expressions."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class, needs_local_scope

from ...commands import magics
from ...commands.line import ParsedLine
from ...languages import LANGUAGES
from .base import NotebookMagics, takes


@magics_class
class PipelineMagics(NotebookMagics):
    """``%%pipeline``, ``%run_pipeline``, ``%run_pipeline_async`` and ``%r1``."""

    @cell_magic
    @takes(magics.PIPELINE)
    def pipeline(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("pipeline", parsed, body)

    @line_magic
    @needs_local_scope
    @takes(magics.RUN_PIPELINE)
    def run_pipeline(self, parsed: ParsedLine) -> Any:
        return self.notebook.run(
            self.notebook.flow(parsed.words("NAME")[0]), self.notebook.request(parsed, runs=True)
        )

    @line_magic
    @needs_local_scope
    @takes(magics.RUN_PIPELINE_ASYNC)
    def run_pipeline_async(self, parsed: ParsedLine) -> Any:
        flow = self.notebook.flow(parsed.words("NAME")[0])
        return self.notebook.run(flow, self.notebook.request(parsed, runs=True), background=True)

    @line_magic
    @takes(magics.R1)
    def r1(self, parsed: ParsedLine) -> Any:
        expression = LANGUAGES["pipeline"].expressions["r1"](parsed.words("EXPRESSION")[0])
        return expression.evaluate(self.notebook.frame)
