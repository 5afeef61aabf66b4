"""The order in which ends are stored where calls write one over the other, and how often it looks at whom."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.frame import Given
from agf_magics.flow.steps import Dag, Name
from agf_magics.languages.plan.calls import Call
from agf_magics.languages.plan.destinations import Destination, overlap
from agf_magics.languages.plan.needs import Turn
from agf_magics.languages.plan.order import Order

PATHS = st.lists(st.sampled_from("ab"), max_size=3).map(tuple)


def turn(index: int, path: tuple[str, ...], instance: str | None = None) -> Turn:
    alternatives = ((Destination("state", path),),)
    return Turn(
        Call(index=index, id=str(index), tool=Name("t"), authored={}, given=(), alternatives=alternatives), instance
    )


@given(st.lists(st.tuples(PATHS, st.sampled_from([None, "x"])), min_size=1, max_size=8), st.data())
def test_next_is_whom_nobody_before_writes_over(writes: list[Any], data: st.DataObject) -> None:
    turns = [turn(i, path, instance) for i, (path, instance) in enumerate(writes)]
    ranks = data.draw(st.permutations(range(len(turns))))
    stored: set[int] = set()
    order = Order(turns, ranks, stored)
    for ended in data.draw(st.permutations(range(len(turns)))):
        for number in set(range(len(turns))) - stored:
            path, instance = writes[number]
            before = [n for n, (other, whose) in enumerate(writes)
                      if whose == instance and overlap(path, other) and ranks[n] < ranks[number]]  # fmt: skip
            assert order.is_next(number) == set(before).issubset(stored)
        stored.add(ended)


def test_who_was_stored_is_passed_over_once() -> None:
    class Stored(set[int]):
        asked = 0

        def __contains__(self, number: object) -> bool:
            self.asked += 1
            return super().__contains__(number)

    stored = Stored()
    order = Order([turn(i, ("list",)) for i in range(1_000)], range(1_000), stored)
    for number in range(1_000):
        assert order.is_next(number)
        stored.add(number)
    assert stored.asked < 5 * 1_000


def test_an_end_of_a_plan_concerns_those_who_read_what_it_wrote() -> None:
    registry = agf.Registry()
    agf.tool(lambda n: n, name="same", registry=registry)
    calls = [{"_tool": "same", "n": f"†state.x{i} || 0", "_outputPath": f"†state.x{i + 1}"} for i in range(200)]
    flow = agf.load(json.dumps({"name": "chain", "calls": calls}), "plan", registry=registry)
    (dag,) = flow.body.steps
    assert isinstance(dag, Dag)
    frame = flow.start(Given())
    agenda = dag.open(frame)
    assert [len(agenda.feeds(node)) for node in agenda.nodes] == [*[1] * 199, 0]
    assert [agenda.ready(node, frame, {}) for node in agenda.nodes] == ["go", *["wait"] * 199]
