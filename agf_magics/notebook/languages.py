"""The cells of the other languages, and the contexts of plans. What all languages do is `PipelineMagics.definition`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class

from ..flow.steps import Flow
from . import commands
from .beside import Beside
from .magics import takes, wrong
from .options import ParsedLine


@magics_class
class LanguageMagics(Beside):
    """Beside `PipelineMagics`, whose notebook it shares."""

    @cell_magic
    @takes(commands.POLICY)
    def policy(self, said: ParsedLine, body: str) -> Any:
        return self.notebook.definition("policy", said, body)

    @cell_magic
    @takes(commands.GRAPH)
    def graph(self, said: ParsedLine, body: str) -> Any:
        return self.notebook.definition("graph", said, body)

    @cell_magic
    @takes(commands.PLAN)
    def plan(self, said: ParsedLine, body: str) -> Any:
        context = said.word("--context")
        if context is not None and not context.text.strip():
            raise wrong("name", "a context's name cannot be blank", context, "leave it out: the plan's name is used")

        def change(flow: Flow) -> Flow:
            if context is not None and flow.extension is not None:
                flow = replace(flow, extension=flow.extension.with_context(context.text))
            for option in ("--ordered", "--keep-going"):
                if option in said and flow.extension is not None:
                    flow = flow.extension.with_option(flow, option) or flow
            return flow

        return self.notebook.definition("plan", said, body, change)

    @line_magic
    @takes(commands.CONTEXT)
    def context(self, said: ParsedLine) -> Any:
        from .contexts import context  # it knows plans, and most notebooks have none

        return context(self.notebook, said)
