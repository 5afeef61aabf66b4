"""Tests of the turns of a model's session, counted from the events."""

from __future__ import annotations

from typing import Any

import pytest

from agf_magics.flow.progress.turns import KEPT, Turn, Turns

Told = list[tuple[str, str]]
"""``begin`` or ``fail``, and the tool of the call; empty: a request of the model. A call has its own place, unless its
name ends with its number."""

SESSIONS: dict[str, tuple[Told, list[Turn], dict[str, list[int]]]] = {
    "nothing": ([], [], {}),
    "a request": ([("begin", "")], [Turn("", 1, 0)], {}),
    "a request that failed": ([("begin", ""), ("fail", "")], [Turn("", 1, 1)], {}),
    "requests follow each other": ([("begin", ""), ("begin", "")], [Turn("", 1, 0), Turn("", 2, 0)], {}),
    "a tool": ([("begin", "price")], [Turn("price", 1, 0)], {"price": [1, 0]}),
    "a tool twice": ([("begin", "price")] * 2, [Turn("price", 2, 0)], {"price": [2, 0]}),
    "a tool twice, one failed": (
        *([("begin", "price"), ("begin", "price"), ("fail", "price")], [Turn("price", 2, 1)]),
        {"price": [2, 1]},
    ),
    "a tool before and after another": (
        [("begin", "price"), ("begin", "stock"), ("begin", "price")],
        [Turn("price", 1, 0), Turn("stock", 1, 0), Turn("price", 1, 0)],
        {"price": [2, 0], "stock": [1, 0]},
    ),
    "a failure is counted once": (
        [("begin", "price"), ("fail", "price"), ("fail", "price")],
        [Turn("price", 1, 1)],
        {"price": [1, 1]},
    ),
}
"""For each session: its events, the turns that are listed, and the calls and failures of each tool."""


def turns_of(events: Told) -> Turns:
    turns, place = Turns(), 0
    for kind, tool in events:
        if kind == "begin":
            place += 1
            turns.begin(("call", place), "tool" if tool else "model", tool)
        else:
            turns.fail(("call", place))
    return turns


@pytest.mark.parametrize("case", SESSIONS)
def test_the_turns_of_a_session(case: str) -> None:
    events, listed, tools = SESSIONS[case]
    turns = turns_of(events)
    assert ([*turns], turns.tools) == (listed, tools)
    assert turns.requests == sum(event == ("begin", "") for event in events)


def test_a_retry_is_no_new_turn_and_no_change() -> None:
    turns = turns_of([("begin", "price")])
    changes: list[Any] = [turns.changes]
    turns.begin(("call", 1), "tool", "price")
    changes.append(turns.changes)
    turns.fail(("call", 1))
    changes.append(turns.changes)
    turns.fail(("call", 1))
    turns.fail(("unknown", 1))
    changes.append(turns.changes)
    turns.begin(("call", 2), "model", "")
    changes.append(turns.changes)
    assert changes == [1, 1, 2, 2, 3]
    assert turns.tools == {"price": [1, 1]}


def test_the_last_turns_are_kept_and_all_are_counted() -> None:
    turns = turns_of([("begin", "")] * (KEPT + 2))
    assert [turn.number for turn in turns] == list(range(3, KEPT + 3))
    assert turns.requests == KEPT + 2


def test_a_step_has_one_session_or_one_for_each_element() -> None:
    assert [Turns().is_one, Turns(False).is_one] == [True, False]
