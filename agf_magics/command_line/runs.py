"""The commands that run: ``run`` and ``resume``, from the options of the line to the exit code.

Errors of the line are reported before a model is paid for. All that a run has made is written, even if a
part of it cannot be written.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import agf_magics as agf

from ..catalog import default
from ..commands.command_line import FOR_SCORES
from ..commands.line import ParsedLine
from ..commands.named_definitions import one_file
from ..commands.options import FOR_LIMITS
from ..commands.values import (
    amount,
    count,
    inputs,
    limits_of,
    recording_of,
    rows_of,
    with_place_of,
    workers_of,
)
from ..commands.words import Token
from ..engine.host.hold_interrupts import hold_interrupts
from ..engine.run_options import RunOptions
from ..engine.runner import clock
from ..languages.over import OVER
from ..lifecycle.launch.driving import wait_for
from ..lifecycle.launch.launch import start_run
from ..lifecycle.past.past_run import find_past_run
from ..lifecycle.past.resume import resume_run
from ..lifecycle.runs.run import RunInterrupted, state_of
from ..lifecycle.scoring.checks import CheckReport, compute_figures
from ..lifecycle.scoring.scorers import OK, check_column, name_scorers, score_over
from ..lifecycle.table_runs.table import FIGURES, TABLE, RowTable, check_target
from ..limits.limits import Limits
from ..pictures.pages.live_line import LiveLine
from ..pictures.pages.parts import progress_text
from ..settings import settings
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.folder import notebook_folder
from ..text.replaced_file import check_writable
from ..text.suggestions import suggest
from .setting_up import SETTINGS
from .streams import EachPart, printable_json, save_file, say, tell, write
from .tools import import_tools

KEPT = (
    *("--tools", "--define", "--mcp"),
    *("--score", "--against", "--fail-below"),
    *("--save", "--figures", "--report", "--record", "--export"),
)
"""The options with words that the line to resume a run has, too. The journal has the limits and the input."""

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""


def run(parsed: ParsedLine) -> int:
    """Run the file of the line, once or over a table."""
    values = inputs(parsed, None) or None
    over = rows_of(parsed, None, FOR_SCORES)
    limits = limits_of(parsed, settings.current.settings.limits)
    file = one_file(parsed.words("FILE")[0])
    return _run_to_end(
        parsed, limits, lambda options: start_run(file, values, options, over), lambda: over
    )


def resume(parsed: ParsedLine) -> int:
    """Resume the run of the line."""
    name = parsed.words("RUN")[0].text
    values = inputs(parsed, None) or None
    # None: the limits with which the run began.
    limits: Limits | None = None
    if any(option.flag in parsed for option in FOR_LIMITS):
        limits = limits_of(parsed, settings.current.settings.limits)
    return _run_to_end(
        parsed,
        limits,
        lambda options: resume_run(name, values, options),
        lambda: find_past_run(name).table,
    )


def _run_to_end(
    parsed: ParsedLine,
    limits: Limits | None,
    start: Callable[[RunOptions], agf.Run],
    table: Callable[[], object],
) -> int:
    """Start a run with the options of the line, wait for its end, and write its output and files.
    ``table``: the rows of the run. Returns the exit code, or raises the error of the run if the progress
    does not show it."""
    quiet = "--quiet" in parsed
    scores = [_score(word) for word in parsed.words("--score")]
    # Done first: a wrong score is an error before anything is paid for.
    name_scorers(scores, default())
    if (against := parsed.word("--against")) is not None:
        with_place_of(against, lambda: check_column(against.text, table()))
    _check_targets(parsed)
    options = RunOptions(
        dry="--dry" in parsed,
        limits=limits,
        on=workers_of(parsed.word("--on"), None, "--dry" in parsed),
        recording=recording_of(parsed.word("--replay")),
    )
    run = _wait(lambda: start(options), quiet)
    _tell_how_it_went(parsed, run)
    with EachPart() as part:
        # A report is written also for a failed run.
        for word in parsed.words("--report"):
            part(partial(save_file, word, partial(agf.report, run)))
        if state_of(run).is_interrupted:
            return INTERRUPTED
        # The progress shows the error.
        if run.error is not None and not quiet:
            return 1
        run.result()
        if options.dry:
            say(run.note)
            return 0
        return _write_output(parsed, run, scores, part)


def _score(word: Token) -> Any:
    """The score that a word names: MODULE:FUNCTION, FILE.py:FUNCTION, or a flow."""
    module, colon, name = word.text.rpartition(":")
    if not colon:
        return word.text
    names = import_tools(word.part(0, len(module)))
    if name not in names:
        functions = [function for function, value in names.items() if callable(value)]
        near = suggest(name, functions, f"the functions of {module}")
        message = f"--score {word.text}: {module} has no {name!r}"
        raise DefinitionError(Diagnostic("score.kind", message, hint=near))
    return names[name]


def _check_targets(parsed: ParsedLine) -> None:
    """Refuse a file that could not be written, before anything is paid for."""
    for flag, kind in (("--save", TABLE), ("--figures", FIGURES)):
        for word in parsed.words(flag):
            with_place_of(word, partial(check_target, Path(word.text), kind))
    for word in (*parsed.words("--report"), *parsed.words("--record")):
        with_place_of(word, partial(check_writable, Path(word.text)))


def _wait(start: Callable[[], agf.Run], quiet: bool) -> agf.Run:
    """Start a run, wait until it has ended or is interrupted, and show a line of progress, which
    disappears at the end."""
    with hold_interrupts() as held:
        run = start()
        line = LiveLine(sys.stderr)
        if not quiet and (job := state_of(run).job) is not None:
            job.every(LiveLine.SECONDS, lambda: line.show(run.progress, clock()), lambda: None)
        # Not raised here: first the progress, and how to resume the run, are printed.
        with suppress(RunInterrupted):
            wait_for(run, held)
    line.clear()
    return run


def _tell_how_it_went(parsed: ParsedLine, run: agf.Run) -> None:
    """Print the progress of a run that has ended, and the line that resumes it. With ``--quiet``, instead
    of the progress only the warnings about lost data."""
    if "--quiet" in parsed:
        for loss in run.progress.losses:
            tell(f"{loss.severity}: {loss}")
    else:
        tell(progress_text(run.progress, now=clock()))
    if run.how_to_continue:
        tell(f"to resume it: {_to_resume(parsed, run)}")


def _to_resume(parsed: ParsedLine, run: agf.Run) -> str:
    """The line that resumes ``run``, with the options that its tools need, and those of its files."""
    words = [f"{flag} {shlex.quote(word.text)}" for flag in KEPT for word in parsed.words(flag)]
    words += [flag for flag in (*SETTINGS, "--allow-mcp") if flag in parsed]
    folder = notebook_folder.path
    current = Path.cwd().resolve()
    if folder != current:
        folder_text = folder.relative_to(current) if folder.is_relative_to(current) else folder
        words += ["--folder", shlex.quote(str(folder_text))]
    return " ".join([f"agf-magics resume {run.run_id}", *words])


def _write_output(parsed: ParsedLine, run: agf.Run, scores: Sequence[Any], part: EachPart) -> int:
    """Write the output of a run, and the files that the line asks for. Returns the exit code."""
    for word in parsed.words("--record"):
        part(partial(save_file, word, partial(agf.record, run)))
    for word in parsed.words("--export"):
        part(partial(_export, run, word.text))
    if run.flow.language == OVER:
        return int(not _write_rows(parsed, run.table, scores, part))
    part(lambda: write(printable_json(run.output)))
    return 0


def _export(run: agf.Run, folder: str) -> None:
    for file in agf.export(run, folder):
        tell(f"wrote {file}")


def _write_rows(parsed: ParsedLine, table: RowTable, scores: Sequence[Any], part: EachPart) -> bool:
    """Score the rows of a run, save the files that the line names, and print the figures. Returns
    whether no figure is below ``--fail-below``, or, without that option, whether no row failed."""
    is_scored = not scores or part(partial(_score_rows, parsed, table, scores))
    for word in parsed.words("--save"):
        part(partial(save_file, word, table.save_noted))
    if not is_scored:
        return False
    figures = compute_figures(table)
    part(lambda: write(printable_json({**table.counts, "figures": figures})))
    floors = {OK: 1.0}
    if (least := amount(parsed, "--fail-below", None)) is not None:
        names = list(table.scores) or [OK]
        # Labels that are only counted have no figure. A line without any figure is refused.
        floors = dict.fromkeys([name for name in names if name in figures] or names, least)
    report = CheckReport(table, floors, parsed.text("--against"))
    for word in parsed.words("--figures"):
        part(partial(save_file, word, report.save))
    for name, figure in report.missed.items():
        tell(f"{name} is {figure:.3g}, below {floors[name]:.3g}")
    return report.passed


def _score_rows(parsed: ParsedLine, table: RowTable, scores: Sequence[Any]) -> None:
    comparison = score_over(
        table,
        *scores,
        against=parsed.placed("--against"),
        seed=count(parsed, "--seed", None),
        yes="--yes" in parsed,
    )
    tell(str(comparison))
