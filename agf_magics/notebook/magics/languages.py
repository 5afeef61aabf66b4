"""The cells ``%%policy``, ``%%graph`` and ``%%plan``, and ``%context`` for the contexts of plans.

`Notebook.definition` does what the cells share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class

from ...commands import magics
from ...commands.line import ParsedLine
from ...commands.words import line_error
from ...flow.flow import Flow
from .base import NotebookMagics, takes


@magics_class
class LanguageMagics(NotebookMagics):
    """``%%policy``, ``%%graph``, ``%%plan`` and ``%context``."""

    @cell_magic
    @takes(magics.POLICY)
    def policy(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("policy", parsed, body)

    @cell_magic
    @takes(magics.GRAPH)
    def graph(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("graph", parsed, body)

    @cell_magic
    @takes(magics.PLAN)
    def plan(self, parsed: ParsedLine, body: str) -> Any:
        context = parsed.word("--context")
        if context is not None and not context.text.strip():
            hint = "remove it: each run begins with an empty context"
            raise line_error("name", "the name of a context cannot be blank", context, hint)
        if "--planner" in parsed:
            from .planners import run_planner_cell

            return run_planner_cell(self.notebook, parsed, body)
        for option in magics.FOR_PLANNERS:
            if option.flag in parsed:
                message, place = f"{option.flag} needs --planner", parsed.words(option.flag)[0]
                raise line_error(
                    "needs-planner",
                    message,
                    place,
                    "add --planner openai:gpt-4o, or the name of another model",
                )

        def change(flow: Flow) -> Flow:
            if context is not None:
                flow = replace(flow, dialect=replace(flow.dialect, context=context.text))
            for option in ("--ordered", "--keep-going"):
                if option in parsed:
                    flow = flow.dialect.with_option(flow, option) or flow
            return flow

        return self.notebook.definition("plan", parsed, body, change)

    @line_magic
    @takes(magics.CONTEXT)
    def context(self, parsed: ParsedLine) -> Any:
        from .contexts import run_context

        return run_context(self.notebook, parsed)
