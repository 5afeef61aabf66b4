"""The cells of the other languages, and the contexts of plans. `Notebook.definition` does what they
share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class

from ..flow.steps import Flow
from . import commands
from .base import NotebookMagics, takes
from .options import ParsedLine, line_error


@magics_class
class LanguageMagics(NotebookMagics):
    """``%%policy``, ``%%graph``, ``%%plan`` and ``%context``."""

    @cell_magic
    @takes(commands.POLICY)
    def policy(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("policy", parsed, body)

    @cell_magic
    @takes(commands.GRAPH)
    def graph(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("graph", parsed, body)

    @cell_magic
    @takes(commands.PLAN)
    def plan(self, parsed: ParsedLine, body: str) -> Any:
        context = parsed.word("--context")
        if context is not None and not context.text.strip():
            hint = "remove it: each run begins with an empty context"
            raise line_error("name", "the name of a context cannot be blank", context, hint)
        if "--planner" in parsed:
            from .planners import (
                run_planner_cell,
            )  # imports planners, which most notebooks do not use

            return run_planner_cell(self.notebook, parsed, body)
        if option := next(
            (option for option in commands.FOR_PLANNERS if option.flag in parsed), None
        ):
            place = parsed.words(option.flag)[0]
            raise line_error(
                "needs-planner", f"{option.flag} needs --planner", place, "add --planner MODEL"
            )

        def change(flow: Flow) -> Flow:
            if context is not None and flow.extension is not None:
                flow = replace(flow, extension=flow.extension.with_context(context.text))
            for option in ("--ordered", "--keep-going"):
                if option in parsed and flow.extension is not None:
                    flow = flow.extension.with_option(flow, option) or flow
            return flow

        return self.notebook.definition("plan", parsed, body, change)

    @line_magic
    @takes(commands.CONTEXT)
    def context(self, parsed: ParsedLine) -> Any:
        from .contexts import (
            run_context,
        )  # imports the plan language, which most notebooks do not use

        return run_context(self.notebook, parsed)
