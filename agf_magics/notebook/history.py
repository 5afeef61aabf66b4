"""The list of ``%runs``: the runs of this process and of the journal, filtered, page by page.

Magics for the journal: runs are listed, resumed, compared, written to a file and deleted.

Magics for background runs, for definitions that are not registered, and ``%runs``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from datetime import time as clock_time
from functools import cache, partial
from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class, needs_local_scope

from ..flow.progress import RunLine
from ..flow.steps import Flow
from ..languages.over import OVER
from ..lifecycle import launch, settings
from ..lifecycle import past_runs as kept_runs
from ..lifecycle.comparison import FIRST, SECOND
from ..lifecycle.define import load
from ..lifecycle.input import RunOptions
from ..lifecycle.past_run import PastRun
from ..lifecycle.resume import failed_step, rerun_from, resume_run
from ..lifecycle.settings import journal_file, this_notebook
from ..pictures.difference import diff_text
from ..pictures.page import status
from ..pictures.plain import counted, duration, line, money, plain
from ..pictures.run_page import Listed, runs_page, runs_table
from ..pictures.values import value_text
from ..text.diagnostics import DefinitionError, Source, suggest
from . import commands
from .explorer import ARGUMENTS, close_explorer, open_call, open_run
from .explorer_calls import Json, Refused, Requests, natural, texts_of
from .given import (
    amount,
    at,
    count,
    inputs,
    new_name,
    value,
    warn_about_names,
    workers_of,
    write_by,
)
from .magics import NotebookMagics, takes
from .options import ParsedLine, Token, check_known, line_error
from .output import show
from .view import show_over
from .watching import print_findings

MOST_LISTED = 20
"""Runs on a page, if ``--limit`` says nothing else."""

MOST_COMPARED = 500
"""Steps of a comparison in the page."""
MOST_COMPARED_TEXT = 2_000
"""Characters of a value in it."""

STATUSES = ("ok", "error", "cancelled", "waiting", "running", "interrupted", "damaged")

TIMES = ("1h", "1d", "7d", "00:00")
"""Times that completion offers."""

UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([mhdw])")

FILTERS = ("--status", "--name", "--since", "--before", "--notebook")


def list_runs(parsed: ParsedLine, shell: Any) -> None:
    """Display one page of the runs that the options select, the latest first, and the line of the
    next page."""
    keep = _keep(parsed)
    lines = [_placed(run, launch.live.find(run.run_id)) for run in kept_runs.runs()]
    runs = kept_runs.Runs(filter(keep, lines))
    listed = _page(parsed, len(runs))
    if lines and not runs:
        filters = ", ".join(flag for flag in FILTERS if flag in parsed)
        listed = listed._replace(
            empty=f"no runs fit {filters}: %runs lists all {counted(len(lines), 'run')}"
        )
    page = runs_page(runs, listed)
    if not runs:
        return show(page)

    def part(given: Json) -> Json:
        first = natural(given.get("first"))
        part = listed._replace(first=first if first < len(runs) else 0)
        columns, rows = runs_table(runs, part)
        shown = runs[part.first : part.first + part.most]
        return {
            "columns": columns,
            "rows": rows,
            "failed": [run.status == "error" for run in shown],
            "first": part.first,
            "most": part.most,
            "total": len(runs),
        }

    requests: Requests = {
        "list": part,
        "open": lambda given: {"mark": open_run(str(given.get("run"))).mark},
        "close": lambda given: close_explorer(str(given.get("mark"))),
        "compare": _compared,
    }
    show_over(page, shell, {"list": part({"first": listed.first})}, requests)


def _placed(listed: RunLine, live: launch.Run | None) -> RunLine:
    """A run of the list, which can be opened; one that is live with its status of now, and its
    cell."""
    listed = listed._replace(open=cache(partial(kept_runs.runs, listed.run_id)))
    if live is None:
        return listed
    return listed._replace(status=status(live.progress), place=live.origin)


def _compared(given: Json) -> Json:
    """Two runs side by side."""
    ids = texts_of(given.get("runs"))
    if len(ids) != 2:
        raise Refused("two runs are compared")
    first, other = map(kept_runs.find_past_run, ids)
    found = first.compare(other)
    return {
        "runs": [[line(run.run_id, 90), duration(run.seconds)] for run in (first, other)],
        "steps": [_compared_step(row) for row in found[:MOST_COMPARED]],
        "values": [[line(row["value"], 120), *_both_values(row)] for row in found.values],
        "isCut": found.is_cut or len(found) > MOST_COMPARED,
        "definitions": diff_text(found.definitions) if found.definitions else "",
    }


def _compared_step(row: Mapping[str, Any]) -> list[Any]:
    """What it calls, its id, how it differs; seconds, cost and calls in both runs."""
    costs = [money(row[key]) if row[key] else "" for key in ("cost", "cost of the other")]
    return [
        *(line(row["label"], 60), line(row["step"], 100), row["differs"]),
        *(row["seconds"], row["seconds of the other"], *costs),
        *(row["calls"], row["calls of the other"]),
    ]


def _both_values(row: Mapping[str, Any]) -> list[str]:
    """The two values of a part that differs; empty for the run that lacks it."""
    lacking = {"first": SECOND, "other": FIRST}
    return [
        "" if row["differs"] == lacks else plain(value_text(row[which]), MOST_COMPARED_TEXT)
        for which, lacks in lacking.items()
    ]


def _keep(parsed: ParsedLine) -> Callable[[RunLine], bool]:
    """The filter of the options. The notebook comes last, as it is read from the run's manifest."""
    wanted, name = parsed.word("--status"), parsed.text("--name")
    if wanted is not None:
        message = f"{wanted.text!r} is not the status of a run"
        check_known("status", message, wanted, STATUSES, "statuses")
    since, before = (
        moment(word) if (word := parsed.word(flag)) else None for flag in ("--since", "--before")
    )
    notebook = parsed.text("--notebook")

    def tests(one: RunLine) -> Iterator[bool]:
        yield wanted is None or one.status == wanted.text
        yield name is None or name.lower() in one.name.lower()
        yield since is None or one.started >= since
        yield before is None or one.started < before
        yield notebook is None or _is_of(one, notebook)

    return lambda one: all(tests(one))


def _is_of(one: RunLine, wanted: str) -> bool:
    is_live = launch.live.find(one.run_id) is not None
    path = this_notebook() if is_live else kept_runs.notebook_of(one.run_id)
    return path == this_notebook() if wanted == "--notebook" else wanted.lower() in path.lower()


def moment(word: Token, now: float | None = None) -> float:
    """Seconds since 1970 of a time: ``2h`` ago, ``18:30`` today, a date, or a date and a time.
    ``now``: default None, the time of the clock. Raises DefinitionError."""
    now, ago = time.time() if now is None else now, AGO.fullmatch(word.text)
    if ago is not None:
        return now - float(ago[1]) * UNITS[ago[2]]
    try:
        if re.fullmatch(r"\d{1,2}:\d\d", word.text):
            today = datetime.fromtimestamp(now).date()
            hour, minute = map(int, word.text.split(":"))
            return datetime.combine(today, clock_time(hour, minute)).timestamp()
        return datetime.fromisoformat(word.text).timestamp()
    except (ValueError, OverflowError, OSError):
        hint = "write 2h, 3d, 18:30, 2026-11-22 or '2026-11-22 18:30'"
        raise line_error("time", f"{word.text!r} is not a time", word, hint) from None


def _page(parsed: ParsedLine, found: int) -> Listed:
    """The page that the line asks for, of ``found`` runs."""
    most, number = count(parsed, "--limit", MOST_LISTED), count(parsed, "--page", 1)
    pages = max(1, -(-found // max(1, most)))
    if not 1 <= number <= pages:
        (word,) = parsed.words("--page")
        message = f"there is no page {number}: the list has {counted(pages, 'page')}"
        raise line_error("page", message, word, f"write --page {pages}")
    typed = re.sub(r"(?<!\s)\s++--page[\s=]++\S++", "", parsed.source.text).rstrip()
    more = f"{typed} --page {number + 1}" if number < pages else ""
    return Listed((number - 1) * most, most, line(more, 300))


MOST_NAMED = 3
"""Interrupted runs whose ids are printed when the extension is loaded."""


@magics_class
class HistoryMagics(NotebookMagics):
    """``%resume``, ``%rerun`` and ``%step``."""

    @line_magic
    @needs_local_scope
    @takes(commands.RESUME)
    def resume(self, parsed: ParsedLine) -> Any:
        notebook, word, answer = self.notebook, parsed.word("RUN"), parsed.word("--answer")
        names = notebook.names
        print_findings(warn_about_names(parsed, names))

        def resumed(options: RunOptions) -> launch.Run:
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
    @takes(commands.RERUN)
    def rerun(self, parsed: ParsedLine) -> Any:
        (word,), step = parsed.words("RUN"), parsed.word("--from")
        given = inputs(parsed, self.notebook.names)
        past = _past(word)
        drawn = self.notebook.registry.flows.get(past.name) if "--draw" in parsed else None

        def rerun(options: RunOptions) -> launch.Run:
            wanted = step.text if step is not None else failed_step(past)
            return rerun_from(past, wanted, given, options)

        return self._show(parsed, step or word, drawn, rerun)

    def _show(
        self,
        parsed: ParsedLine,
        place: Token | None,
        drawn: Flow | None,
        begin: Callable[[RunOptions], launch.Run],
    ) -> Any:
        """Begin a run from an earlier one and show it in this cell. ``place``: the word that its
        errors are about."""
        notebook, out = self.notebook, new_name(parsed.word("--out"))
        run, _ = notebook.start(
            lambda options: at(place, lambda: begin(options)),
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
    @takes(commands.STEP)
    def step(self, parsed: ParsedLine) -> None:
        (word,), (place,) = parsed.words("RUN"), parsed.words("STEP")
        name = new_name(parsed.word("--out")) or ARGUMENTS
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
        number, size = kept_runs.prune(
            amount(parsed, "--prune", None) if pruned.text != "--prune" else None
        )
        bytes_left = f"{size / 1e6:,.1f} MB" if size >= 1_000_000 else f"{size / 1e3:,.0f} kB"
        print(f"deleted {counted(number, 'run')}; the journal has {bytes_left}")


def show_run(parsed: ParsedLine, word: Token) -> Any:
    """A run for display, or its comparison; nothing if it is written to a file."""
    other, exported, reported, recorded = map(parsed.word, OF_ONE_RUN)
    # What is compared, exported or recorded is in the journal.
    is_journaled = parsed.given.keys() & {"--compare", "--export", "--record"}
    run: Any = _past(word) if is_journaled else _find(word) or _past(word)
    shown = _comparison_of(run, _past(other), parsed.word("--key")) if other is not None else run
    if exported is not None:
        write_by(exported, run.export)
    if recorded is not None:
        from ..lifecycle.recording import record

        write_by(recorded, lambda path: record(run, path))
    if reported is not None:
        from .report import report

        write_by(reported, lambda path: report(shown, path))
    return None if reported or ((exported or recorded) and not other) else shown


OF_ONE_RUN = ("--compare", "--export", "--report", "--record")


def _comparison_of(run: PastRun, other: PastRun, key: Token | None) -> Any:
    """Two runs compared, row by row if both are runs over data."""
    if run.language == other.language == OVER:
        from ..lifecycle.table_comparison import compare_over

        return compare_over(run, other, key=key.text if key is not None else None)
    if key is not None:
        raise line_error("needs-over", "--key is for runs over data", key, "remove it")
    return run.compare(other)


def check_run_given(parsed: ParsedLine) -> None:
    """These options need a RUN."""
    for flag in OF_ONE_RUN:
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
    unfinished, damage = kept_runs.find_unfinished()
    lines = [line(damage, 300)]
    if unfinished:
        names = ", ".join(line(head.run_id, 60) for head in unfinished[:MOST_NAMED])
        left = len(unfinished) - MOST_NAMED
        more = f" and {left} more" if left > 0 else ""
        told = f"{counted(len(unfinished), 'run')} did not finish: {names}{more}"
        lines.insert(0, f"{told} · %resume RUN continues one, %runs lists them")
    return "\n".join(filter(None, lines))


def _past(word: Token) -> PastRun:
    found: PastRun = at(word, lambda: kept_runs.find_past_run(word.text))
    return found


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
        delete_runs(parsed)
        if word is not None:
            return show_run(parsed, word)
        check_run_given(parsed)
        if not {"--cancel", "--delete", "--prune"} & parsed.given.keys():
            list_runs(parsed, self.notebook.ipython)
        return None

    def _inline(self, parsed: ParsedLine, body: str, background: bool) -> Any:
        request = self.notebook.request(parsed, runs=True)
        name = "%%run_pipeline_inline_async" if background else "%%run_pipeline_inline"
        source = Source(f"{self.notebook.cell} {name}", body, first_line=2)
        flow = load(source, "pipeline", registry=self.notebook.registry)
        return self.notebook.run(flow, request, background=background, inline=True, shown=())


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
