"""Repeats an ended run from one of its steps on.

The new run reuses earlier results by content, as ``--reuse`` does, except those of the step, of the
steps inside it and of the steps after it: later steps of a sequence, the steps of a plan that its
values reach, the nodes of a graph to which an edge leads. Before the step, a failure that the run went
on without is reused as a failure. So the new run may have another input or an edited definition: a call
that differs is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ...catalog import Registry, default
from ...engine.host.host import Asker
from ...engine.run_options import DEFAULTS, RunOptions
from ...engine.runner import clock
from ...engine.threads.rights import refuse_inside
from ...flow.flow import Flow
from ...flow.progress.events import Event, Warned
from ...flow.progress.rows import Key
from ...journal.calls.reuse import ReusedRuns
from ...limits.limits import Limits
from ...pictures.plain import line
from ...pictures.row_words import shown_name
from ...text.diagnostics import refused
from ...text.suggestions import suggest
from ...values.value import Value
from ..launch.driving import start_on_engine
from ..launch.launch import prepare_run
from ..launch.viewers import run_to_end
from ..runs.run import Run, state_of
from .named_run import find_ended
from .past_run import PastRun, find_past_run
from .results_before import reuse_before
from .resume import read_context
from .run_again import ContextBefore, context_before, find_registered, input_again


def rerun(
    run_id: str | Run | PastRun,
    step: str,
    *,
    input: Mapping[str, Value] | None = None,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    ask: Asker | None = None,
    on: object = None,
    raises: bool = True,
    quiet: bool = False,
) -> Run:
    """Run a flow again from one step on, wait for its end and return the new run.

    Results of the earlier run on which the step depends are reused. The definition is the one that
    is registered now.

    Parameters:

    - ``run_id``: the id of the earlier run, the name of a flow, which means its last run, an
      unambiguous beginning of an id, or a run. Required.
    - ``step``: the id of a step of that run, as in ``run.steps``. Required.
    - ``input``: a mapping with fields of the input that replace those of the earlier run. Default
      None: the same input.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True, False, or a word for it ("yes", "no"). Default None: the notebook or
      the terminal asks.
    - ``on``: where concurrent calls of tools run, as for `run`. Default None: as the settings say.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default
      True.
    - ``quiet``: whether a notebook shows nothing of the run. Default False: the cell that starts it
      shows it live.

    Raises DefinitionError if there is no such run or step, and otherwise the same errors as `run`.
    """
    options = RunOptions(registry=registry, limits=limits, on_event=on_event, ask=ask, on=on)
    ended = run_to_end(lambda options: rerun_from(run_id, step, input, options), options, quiet)
    return ended.result() if raises else ended


def rerun_from(
    run: Run | PastRun | str,
    step: str | None,
    input: Mapping[str, Value] | None = None,
    options: RunOptions = DEFAULTS,
) -> Run:
    """`rerun` that returns at once: the caller must `wait` unless the run is in the background.
    ``step``: None: all results are reused, so that only the calls that failed are made again, and
    those of what was edited. ``options.note``: what is said of the run instead of that."""
    refuse_inside("rerun")
    registry = default(options.registry)
    earlier = find_ended(run, registry.flows)
    flow = find_registered(earlier, registry)
    if step is None:
        key, reuse, note = None, earlier.run_id, f"makes the failed calls of {earlier.run_id} again"
    else:
        key, reuse = find_step(earlier.progress.rows, step, f"run {earlier.run_id!r}"), ""
        first = line(shown_name(earlier.progress.rows[key]), 60)
        note = f"run from {first!r} of {earlier.run_id}"
    options = replace(options, reuse=reuse, note=options.note or note)
    before = _context_before(flow, earlier, registry)
    try:
        context = before.context if before is not None else None
        reused = ReusedRuns((earlier.run_id,), key) if key is not None else None
        again = prepare_run(flow, input_again(earlier, input), options, None, context, reused)
        if step is not None:
            find_step(again.progress.rows, step, f"the definition of {earlier.name!r}")
    except BaseException:
        if before is not None:
            before.undo()
        raise
    for warning in before.warnings if before is not None else ():
        again.progress.apply(Warned(clock(), warning))
    if key is not None:
        reuse_before(state_of(again), earlier, key)
    start_on_engine(again)
    return again


def _context_before(flow: Flow, earlier: Run | PastRun, registry: Registry) -> ContextBefore | None:
    """The named context with the messages that the earlier run had; None: ``flow`` has no named
    context, or another one."""
    name = flow.dialect.context
    if not name or name != find_past_run(earlier.run_id).order.context_name:
        return None
    return context_before(name, read_context(earlier.run_id), registry, earlier.run_id)


def failed_step(run: Run | PastRun) -> str:
    """The id of the innermost step that failed the run. Raises DefinitionError if none did."""
    failed = [row.id for row in run.progress.rows.values() if row.state == "failed"]
    if not failed:
        hint = "name it: --from STEP (run.steps has the ids)"
        raise refused("journal.unknown-step", f"no step of run {run.run_id!r} failed", hint)
    return failed[-1]


def find_step(rows: Iterable[Key], step: str, where: str) -> Key:
    """The key of the row with the id ``step``. Raises DefinitionError."""
    keys = {"/".join(key): key for key in rows}
    if step not in keys:
        hint = suggest(str(step), keys, "steps") or "run.steps has the ids of all steps"
        raise refused("journal.unknown-step", f"{where} has no step {step!r}", hint)
    return keys[step]
