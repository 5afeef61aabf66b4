"""Where a call of a run is, in the words of its author.

These are the names of the steps that lead to it, each with the numbers of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..flow.progress.rows import Key, Row
from ..flow.step_path import StepPath
from .plain import line

REQUEST = "model"
"""The kind of a call that asks a model."""


def call_words(
    rows: Mapping[Key, Row], at: StepPath, *, within: Key = (), call: tuple[str, str] = ("", "")
) -> str:
    """``#0 · lines #3``, ``told · request 2``. ``within``: the step that a view shows, whose name and
    those around it are not repeated; ``call``: the kind and the name of what is called."""
    words, key = list[str](), Key()
    for step, numbers in _steps(at):
        key = (*key, step)
        row, is_shown = rows.get(key), key == within[: len(key)]
        counted = "".join(f"#{number}" for number in numbers)
        name = _name(row) if row is not None and not is_shown else ""
        if row is not None and row.turns is not None:
            name, counted = _turn(call, numbers), ""
        if name or counted:
            words.append(f"{name} {counted}".strip())
    return line(" · ".join(words), 120)


def _name(row: Row) -> str:
    """The name of a step; the body of a fan-out is an element of it."""
    around = row.around
    is_element = around is not None and getattr(around.step, "body", None) is row.step
    return around.name if around is not None and is_element else row.name


def _steps(at: StepPath) -> list[tuple[str, list[int]]]:
    """The ids of a path, each with the numbers that follow it."""
    found: list[tuple[str, list[int]]] = []
    for bit in at:
        if isinstance(bit, int):
            found[-1][1].append(bit)
        else:
            found.append((bit, []))
    return found


def _turn(call: tuple[str, str], numbers: list[int]) -> str:
    """A call in a model's session, as the list of steps names it."""
    kind, name = call
    if kind == REQUEST:
        return f"request {numbers[-1] + 1:,}" if numbers else "request"
    return name
