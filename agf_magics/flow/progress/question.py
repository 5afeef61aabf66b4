"""`Question`, a question to a person, and the errors of a question without a usable answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...text.diagnostics import StepError
from ...values.value import Value


class Question(NamedTuple):
    """A question to a person."""

    text: str
    choices: tuple[str, ...] = ()
    """The possible answers; empty: any text."""
    approval: bool = False
    """Whether the answer is yes or no, a bool."""
    where: str = ""
    """The path of the step, as text."""
    arguments: Mapping[str, Value] | None = None
    """All arguments of the call to approve, with secrets masked; None: the question is about no
    call."""
    result: str = ""
    """The key of a result, if the answer may be a mapping that replaces the call: either of other
    arguments, or of this key to the result. Empty: the answer is yes or no."""
    secret: bool = False
    """Whether the answer is secret, so that nothing stores it."""


class Unanswered(StepError):
    """There is no user to answer a question: the run ends as ``waiting`` and can be resumed with an
    answer (A18)."""


class WrongAnswer(StepError):
    """The question does not allow this answer. The question stays open, so neither ``retry`` nor
    ``on_error`` nor an alternative of a definition applies."""


class Denied(StepError):
    """A person did not approve a call. Nothing repeats a call that failed for this reason (decision
    D123)."""
