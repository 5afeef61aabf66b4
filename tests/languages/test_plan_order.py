"""The order in which results are stored if calls write over each other, and the cost of keeping this order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.catalog import Context
from agf_magics.flow.graph_steps import Dag
from agf_magics.flow.protocols import FlowInput, FlowResult, Name, Outcome
from agf_magics.languages.plan.calls import Call, Output
from agf_magics.languages.plan.log.destinations import Destination, overlap
from agf_magics.languages.plan.log.log import Log
from agf_magics.languages.plan.scheduling.dependencies import Turn
from agf_magics.languages.plan.scheduling.storing_order import StoringOrder
from tests.counting import instructions, work

PATHS = st.lists(st.sampled_from("ab"), max_size=3).map(tuple)


def turn(index: int, path: tuple[str, ...], instance: str | None = None) -> Turn:
    alternatives = ((Destination("state", path),),)
    return Turn(
        Call(index=index, id=str(index), tool=Name("t"), authored={}, arguments=(), output=Output(alternatives)),
        instance,
    )


@given(st.lists(st.tuples(PATHS, st.sampled_from([None, "x"])), min_size=1, max_size=8), st.data())
def test_next_is_whom_nobody_before_writes_over(writes: list[Any], data: st.DataObject) -> None:
    turns = [turn(i, path, instance) for i, (path, instance) in enumerate(writes)]
    ranks = data.draw(st.permutations(range(len(turns))))
    stored: set[int] = set()
    order = StoringOrder(turns, ranks)
    while len(stored) < len(turns):
        waiting = sorted(set(range(len(turns))) - stored)
        for number in waiting:
            path, instance = writes[number]
            before = [n for n, (other, whose) in enumerate(writes)
                      if whose == instance and overlap(path, other) and ranks[n] < ranks[number]]  # fmt: skip
            assert order.is_next(number) == set(before).issubset(stored)
        following = data.draw(st.sampled_from([number for number in waiting if order.is_next(number)]))
        order.stored(following)
        stored.add(following)


@given(st.lists(PATHS, min_size=1, max_size=8), st.data())
def test_of_those_that_have_come_the_first_is_stored_whom_nobody_before_writes_over(
    paths: list[Any], data: st.DataObject
) -> None:
    order = StoringOrder([turn(i, path) for i, path in enumerate(paths)], range(len(paths)))
    held: list[int] = []
    for ended in data.draw(st.permutations(range(len(paths)))):
        order.ended(ended)
        held.append(ended)
        while (next_call := order.next_to_store()) is not None:
            assert next_call == next(number for number in held if order.is_next(number))
            held.remove(next_call)
            order.stored(next_call)
        assert not any(map(order.is_next, held))
    assert not held


@pytest.mark.parametrize("backwards", [False, True])
def test_a_thousand_calls_that_write_one_place_cost_what_they_are(backwards: bool) -> None:
    def act(count: int) -> None:
        order = StoringOrder([turn(i, ("list",)) for i in range(count)], range(count))
        for number in reversed(range(count)) if backwards else range(count):
            order.ended(number)
            while (next_call := order.next_to_store()) is not None:
                order.stored(next_call)

    assert work(lambda: act(2_000)) < 4 * work(lambda: act(500)) * 1.5


def test_an_end_of_a_plan_concerns_those_who_read_what_it_wrote() -> None:
    registry = agf.Registry()
    agf.tool(lambda n: n, name="same", registry=registry)
    calls = [{"_tool": "same", "n": f"†state.x{i} || 0", "_outputPath": f"†state.x{i + 1}"} for i in range(200)]
    flow = agf.load(json.dumps({"name": "chain", "calls": calls}), "plan", registry=registry)
    (dag,) = flow.body.steps
    assert isinstance(dag, Dag)
    frame = flow.start(FlowInput())
    agenda = dag.open(frame)
    assert [agenda.ready(number, frame) for number in range(200)] == ["go", *["wait"] * 199]
    for number in range(200):
        frame = agenda.store(number, frame, Outcome(1))
        assert agenda.successors(number) == ([number + 1] if number < 199 else [])


def test_who_is_stored_out_of_turn_frees_those_behind_it_when_its_turn_would_have_come() -> None:
    order = StoringOrder([turn(i, ("list",)) for i in range(4)], range(4))
    for number in (2, 3):
        order.ended(number)
    assert order.next_to_store() is None
    order.stored(2)  # no call is left to wait for
    order.stored(0)
    assert order.next_to_store() is None
    order.stored(1)
    assert order.next_to_store() == 3


@given(st.lists(st.lists(PATHS, min_size=1, max_size=3), min_size=1, max_size=8), st.data())
def test_who_is_stored_out_of_turn_holds_up_nobody_who_writes_elsewhere(writes: list[Any], data: st.DataObject) -> None:
    turns = []
    for i, paths in enumerate(writes):
        alternatives = (tuple(Destination("state", path) for path in paths),)
        call = Call(index=i, id=str(i), tool=Name("t"), authored={}, arguments=(), output=Output(alternatives))
        turns.append(Turn(call, None))
    order, stored = StoringOrder(turns, range(len(turns))), set[int]()
    for number in data.draw(st.permutations(range(len(turns)))):
        order.stored(number)
        stored.add(number)
        for later in set(range(len(turns))) - stored:
            before = (n for n in range(later) if any(overlap(a, b) for a in writes[n] for b in writes[later]))
            assert order.is_next(later) == stored.issuperset(before)


def test_many_who_are_stored_out_of_turn_cost_what_they_are() -> None:
    def act(count: int) -> None:
        paths = [("a", str(i)) for i in range(count)]
        order = StoringOrder([turn(i, path) for i, path in enumerate([*paths, ("a",), *paths])], range(2 * count + 1))
        order.stored(count)
        for number in reversed(range(count)):
            order.stored(number)
        assert all(map(order.is_next, range(count + 1, 2 * count + 1)))

    assert work(lambda: act(2_000)) < 4 * work(lambda: act(500)) * 1.5


@pytest.mark.parametrize("reads", ["", ", n: †state.mine%d"])
def test_thousands_of_calls_that_write_one_place_are_looked_at_once_each(reads: str) -> None:
    """The check for races does not compare each call with each other."""

    def act(count: int) -> None:
        line = f"- {{_tool: same{reads}, _outputPath: '†state.all && †state.mine%d', _outputMethod: push}}\n"
        calls = "".join(line % ((i, i + 1) if reads else (i + 1,)) for i in range(count))
        warnings = agf.load(f"state: {{mine0: 1}}\ncalls:\n{calls}", "plan").warnings
        assert len(warnings) == (0 if reads else count - 1)

    act(3)
    small, large = (instructions(lambda count=count: act(count), "languages/plan") for count in (100, 400))  # type: ignore[misc]
    assert large < 4 * small * 1.5


def test_a_run_that_begins_and_ends_in_a_large_context_costs_what_its_calls_cost() -> None:
    flow = agf.load("context: c\ncalls:\n- {_tool: same, n: †state.x0, _outputPath: †state.y}", "plan")
    (dag,) = flow.body.steps
    assert isinstance(dag, Dag)

    def cost(messages: int) -> int:
        log = Log({"type": "data", "kind": "state", "data": {f"x{i}": {"n": i}}} for i in range(messages))

        def act() -> None:
            frame = flow.start(FlowInput(context=Context("c", log)))
            frame = dag.open(frame).store(0, frame, Outcome(1))
            nonlocal ended  # type: ignore[misc]
            ended = flow.end(dag.open(frame).close(frame))

        return work(act)

    ended = FlowResult(None, {})
    cost(1)  # fills the caches
    assert abs(cost(10) - cost(1_000)) <= 3  # tolerates the calls that format the time of a message once in a second
    assert len(ended.stores["state"]) == 1_001
