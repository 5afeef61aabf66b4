"""The magics that list, resume, repeat, compare and delete runs, of this process and of the journal."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from IPython.core.magic import line_magic, magics_class, needs_local_scope

from ...commands import magics
from ...commands.line import ParsedLine
from ...commands.output_files import write_with
from ...commands.values import (
    amount,
    inputs,
    new_name,
    value,
    warn_about_names,
    with_place_of,
    workers_of,
)
from ...commands.words import Token, line_error
from ...engine.run_options import RunOptions
from ...flow.flow import Flow
from ...languages.over import OVER
from ...lifecycle.past import named_run, past_run, past_runs
from ...lifecycle.past.cancelled import cancel_past_run
from ...lifecycle.past.past_run import PastRun
from ...lifecycle.past.rerun import failed_step, rerun_from
from ...lifecycle.past.resume import resume_run
from ...lifecycle.runs import live
from ...lifecycle.runs import run as run_module
from ...lifecycle.storage.run_names import identify, named_runs
from ...pictures.amounts import counted
from ...pictures.plain import line
from ...settings import settings
from ...text.diagnostics import DefinitionError, Diagnostic
from ..display.print_problems import print_problems
from ..display.run_list import list_runs
from ..explorer.open_call import ARGUMENTS, open_call
from .base import NotebookMagics, takes

MOST_NAMED = 3
"""The most interrupted runs whose ids are printed when the extension is loaded."""


@magics_class
class HistoryMagics(NotebookMagics):
    """``%runs``, ``%resume``, ``%answer``, ``%rerun`` and ``%step``."""

    # IPython's `%rerun` runs lines of the input again: `-l 3`, `-g text`, `2-5 7`, `~1/3`.
    replaced = MappingProxyType({"rerun": re.compile(r"-[lg]\b.*|[\d~/][\d~/\s-]*+")})

    @line_magic
    @takes(magics.RUNS)
    def runs(self, parsed: ParsedLine) -> Any:
        cancelled = parsed.word("--cancel")
        word = parsed.word("RUN")
        if cancelled is not None:
            cancel_named(cancelled)
        if "--wait" in parsed:
            for run in [live_run(word)] if word is not None else live.live:
                if run.background:
                    self.notebook.wait(run)
        delete_runs(parsed)
        if word is not None:
            refuse_filters(parsed, word)
            return show_run(parsed, word)
        check_run_given(parsed)
        if not {"--cancel", "--delete", "--prune"} & parsed.tokens.keys():
            list_runs(parsed, self.notebook.ipython)
        return None

    @line_magic
    @needs_local_scope
    @takes(magics.RESUME)
    def resume(self, parsed: ParsedLine) -> Any:
        notebook = self.notebook
        word = parsed.word("RUN")
        answer = parsed.word("--answer")
        names = notebook.names
        print_problems(warn_about_names(parsed, names))

        def resumed(options: RunOptions) -> run_module.Run:
            options = replace(
                options,
                limits=settings.current.settings.limits if "--caps" in parsed else None,
                answer=value(answer, names) if answer is not None else None,
                trust="--trust" in parsed,
            )
            return resume_run(
                word.text if word is not None else None, inputs(parsed, names) or None, options
            )

        return self._show(parsed, word, None, resumed)

    @line_magic
    @needs_local_scope
    @takes(magics.ANSWER)
    def answer(self, parsed: ParsedLine) -> None:
        (word,) = parsed.words("RUN")
        (answer_word,) = parsed.words("VALUE")
        step = parsed.word("--step")
        run = live_run(word)
        answer = value(answer_word, self.notebook.names)
        step_id = step.text if step is not None else None
        with_place_of(step or answer_word, lambda: run.answer(answer, step_id))

    @line_magic
    @needs_local_scope
    @takes(magics.RERUN)
    def rerun(self, parsed: ParsedLine) -> Any:
        (word,) = parsed.words("RUN")
        step = parsed.word("--from")
        input = inputs(parsed, self.notebook.names)
        past = _past(word)
        drawn = self.notebook.registry.flows.get(past.name) if "--draw" in parsed else None

        def rerun(options: RunOptions) -> run_module.Run:
            first = step.text if step is not None else failed_step(past)
            return rerun_from(past, first, input, options)

        return self._show(parsed, step or word, drawn, rerun)

    def _show(
        self,
        parsed: ParsedLine,
        place: Token | None,
        drawn: Flow | None,
        begin: Callable[[RunOptions], run_module.Run],
    ) -> Any:
        """Begin a run from an earlier run and show it in this cell. ``place``: the word of the line at
        which errors are shown."""
        notebook = self.notebook
        out = new_name(parsed.word("--out"))
        run, _ = notebook.start(
            lambda options: with_place_of(place, lambda: begin(options)),
            RunOptions(
                registry=notebook.registry, on=workers_of(parsed.word("--on"), notebook.names)
            ),
            quiet="--quiet" in parsed,
            drawn=drawn,
            out=out,
        )
        run.result()
        return None if out is not None else run

    @line_magic
    @takes(magics.STEP)
    def step(self, parsed: ParsedLine) -> None:
        (word,) = parsed.words("RUN")
        (place,) = parsed.words("STEP")
        name = new_name(parsed.word("--out")) or ARGUMENTS
        notebook = self.notebook
        run_id = _past(word).run_id
        opened = with_place_of(
            place, lambda: open_call(notebook.ipython, notebook.registry, run_id, place.text, name)
        )
        if opened.note:
            print(opened.note)
        notebook.ipython.set_next_input(opened.code)
        print(f"{name} has the arguments of {opened.path}: {opened.shown}")


def delete_runs(parsed: ParsedLine) -> None:
    """Do what ``--delete`` and ``--prune`` of a line say."""
    word = parsed.word("--delete")
    if word is not None:
        (deleted,) = with_place_of(word, lambda: past_runs.delete([word.text]))
        print(f"deleted {deleted}")
    pruned = parsed.word("--prune")
    if pruned is not None:
        before = past_runs.journal_bytes()
        days = amount(parsed, "--prune", None) if pruned.text != "--prune" else None
        number, size = past_runs.prune(days)
        freed = f", which frees {_bytes(before - size)}" if before > size else ""
        print(f"deleted {counted(number, 'run')}{freed}; the journal has {_bytes(size)}")


def _bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1_000_000 else f"{size / 1e3:,.0f} kB"


def show_run(parsed: ParsedLine, word: Token) -> Any:
    """The run or the comparison that ``%runs`` displays; None if the line only writes it to a file."""
    other, exported, reported, recorded = map(parsed.word, OF_ONE_RUN)
    # Only a run in the journal can be compared, exported or recorded.
    is_journaled = parsed.tokens.keys() & {"--compare", "--export", "--record"}
    run: Any = (_past if is_journaled else _named)(word)
    shown = _comparison_of(run, other, parsed.word("--key")) if other is not None else run
    if exported is not None:
        write_with(exported, run.export)
    if recorded is not None:
        from ...lifecycle.recordings.recording import record

        write_with(recorded, lambda path: record(run, path))
    if reported is not None:
        from ..report import report

        write_with(reported, lambda path: report(shown, path))
    return None if reported or ((exported or recorded) and not other) else shown


OF_ONE_RUN = ("--compare", "--export", "--report", "--record")
"""The options of ``%runs`` that need a RUN."""


OF_THE_LIST = (
    *("--status", "--name", "--text", "--since", "--before", "--notebook", "--page", "--limit"),
)
"""The options of ``%runs`` that choose the runs of the list."""


def refuse_filters(parsed: ParsedLine, word: Token) -> None:
    """Refuse an option of `OF_THE_LIST` beside a RUN, and ``--key`` without a comparison."""
    for flag in OF_THE_LIST:
        if flag in parsed:
            message = f"{flag} chooses runs of the list, and {word.text!r} is one run"
            hint = f"%runs {word.text} shows the run"
            raise line_error("unwanted-option", message, parsed.word(flag) or word, hint)
    key = parsed.word("--key")
    if key is not None and "--compare" not in parsed:
        hint = f"write %runs {word.text} --compare OTHER --key {key.text}"
        raise line_error("missing", "--key needs --compare", key, hint)


def _comparison_of(run: PastRun, word: Token, key: Token | None) -> Any:
    """A run compared with the one that ``word`` names, row by row if both are runs over tables."""
    other = _past(word)
    if run.run_id == other.run_id:
        message = f"{word.text!r} is the same run"
        raise line_error("same-run", message, word, "%runs lists the runs by their ids")
    if run.language == other.language == OVER:
        from ...lifecycle.scoring.table_comparison import compare_over

        return compare_over(run, other, key=key.text if key is not None else None)
    if key is not None:
        raise line_error("needs-over", "--key is for runs over tables", key, "remove it")
    return run.compare(other)


def check_run_given(parsed: ParsedLine) -> None:
    """Refuse an option of `OF_ONE_RUN` on a line without a RUN."""
    for flag in OF_ONE_RUN:
        word = parsed.word(flag)
        if word is not None:
            raise line_error(
                "missing", f"{flag} needs a RUN", word, f"write %runs RUN {flag} {word.text}"
            )


def kept_ids() -> list[tuple[str, str, str]]:
    """The id, the flow and the status of the runs in the journal, the latest first; empty if the journal
    cannot be read."""
    try:
        return [(run.run_id, run.name, run.status) for run in past_runs.journaled_runs()]
    except DefinitionError:
        return []


def describe_on_load() -> str:
    """The text after ``%load_ext``: the runs that can be resumed and the damage of the journal; empty if
    there is neither."""
    unfinished, damage = past_runs.find_unfinished()
    lines = [line(damage, 300)]
    if unfinished:
        names = ", ".join(line(head.run_id, 60) for head in unfinished[:MOST_NAMED])
        others = len(unfinished) - MOST_NAMED
        more = f" and {others} more" if others > 0 else ""
        sentence = f"{counted(len(unfinished), 'run')} did not finish: {names}{more}"
        lines.insert(0, f"{sentence} · %resume RUN continues one, %runs lists them")
    return "\n".join(filter(None, lines))


def _past(word: Token) -> PastRun:
    past: PastRun = with_place_of(word, lambda: past_run.find_past_run(word.text))
    return past


def cancel_named(word: Token) -> None:
    """Cancel the run that a word names: one of this process, or one of the journal of which nothing
    runs, because it waits for an answer or its process ended. Says what it does."""
    try:
        run = live_run(word)
    except DefinitionError as not_here:
        run_id = _open_id(word)
        if run_id is None:
            raise not_here from None
    else:
        if run.status != "waiting" or run.journal is None:
            return cancel_run(run)
        run_id = run.run_id
    cancelled = with_place_of(word, lambda: cancel_past_run(run_id, "%runs --cancel"))
    print(f"{cancelled.run_id} is {cancelled.status}")


def _open_id(word: Token) -> str | None:
    """The id of the run of the journal that a word names, if nothing of it runs and it has not ended."""
    with suppress(DefinitionError):
        run = past_run.find_past_run(word.text)
        return run.run_id if run.status in ("waiting", "interrupted") else None
    return None


def cancel_run(run: run_module.Run) -> None:
    if not run.done:
        print(f"cancelling {run.run_id}")
    elif number := run_module.state_of(run).background_calls:
        print(f"cancelling {counted(number, 'background call')} of {run.run_id}")
    else:
        print(f"{run.run_id} has ended: {run.status}")
    run.cancel("%runs --cancel")


def _named(word: Token) -> run_module.Run | PastRun:
    named: run_module.Run | PastRun = with_place_of(word, lambda: named_run.find_named(word.text))
    return named


def live_run(word: Token) -> run_module.Run:
    """The run of this process that a word names. Raises DefinitionError if it does not run here."""
    runs_here = {run.run_id: run for run in live.live}
    runs = named_runs(None)
    try:
        run_id = with_place_of(
            word,
            lambda: identify(
                word.text, runs, where="", code="magic.unknown-run", empty="%runs lists the runs"
            ),
        )
    except DefinitionError as unknown:
        raise _elsewhere(word) or unknown from None
    return runs_here[run_id]


def _elsewhere(word: Token) -> DefinitionError | None:
    """The error for a word that names a run of the journal which does not run in this process; None if
    the journal has no such run."""
    try:
        run = past_run.find_past_run(word.text)
    except DefinitionError:
        return None
    if run.status != "running":
        message = f"run {run.run_id!r} has ended: {run.status}"
        how = run.how_to_continue if run.status == "waiting" else f"%runs {run.run_id} shows it"
        return line_error("unknown-run", message, word, how)
    message = f"run {run.run_id!r} is running in another kernel"
    hint = past_runs.CANCEL.format(run.run_id)
    return DefinitionError(Diagnostic("journal.running", message, word.span, hint))
