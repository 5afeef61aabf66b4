"""Tests of quick fixes: the text of a hint is offered as an edit if it solves the problem."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agf_magics.editor.hint_texts import texts_of
from agf_magics.editor.problems import PlacedProblem
from agf_magics.editor.repairs import MOST_LOOKED_AT, Repair, repairs_of
from agf_magics.editor.text_group import TextGroup, WrittenFile
from tests.borders.mistaken import cases

NOT_A_FIX = {
    "a router without conditional edges": "the caret is at the node, and the edge is wrong",
    "a plain edge from a router": "the caret is at the node, and the edge is wrong",
    "nodes as a list": "the caret is at the first node of the list",
    "branches as a list": "the caret is at the first branch of the list",
    "cases as a list": "the caret is at the first case of the list",
    "an apostrophe in a text between apostrophes": "the caret is behind it",
    "an agent of agf.parallel that reads another": "two keys are wrong",
    "until for exit_condition": "exit_condition reads an agent's field",
    "an execution policy in capitals": "an agf.react has a model",
    "a name, uses and with": "the hint is the whole step, whose keys stand around the caret",
    "a kind with a text and its keys beside it": "the hint is the whole step, whose keys stand around the caret",
    "a kind of node as its key": "the hint replaces the key and its value",
    "an input_mapping that passes one key too few": "the caret is at the graph, and its mapping lacks the key",
    "output with ctx.": "the second caret is at the step that reads the name, which is right there",
    "an assignment of Python": "the caret is at the sign, and the whole line is wrong",
}
"""Mistakes whose hint says what to write, and no edit at the caret is the whole cure, with the reason."""


def group_of(*cells: str) -> TextGroup:
    group = TextGroup()
    for number, cell in enumerate(cells):
        group.put(str(number), cell, is_cell=True)
    group.check()
    return group


def repairs_for(file: WrittenFile, problem: PlacedProblem, group: TextGroup) -> list[Repair]:
    return [repair for repair in repairs_of(file, problem.start, problem.end, group) if repair.problem == problem]


def told_problems() -> Iterator[tuple[str, WrittenFile, PlacedProblem, TextGroup]]:
    """The problems of the mistakes of the vectors whose hint says what to write."""
    for case in cases():
        group = group_of(*(part.text for part in case.parts if part.language == "python"))
        for file in [*group.files.values()][case.first :]:
            for problem in file.problems or ():
                if any(texts_of(problem.hint)):
                    yield case.title, file, problem, group


def test_what_a_hint_says_to_write_is_a_quick_fix() -> None:
    offered = [(title, bool(repairs_for(file, problem, group))) for title, file, problem, group in told_problems()]
    assert len(offered) > 200
    assert {title for title, is_fixed in offered if not is_fixed} == NOT_A_FIX.keys()


P = "%%pipeline\npipeline: p\nsteps:\n"
TOOLS = "import agf_magics as agf\n@agf.tool\ndef fetch(url: str) -> str: ...\n"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (P + "- tool: {name: fetsh, args: {url: x}}\n", P + "- tool: {name: fetch, args: {url: x}}\n"),
        (P + "- tool: {name: 'fetsh', args: {url: x}}\n", P + "- tool: {name: 'fetch', args: {url: x}}\n"),
        (P + "- tool: {nam: fetsh, args: {url: x}}\n", P + "- tool: {name: fetsh, args: {url: x}}\n"),
        (P + "- transform:\n    value: 'n is ' + n\n", P + "- transform:\n    value: \"'n is ' + n\"\n"),
        (P + "- transform: {value: ctx.a == 1 & ctx.b}\n", P + "- transform: {value: ctx.a == 1 and ctx.b}\n"),
        (P + "- tool: {name: fetsh}\n", None),  # the right name needs an argument
    ],
)
def test_an_edit_takes_the_problem_away(wrong: str, right: str | None) -> None:
    group = group_of(TOOLS, wrong)
    file = group.files["1"]
    repaired = [
        repair.edit.applied(wrong) for problem in file.problems or () for repair in repairs_for(file, problem, group)
    ]
    assert repaired[:1] == ([right] if right is not None else [])


def test_what_was_found_is_kept_until_the_text_changes() -> None:
    group = group_of(TOOLS, P + "- tool: {name: fetsh, args: {url: x}}\n")
    file = group.files["1"]
    [first] = repairs_of(file, 0, len(file.text), group)
    [again] = repairs_of(file, 0, len(file.text), group)
    assert first is again
    group.put("1", P + "- tool: {name: fetshh, args: {url: x}}\n", is_cell=True)
    group.check()
    [other] = repairs_of(file, 0, len(file.text), group)
    assert other.problem.message != first.problem.message


def test_a_question_about_a_whole_text_tries_a_bounded_number_of_problems() -> None:
    group = group_of(TOOLS, P + "- tool: {name: fetsh, args: {url: x}}\n" * 40)
    file = group.files["1"]
    assert len(file.problems or ()) > MOST_LOOKED_AT
    assert len(repairs_of(file, 0, len(file.text), group)) == MOST_LOOKED_AT
    assert len(repairs_of(file, 0, len(file.text), group)) == 2 * MOST_LOOKED_AT  # the next ones
