"""Finds repairs of problems: edits that apply a hint, and after which the problem is gone.

A repair is tried before it is offered, because hints are for people: the edit may belong elsewhere,
or a second problem may be behind the first one. An editor asks at each move of the cursor, so the
repairs of a problem are cached with the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from .hint_texts import texts_of
from .pasting import Edit, pasted
from .problems import PlacedProblem, ReadText, places_of, read_cell, read_file_text
from .text_group import TextGroup, WrittenFile

MOST_TRIED = 30
"""Places that are tried for a problem: each costs a check of the text."""

MOST_CHARACTERS = 200_000
"""Characters that are checked for a problem, which bounds the places of a long text."""

MOST_LOOKED_AT = 10
"""Problems of one question for which places are tried."""

LINKED = ("flow.", "model.", "run.")
"""Codes of problems that are looked for only in a text without other errors."""


class Repair(NamedTuple):
    """An edit that solves a problem."""

    problem: PlacedProblem
    edit: Edit
    written: str
    """The text that the hint says to write."""


def repairs_of(file: WrittenFile, start: int, end: int, group: TextGroup) -> list[Repair]:
    """The repairs of the problems between two places of a text."""
    problems = [
        problem for problem in file.problems or () if problem.start <= end and problem.end >= start
    ]
    untried = [problem for problem in dict.fromkeys(problems) if problem not in file.repairs]
    for problem in untried[:MOST_LOOKED_AT]:
        file.repairs[problem] = list(_repairs_of_problem(file, problem, group))
    return [repair for problem in problems for repair in file.repairs.get(problem, ())]


def _repairs_of_problem(
    file: WrittenFile, problem: PlacedProblem, group: TextGroup
) -> Iterator[Repair]:
    """The repairs of a problem: each text of its hint, in the first place where it solves the
    problem."""
    budget = max(2, min(MOST_TRIED, MOST_CHARACTERS // max(1, len(file.text))))
    for written in texts_of(problem.hint):  # all texts share the budget
        for edit in islice(pasted(file.text, problem.start, problem.end, written), budget):
            budget -= 1
            if _is_cured(file, problem, edit.applied(file.text), group):
                yield Repair(problem, edit, written)
                break


def _is_cured(file: WrittenFile, cured: PlacedProblem, text: str, group: TextGroup) -> bool:
    """Whether a text no longer has the problem, and has no new one.

    What the problem hid is not new: the language behind broken YAML; names and warnings behind an
    error of the language.
    """
    read = _read(file, text)
    after = places_of(read, group.registry) if read is not None else []
    before = Counter(map(_identity, file.problems or ()))
    new = [problem for problem in after if _identity(problem) not in before]
    if file.read is not None and file.read.written.is_refused:
        new = [problem for problem in new if problem.diagnostic.severity == "error"]
        new = [problem for problem in new if not problem.code.startswith(LINKED)]
    if cured.code.startswith("yaml."):
        new = [problem for problem in new if problem.code.startswith("yaml.")]
    number = Counter(map(_identity, after))[_identity(cured)]
    return not new and number < before[_identity(cured)]


def _read(file: WrittenFile, text: str) -> ReadText | None:
    if file.is_cell:
        return read_cell(text)
    return read_file_text(text, file.read.language, file.name) if file.read else None


def _identity(problem: PlacedProblem) -> tuple[str, str]:
    """The identity of a problem without its place, because an edit moves the place."""
    return problem.diagnostic.code, problem.diagnostic.message
