"""The notebook: the state that all magics share, and what their cells do with a flow.

A cell defines, writes, draws, runs and shows a flow, as its line says.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..catalog import Registry
from ..commands import magics
from ..commands.line import ParsedLine, check_known
from ..commands.options import refuse_without_run
from ..commands.output_files import write_file
from ..commands.values import (
    Variables,
    count,
    inputs,
    limits_of,
    new_name,
    recording_of,
    reuse_of,
    rows_of,
    scores_of,
    warn_about_names,
    with_place_of,
    workers_of,
)
from ..commands.words import Token, line_error
from ..engine.run_options import RunOptions
from ..flow.flow import Flow
from ..languages import LANGUAGES
from ..languages.over import OVER
from ..lifecycle.definitions.checking import Defined, problems_before_run
from ..lifecycle.definitions.define import register
from ..lifecycle.definitions.linking import link_flow
from ..lifecycle.input.fields import unused_fields
from ..lifecycle.launch import launch
from ..lifecycle.runs import run as run_module
from ..pictures.amounts import counted
from ..pictures.plain import line
from ..settings import settings
from ..text.diagnostics import Diagnostic
from ..text.source import Source
from .config import AgfMagics
from .display import view, watching
from .display.print_problems import print_problems
from .output.output import show
from .output.place import cell_id

NOT_QUIET = ("pipeline.hidden-name",)
"""Codes of warnings that ``--quiet`` does not hide: their step fails in nearly every run."""

LAST_ENDED = 8
"""The most ended background runs whose last page ``%runs --wait`` can send again."""


def called_in_function() -> bool:
    """Whether the magic that runs now is called by a function of the user, not by a cell."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name not in ("run_line_magic", "run_cell_magic"):
        frame = frame.f_back
    caller = frame.f_back if frame is not None else None
    # The code of a cell has a name such as `<module>`.
    return caller is not None and not caller.f_code.co_name.startswith("<")


class RunRequest(NamedTuple):
    """What a magic's line says about a run: its input, its options, and what is shown and written."""

    input: dict[str, Any]
    options: RunOptions
    out: str | None
    """The variable that receives the run; None: the run is the value of the cell."""
    draw: bool
    quiet: bool
    over: object = None
    """The rows of a run over a table; None: the flow runs once."""
    save: Token | None = None
    """The file into which the table of a run over a table is saved."""
    scores: Sequence[Any] = ()
    against: str | None = None
    """The column with the right labels."""
    seed: int | None = None
    """The seed of the intervals of scores."""


class Notebook:
    """The state of the extension in one shell, and what its magics do in the running cell."""

    def __init__(self, shell: Any, registry: Registry, config: AgfMagics) -> None:
        self.ipython: Any = shell
        self.registry = registry
        self.settings = config
        self.last: run_module.Run | None = None
        """The last run that a cell waited for, even if it failed or was interrupted; None: none."""
        self.shown: tuple[run_module.Run, int] | None = None
        """The run that a view shows last, and the number of the view's cell."""
        self.followed: list[tuple[run_module.Run, view.View]] = []
        """Background runs and their views, the latest last."""
        self.undo = ExitStack()
        """Undoes what `load` did to the shell."""
        self.local: Mapping[str, Any] = {}
        """The variables of the function that contains the line magic."""

    @property
    def cell(self) -> str:
        """The name of the cell in an error: ``In[6]``."""
        return f"In[{self.number}]"

    @property
    def number(self) -> int:
        """The number of the running cell. In some versions `execution_count` has already the number of
        the next cell."""
        return int(self.ipython.displayhook.prompt_count)

    @property
    def names(self) -> Mapping[str, Any]:
        """The variables that a line can read: the variables of the notebook, without those that IPython
        put there, and of the function that calls the magic."""
        unset = object()
        hidden = self.ipython.user_ns_hidden
        readable = {
            name: value
            for name, value in {**self.ipython.user_ns, **self.local}.items()
            if hidden.get(name, unset) is not value
        }
        return Variables(readable, called_in_function())

    @property
    def frame(self) -> dict[str, Any]:
        """The last run as an expression sees it: ``ctx`` has its input and its stores, ``pipe`` its
        output."""
        last = self.last
        if last is None:
            return {"ctx": {}, "pipe": None}
        stores = {**(last.input if isinstance(last.input, dict) else {}), **last.stores}
        return {**stores, "ctx": stores, "pipe": last.output}

    def is_shown(self, run: run_module.Run) -> bool:
        """Whether the running cell already shows ``run``."""
        if self.shown is None:
            return False
        shown, number = self.shown
        return shown is run and number == self.number

    def add_body(self, lines: list[str]) -> list[str]:
        """Add an empty body to a cell that has only the line of one of our cell magics, such as
        ``%%pipeline --help``. IPython refuses such a cell with a UsageError, which does not fail it."""
        match = re.match(r"%%(?P<name>\w+)(?:\s|$)", lines[0]) if len(lines) == 1 else None
        command = magics.COMMANDS.get(match["name"]) if match else None
        if command is None or not command.name.startswith("%%"):
            return lines
        return [lines[0].rstrip("\n") + "\n", "\n"]

    def definition(
        self,
        language: str,
        parsed: ParsedLine,
        body: str,
        change: Callable[[Flow], Flow] | None = None,
    ) -> Any:
        """Register the definition in a cell, and write, draw and run it as the cell's line says.
        ``change``: applies the options that only this language has."""
        request = self.request(parsed)  # first: a cell with an error in its line defines nothing
        defined = self.define(
            Source(f"{self.cell} %%{language}", body, first_line=2),
            parsed,
            language=language,
            name=_flow_name(parsed),
            origin=cell_id(self.ipython),
            input_names=request.input if "--run" in parsed else (),
        )
        flow = defined.flow
        if flow is not None and change is not None:
            flow = change(flow)
            self.registry.flows.define(flow, cell_id(self.ipython))
        target = parsed.word("--write")
        if target is not None:
            write_file(target, definition_text(flow) if flow is not None else body)
        asked = parsed.word("--run") or parsed.word("--draw") or parsed.word("NAME")
        if flow is None and asked is not None:
            message = f"{asked.text} needs a {language}, and this cell only defines schemas"
            hint = f"remove {asked.text} or add a {language}"
            raise line_error("no-flow", message, asked, hint)
        if flow is None or "--run" not in parsed:
            from ..pictures.diagram import Diagram

            if flow is None or "--draw" not in parsed:
                return None
            return Diagram(flow, callees=link_flow(flow, self.registry)[0].callees)
        return self.run(flow, request, shown=() if request.quiet else defined.problems)

    def define(
        self,
        source: Source | Path,
        parsed: ParsedLine,
        *,
        language: str | None,
        name: Token | None,
        origin: str | None,
        input_names: Collection[str] = (),
        names_from: Registry | None = None,
    ) -> Defined:
        """Register a definition and print its problems. ``language``: None to recognize the language by
        the text. ``input_names``: the names in the input of the run that follows. ``names_from``: see
        `register`."""
        runs = "--run" in parsed
        defined = register(
            source,
            language,
            on_line=name,
            strict="--strict" in parsed,
            registry=self.registry,
            origin=origin,
            latent=[word.text for word in parsed.words("--latent")],
            given=input_names,
            names_from=names_from,
        )
        problems = problems_before_run(defined, self.registry) if runs else defined.problems
        if "--quiet" in parsed:
            problems = tuple(problem for problem in problems if problem.code in NOT_QUIET)
        else:
            print(_summary(defined))
        # The note about the model that answers is on the page of the run.
        print_problems(
            problem for problem in problems if not runs or problem.code != "model.configured"
        )
        return defined

    def request(self, parsed: ParsedLine, runs: bool = False) -> RunRequest:
        """The run options of the line. ``runs``: whether the magic runs a flow without
        ``--run``."""
        if not runs:
            refuse_without_run(parsed)
        print_problems(warn_about_names(parsed, self.names))
        is_dry = "--dry" in parsed
        options = RunOptions(
            registry=self.registry,
            limits=limits_of(parsed, settings.current.settings.limits),
            dry=is_dry,
            reuse=reuse_of(parsed),
            on=workers_of(parsed.word("--on"), self.names, is_dry),
            recording=recording_of(parsed.word("--replay")),
        )
        return RunRequest(
            input=inputs(parsed, self.names),
            options=options,
            out=new_name(parsed.word("--out")),
            draw="--draw" in parsed,
            quiet="--quiet" in parsed,
            over=rows_of(parsed, self.names) if runs else None,
            save=parsed.word("--save"),
            scores=scores_of(parsed, self.names, self.registry.flows),
            against=parsed.placed("--against"),
            seed=count(parsed, "--seed", None),
        )

    def run(
        self,
        flow: Flow,
        request: RunRequest,
        *,
        background: bool = False,
        inline: bool = False,
        shown: Sequence[Diagnostic] | None = None,
    ) -> run_module.Run | None:
        """Run ``flow`` and show it in this cell. ``inline``: the flow is not registered and must pass the
        gate, the check of a definition that is run as text (decision P11). ``shown``: the problems that
        this cell has printed; None: an earlier cell registered the flow and printed its warnings."""
        shown = flow.warnings if shown is None else shown
        if request.scores:
            from ..lifecycle.scoring.scorers import check_column, name_scorers

            name_scorers(request.scores, self.registry)  # before the run is paid for
            if request.against is not None:
                check_column(request.against, request.over)
        if request.save is not None:
            from ..lifecycle.table_runs.table import TABLE, check_target

            target = request.save
            with_place_of(target, lambda: check_target(Path(target.text), TABLE))
        unused = tuple(unused_fields(flow, request.input)) if request.over is None else ()
        options = replace(
            request.options, background=background, inline=inline, shown_warnings=(*shown, *unused)
        )
        run, display = self.start(
            lambda options: launch.start_run(flow, request.input, options, request.over),
            options,
            quiet=request.quiet,
            drawn=flow if request.draw else None,
            out=request.out,
        )
        if not background:
            run.result()
            if request.over is not None:
                self._finish_rows(run, request, display)
            if request.quiet and request.out:
                print_problems(run.progress.losses)
                print(_failed_rows(run), end="")
        # Only here: if the run did not begin, or failed for want of a value, its error says enough.
        if not request.quiet:
            print_problems(unused)
        return None if request.out else run

    def start(
        self,
        begin: Callable[[RunOptions], run_module.Run],
        options: RunOptions,
        *,
        quiet: bool,
        drawn: Flow | None = None,
        out: str | None = None,
    ) -> tuple[run_module.Run, view.View]:
        """Begin a run and show it in this cell, until its end or in the background. ``drawn``: the flow
        of the picture, if one is shown. ``out``: the variable that receives the run. Returns the run and
        its view."""
        background = options.background
        hz = self.settings.refresh_hz
        display = view.choose_view(
            self.settings, self.ipython, quiet=quiet, drawn=drawn, background=background
        )

        def start(enter: Callable[[run_module.Run], None]) -> run_module.Run:
            run = begin(replace(options, enter=enter, shown=display.shows_page))
            self.adopt(run, display, out, is_last=not background)
            return run

        if not background:
            return watching.watch(start, display, hz), display
        run = watching.follow(start, display, hz)
        self._follow(run, display)
        return run, display

    def _finish_rows(self, run: run_module.Run, request: RunRequest, display: view.View) -> None:
        """Score the rows of a run over a table, and save its table, as the line says."""
        try:
            if request.scores:
                from ..lifecycle.scoring.scorers import score_over

                scores = score_over(
                    run,
                    *request.scores,
                    against=request.against,
                    seed=request.seed,
                    registry=self.registry,
                )
                display.refresh(run)
                show({"text/html": scores._repr_html_(), "text/plain": repr(scores)})
        finally:
            # Saved also if a judge fails: the rows have been paid for.
            if request.save is not None:
                place = request.save
                print(f"wrote {with_place_of(place, lambda: run.table.save_noted(place.text))}")

    def adopt(
        self, run: run_module.Run, display: view.View, out: str | None, is_last: bool = True
    ) -> None:
        """Note a run that was just started. It is the notebook's last run even if it is
        interrupted. ``is_last``: False for a background run, which does not become the last run."""
        run_module.state_of(run).origin = self.cell
        if is_last:
            self.last = run
        if out:
            self.ipython.user_ns[out] = run
        if display.shows_page:
            self.shown = run, self.number

    def keep(self, run: run_module.Run, display: view.View) -> None:
        """Remember the view of a background run that a cell started with a function of Python."""
        self._follow(run, display)

    def show_again(self, run: run_module.Run) -> bool:
        """Show a background run that still runs, live, also in this cell. Returns False if the run is no
        background run or has ended."""
        if not run.background or run.done:
            return False
        display = view.choose_view(
            self.settings, self.ipython, quiet=False, drawn=None, background=True, elsewhere=True
        )

        def begun(enter: Callable[[run_module.Run], None]) -> run_module.Run:
            enter(run)  # called on this thread, so that the output belongs to this cell
            return run

        watching.follow(begun, display, self.settings.refresh_hz)
        self._follow(run, display)
        return True

    def _follow(self, run: run_module.Run, display: view.View) -> None:
        """Remember the view of a background run. All but the last ended runs are forgotten: their values
        may be large."""
        ended = [pair for pair in self.followed if pair[0].done]
        for pair in ended[:-LAST_ENDED]:
            self.followed.remove(pair)
        self.followed.append((run, display))

    def wait(self, run: run_module.Run) -> None:
        """Wait for a background run until every cell shows the run's end. Then send the last page once
        more: nbclient updates the output of an ended cell only while another cell runs."""
        watching.join_views(run.wait())
        for followed, display in self.followed:
            if followed is run and display.shows_page:
                display.close(run)

    def flow(self, word: Token) -> Flow:
        """The registered flow that a word names."""
        flows = self.registry.flows
        message = f"no flow {word.text!r} is registered"
        otherwise = "define it in a cell or with %define"
        check_known("unknown-flow", message, word, flows, "registered flows", otherwise)
        return flows[word.text]


def definition_text(flow: Flow) -> str:
    """The definition as it was written, with the flow's name added if only the line of the cell had it."""
    return LANGUAGES[flow.language].with_name(flow.source.text, flow.name)


def _failed_rows(run: run_module.Run) -> str:
    """A line about the rows that failed, which are no progress and no warning; empty: none failed."""
    counts = run.table.counts if run.flow.language == OVER else {}
    failed = counts.get("failed", 0)
    return f"{failed:,} of {counted(sum(counts.values()), 'row')} failed\n" if failed else ""


def _flow_name(parsed: ParsedLine) -> Token | None:
    """The name on the line of a cell, if it has one."""
    word = parsed.word("NAME")
    if word is not None and not word.text.strip():
        message = "the name of a flow cannot be blank"
        raise line_error("name", message, word, "remove it: the document has a name")
    return word


def _summary(defined: Defined) -> str:
    """``pipeline review: 3 steps``, ``schemas Review, Verdict``."""
    flow = defined.flow
    if flow is None:
        kind = "schema" if len(defined.schemas) == 1 else "schemas"
        return f"{kind} {', '.join(line(name, 60) for name in defined.schemas)}"
    from ..pictures.outline import count_steps

    return f"{flow.language} {line(flow.name, 80)}: {count_steps(flow)}"
