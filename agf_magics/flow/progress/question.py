"""A question to a person, and how it can end without the answer that its step needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...text.diagnostics import StepError
from ...values.value import Value


class Question(NamedTuple):
    """A question to a person."""

    text: str
    choices: tuple[str, ...] = ()
    """Empty: any text."""
    approval: bool = False
    """Whether the answer is yes or no, a bool."""
    where: str = ""
    """The path of the step, as text."""
    arguments: Mapping[str, Value] | None = None
    """The masked arguments of the call to approve, all of them; None: it is about no call."""
    result: str = ""
    """If the answer may replace the call, with a mapping of other arguments or of this key to its
    result: the key. Empty: only yes or no."""


class Unanswered(StepError):
    """There is no user to answer a question: the run ends as ``waiting`` and can be resumed with an
    answer (A18)."""


class WrongAnswer(StepError):
    """An answer that its question does not allow: the question stays open, so nothing in a
    definition applies to it, neither ``retry`` nor ``on_error`` nor an alternative."""


class Denied(StepError):
    """A person did not approve a call. It is a failure of the call that nothing repeats
    (decision D123)."""
