"""Where a call of a run is, in the words of its author.

The words are the names of the steps that lead to the call, each with the numbers of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..flow.progress.rows import Key, Row
from ..flow.step_path import StepPath
from .plain import line

REQUEST = "model"
"""The kind of a call that asks a model."""


def call_words(
    rows: Mapping[Key, Row], path: StepPath, *, within: Key = (), call: tuple[str, str] = ("", "")
) -> str:
    """The words of a call: ``#0 · lines #3``, ``told · request 2``. ``within``: the step that a view
    shows; its name and the names of the steps around it are not repeated. ``call``: the kind and the
    name of what is called."""
    words = list[str]()
    key = Key()
    for step, numbers in _steps(path):
        key = (*key, step)
        row = rows.get(key)
        if row is not None and row.turns is not None:
            words.append(_turn(call, numbers))
            continue
        is_shown = key == within[: len(key)]
        name = _name(row) if row is not None and not is_shown else ""
        counted = "".join(f"#{number}" for number in numbers)
        words.append(f"{name} {counted}".strip())
    return line(" · ".join(filter(None, words)), 120)


def _name(row: Row) -> str:
    """The name of a step. The body of a fan-out has the fan-out's name: it is one of its elements."""
    around = row.around
    is_element = around is not None and getattr(around.step, "body", None) is row.step
    return around.name if around is not None and is_element else row.name


def _steps(path: StepPath) -> list[tuple[str, list[int]]]:
    """The ids of a path, each with the numbers that follow it."""
    steps: list[tuple[str, list[int]]] = []
    numbers: list[int] = []
    for bit in path:
        if isinstance(bit, int):
            numbers.append(bit)
        else:
            numbers = []
            steps.append((bit, numbers))
    return steps


def _turn(call: tuple[str, str], numbers: list[int]) -> str:
    """A call in a model's session, as the list of steps names it."""
    kind, name = call
    if kind == REQUEST:
        return f"request {numbers[-1] + 1:,}" if numbers else "request"
    return name
