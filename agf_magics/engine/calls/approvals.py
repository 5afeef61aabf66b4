"""Asks a person to approve a call, or to replace its arguments or its result (decision A18)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ...catalog import Tool, ToolContext
from ...flow.progress.question import Denied, Question, Unanswered
from ...flow.protocols import Frame
from ...flow.question_text import call_line, value_line
from ...flow.step_options import CallReplacement, Permit
from ...flow.step_path import format_path
from ...flow.steps import Invoke
from ...journal.secrets.placeholders import hide
from ...text.diagnostics import Diagnostic, StepError
from ...text.suggestions import suggest
from ...values.value import Value, equal
from ..runner import CallSite
from .arguments import check
from .questions import ATTEMPTS, get_answer


class Approved(NamedTuple):
    """The decision of a person who approved a call."""

    arguments: dict[str, Value] | None = None
    """All arguments of the call, checked, if the person replaced some; None: the call is made as it
    is."""
    result: tuple[Value] | None = None
    """The result that replaces the call; None: the call is made."""
    is_recorded: bool = False
    """Whether the approval comes from a recording, so that the call must come from it, too."""


def permit_first(tool: Tool, permit: Permit | None) -> Permit:
    """The permit for a call that a model picked, of a tool whose server the person does not trust.
    ``permit``: the permit of the definition, whose question comes first; None: there is none."""

    def ask(frame: Frame, arguments: Mapping[str, Value], shown: Value) -> str:
        first_question = permit.ask(frame, arguments, shown) if permit is not None else None
        return first_question or _first_question(tool, shown)

    return Permit(ask, permit.instead if permit is not None else None)


async def approve_first(tool: Tool, arguments: Value, context: ToolContext) -> None:
    """Ask the question of `permit_first` for a call by an agent that is a function. Raises
    Denied."""
    question = _first_question(tool, arguments)
    if await context.ask(question, ["yes", "no"]) != "yes":
        message = f"{tool.name!r} was not called: it was denied"
        raise Denied(Diagnostic("step.denied", message, hint=f"the question was: {question}"))


def _first_question(tool: Tool, shown: Value) -> str:
    """The question for a call of ``tool`` with the arguments ``shown``."""
    arguments = call_line(shown) if isinstance(shown, dict) else value_line(shown)
    return f"the model calls {tool.name}({arguments}): make the call?"


def _approval_question(site: CallSite[Invoke], text: str, shown: Value) -> Question:
    """The question that the person sees, with the arguments that an answer may change."""
    step = site.step
    assert step.permit is not None, "only a call with a permit is asked about"
    arguments = {
        name: value
        for name, value in as_arguments(shown).items()
        if name not in step.exchange.extra_arguments
    }
    instead = step.permit.instead
    return Question(
        text,
        approval=True,
        where=format_path(site.path),
        arguments=arguments,
        result=instead.result if instead is not None else "",
    )


async def ask_permission(
    site: CallSite[Invoke], asked_about: Value, tool: Tool | None = None
) -> Approved:
    """Ask a person to approve the call; without a user the answer is no (decision A18). Raises
    StepError if the call is denied. ``asked_about``: the arguments of a tool, or the input of an
    agent or a flow."""
    step = site.step
    hides = tool.secret if tool is not None else frozenset()
    assert step.permit is not None
    arguments = as_arguments(asked_about)
    shown = hide(asked_about, hides) if asked_about is arguments else asked_about
    # In a run that masks everything, the person would see nothing but masks.
    if not site.run.secrets.blind:
        shown = site.run.secrets.shown(shown)
    defaults = tool.arguments.defaults if tool is not None else {}
    text = step.permit.ask(site.frame, {**defaults, **arguments}, shown)
    if text is None:
        return Approved()
    question = _approval_question(site, text, shown)
    recorded = _find_recorded_answer(site, question, arguments, tool)
    try:
        return await _ask_until_usable(site, question, arguments, recorded, tool, hides)
    finally:
        site.run.host.end_turn()


async def _ask_until_usable(
    site: CallSite[Invoke],
    question: Question,
    arguments: dict[str, Value],
    recorded: list[Value],
    tool: Tool | None,
    hides: Collection[str],
) -> Approved:
    """Ask, and ask again as long as the answer cannot be used. ``recorded``: the answer in the
    recording, if it has one."""
    step, text = site.step, question.text
    assert step.permit is not None
    instead = step.permit.instead
    refused: StepError | None = None
    for _ in range(ATTEMPTS):
        try:
            is_recorded = bool(recorded)
            reply = recorded.pop() if recorded else await get_answer(site, question, hides=hides)
        # The person gave an unusable answer and left: that answer is the reason of the denial.
        except Unanswered:
            raise refused or _denial(step, "there is no user to approve it", text) from None
        if reply is True:
            return Approved(is_recorded=is_recorded)
        if instead is None or not isinstance(reply, dict):
            raise _denial(step, "it was denied", text)
        assert isinstance(reply, dict), "an approval is answered by yes, no or a mapping"
        try:
            approved = _replace_call(site, instead, question, arguments, reply, tool, hides)
            return approved._replace(is_recorded=is_recorded)
        except StepError as error:
            refused = _not_usable(step, error)
            question = question._replace(text=f"{refused.diagnostic.message}\n{text}")
    assert refused is not None, "a usable answer was returned"
    raise refused


def _find_recorded_answer(
    site: CallSite[Invoke], question: Question, arguments: dict[str, Value], tool: Tool | None
) -> list[Value]:
    """The answer in the recording, in a list; empty: the person is asked. It counts only if the
    approved call is recorded, too: somebody else's file must not approve a real call."""
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
    if tool is None:  # the calls of an agent or a flow are unknown
        return []
    changed = reply if isinstance(reply, dict) else {}
    if question.result and question.result in changed:
        return [reply]
    with contextlib.suppress(StepError):
        checked = tool.check(arguments, _changes(question, changed)) if changed else arguments
        call = recording.ask(site, "tool", tool, checked)
        return [] if recording.is_made(call) else [reply]
    return []


def as_arguments(value: Value) -> dict[str, Value]:
    """``value`` as the mapping of arguments that a question names: those of a tool, or the fields
    of an input."""
    return value if isinstance(value, dict) else {"input": value}


def _replace_call(
    site: CallSite[Invoke],
    instead: CallReplacement,
    question: Question,
    arguments: dict[str, Value],
    reply: Mapping[str, Value],
    tool: Tool | None,
    hides: Collection[str],
) -> Approved:
    """The replacement of the call that the answer ``reply`` makes. ``hides``: the secret keys of
    the answer. Raises StepError if the answer cannot be used."""
    changed: dict[str, Value] = {}
    replaces = instead.result in reply
    if replaces and len(reply) > 1:
        message = (
            f"give either other arguments or {instead.result!r}: with a result there is no call"
        )
        raise StepError(Diagnostic("step.instead", message))
    if not replaces:
        # A flow ignores names that it does not read, so a misspelt name would change nothing.
        for name in () if tool is not None else reply.keys() - arguments.keys():
            hint = suggest(name, arguments, "its arguments") or "the call has no arguments"
            raise StepError(
                Diagnostic("step.instead", f"the call has no argument {name!r}", hint=hint)
            )
        changes = _changes(question, reply)
        changed = (
            {**arguments, **changes} if tool is None else check(site, tool, arguments, changes)
        )
    # Called after the checks, because the language records the answer.
    instead.take(site.frame, hide(reply, hides))
    return Approved(result=(reply[instead.result],)) if replaces else Approved(changed)


def _changes(question: Question, reply: Mapping[str, Value]) -> dict[str, Value]:
    """The arguments in ``reply`` that differ from those that the person saw: a shown value is
    converted, and a secret is masked."""
    shown = question.arguments or {}
    return {
        name: value
        for name, value in reply.items()
        if not (name in shown and type(value) is type(shown[name]) and equal(value, shown[name]))
    }


def _denial(step: Invoke, why: str, question: str) -> Denied:
    message = f"{step.name.text!r} was not called: {why}"
    return Denied(Diagnostic("step.denied", message, step.place, f"the question was: {question}"))


def _not_usable(step: Invoke, error: StepError) -> Denied:
    diagnostic = error.diagnostic
    message = f"this answer cannot replace the call: {diagnostic.message}"
    return Denied(Diagnostic("step.instead", message, step.place, diagnostic.hint))
