"""Magics for the journal: runs are listed, resumed, compared, written to a file and deleted."""

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
from ..lifecycle.rerun import failed_step, rerun_from
from ..lifecycle.resume import resume_run
from ..pictures.plain import counted, line
from ..text.diagnostics import DefinitionError
from ..text.source import UNUSABLE
from . import commands, view, watching
from .base import NotebookMagics, takes
from .given import at, days, inputs, new_name, unwritable, value, warn_about_names, workers_of
from .opening import ARGUMENTS, open_call
from .options import ParsedLine, Token, line_error
from .rendering import format_findings

MOST_NAMED = 3
"""Interrupted runs whose ids are printed when the extension is loaded."""


@magics_class
class HistoryMagics(NotebookMagics):
    """``%resume``, ``%rerun`` and ``%step``."""

    @line_magic
    @needs_local_scope
    @takes(commands.RESUME)
    def resume(self, parsed: ParsedLine) -> Any:
        notebook, word, out = self.notebook, parsed.word("RUN"), parsed.word("--out")
        name = new_name(out) if out else None
        names = notebook.names
        answer = parsed.word("--answer")
        if "--quiet" not in parsed and (warnings := warn_about_names(parsed, names)):
            print(format_findings(warnings))
        display = view.choose_view(
            notebook.settings, notebook.ipython, quiet="--quiet" in parsed, drawn=None
        )

        def start(enter: Callable[[], None]) -> launch.Run:
            def resumed() -> launch.Run:
                limits = settings.current.settings.limits if "--caps" in parsed else None
                answered = value(answer, names) if answer is not None else None
                options = RunOptions(
                    registry=notebook.registry,
                    limits=limits,
                    enter=enter,
                    answer=answered,
                    trust="--trust" in parsed,
                    stream=display.shows_page,
                    on=workers_of(parsed.word("--on"), names),
                )
                return resume_run(
                    word.text if word is not None else None, inputs(parsed, names) or None, options
                )

            run = at(word, resumed) if word is not None else resumed()
            notebook.adopt(run, display, name)
            return run

        run = watching.watch(start, display, notebook.settings.refresh_hz).result()
        return None if name is not None else run

    @line_magic
    @needs_local_scope
    @takes(commands.RERUN)
    def rerun(self, parsed: ParsedLine) -> Any:
        notebook, out = self.notebook, parsed.word("--out")
        (word,), step = parsed.words("RUN"), parsed.word("--from")
        name = new_name(out) if out else None
        given = inputs(parsed, notebook.names)
        past = _past(word)
        flow = notebook.registry.flows.get(past.name)
        drawn = flow if "--draw" in parsed else None
        display = view.choose_view(
            notebook.settings, notebook.ipython, quiet="--quiet" in parsed, drawn=drawn
        )

        def start(enter: Callable[[], None]) -> launch.Run:
            on = workers_of(parsed.word("--on"), notebook.names)
            options = RunOptions(registry=notebook.registry, enter=enter, on=on)
            wanted = step.text if step is not None else failed_step(past)
            run = at(step or word, lambda: rerun_from(past.run_id, wanted, given, options))
            notebook.adopt(run, display, name)
            return run

        run = watching.watch(start, display, notebook.settings.refresh_hz).result()
        return None if name is not None else run

    @line_magic
    @takes(commands.STEP)
    def step(self, parsed: ParsedLine) -> None:
        (word,), (place,), out = parsed.words("RUN"), parsed.words("STEP"), parsed.word("--out")
        name = new_name(out) if out else ARGUMENTS
        notebook, run_id = self.notebook, _past(word).run_id
        opened = at(
            place, lambda: open_call(notebook.ipython, notebook.registry, run_id, place.text, name)
        )
        if opened.note:
            print(opened.note)
        notebook.ipython.set_next_input(opened.code)
        print(f"{name} has the arguments of {opened.path}: {opened.shown}")


def delete_runs(parsed: ParsedLine) -> None:
    """``--delete`` and ``--prune``."""
    unwanted, pruned = parsed.word("--delete"), parsed.word("--prune")
    if unwanted is not None:
        (deleted,) = at(unwanted, lambda: kept_runs.delete([unwanted.text]))
        print(f"deleted {deleted}")
    if pruned is not None:
        number, size = kept_runs.prune(days(pruned) if pruned.text != "--prune" else None)
        bytes_left = f"{size / 1e6:,.1f} MB" if size >= 1_000_000 else f"{size / 1e3:,.0f} kB"
        print(f"deleted {counted(number, 'run')}; the journal has {bytes_left}")


def show_past(parsed: ParsedLine, word: Token) -> Any:
    """A run of the journal for display, or its comparison; nothing if it is written to a file."""
    run = _past(word)
    other, target = parsed.word("--compare"), parsed.word("--export")
    if target is not None:
        try:
            print(f"wrote {run.export(Path(target.text))}")
        except UNUSABLE as error:
            raise unwritable(target, error) from None
    if other is not None:
        return run.compare(_past(other))
    return run if target is None else None


def check_run_given(parsed: ParsedLine) -> None:
    """``--compare`` and ``--export`` need a RUN."""
    for flag in ("--compare", "--export"):
        word = parsed.word(flag)
        if word is not None:
            raise line_error(
                "missing", f"{flag} needs a RUN", word, f"write %runs RUN {flag} {word.text}"
            )


def kept_ids() -> list[tuple[str, str, str]]:
    """The id, the flow and the status of the runs in the journal, the latest first; none if it
    cannot be read."""
    try:
        return [(one.run_id, one.name, one.status) for one in kept_runs.journaled_runs()]
    except DefinitionError:
        return []


def describe_on_load() -> str:
    """The runs that can be resumed and the damage of the journal; empty if there is neither."""
    found, damage = kept_runs.find_unfinished()
    return "\n".join(filter(None, (_describe_interrupted(found), line(damage, 300))))


def _describe_interrupted(found: list[RunHead]) -> str:
    if not found:
        return ""
    names = ", ".join(line(one.run_id, 60) for one in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return (
        f"{counted(len(found), 'run')} did not finish: {names}{more} · %resume RUN continues "
        f"one, %runs lists them"
    )


def _past(word: Token) -> PastRun:
    found: PastRun = at(word, lambda: kept_runs.find_past_run(word.text))
    return found
