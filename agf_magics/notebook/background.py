"""Magics for background runs, for definitions that are not registered, and ``%runs``."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class, needs_local_scope

from ..definitions.define import load
from ..lifecycle import launch
from ..lifecycle.persistence import journal_file
from ..pictures.plain import counted
from ..text.diagnostics import suggest
from ..text.source import Source
from . import commands, history
from .base import NotebookMagics, takes
from .options import ParsedLine, Token, line_error
from .run_list import list_runs


@magics_class
class BackgroundMagics(NotebookMagics):
    """``%run_pipeline_async``, ``%%run_pipeline_inline``, ``%%run_pipeline_inline_async`` and
    ``%runs``."""

    @line_magic
    @needs_local_scope
    @takes(commands.RUN_PIPELINE_ASYNC)
    def run_pipeline_async(self, parsed: ParsedLine) -> Any:
        flow = self.notebook.flow(parsed.words("NAME")[0])
        return self.notebook.run(flow, self.notebook.request(parsed, runs=True), background=True)

    @cell_magic
    @takes(commands.RUN_PIPELINE_INLINE)
    def run_pipeline_inline(self, parsed: ParsedLine, body: str) -> Any:
        return self._inline(parsed, body, background=False)

    @cell_magic
    @takes(commands.RUN_PIPELINE_INLINE_ASYNC)
    def run_pipeline_inline_async(self, parsed: ParsedLine, body: str) -> Any:
        return self._inline(parsed, body, background=True)

    @line_magic
    @takes(commands.RUNS)
    def runs(self, parsed: ParsedLine) -> Any:
        unwanted, word = parsed.word("--cancel"), parsed.word("RUN")
        if unwanted is not None:
            _cancel(_run(unwanted))
        if "--wait" in parsed:
            for run in [_run(word)] if word is not None else launch.live:
                if run.background:
                    self.notebook.wait(run)
        history.delete_runs(parsed)
        if word is not None:
            elsewhere = "--compare" in parsed or "--export" in parsed
            return (None if elsewhere else _find(word)) or history.show_past(parsed, word)
        history.check_run_given(parsed)
        if not {"--cancel", "--delete", "--prune"} & parsed.given.keys():
            list_runs(parsed)
        return None

    def _inline(self, parsed: ParsedLine, body: str, background: bool) -> Any:
        request = self.notebook.request(parsed, runs=True)
        name = "%%run_pipeline_inline_async" if background else "%%run_pipeline_inline"
        source = Source(f"{self.notebook.cell} {name}", body, first_line=2)
        flow = load(source, "pipeline", registry=self.notebook.registry)
        return self.notebook.run(flow, request, background=background, inline=True)


def _cancel(run: launch.Run) -> None:
    if not run.done:
        print(f"cancelling {run.run_id}")
    elif run._fired:
        print(f"cancelling {counted(run._fired, 'fired call')} of {run.run_id}")
    else:
        print(f"{run.run_id} has ended: {run.status}")
    run.cancel("%runs --cancel")


def _find(word: Token) -> launch.Run | None:
    """A run of this process; None if only the journal may have it."""
    return (
        _run(word)
        if any(word.text in run.run_id for run in launch.live) or journal_file() is None
        else None
    )


def _run(word: Token) -> launch.Run:
    """A run of this process by its id, or by a part that no other id has."""
    known = {run.run_id: run for run in launch.live}
    exact = known.get(word.text)
    found = [exact] if exact is not None else [run for id, run in known.items() if word.text in id]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(run.run_id for run in found[:10])
        message, hint = (
            f"{len(found)} runs have {word.text!r} in their id",
            f"write more of it: {names}",
        )
    else:
        message, hint = (
            f"there is no run {word.text!r}",
            suggest(word.text, known, "runs") or "%runs lists the runs",
        )
    raise line_error("unknown-run", message, word, hint)
