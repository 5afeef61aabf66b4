"""The magics that run the definition in their cell without registering it."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import cell_magic, magics_class

from ...commands import magics
from ...commands.line import ParsedLine
from ...lifecycle.definitions.define import load
from ...text.source import Source
from .base import NotebookMagics, takes


@magics_class
class InlineMagics(NotebookMagics):
    """``%%run_pipeline_inline`` and ``%%run_pipeline_inline_async``."""

    @cell_magic
    @takes(magics.RUN_PIPELINE_INLINE)
    def run_pipeline_inline(self, parsed: ParsedLine, body: str) -> Any:
        return self._inline(parsed, body, background=False)

    @cell_magic
    @takes(magics.RUN_PIPELINE_INLINE_ASYNC)
    def run_pipeline_inline_async(self, parsed: ParsedLine, body: str) -> Any:
        return self._inline(parsed, body, background=True)

    def _inline(self, parsed: ParsedLine, body: str, background: bool) -> Any:
        request = self.notebook.request(parsed, runs=True)
        name = "%%run_pipeline_inline_async" if background else "%%run_pipeline_inline"
        source = Source(f"{self.notebook.cell} {name}", body, first_line=2)
        flow = load(source, "pipeline", registry=self.notebook.registry)
        # ``shown``: this cell has printed no problem yet, so the run shows all warnings.
        return self.notebook.run(flow, request, background=background, inline=True, shown=())
