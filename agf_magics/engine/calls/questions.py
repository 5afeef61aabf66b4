"""Questions to a person: steps that ask one, and calls that need an approval (decision A18)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ...catalog import MASK, Tool
from ...catalog.tools.context import checked_answer
from ...flow.progress import events as ev
from ...flow.progress.question import Denied, Question, Unanswered
from ...flow.protocols import Frame
from ...flow.question_text import question_mark
from ...flow.step_options import CallReplacement
from ...flow.step_path import format_path
from ...flow.steps import Invoke
from ...journal.records.records import value_of
from ...journal.secrets.masking import hide
from ...text.diagnostics import Diagnostic, StepError
from ...text.suggestions import suggest
from ...values.value import Value, settle
from ..host.host import NoUser
from ..runner import CallSite, clock
from ..threads.user_code import Result
from .answers import checked_approval
from .failures import failure

ATTEMPTS = 3
"""How often a question is asked if the answer cannot be used."""


class Approved(NamedTuple):
    """What a person has approved."""

    arguments: Mapping[str, Value] = {}
    """They replace those of the call with the same names; empty: make the call as it is."""
    result: tuple[Value] | None = None
    """It is used instead of the call; None: there is a call."""
    is_recorded: bool = False
    """Whether a recording approves it: then the call must be taken from the recording, too."""


async def permitted(site: CallSite[Invoke], given: Value, tool: Tool | None = None) -> Approved:
    """Ask a person to approve the call; without a user the answer is no (decision A18). Raises
    StepError if the call is denied. ``given``: the arguments of a tool, or the input of an agent or a
    flow."""
    run, step, hides = site.run, site.step, tool.secret if tool is not None else frozenset()
    assert step.permit is not None
    instead, arguments = step.permit.instead, as_arguments(given)
    # A run that masks everything would ask about nothing but masks: the person must see something.
    shown = hide(given, hides) if given is arguments else given
    shown = shown if run.secrets.blind else run.secrets.shown(shown)
    defaults = tool.arguments.defaults if tool is not None else {}
    text = step.permit.ask(site.frame, {**defaults, **arguments}, shown)
    if text is None:
        return Approved()
    offered = as_arguments(shown)
    offered = {
        name: value for name, value in offered.items() if name not in step.exchange.extra_arguments
    }
    replaces = instead.result if instead is not None else ""
    where = format_path(site.at)
    question = Question(text, approval=True, where=where, arguments=offered, result=replaces)
    refused: StepError | None = None
    recorded = _recorded_answer(site, question, arguments, tool)
    for _ in range(ATTEMPTS):
        try:
            is_recorded = bool(recorded)
            reply = recorded.pop() if recorded else await answer(site, question, hides=hides)
        # A person who has left after an answer that cannot be used: that answer is the reason.
        except Unanswered:
            raise refused or _denied(step, "there is no user to approve it", text) from None
        if reply is True:
            return Approved(is_recorded=is_recorded)
        if instead is None or not isinstance(reply, dict):
            raise _denied(step, "it was denied", text)
        assert isinstance(reply, dict), "an approval is answered by yes, no or a mapping"
        try:
            approved = _replace_call(instead, site.frame, arguments, reply, tool, hides)
            return approved._replace(is_recorded=is_recorded)
        except StepError as error:
            refused = _not_usable(step, error)
            question = question._replace(text=f"{refused.diagnostic.message}\n{text}")
    assert refused is not None, "a usable answer was returned"
    raise refused


def _recorded_answer(
    site: CallSite[Invoke], question: Question, arguments: Mapping[str, Value], tool: Tool | None
) -> list[Value]:
    """The answer that the recording has, if what it approves is recorded too: somebody else's file
    must not approve a call that is really made. Empty: the person is asked."""
    recording = site.run.options.recording
    if recording is None:
        return []
    text = site.run.secrets.text(question.text)
    outcome = recording.take(recording.ask(site, "question", None, {"text": text}))
    if outcome is None or recording.makes_no_call:
        return [] if outcome is None else [outcome.value]
    reply = outcome.value
    if reply is not True and not isinstance(reply, dict):
        return [reply]
    if tool is None:  # what an agent or a flow would call is not known
        return []
    changed = reply if isinstance(reply, dict) else {}
    if question.result and question.result in changed:
        return [reply]
    with contextlib.suppress(StepError):
        call = recording.ask(site, "tool", tool, tool.check({**arguments, **changed}))
        return [] if recording.is_made(call) else [reply]
    return []


def as_arguments(given: Value) -> Mapping[str, Value]:
    """What a question and its condition name: the arguments of a tool, or the fields of an input."""
    return given if isinstance(given, dict) else {"input": given}


def _replace_call(
    instead: CallReplacement,
    frame: Frame,
    arguments: Mapping[str, Value],
    reply: Mapping[str, Value],
    tool: Tool | None,
    hides: Collection[str],
) -> Approved:
    """What replaces the call. ``hides``: keys of the answer that are secret. Raises StepError if it cannot be used."""
    replaces = instead.result in reply
    if replaces and len(reply) > 1:
        message = (
            f"give either other arguments or {instead.result!r}: with a result there is no call"
        )
        raise StepError(Diagnostic("step.instead", message))
    if not replaces:
        # A flow ignores a name that it does not read: a misspelt one would change nothing.
        for name in () if tool is not None else reply.keys() - arguments.keys():
            hint = suggest(name, arguments, "its arguments") or "the call has no arguments"
            raise StepError(
                Diagnostic("step.instead", f"the call has no argument {name!r}", hint=hint)
            )
        if tool is not None:
            tool.check({**arguments, **reply})
    # Last: the language records what it is given.
    instead.take(frame, hide(reply, hides))
    return Approved(result=(reply[instead.result],)) if replaces else Approved(reply)


def _denied(step: Invoke, why: str, question: str) -> Denied:
    message = f"{step.name.text!r} was not called: {why}"
    return Denied(Diagnostic("step.denied", message, step.place, f"the question was: {question}"))


def _not_usable(step: Invoke, error: StepError) -> Denied:
    diagnostic = error.diagnostic
    message = f"this answer cannot replace the call: {diagnostic.message}"
    return Denied(Diagnostic("step.instead", message, step.place, diagnostic.hint))


async def answer(
    site: CallSite[Invoke], question: Question, secret: bool = False, hides: Collection[str] = ()
) -> Value:
    """The answer to ``question``, from a person, the journal or a recording. Raises Unanswered if there is
    no user.

    ``secret``: the answer is not journaled. ``hides``: neither are these keys of it.
    """
    run, journal, recording = site.run, site.run.journal, site.run.options.recording
    # Masked before anybody sees it: a notebook stores what it shows.
    question = question._replace(text=run.secrets.text(question.text))
    if journal is not None:
        mark = question_mark(question)
        call = journal.start_call(site.step, None, site.key, {"text": question.text})
        call = call._replace(digest=mark.encode())
        # A resumed run must not ask again: the answer to this very question is in the journal.
        record = journal.answered(site.key, call.digest)
        if record is not None:
            if not question.approval:  # an approved call may still have to be made
                run.emit(ev.StepReplayed(site.at, clock(), journal.run_id))
            return value_of(record)
    if recording is not None:
        asked = recording.ask(site, "question", None, {"text": question.text})
        # Of an approval `_recorded_answer` decides.
        outcome = recording.take(asked) if not question.approval else None
        if outcome is not None:
            run.emit(ev.StepReplayed(site.at, clock(), recording.name))
            return outcome.value
    ok, value = await ask_person(site, question, secret, hides)
    if ok:
        if recording is not None:
            recording.keep(asked, hide(value, hides))
        if journal is not None:
            hidden = isinstance(value, dict) and any(name in value for name in hides)
            await journal.keep_answer(call, value, secret or hidden)
        return value
    if isinstance(value, NoUser):
        hint = (
            f"resume it with an answer: %resume {journal.run_id} --answer …"
            if journal is not None
            else None
        )
        message = f"an answer is needed: {question.text}"
        raise Unanswered(Diagnostic("run.waiting", message, site.step.place, hint))
    raise failure(site, None, "question", value)


async def ask_person(
    site: CallSite[Invoke],
    question: Question,
    secret: bool = False,
    hides: Collection[str] = (),
    is_busy: bool = False,
) -> Result:
    """Put ``question`` to a person, and emit that it is asked and how it ends. ``is_busy``: see
    `Host.ask`."""
    run = site.run
    run.emit(ev.QuestionAsked(site.at, clock(), question))
    if run.journal is not None:
        run.journal.note_asked(site.key, question.text)
    # Whatever happens, the question must not stay open in a view.
    closed: ev.Event = ev.QuestionClosed(site.at, clock())
    try:
        ok, value = await run.host.ask(question, is_busy)
        if ok:
            # An asker is user code: its answer is a value like that of a tool.
            value = settle(value)
            # Before it is journaled.
            if question.approval:
                place = site.step.place if isinstance(site.step, Invoke) else None
                value = checked_approval(question, value, place)
            elif question.choices:
                checked_answer(question, value, site.step.place)
            for name in hides if isinstance(value, dict) else ():
                run.secrets.learn(value.get(name))
            closed = ev.QuestionAnswered(site.at, clock(), MASK if secret else hide(value, hides))
    finally:
        run.emit(closed._replace(when=clock()))
    return ok, value
