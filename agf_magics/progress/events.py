"""What is told of a run, as it happens. NamedTuples, not frozen dataclasses: they are a third of the cost, and two an
item.

Every started attempt ends in exactly one of finished, failed, cancelled, left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ..flow.values import Value
from ..text.diagnostics import Diagnostic, StepError


class Question(NamedTuple):
    """What a person is asked."""

    text: str
    choices: tuple[str, ...] = ()
    """Empty: any text."""
    approval: bool = False
    """Whether it is a yes or a no: the answer is a bool."""
    where: str = ""
    """The moment, as text."""
    arguments: Mapping[str, Value] | None = None
    """What the call that is to be approved is given, as it may be shown, where the answer may put something in its
    place: a mapping of other arguments, or of `result` to what is then its result. None: yes or no alone."""
    result: str = ""
    """The key of a result among them."""


class Unanswered(StepError):
    """A question that nobody is there to answer: the run ends as ``waiting`` and is taken up with an answer (A18)."""


StepPath = tuple[str | int, ...]
"""A moment of a run: for every flow that is open, the step's id and then the indices of the elements, iterations and
branches around it. ``("steps[1]", "steps[0].do", 3)`` is element 3 of the for_each that opens the flow ``steps[1]``
calls."""


def format_path(at: StepPath) -> str:
    """
    >>> format_path(("steps[1]", "steps[0].do", 3))
    'steps[1]/steps[0].do#3'
    """
    text = ""
    for bit in at:
        text += f"#{bit}" if isinstance(bit, int) else f"/{bit}" if text else bit
    return text


class RunStarted(NamedTuple):
    name: str
    when: float
    """Seconds of a monotonic clock, as in all events."""


class StepStarted(NamedTuple):
    at: StepPath
    when: float
    attempt: int = 1


class StepFinished(NamedTuple):
    at: StepPath
    when: float
    value: Value = None


started: Callable[[tuple[StepPath, float, int]], StepStarted] = partial(tuple.__new__, StepStarted)
finished: Callable[[tuple[StepPath, float, Value]], StepFinished] = partial(tuple.__new__, StepFinished)
"""Made from all their fields at once, for half of what the class itself takes."""


class StepReplayed(NamedTuple):
    """A call that is not made: the outcome that it had in an earlier session of the run ``run`` stands for it."""

    at: StepPath
    when: float
    run: str


class StepFailed(NamedTuple):
    at: StepPath
    when: float
    error: BaseException


class StepCancelled(NamedTuple):
    at: StepPath
    when: float


class StepAbandoned(NamedTuple):
    """User code that could not be stopped and is still running somewhere."""

    at: StepPath
    when: float
    why: str


class StepRetried(NamedTuple):
    """A failed attempt will be made again."""

    at: StepPath
    when: float
    error: BaseException


class StepSkipped(NamedTuple):
    """A step that will not run: a case that was not picked."""

    at: StepPath
    when: float
    why: str


class ElementDropped(NamedTuple):
    """An element or branch that failed for good and is left out (``on_error: continue``)."""

    at: StepPath
    when: float
    error: BaseException


class FanOutStarted(NamedTuple):
    at: StepPath
    when: float
    width: int


class EdgeTaken(NamedTuple):
    """A walk goes on from one of its nodes to another; ``at`` is the walk's own moment and the number of the round."""

    at: StepPath
    when: float
    source: str
    target: str


class QuestionAsked(NamedTuple):
    """A person is asked; the step waits."""

    at: StepPath
    when: float
    question: Question


class QuestionAnswered(NamedTuple):
    at: StepPath
    when: float
    answer: Value


class TokensUsed(NamedTuple):
    """A model's reply and the tokens it took: one of an earlier session too, one of another run not."""

    at: StepPath
    when: float
    input: int
    output: int


class BackgroundCallEnded(NamedTuple):
    """The end of a call that nobody waited for; it may come after RunEnded."""

    at: StepPath
    when: float
    error: StepError | None = None


class Warned(NamedTuple):
    when: float
    diagnostic: Diagnostic


class RunEnded(NamedTuple):
    when: float
    status: str
    """ok, error, cancelled, waiting (for an answer: it can be taken up with one)."""
    error: BaseException | None = None
    stores: Mapping[str, Value] = {}
    """What it had kept by then, however it ended (decision A17)."""


Event = (
    RunStarted | StepStarted | StepFinished | StepReplayed | StepFailed | StepCancelled | StepAbandoned | StepRetried
    | StepSkipped | ElementDropped | FanOutStarted | EdgeTaken | QuestionAsked | QuestionAnswered | TokensUsed
    | BackgroundCallEnded | Warned | RunEnded
)  # fmt: skip
