"""How long a step took: the time in which it ran, without the gaps between its runs, by the events of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress, with_outer
from agf_magics.flow.progress.worked import Worked, union
from agf_magics.journal.codec.json_texts import encode
from agf_magics.journal.records.records import decoded
from agf_magics.journal.secrets.masking import Secrets
from agf_magics.lifecycle.storage.saved_progress import restore_rows, snapshot_rows, stored_times

PIPELINE = """\
pipeline: worked
steps:
- tool: {name: add, args: {n: 1}, output: a}
- tool: {name: add, args: {n: 1}, on_error: retry(5), output: b}
- for_each:
    items: [1, 2, 3]
    on_error: abort
    do: {tool: {name: add, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: c
"""
GRAPH = """\
state: {n: int, m: int}
variables: {n: 0, m: 0}
nodes:
  add: {type: python, tool: add, variables: {n: "{state.n}"}, state_key: n}
  rest: {type: python, tool: rest, variables: {n: "{state.n}"}, state_key: m}
edges:
- {from: START, to: add}
- {from: add, to: rest}
- {from: rest, to: add, condition: n < 3}
- {from: rest, to: END, condition: else}
"""

CALL = "steps[0]"
RETRIED = "steps[1].call"
AROUND = "steps[1]"
EACH = "steps[2]"
ELEMENT = "steps[2].do"
NODE = "nodes.add"


class Case(NamedTuple):
    """What happened, as ``begin``, ``end``, ``fail``, ``cancel``, ``repeat`` of a step at a time, and what it took."""

    events: str
    took: dict[str, float]
    now: float = 100.0
    earlier: dict[str, Worked] = {}  # noqa: RUF012


CASES = {
    "a single call": Case(f"begin {CALL} 1, end {CALL} 3", {CALL: 2}),
    "a call that runs now": Case(f"begin {CALL} 1", {CALL: 4}, now=5),
    "a call that has not begun": Case("", {CALL: -1}),
    "a cancelled call": Case(f"begin {CALL} 1, cancel {CALL} 4", {CALL: 3}),
    "attempts, and the pauses between them": Case(
        f"begin {AROUND} 0, begin {RETRIED} 0, fail {RETRIED} 1, begin {RETRIED} 6, fail {RETRIED} 7, "
        f"begin {RETRIED} 17, end {RETRIED} 19, end {AROUND} 19",
        {AROUND: 4, RETRIED: 4},
    ),
    "a pause before the next attempt": Case(
        f"begin {AROUND} 0, begin {RETRIED} 0, fail {RETRIED} 1", {AROUND: 1, RETRIED: 1}, now=5
    ),
    "elements at the same time": Case(
        f"begin {EACH} 0, begin {ELEMENT}#0 0, begin {ELEMENT}#1 1, end {ELEMENT}#0 3, begin {ELEMENT}#2 3.5, "
        f"end {ELEMENT}#1 4, end {ELEMENT}#2 5, end {EACH} 6",
        {EACH: 6, ELEMENT: 5},
    ),
    "elements with a gap": Case(
        f"begin {EACH} 0, begin {ELEMENT}#0 0, end {ELEMENT}#0 3, begin {ELEMENT}#1 7, end {ELEMENT}#1 8, end {EACH} 8",
        {EACH: 8, ELEMENT: 4},
    ),
    "a node of a loop": Case(
        f"begin {NODE}#0 0, end {NODE}#0 0.2, begin {NODE}#1 5, end {NODE}#1 5.2, begin {NODE}#2 9.8, end {NODE}#2 10",
        {NODE: 0.6},
    ),
    "a node of a loop that runs again now": Case(
        f"begin {NODE}#0 0, end {NODE}#0 1, begin {NODE}#1 5", {NODE: 3}, now=7
    ),
    "a node between two visits": Case(f"begin {NODE}#0 0, end {NODE}#0 1", {NODE: 1}, now=7),
    "a resumed run that makes the call again": Case(
        f"begin {CALL} 11, end {CALL} 13", {CALL: 5}, earlier={CALL: Worked(1, 4)}
    ),
    "a resumed run that repeats the call": Case(
        f"begin {CALL} 11, repeat {CALL} 11, end {CALL} 11.1", {CALL: 3}, earlier={CALL: Worked(1, 4)}
    ),
    "a resumed loop": Case(
        f"begin {NODE}#0 11, repeat {NODE}#0 11, end {NODE}#0 11.1, begin {NODE}#1 11.2, repeat {NODE}#1 11.2, "
        f"end {NODE}#1 11.3, begin {NODE}#2 15, end {NODE}#2 16",
        {NODE: 3},
        earlier={NODE: Worked(1, 9, 6)},
    ),
    "a resumed fan-out": Case(
        f"begin {EACH} 11, begin {ELEMENT}#0 11, begin {ELEMENT}#1 11, repeat {ELEMENT}#0 11, end {ELEMENT}#0 11.1, "
        f"end {ELEMENT}#1 13, end {EACH} 14",
        {EACH: 4 + 3, ELEMENT: 3 + 2},
        earlier={EACH: Worked(0, 4), ELEMENT: Worked(1, 4)},
    ),
    "a resumed run that runs now": Case(
        f"begin {CALL} 11", {CALL: 3 + 2}, now=13, earlier={CALL: Worked(1, 4)}
    ),
}  # fmt: skip

EVENTS: dict[str, Callable[..., ev.Event]] = {
    "begin": ev.StepStarted,
    "end": ev.StepFinished,
    "cancel": ev.StepCancelled,
    "fail": lambda at, when: ev.StepFailed(at, when, ValueError()),
    "repeat": lambda at, when: ev.StepReplayed(at, when, "r"),
}


def definition(case: Case) -> agf.Flow:
    is_graph = NODE in case.events
    registry = agf.Registry()
    for name in ("add", "rest"):
        agf.tool(lambda n: n, name=name, registry=registry)
    text, language = (GRAPH, "graph") if is_graph else (PIPELINE, "pipeline")
    return agf.define(text, language, name="worked", registry=registry)


def progress_of(case: Case) -> Progress:
    progress = Progress(definition(case))
    progress.earlier = with_outer({(step,): worked for step, worked in case.earlier.items()})
    progress.apply(ev.RunStarted("worked", 1000.0))
    for event in filter(None, case.events.split(", ")):
        kind, step, when = event.split()
        id, *number = step.split("#")
        progress.apply(EVENTS[kind]((id, *map(int, number)), 1000.0 + float(when)))
    return progress


@pytest.mark.parametrize("name", CASES)
def test_a_step_took_the_time_in_which_it_ran(name: str) -> None:
    case = CASES[name]
    progress = progress_of(case)
    took = {step: progress.rows[step,].seconds_until(1000.0 + case.now) for step in case.took}
    assert {step: -1 if seconds is None else seconds for step, seconds in took.items()} == pytest.approx(case.took)


@pytest.mark.parametrize("name", CASES)
def test_the_time_is_stored_with_the_tree_of_the_run(name: str) -> None:
    case = CASES[name]
    progress = progress_of(case)
    tree: Any = decoded(encode(snapshot_rows(progress, Secrets())))
    again = Progress(definition(case))
    restore_rows(again, tree)
    seconds = {key: row.seconds for key, row in progress.rows.items() if row.started}
    assert {key: again.rows[key].seconds for key in seconds} == pytest.approx(seconds)
    own = {key for key, row in progress.rows.items() if row.timed is row}  # not a step that only handles failures
    times = {key: worked.seconds for key, worked in stored_times(tree) if key in own}
    assert times == pytest.approx({key: progress.rows[key].seconds for key in times})


UNIONS: dict[str, tuple[list[tuple[float, float]], Worked | None]] = {
    "nothing": ([], None),
    "one": ([(1, 3)], Worked(1, 3)),
    "one after the other": ([(1, 3), (3, 4)], Worked(1, 4)),
    "a gap": ([(1, 3), (5, 6)], Worked(1, 6, 2)),
    "in another order": ([(5, 6), (1, 3)], Worked(1, 6, 2)),
    "one around the others": ([(2, 3), (5, 6), (0, 9)], Worked(0, 9)),
}


@pytest.mark.parametrize("name", UNIONS)
def test_runs_at_the_same_time_count_once(name: str) -> None:
    times, worked = UNIONS[name]
    assert union(times) == worked
