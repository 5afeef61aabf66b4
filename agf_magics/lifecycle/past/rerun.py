"""Repeats an ended run from one of its steps on.

The new run reuses earlier results by content, as ``--reuse`` does, except those of the step, of the
steps inside it and of the steps after it: later steps of a sequence, the steps of a plan that its
values reach, the nodes of a graph to which an edge leads. Before the step, a failure that the run went
on without is reused as a failure. So the new run may have another input or an edited definition: a call
that differs is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from ...catalog import Registry, default
from ...engine.host.hold_interrupts import hold_interrupts
from ...engine.host.host import Asker
from ...engine.linking.linked import Linked, flow_at
from ...engine.run_options import DEFAULTS, RunOptions
from ...engine.runner import clock
from ...engine.threads.rights import refuse_inside
from ...flow.flow import Flow
from ...flow.graph_steps import Dag, Walk
from ...flow.progress.events import Event, Warned
from ...flow.progress.rows import Key, key_of
from ...flow.step_path import is_within
from ...flow.steps import Branches, Each, path_to
from ...flow.steps import Sequence as Steps
from ...journal.calls.reuse import EarlierRun, Reuse
from ...journal.database.errors import as_definition_errors
from ...journal.records.recorded_outcomes import EarlierOutcomes
from ...journal.records.records import Record
from ...journal.runs import changed_objects, records
from ...limits.limits import Limits
from ...pictures.plain import line
from ...pictures.row_words import shown_name
from ...text.diagnostics import refused
from ...text.suggestions import suggest
from ...values.value import Value
from ..definitions.influence import reachable_from
from ..launch.driving import start_on_engine, wait_for
from ..launch.launch import prepare_run
from ..run_internals import linked_flow, place_in_journal
from ..runs.run import Run, state_of
from ..storage.reuse import reader_of_results
from .named_run import find_ended
from .past_run import PastRun, find_past_run
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

    Raises DefinitionError if there is no such run or step, and otherwise the same errors as `run`.
    """
    options = RunOptions(registry=registry, limits=limits, on_event=on_event, ask=ask, on=on)
    with hold_interrupts() as deferred:
        ended = wait_for(rerun_from(run_id, step, input, options), deferred)
    return ended.result() if raises else ended


def rerun_from(
    run: Run | PastRun | str,
    step: str,
    input: Mapping[str, Value] | None = None,
    options: RunOptions = DEFAULTS,
) -> Run:
    """`rerun` that returns at once: the caller must `wait` unless the run is in the background."""
    refuse_inside("rerun")
    registry = default(options.registry)
    earlier = find_ended(run, registry.flows)
    key = find_step(earlier.progress.rows, step, f"run {earlier.run_id!r}")
    flow = find_registered(earlier, registry)
    first = line(shown_name(earlier.progress.rows[key]), 60)
    options = replace(options, reuse=False, note=f"run from {first!r} of {earlier.run_id}")
    before = _context_before(flow, earlier, registry)
    try:
        context = before.context if before is not None else None
        again = prepare_run(flow, input_again(earlier, input), options, context=context)
        find_step(again.progress.rows, step, f"the definition of {earlier.name!r}")
    except BaseException:
        if before is not None:
            before.undo()
        raise
    for warning in before.warnings if before is not None else ():
        again.progress.apply(Warned(clock(), warning))
    if again.journal is not None:
        place = place_in_journal(earlier)
        assert place is not None, "`find_ended` has checked it"
        store, num = place
        with as_definition_errors():
            with store.reading_run(num) as connection:
                changed = changed_objects(connection, num)
            source = EarlierRun(earlier.run_id, changed)
            reading = reader_of_results(store, state_of(again).flow_input.input)
            reuse = Reuse(earlier.run_id, [(source, _before(earlier, key))], *reading)
            reuse.add_failures(source, _survived(_before(earlier, key)))
            again.journal.reuse = reuse
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


def _before(run: Run | PastRun, key: Key) -> Iterator[Record]:
    """The records of a run without those of the step ``key`` and of the steps after it."""
    after, visits = steps_after(linked_flow(run), key)
    place = place_in_journal(run)
    assert place is not None, "`find_ended` has checked it"
    begun = False
    for record in records(*place):
        call_key = key_of(record.at)
        begun = begun or is_within(call_key, key)
        left_out = (key, *after, *visits) if begun else (key, *after)
        if not any(is_within(call_key, outer) for outer in left_out):
            yield record


OUTCOMES = frozenset({"begun", "finished", "failed", "dropped", "rescued", "retried"})


def _survived(records: Iterable[Record]) -> Iterable[Record]:
    """The failures among these records that the run went on without."""
    # No value is read: only which call failed last, and what became of it.
    outcomes = (
        record._replace(what="begun") if record.what == "finished" else record
        for record in records
        if record.what in OUTCOMES
    )
    return EarlierOutcomes(outcomes, ended=True).failed.values()


def steps_after(linked: Linked, key: Key) -> tuple[list[Key], list[Key]]:
    """The keys of the steps that a run from a step on makes again after it, and the keys of nodes of a graph that run
    several times, of which only the visits after the step count."""
    after, visits = list[Key](), list[Key]()
    for place, step in enumerate(key):
        calls = key[:place]
        around = flow_at(linked, calls)
        assert around is not None, "a row is of a linked flow"
        for outer, inner in pairwise(path_to(around.flow.body, step)):
            match outer:
                case Steps(steps=steps):
                    after += [(*calls, later.id) for later in steps[steps.index(inner) + 1 :]]
                case Branches(collect=collect) | Each(collect=collect) if (
                    collect is not None and collect is not inner
                ):
                    after.append((*calls, collect.id))
                case Dag(feeds=feeds):
                    edges = [(source, dest) for source, dest, _ in feeds]
                    after += [(*calls, dest) for dest in reachable_from(inner.id, edges)]
                case Walk(nodes=nodes, edges=edges):
                    name = next(name for name, node in nodes.items() if node is inner)
                    names = reachable_from(name, [(edge.source, edge.target) for edge in edges])
                    visits += [(*calls, nodes[name].id) for name in names if name in nodes]
    return after, visits
