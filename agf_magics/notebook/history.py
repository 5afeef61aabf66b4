"""Magics for the journal: runs taken up again, looked back at, compared, written to a file, forgotten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.magic import line_magic, magics_class, needs_local_scope

from .. import settings
from ..journal.queries import RunHead
from ..lifecycle import launch
from ..lifecycle import past_runs as kept_runs
from ..lifecycle.options import RunOptions
from ..lifecycle.past_run import PastRun
from ..lifecycle.resume import resume_run
from ..pictures.past_page import runs_html, runs_text
from ..pictures.plain import counted, line
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.source import UNUSABLE, why
from . import commands, view, watching
from .beside import Beside
from .given import at, inputs, misread, new_name, number, value
from .magics import takes
from .options import ParsedLine, Token
from .output import Bundle
from .rendering import told

MOST_TOLD = 3
"""Interrupted runs that are named when the extension is loaded."""


@magics_class
class HistoryMagics(Beside):
    """Beside `PipelineMagics`, whose notebook it shares."""

    @line_magic
    @needs_local_scope
    @takes(commands.RESUME)
    def resume(self, said: ParsedLine) -> Any:
        notebook, word, out = self.notebook, said.word("RUN"), said.word("--out")
        name = new_name(out) if out else None
        names = {**notebook.ipython.user_ns, **self.local}
        answer = said.word("--answer")
        if "--quiet" not in said and (doubts := misread(said, names)):
            print(told(doubts))
        seen = view.view(notebook.settings, notebook.ipython, quiet="--quiet" in said, drawn=None)

        def begin(enter: Callable[[], None]) -> launch.Run:
            def taken_up() -> launch.Run:
                limits = settings.current.settings.limits if "--caps" in said else None
                answered = value(answer, names) if answer is not None else None
                options = RunOptions(
                    registry=notebook.registry, limits=limits, enter=enter, answer=answered, trust="--trust" in said
                )
                return resume_run(word.text if word is not None else None, inputs(said, names) or None, options)

            run = at(word, taken_up) if word is not None else taken_up()
            run.origin = notebook.cell
            notebook.last = run
            if name is not None:
                notebook.ipython.user_ns[name] = run
            if seen.shows_page:
                notebook.shown = run, notebook.number
            return run

        run = watching.watch(begin, seen, notebook.settings.refresh_hz).result()
        return None if name is not None else run


def listed() -> Bundle | None:
    """The runs of the journal that are over, as a table; None where there are none."""
    here = {run.run_id for run in launch.live}
    found = kept_runs.Runs(one for one in kept_runs.runs() if one.run_id not in here)
    return {"text/html": runs_html(found), "text/plain": runs_text(found)} if found else None


def forget(said: ParsedLine) -> None:
    """``--delete`` and ``--prune``."""
    unwanted, pruned = said.word("--delete"), said.word("--prune")
    if unwanted is not None:
        (gone,) = at(unwanted, lambda: kept_runs.delete([unwanted.text]))
        print(f"deleted {gone}")
    if pruned is not None:
        days = number(pruned) if pruned.text != "--prune" else None
        count, size = kept_runs.prune(days)
        takes = f"{size / 1e6:,.1f} MB" if size >= 1_000_000 else f"{size / 1e3:,.0f} kB"
        print(f"forgot {counted(count, 'run')}; the journal takes {takes}")


def shown(said: ParsedLine, word: Token) -> Any:
    """A run of the journal, compared or written to a file where the line says so, else to be displayed."""
    run = _past(word)
    other, target = said.word("--compare"), said.word("--export")
    if target is not None:
        try:
            print(f"wrote {run.export(Path(target.text))}")
        except UNUSABLE as error:
            message = f"{target.text!r} cannot be written: {why(error)}"
            raise DefinitionError(Diagnostic("magic.file", message, target.span)) from None
    if other is not None:
        return run.compare(_past(other))
    return run if target is None else None


def needs_run(said: ParsedLine) -> None:
    """``--compare`` and ``--export`` are about one run."""
    for flag in ("--compare", "--export"):
        word = said.word(flag)
        if word is not None:
            message, hint = f"{flag} needs the RUN that it is about", f"%runs RUN {flag} {word.text}"
            raise DefinitionError(Diagnostic("magic.missing", message, word.span, hint))


def kept_ids() -> list[str]:
    """The ids of the runs of the journal; none where that cannot be read."""
    try:
        return [one.run_id for one in kept_runs.kept()]
    except DefinitionError:
        return []


def told_on_load() -> str:
    """Which runs can be resumed and what is wrong with the journal, a line each; empty where there is neither."""
    found, wrong = kept_runs.on_load()
    return "\n".join(filter(None, (_told_cut(found), line(wrong, 300))))


def _told_cut(found: list[RunHead]) -> str:
    if not found:
        return ""
    names = ", ".join(line(one.run_id, 60) for one in found[:MOST_TOLD])
    more = f" and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
    cut = f"{counted(len(found), 'run')} did not come to an end: {names}{more}"
    return f"{cut} · %resume RUN takes one up, %runs lists them"


def _past(word: Token) -> PastRun:
    found: PastRun = at(word, lambda: kept_runs.past(word.text))
    return found
