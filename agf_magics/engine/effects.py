"""Calls of tools that have an effect (``reuse=False``): never repeated without a confirmation (decision D7).

The journal records the start of such a call before it is made. If a resumed run finds a start without an end, the call
may or may not have had its effect. So a person decides: call it again, or use a given result.
"""

from __future__ import annotations

from ..catalog import Tool
from ..flow.steps import Invoke
from ..flow.values import Value
from ..journal.call_rows import StartedCall
from ..journal.recorder import Journal
from ..progress import events as ev
from ..text.diagnostics import Diagnostic
from .questions import ATTEMPTS, ask_person
from .runner import CallSite

RESULT = "result"
"""The key of the result in an answer."""


def has_effect(callee: object) -> bool:
    """Whether a call must not be repeated without a confirmation."""
    return isinstance(callee, Tool) and not callee.reuse


async def result_given(site: CallSite[Invoke], journal: Journal, call: StartedCall) -> tuple[Value] | None:
    """The result that a person gives for a call whose outcome is unknown; None: make the call.

    Raises Unanswered if there is no user, or if the answer is no.
    """
    if journal.is_unknown(call.key):
        text = f"{call.name!r} was called with {call.given or '{}'} and its outcome is unknown. Call it again?"
        question = ev.Question(text, approval=True, where=ev.format_path(site.at), arguments={}, result=RESULT)
        for _ in range(ATTEMPTS):
            ok, answer = await ask_person(site, question)
            if ok and isinstance(answer, dict) and list(answer) == [RESULT]:
                return (answer[RESULT],)
            if ok and answer is True:
                break
            if not ok or answer is False:
                raise _unknown(site.step, call)
        else:
            raise _unknown(site.step, call)
    await journal.start_effect(call)
    return None


def _unknown(step: Invoke, call: StartedCall) -> ev.Unanswered:
    message = f"the outcome of {call.name!r} is unknown: an earlier session started the call and recorded no end"
    hint = f"%resume RUN --answer yes calls it again; --answer '{{{RESULT}: …}}' gives its result"
    return ev.Unanswered(Diagnostic("step.unknown-outcome", message, step.name.span or step.span, hint))
