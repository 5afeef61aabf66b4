"""Alignment of two definitions: which step is the same as which step of an earlier or another definition."""

from __future__ import annotations

import pytest

from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.progress.rows import Row
from agf_magics.lifecycle.past.align_steps import MOST_COMPARED, align
from tests.languages.loading import load

Steps = list[str]
"""The steps of a definition in short: a tool is its name, a transform is its value in parentheses."""


def rows_of(steps: Steps) -> list[Row]:
    lines = [
        f'- transform: {{value: "{step[1:-1]}"}}' if step[0] == "(" else f"- tool: {{name: {step}}}" for step in steps
    ]
    definition, problems = load("pipeline", "pipeline: p\nsteps:\n" + "\n".join(lines))
    assert definition.flow is not None, problems
    return list(Progress(definition.flow).rows.values())


def aligned(before: Steps, now: Steps, *, is_same_flow: bool = True) -> dict[int, int]:
    """The number of each current step, with the number of the same step before."""
    first, other = rows_of(before), rows_of(now)
    pairs = align(first, other, is_same_flow)
    return {other.index(row): first.index(pairs[row.key]) for row in other if row.key in pairs}


CASES: dict[str, tuple[Steps, Steps, dict[int, int], dict[int, int]]] = {
    # what: the steps before, the current steps, the equal steps within one flow, the equal steps of two flows
    "nothing changed": (["a", "b"], ["a", "b"], {0: 0, 1: 1}, {0: 0, 1: 1}),
    "inserted": (["a", "b"], ["a", "c", "b"], {0: 0, 2: 1}, {0: 0, 2: 1}),
    "removed": (["a", "c", "b"], ["a", "b"], {0: 0, 1: 2}, {0: 0, 1: 2}),
    "edited": (["a", "b", "c"], ["a", "d", "c"], {0: 0, 1: 1, 2: 2}, {0: 0, 2: 2}),
    "edited into another kind": (["a", "b", "c"], ["a", "(1)", "c"], {0: 0, 2: 2}, {0: 0, 2: 2}),
    "one of two removed, the other edited": (["a", "b", "c"], ["d", "c"], {1: 2}, {1: 2}),
    "moved": (["a", "b", "c"], ["b", "c", "a"], {0: 1, 1: 2, 2: 0}, {0: 1, 1: 2, 2: 0}),
    "moved, and another edited": (
        ["a", "b", "c", "d"],
        ["b", "c", "e", "a"],
        {0: 1, 1: 2, 2: 3, 3: 0},
        {0: 1, 1: 2, 3: 0},
    ),
    "one of two equal ones moved": (
        *(["a", "x", "b", "a"], ["x", "b", "a", "a"]),
        *({0: 1, 1: 2, 2: 3, 3: 0}, {0: 1, 1: 2, 2: 3, 3: 0}),
    ),
    "one that stood behind two equal ones moved": (
        ["a", "a", "x"],
        ["x", "a", "a"],
        {0: 2, 1: 0, 2: 1},
        {0: 2, 1: 0, 2: 1},
    ),
    "one that is there twice now": (["a", "x", "y"], ["x", "y", "a", "a"], {0: 1, 1: 2}, {0: 1, 1: 2}),
    "one that was there twice": (["a", "a", "x", "y"], ["x", "y", "a"], {0: 2, 1: 3}, {0: 2, 1: 3}),
    "all others": (["a"], ["(1)"], {}, {}),
    "nothing before": ([], ["a"], {}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_steps_of_an_edited_definition(case: str) -> None:
    before, now, same, other = CASES[case]
    if not before:
        assert align([], rows_of(now)) == {}
        return
    assert aligned(before, now) == same
    assert aligned(before, now, is_same_flow=False) == other


def test_a_large_definition_is_compared_by_ids() -> None:
    many = [f"t{number}" for number in range(MOST_COMPARED + 1)]
    edited = ["(1)", "other", *many[2:], "last"]
    assert aligned(many, edited) == {number: number for number in range(1, len(many))}
    assert aligned(many, edited, is_same_flow=False) == {number: number for number in range(2, len(many))}
    moved = [*many[1:MOST_COMPARED], many[0]]
    assert aligned(many[:MOST_COMPARED], moved)[MOST_COMPARED - 1] == 0, "one fewer is compared by its order"
