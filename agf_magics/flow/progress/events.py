"""The events of a run: what its steps, calls, models and questions do, and when.

They are NamedTuples, because frozen dataclasses cost three times as much.

Every StepStarted is followed by exactly one of StepFinished, StepFailed, StepCancelled and
StepAbandoned.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from ..step_path import StepPath
from .question import Question


class RunStarted(NamedTuple):
    name: str
    when: float
    """Seconds of a monotonic clock, as in all events."""


class StepStarted(NamedTuple):
    at: StepPath
    when: float
    attempt: int = 1
    """The number of the attempt, from 1."""


class CallStarted(NamedTuple):
    """A step calls an agent, a model, or what a model picked: a tool, an agent or a flow. The
    definition alone does not tell the callee or the arguments. What a model picked is told before it
    is checked, so the call may still be refused."""

    at: StepPath
    when: float
    kind: str
    """``agent``, ``model`` or ``tool``."""
    name: str
    """The name of the callee; ``provider:model`` for a model."""
    arguments: Mapping[str, Value] = {}
    """The arguments, without secrets."""


class StepFinished(NamedTuple):
    at: StepPath
    when: float
    value: Value = None


class StepReplayed(NamedTuple):
    """A call is not made: the outcome of the same call is used, from an earlier session of this
    run, from another run, or from a recording."""

    at: StepPath
    when: float
    run: str
    """The id of the run that made the call, or the name of the recording's file."""


class StepFailed(NamedTuple):
    at: StepPath
    when: float
    error: BaseException


class StepCancelled(NamedTuple):
    at: StepPath
    when: float


class StepAbandoned(NamedTuple):
    """User code could not be stopped and is still running."""

    at: StepPath
    when: float
    why: str


class AbandonedCallEnded(NamedTuple):
    """User code that was left running has ended; it may come after RunEnded."""

    at: StepPath
    when: float


class StepRetried(NamedTuple):
    """A step or element failed and is tried again."""

    at: StepPath
    when: float
    error: BaseException


class Progressed(NamedTuple):
    """A running tool reports how far it is (`agf.ToolContext`), or is called again after a pause
    (``@tool(retry=…)``). It is emitted at most ten times a second for a call, and never
    journaled."""

    at: StepPath
    when: float
    done: float | None = None
    """How much of ``total`` is done; None: the report has no number."""
    total: float | None = None
    """The number that ``done`` will reach; None: unknown."""
    text: str = ""
    """The report without secrets: ``page 3``, ``again in 0.3 s (HTTP 429)``. If there is neither a
    text nor a number, the earlier report is over."""


class StepSkipped(NamedTuple):
    """A step will not run, for example a case that was not picked."""

    at: StepPath
    when: float
    why: str


class ElementDropped(NamedTuple):
    """An element or branch failed and is left out (``on_error: continue``)."""

    at: StepPath
    when: float
    error: BaseException
    element: Value = None
    """A preview of the element as JSON; None for a branch."""


class FanOutStarted(NamedTuple):
    at: StepPath
    when: float
    width: int
    """The number of elements or branches."""
    over: Value = None
    """The sequence of the elements; None for branches."""


class Placed(NamedTuple):
    """The number of a fan-out's elements that are with workers has changed."""

    at: StepPath
    when: float
    elements: int
    """The number of elements that are with workers now."""
    where: str
    """The words for the workers: ``2 processes``."""
    starting: int = 0
    """The number of workers that are being started; 0: all are ready."""


class EdgeTaken(NamedTuple):
    """A walk follows an edge; ``at`` is the path of the walk and the number of the round."""

    at: StepPath
    when: float
    source: str
    target: str


class QuestionAsked(NamedTuple):
    """A person is asked, and the step waits for the answer."""

    at: StepPath
    when: float
    question: Question


class QuestionAnswered(NamedTuple):
    at: StepPath
    when: float
    answer: Value


class QuestionClosed(NamedTuple):
    """A question ended without an answer: there is no user, or the run has ended."""

    at: StepPath
    when: float


class TokensUsed(NamedTuple):
    """The tokens of a model's reply, also of a reply in an earlier session, but not of a reply in
    another run. Those of a fire-and-forget flow have the path of its call, and may come after
    RunEnded."""

    at: StepPath
    when: float
    input: int
    output: int
    model: str = ""
    """``provider:model``."""
    cost: Decimal | None = None
    """US dollars; None: the price of the model is not known."""


class ModelText(NamedTuple):
    """A part of a model's reply that arrived. It is emitted only if the run is watched, at most ten
    times a second for each part, and it is never journaled: the reply is."""

    at: StepPath
    when: float
    attempt: int
    """The number of the attempt, from 1. After a retry, the text of the earlier attempt is void."""
    part: Literal["text", "thinking", "call"]
    text: str
    """The new part of the text, without secrets. The text of a call is ``price(``, then its
    arguments as JSON."""


class StepPrinted(NamedTuple):
    """User code printed. It is emitted under the same conditions as ModelText, and the text is
    printed as well."""

    at: StepPath
    when: float
    text: str
    """The new part, without secrets."""


class BackgroundCallEnded(NamedTuple):
    """The end of a fire-and-forget call; it may come after RunEnded."""

    at: StepPath
    when: float
    error: StepError | None = None
    """The failure of the call; None: it has succeeded."""


class Warned(NamedTuple):
    when: float
    diagnostic: Diagnostic


class CancelAsked(NamedTuple):
    """Somebody cancels the run. Its calls get time to stop, so its end may come seconds later."""

    when: float


class RunEnded(NamedTuple):
    when: float
    status: str
    """``ok``, ``error``, ``cancelled``, or ``waiting`` (for an answer that resumes the run)."""
    error: BaseException | None = None
    stores: Mapping[str, Value] = {}
    """The named results so far, whatever the status (decision A17)."""


Event = (
    RunStarted
    | StepStarted
    | CallStarted
    | StepFinished
    | StepReplayed
    | StepFailed
    | StepCancelled
    | StepAbandoned
    | AbandonedCallEnded
    | StepRetried
    | Progressed
    | StepSkipped
    | ElementDropped
    | FanOutStarted
    | Placed
    | EdgeTaken
    | QuestionAsked
    | QuestionAnswered
    | QuestionClosed
    | TokensUsed
    | ModelText
    | StepPrinted
    | BackgroundCallEnded
    | Warned
    | CancelAsked
    | RunEnded
)
