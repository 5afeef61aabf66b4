"""Where a call of a run is, in the words of its author.

The words are the names of the steps that lead to the call, each with the numbers of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..flow.progress.progress import Progress
from ..flow.progress.question import Question
from ..flow.progress.rows import Key, Row, key_of
from ..flow.step_path import StepPath
from ..flow.steps import Each, Repeat
from ..text.diagnostics import StepError
from .plain import line
from .value_line import value_line

REQUEST = "model"
"""The kind of a call that asks a model."""
SHORT = 60
"""The most characters of an element in the place of an error."""


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
        numbers = known_numbers(row, numbers)
        counted = "".join(f"#{number}" for number in numbers)
        words.append(f"{name} {counted}".strip())
    return line(" · ".join(filter(None, words)), 120)


def asker_words(rows: Mapping[Key, Row], path: StepPath) -> str:
    """The words of the step that asks a person: ``ask``, ``orders #3 · ask``. The number of a first
    round says nothing, and neither does a part that the author has not named."""
    words = list[str]()
    key = Key()
    for step, numbers in _steps(path):
        key = (*key, step)
        row = rows.get(key)
        if row is None or row.turns is not None or (words and row.name == row.word):
            continue
        counted = [number for number in known_numbers(row, numbers) if row.many or number]
        words.append(f"{_name(row)} {''.join(f'#{number}' for number in counted)}".strip())
    return line(" · ".join(words), 120)


def open_questions(progress: Progress) -> list[tuple[StepPath, Question]]:
    """The open questions in the order of the steps and their elements: one that is asked again keeps its
    place."""
    places = {key: place for place, key in enumerate(progress.rows)}

    def place(asking: tuple[StepPath, Question]) -> tuple[int, list[int]]:
        path = asking[0]
        return places.get(key_of(path), 0), [bit for bit in path if isinstance(bit, int)]

    return sorted(progress.open_questions.items(), key=place)


def place_words(rows: Mapping[Key, Row], error: StepError) -> str:
    """Where a run failed: ``step 'score' (steps[1].do, element 3: "fig")``, ``step 'score' of 'check'
    (steps[0]/steps[1].do, element 3)``, ``step 'reply' (steps[2], request 2)``. Empty if the run has
    no such step."""
    names, ids, counted = list[str](), list[str](), list[str]()
    key = Key()
    for step, numbers in _steps(error.path or ()):
        key = (*key, step)
        row = rows.get(key)
        if row is not None and row.turns is not None:
            counted += [_turn((REQUEST, ""), numbers)] if row.is_request else []
            row = _session_of(rows, row)
            if row.is_inner:  # the agent, which has its name already
                continue
            step, numbers = row.key[-1], []
        ids.append(step)
        if row is not None:
            # The body of a fan-out without a name of its own has the fan-out's name.
            names.insert(0, _name(row) if row.name == row.word else row.name)
            noun = "element" if row.many else "iteration"
            # A step that may run again is mostly in its first round, which says nothing.
            counted += [
                f"{noun} {number:,}" for number in known_numbers(row, numbers) if row.many or number
            ]
    if not names:
        return ""
    if error.element is not None and counted:
        counted[-1] += f": {value_line(error.element, SHORT)}"
    of = " of ".join(repr(line(name, 60)) for name in names)
    return f"step {of} ({line(', '.join(['/'.join(ids), *counted]), 200)})"


def _session_of(rows: Mapping[Key, Row], inner: Row) -> Row:
    """The row of the session of a model that the step of ``inner`` belongs to."""
    same = (row for row in list(rows.values()) if row.turns is inner.turns)
    return next(row for row in same if isinstance(row.step, Repeat))


def name_place(rows: Mapping[Key, Row], error: BaseException | None) -> None:
    """Let the text of an error name its step and its element."""
    if isinstance(error, StepError) and error.path is not None and not error.place_words:
        error.place_words = place_words(rows, error)


def known_numbers(row: Row | None, numbers: list[int]) -> list[int]:
    """The numbers by which a person knows the elements of a step."""
    around = row.around.step if row is not None and row.around is not None else None
    if isinstance(around, Each) and around.number_of is not None:
        return [*map(around.number_of, numbers)]
    return numbers


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
