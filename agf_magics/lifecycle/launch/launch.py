"""The functions that start a run: `run` waits for the end, `arun` is awaited, `start` returns at
once.

All of them use `prepare_run`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import ParamSpec, TypeVar

from ...catalog import Context, Registry, default
from ...engine.host.host import Asker
from ...engine.run_options import DEFAULTS, RunOptions
from ...engine.threads.rights import rights
from ...flow.flow import Flow
from ...flow.progress.events import Event
from ...journal.calls.reuse import ReusedRuns
from ...limits.limits import Limits
from ...settings.folders import journal_file
from ...text.folder import notebook_folder
from ...text.suggestions import suggest
from ...values.value import Value
from ..input.workers import prepare_workers
from ..runs.run import Run, state_of
from ..storage.reuse import find_reused, reuse_results
from ..storage.start_journal import start_journal
from .driving import run_here, start_on_engine
from .find_flow import find_flow
from .link_run import link_run
from .viewers import find_viewer, run_to_end

OF_ROWS = frozenset({"map", "limit", "sample", "seed", "repeat", "width", "yes"})
"""The options of `agf.Over`, whose module most runs do not need."""

OF_LIMITS = frozenset(field.name for field in fields(Limits) if field.init)
"""The options of `agf.Limits`, for the hint about a limit that is written as a parameter of `run`."""

P = ParamSpec("P")
R = TypeVar("R")


def _explains_input(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, whose TypeError for an unknown keyword says how the input is given:
    ``agf.run("x", word="pear")`` is a natural mistake."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        for name in sorted(named.keys() - parameters.keys()):
            hint = suggest(name, parameters)
            if name in OF_LIMITS:
                hint = f"write limits=agf.Limits({name}={named[name]!r})"
            elif name in OF_ROWS:
                hint = f"write over=agf.Over(table=…, {name}={named[name]!r})"
            hint = hint or f"the input is a mapping: agf.{function.__name__}(…, {{{name!r}: …}})"
            raise TypeError(f"{function.__name__}() has no parameter {name!r}: {hint}")
        return function(*args, **named)

    return call


@_explains_input
def run(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    over: object = None,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    stream: bool = False,
    raises: bool = True,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
    on: object = None,
    quiet: bool = False,
) -> Run:
    """Run a flow, wait for its end and return the run.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, or the text of a
      definition. Required.
    - ``input``: a mapping of names to values, the named context of the first step; a definition
      with an interface accepts any value that the interface allows. Default None: an empty mapping.
    - ``over``: a table, for a run of the flow over each of its rows: a DataFrame, an Arrow table, a
      list of mappings, the path of a ``.csv``, ``.jsonl`` or ``.parquet`` file, or `Over` with
      options. ``input`` then has what all rows have in common. Default None: one run.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``stream``: whether ``on_event`` also gets the text of models while it arrives, as
      `ModelText`. Default False.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default
      True.
    - ``dry``: whether to run without calling tools and agents; sample values replace their results.
      Default False.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True, False, or a word for it ("yes", "no"). Default None: the notebook or
      the terminal asks.
    - ``reuse``: True reuses the newest results of identical calls in the last 20 runs of this flow,
      a run id those of that run. Default False.
    - ``on``: where concurrent calls of tools run: ``"processes"``, ``"processes:4"``, ``"dask"``,
      the address of a Dask scheduler, a Dask client, any ``concurrent.futures.Executor``, or
      `Workers` with options; ``"here"``: on threads of this process. A dry run does not use it.
      Default None: as the settings say.
    - ``quiet``: whether a notebook shows nothing of the run. Default False: the cell that starts it
      shows it live.

    Raises DefinitionError before the first step if a name is unknown or a required input is
    missing, StepError if a step fails, RunCancelled if the run is cancelled, and RunInterrupted, also
    with ``raises=False``, if a person interrupts it.
    """
    options = RunOptions(
        registry=registry,
        limits=limits,
        on_event=on_event,
        stream=stream,
        dry=dry,
        ask=ask,
        reuse=reuse,
        on=on,
    )
    ended = run_to_end(lambda options: start_run(flow, input, options, over), options, quiet)
    return ended.result() if raises else ended


@_explains_input
async def arun(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    over: object = None,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    stream: bool = False,
    raises: bool = True,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
    on: object = None,
    quiet: bool = False,
) -> Run:
    """Run a flow on the running event loop: ``await agf.arun(...)``. Plain functions run on call
    threads.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, or the text of a
      definition. Required.
    - ``input``: a mapping of names to values, the named context of the first step; a definition
      with an interface accepts any value that the interface allows. Default None: an empty mapping.
    - ``over``: a table, for a run of the flow over each of its rows: a DataFrame, an Arrow table, a
      list of mappings, the path of a ``.csv``, ``.jsonl`` or ``.parquet`` file, or `Over` with
      options. ``input`` then has what all rows have in common. Default None: one run.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the loop's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``stream``: whether ``on_event`` also gets the text of models while it arrives, as
      `ModelText`. Default False.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default
      True.
    - ``dry``: whether to run without calling tools and agents; sample values replace their results.
      Default False.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True, False, or a word for it ("yes", "no"). Default None: the notebook or
      the terminal asks.
    - ``reuse``: True reuses the newest results of identical calls in the last 20 runs of this flow,
      a run id those of that run. Default False.
    - ``on``: where concurrent calls of tools run: ``"processes"``, ``"processes:4"``, ``"dask"``,
      the address of a Dask scheduler, a Dask client, any ``concurrent.futures.Executor``, or
      `Workers` with options; ``"here"``: on threads of this process. A dry run does not use it.
      Default None: as the settings say.
    - ``quiet``: whether a notebook shows nothing of the run. Default False: the cell that starts it
      shows it live.

    Raises the same errors as `run`.
    """
    viewer = find_viewer(quiet)
    options = RunOptions(
        registry=registry,
        limits=limits,
        on_event=on_event,
        stream=stream,
        dry=dry,
        ask=ask,
        reuse=reuse,
        on=on,
        shown=viewer is not None,
    )
    started = prepare_run(flow, input, await prepare_workers(options), over)
    await (run_here(started) if viewer is None else viewer.attend(started, run_here))
    return started.result() if raises else started


@_explains_input
def start(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    over: object = None,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    stream: bool = False,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
    on: object = None,
    quiet: bool = False,
) -> Run:
    """Start a run in the background and return it at once. The run has ``wait``, ``result`` and
    ``cancel`` and can be awaited.

    Plain functions run on threads of their own. An interrupt of the kernel does not reach the run.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, or the text of a
      definition. Required.
    - ``input``: a mapping of names to values, the named context of the first step; a definition
      with an interface accepts any value that the interface allows. Default None: an empty mapping.
    - ``over``: a table, for a run of the flow over each of its rows: a DataFrame, an Arrow table, a
      list of mappings, the path of a ``.csv``, ``.jsonl`` or ``.parquet`` file, or `Over` with
      options. ``input`` then has what all rows have in common. Default None: one run.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``stream``: whether ``on_event`` also gets the text of models while it arrives, as
      `ModelText`, and the events are kept for `Run.events`. Default False.
    - ``dry``: whether to run without calling tools and agents; sample values replace their results.
      Default False.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True, False, or a word for it ("yes", "no"). Default None: the notebook or
      the terminal asks.
    - ``reuse``: True reuses the newest results of identical calls in the last 20 runs of this flow,
      a run id those of that run. Default False.
    - ``on``: where concurrent calls of tools run: ``"processes"``, ``"processes:4"``, ``"dask"``,
      the address of a Dask scheduler, a Dask client, any ``concurrent.futures.Executor``, or
      `Workers` with options; ``"here"``: on threads of this process. A dry run does not use it.
      Default None: as the settings say.
    - ``quiet``: whether a notebook shows nothing of the run. Default False: the cell that starts it
      shows it live.

    Raises DefinitionError as `run` does; no run is started then.
    """
    options = RunOptions(
        registry=registry,
        limits=limits,
        on_event=on_event,
        stream=stream,
        queue=stream,
        dry=dry,
        ask=ask,
        reuse=reuse,
        on=on,
        background=True,
    )
    viewer = find_viewer(quiet)
    if viewer is None:
        return start_run(flow, input, options, over)
    return viewer.follow(lambda options: start_run(flow, input, options, over), options)


def start_run(
    flow: Flow | str | Path, input: Value, options: RunOptions, over: object = None
) -> Run:
    """Start a run and return it at once."""
    started = prepare_run(flow, input, options, over)
    start_on_engine(started)
    return started


def prepare_run(
    flow: Flow | str | Path,
    input: Value = None,
    options: RunOptions = DEFAULTS,
    over: object = None,
    context: Context | None = None,
    reused: ReusedRuns | None = None,
) -> Run:
    """A run that is linked and whose input is checked, not yet started. ``over``: the table of a
    run over a table. ``context``: the named context of a run that is made again. ``reused``: the
    runs whose results the caller lets it reuse. Raises DefinitionError with all problems."""
    notebook_folder.fix()
    run_flow = find_flow(flow, default(options.registry))
    if over is not None:
        from ..table_runs.over import over_rows  # here: most runs have one input

        run_flow, input, options = over_rows(run_flow, over, input, options)
    prepared = link_run(run_flow, input, options, copies=options.dry, context=context)
    # A dry run calls nothing. A run that a tool starts is part of the tool's call and is repeated
    # with it. A run that replays made its calls before (decision D49).
    state = state_of(prepared)
    is_kept = not (options.dry or rights().inside or state.options.recording is not None)
    heads = find_reused(prepared, options.reuse) if options.reuse and not options.dry else []
    state.reused = reused or ReusedRuns(tuple(head.run_id for head in heads))
    if is_kept and (path := journal_file()) is not None:
        start_journal(state, path)
    reuse_results(state, heads)
    if over is not None:
        from ..retried_effects import know_effects

        know_effects(prepared)
    return prepared


__all__ = ["arun", "prepare_run", "run", "start", "start_run"]
