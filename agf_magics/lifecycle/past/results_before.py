"""Lets a run reuse the results that an earlier run had before one of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ...engine.linking.linked import Linked, flow_at
from ...flow.graph_steps import Dag, Walk
from ...flow.progress.rows import Key, key_of
from ...flow.step_path import is_within
from ...flow.steps import Branches, Each, path_to
from ...flow.steps import Sequence as Steps
from ...journal.calls.reuse import EarlierRun, Reuse
from ...journal.database.errors import as_definition_errors
from ...journal.records.recorded_outcomes import EarlierOutcomes
from ...journal.records.records import Record
from ...journal.runs import changed_objects, records
from ..definitions.influence import reachable_from
from ..run_internals import linked_flow, place_in_journal
from ..runs.run import Run
from ..runs.state import RunState
from ..storage.reuse import reader_of_results
from .past_run import PastRun


def reuse_before(state: RunState, earlier: Run | PastRun, key: Key) -> None:
    """Let a run reuse the results of the run ``earlier``, except those of the step ``key`` and of
    the steps after it. Raises DefinitionError."""
    if state.journal is None:
        return
    place = place_in_journal(earlier)
    assert place is not None, "a run in the journal has a place there"
    store, num = place
    with as_definition_errors():
        with store.reading_run(num) as connection:
            changed = changed_objects(connection, num)
        source = EarlierRun(earlier.run_id, changed)
        reading = reader_of_results(store, state.flow_input.input)
        reuse = Reuse(earlier.run_id, [(source, _before(earlier, key))], *reading)
        reuse.add_failures(source, _survived(_before(earlier, key)))
        state.journal.reuse = reuse


def _before(run: Run | PastRun, key: Key) -> Iterator[Record]:
    """The records of a run without those of the step ``key`` and of the steps after it."""
    after, visits = steps_after(linked_flow(run), key)
    place = place_in_journal(run)
    assert place is not None, "a run in the journal has a place there"
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
