"""A run is repeated from one of its steps on: a new run, which reuses the results on which that
step depends.

Results are reused by content, as by ``--reuse``, but not those of the step, of the steps inside it
and of what comes after it: later steps of a sequence, the steps of a plan that its values reach,
the nodes of a graph that an edge leads to. So the run may have another input or an edited
definition: a call that differs is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from ..catalog import Registry, default
from ..engine.host import Asker
from ..engine.interrupts import held_interrupts
from ..engine.limits import Limits, refuse_inside
from ..engine.linked import Linked
from ..flow.events import Event
from ..flow.steps import Branches, Dag, Each, Flow, Step, Walk, children
from ..flow.steps import Sequence as Steps
from ..flow.values import Value
from ..journal.queries import records
from ..journal.records import Record
from ..journal.reuse import Reuse
from ..text.diagnostics import suggest
from .driving import start_on_engine, wait_for
from .influence import reached
from .input import DEFAULTS, RunOptions
from .launch import make_emitter, prepare_run
from .lookup import as_definition_errors, find_run, journal, refused, refused_running, unpickled
from .past_run import PastRun
from .run import Run


def rerun(
    run_id: str,
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

    - ``run_id``: the id of the earlier run, or the beginning of one. Required.
    - ``step``: the id of a step of that run, as in ``run.steps``. Required.
    - ``input``: a mapping with fields of the input that replace those of the earlier run. Default
      None: the same input.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True or False. Default None: the notebook or the terminal asks.
    - ``on``: where concurrent calls of tools run, as for `run`. Default None: as the settings say.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default
      True.

    Raises DefinitionError if there is no such run or step, and otherwise the same errors as `run`.
    """
    options = RunOptions(registry=registry, limits=limits, on_event=on_event, ask=ask, on=on)
    with held_interrupts() as held:
        ended = wait_for(rerun_from(run_id, step, input, options), held)
    return ended.result() if raises else ended


def rerun_from(
    run_id: str, step: str, input: Mapping[str, Value] | None = None, options: RunOptions = DEFAULTS
) -> Run:
    """`rerun` that returns at once: the caller must `wait` unless the run is in the background."""
    refuse_inside("rerun")
    registry = options.registry or default()
    with as_definition_errors():
        past = PastRun(journal(), find_run(journal(), run_id))
    if past.status == "running":
        raise refused_running(run_id)
    key = find_step(past.progress.rows, step, f"run {past.run_id!r}")
    flow = registry.flows.get(past.name)
    if flow is None:
        hint = "define it again: run the cell of its definition"
        raise refused("flow.unknown-flow", f"no flow {past.name!r} is registered", hint)
    made = prepare_run(flow, {**_given(past), **(input or {})}, replace(options, reuse=False))
    find_step(made.progress.rows, step, f"the definition of {past.name!r}")
    if made.journal is not None:
        reused = _before(past, key)
        made.journal.reuse = Reuse(
            past.run_id, [(past.run_id, reused)], partial(unpickled, trust=False)
        )
    start_on_engine(
        made,
        make_emitter(made.progress, options.on_event, made.secrets),
        options.enter,
        options.background,
    )
    return made


def failed_step(past: PastRun) -> str:
    """The id of the innermost step that failed the run. Raises DefinitionError if none did."""
    failed = [row.id for row in past.progress.rows.values() if row.state == "failed"]
    if not failed:
        hint = "name it: --from STEP (run.steps has the ids)"
        raise refused("journal.unknown-step", f"no step of run {past.run_id!r} failed", hint)
    return failed[-1]


def _given(past: PastRun) -> Mapping[str, Value]:
    """The journaled input, without its secret fields."""
    order = past.order
    fields = order.input if isinstance(order.input, dict) else {}
    return {name: value for name, value in fields.items() if name not in order.secret}


def find_step(rows: Iterable[tuple[str, ...]], step: str, where: str) -> tuple[str, ...]:
    """The key of the row with the id ``step``. Raises DefinitionError."""
    known = {"/".join(key): key for key in rows}
    if step not in known:
        hint = suggest(step, known, "steps") or "run.steps has the ids of all steps"
        raise refused("journal.unknown-step", f"{where} has no step {step!r}", hint)
    return known[step]


def _before(past: PastRun, key: Sequence[str]) -> Iterator[Record]:
    """The records of a run without those of the step ``key`` and of what comes after it."""
    after = [_after(flow, id) for flow, id in zip(_flows(past._linked, key), key, strict=True)]
    store, num = past.place
    begun = False
    for record in records(store, num):
        begun = begun or _is_in(record, key)
        if not _is_after(record, key, after, begun):
            yield record


def _flows(linked: Linked, key: Sequence[str]) -> Iterator[Flow]:
    """The flow of each part of a key."""
    found: object = linked
    for id in key:
        assert isinstance(found, Linked), "a row is of a linked flow"
        yield found.flow
        found = found.callees.get(id)


class After:
    """What comes after a step in its flow."""

    def __init__(self) -> None:
        self.ids = list[str]()
        self.visits = list[str]()
        """Nodes of a graph, of which only the visits after the step come after it."""


def _after(flow: Flow, id: str) -> After:
    found = After()
    path = list(_path(flow.body, id))
    for outer, inner in pairwise(path):
        match outer:
            case Steps(steps=steps):
                found.ids += [step.id for step in steps[steps.index(inner) + 1 :]]
            case Branches(collect=collect) | Each(collect=collect) if (
                collect is not None and collect is not inner
            ):
                found.ids.append(collect.id)
            case Dag(feeds=feeds):
                found.ids += reached(inner.id, [(source, dest) for source, dest, _ in feeds])
            case Walk(nodes=nodes, edges=edges):
                name = next(name for name, node in nodes.items() if node is inner)
                names = reached(name, [(edge.source, edge.target) for edge in edges])
                found.visits += [nodes[one].id for one in names if one in nodes]
    return found


def _path(step: Step, id: str) -> Iterator[Step]:
    """The steps from ``step`` to the one with this id; none if no step has it."""
    if step.id == id:
        yield step
        return
    for child in children(step):
        inner = list(_path(child, id))
        if inner:
            yield from (step, *inner)
            return


def _is_in(record: Record, key: Sequence[str]) -> bool:
    parts = [bit for bit in record.at if isinstance(bit, str)]
    return parts[: len(key) - 1] == list(key[:-1]) and _is_of(parts, len(key) - 1, key[-1])


def _is_after(record: Record, key: Sequence[str], after: Sequence[After], begun: bool) -> bool:
    if _is_in(record, key):
        return True
    parts = [bit for bit in record.at if isinstance(bit, str)]
    for place, found in enumerate(after):
        if parts[:place] != list(key[:place]):
            return False
        ids = [*found.ids, *(found.visits if begun else ())]
        if any(_is_of(parts, place, id) for id in ids):
            return True
    return False


def _is_of(parts: Sequence[str], place: int, id: str) -> bool:
    return (
        place < len(parts)
        and parts[place].startswith(id)
        and parts[place][len(id) :][:1] in ("", ".", "[")
    )
