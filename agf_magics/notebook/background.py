"""Magics for runs that nobody waits for, and for definitions that nobody registered."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class, needs_local_scope

from ..definitions.define import load
from ..lifecycle import launch
from ..lifecycle.persistence import journal_file
from ..pictures.listing import runs_html, runs_text
from ..pictures.plain import counted
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from ..text.source import Source
from . import commands, history
from .beside import Beside
from .magics import takes
from .options import ParsedLine, Token
from .output import show


@magics_class
class BackgroundMagics(Beside):
    """Beside `PipelineMagics`, whose notebook it shares."""

    @line_magic
    @needs_local_scope
    @takes(commands.RUN_PIPELINE_ASYNC)
    def run_pipeline_async(self, said: ParsedLine) -> Any:
        flow = self.notebook.flow(said.words("NAME")[0])
        return self.notebook.run(flow, self.notebook.asked(said, runs=True), behind=True)

    @cell_magic
    @takes(commands.RUN_PIPELINE_INLINE)
    def run_pipeline_inline(self, said: ParsedLine, body: str) -> Any:
        return self._inline(said, body, behind=False)

    @cell_magic
    @takes(commands.RUN_PIPELINE_INLINE_ASYNC)
    def run_pipeline_inline_async(self, said: ParsedLine, body: str) -> Any:
        return self._inline(said, body, behind=True)

    @line_magic
    @takes(commands.RUNS)
    def runs(self, said: ParsedLine) -> Any:
        unwanted, word = said.word("--cancel"), said.word("RUN")
        if unwanted is not None:
            run = _run(unwanted)
            fired = f"cancelling {counted(run._fired, 'fired call')} of {run.run_id}" if run._fired else None
            ended = fired or f"{run.run_id} has ended: {run.status}"
            print(ended if run.done else f"cancelling {run.run_id}")
            run.cancel("%runs --cancel")
        if "--wait" in said:
            for run in [_run(word)] if word is not None else launch.live:
                if run.behind:
                    self.notebook.wait(run)
        history.forget(said)
        if word is not None:
            asked = "--compare" in said or "--export" in said
            return (None if asked else _find(word)) or history.shown(said, word)
        history.needs_run(said)
        if not {"--cancel", "--delete", "--prune"} & said.given.keys():
            found, kept = tuple(launch.live), history.listed()
            if found or kept is None:
                show({"text/html": runs_html(found), "text/plain": runs_text(found)})
            if kept is not None:
                show(kept)
        return None

    def _inline(self, said: ParsedLine, body: str, behind: bool) -> Any:
        asked = self.notebook.asked(said, runs=True)
        name = "%%run_pipeline_inline_async" if behind else "%%run_pipeline_inline"
        source = Source(f"{self.cell} {name}", body, first_line=2)
        flow = load(source, "pipeline", registry=self.notebook.registry)
        return self.notebook.run(flow, asked, behind=behind, inline=True)


def _find(word: Token) -> launch.Run | None:
    """A run of this process; None where the journal may have it."""
    return _run(word) if any(word.text in run.run_id for run in launch.live) or journal_file() is None else None


def _run(word: Token) -> launch.Run:
    """A run by its id, or by a part that no other has."""
    known = {run.run_id: run for run in launch.live}
    exact = known.get(word.text)
    found = [exact] if exact is not None else [run for id, run in known.items() if word.text in id]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(run.run_id for run in found[:10])
        message, hint = f"{len(found)} runs have {word.text!r} in their id", f"write more of it: {names}"
    else:
        message, hint = f"there is no run {word.text!r}", suggest(word.text, known, "runs") or "no run was started"
    raise DefinitionError(Diagnostic("magic.unknown-run", message, word.span, hint))
