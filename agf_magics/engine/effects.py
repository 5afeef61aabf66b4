"""Calls of tools that have an effect (``reuse=False``): one whose outcome is unknown is not repeated unasked (D7).

The journal has a line from before such a call. A resumed run that finds the line and no outcome cannot know whether
the effect took place, so a person says: call it again, or this is its result.
"""

from __future__ import annotations

from ..catalog import Tool
from ..flow.steps import Invoke
from ..flow.values import Value, settle
from ..journal.recorder import Journal, StartedCall
from ..progress import events as ev
from ..text.diagnostics import Diagnostic
from .runner import Runner, clock

RESULT = "result"
"""The key of the result in an answer."""

ASKED = 3
"""How often the question is put when the answer is neither of the two."""


def has_effect(callee: object) -> bool:
    """Whether a call must not be repeated unasked."""
    return isinstance(callee, Tool) and not callee.reuse


async def result_given(run: Runner, journal: Journal, step: Invoke, call: StartedCall) -> tuple[Value] | None:
    """The result that a person gives for a call whose outcome is unknown; None: the call is to be made.

    Raises Unanswered when nobody is there to say, or the answer is no.
    """
    if journal.is_unknown(call.at, call.tries):
        text = f"{call.name!r} was called with {call.given or '{}'} and its outcome is unknown. Call it again?"
        question = ev.Question(text, approval=True, where=ev.format_path(call.at), arguments={}, result=RESULT)
        for _ in range(ASKED):
            run.emit(ev.QuestionAsked(call.at, clock(), question))
            ok, answer = await run.host.ask(question)
            value = settle(answer) if ok else False
            run.emit(ev.QuestionAnswered(call.at, clock(), value))
            if isinstance(value, dict) and list(value) == [RESULT]:
                return (value[RESULT],)
            if value is True:
                break
            if value is False:
                raise _unknown(step, call)
        else:
            raise _unknown(step, call)
    await journal.begins(call)
    return None


def _unknown(step: Invoke, call: StartedCall) -> ev.Unanswered:
    message = f"the outcome of {call.name!r} is unknown: an earlier session started the call, and its end is not known"
    hint = f"%resume RUN --answer yes calls it again; --answer '{{{RESULT}: …}}' gives its result"
    return ev.Unanswered(Diagnostic("step.unknown-outcome", message, step.name.span or step.span, hint))
