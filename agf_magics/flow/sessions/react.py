"""Builds a model's session from steps: ask the model, run the tools it asks for, until it answers.

Every request and every tool call is a separate step, so that it is drawn, counted, permitted,
cancelled and journaled like any other step. Differences between languages and providers are
arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...values.value import Value
from ..expressions import Computed, Stored
from ..protocols import Frame, Name, Outcome, Ref, Target
from ..step import Step
from ..step_options import Asking, Lookup, Permit, Pick
from ..steps import Choose, Compute, Each, Invoke, Repeat
from ..steps import Sequence as InOrder
from .session import Conversation, Session, observation

AT_ONCE = 8
"""The number of tool calls of one reply that run at the same time."""


def react(
    session: Session,
    *,
    id: str,
    word: str,
    span: Span,
    label: str = "",
    target: Target | None = None,
) -> Repeat:
    """The steps of ``session``. Their value, which ``target`` stores, is the answer as
    `Session.read_answer` returns it."""
    state = _State(f"({id})", session)
    steps = (_ask(state, f"{id}.ask", span), _choose_next(state, f"{id}.then", span))
    return Repeat(
        id=id,
        word=word,
        label=label,
        span=span,
        body=InOrder(id=f"{id}.step", word="step", span=span, steps=steps),
        until=Computed(span, lambda frame: state.of(frame).verdict == "answer", text="it answers"),
        limit=session.steps,
        session=True,
        target=_Closed(state, target),
    )


def _ask(state: _State, id: str, span: Span) -> Step:
    """The step that asks the model."""
    session = state.session
    config: dict[str, Value] = {
        **session.options._asdict(),
        "descriptions": {
            offer.name.text: offer.description for offer in session.tools or () if offer.description
        },
    }
    return Invoke(
        id=id,
        word="model",
        label=session.model.text,
        span=span,
        kind="model",
        name=session.model,
        args=Computed(span, state.request, session.prompt.reads(), names=()),
        tools=session.offered,
        lookup=Lookup(registered=_registered_names(session)),
        asking=Asking(config=config),
        target=Stored(state.replied),
    )


def _choose_next(state: _State, id: str, span: Span) -> Step:
    """The step after a reply: call its tools, ask again, or answer."""
    again = Computed(span, lambda frame: state.of(frame).objection)
    answer = Computed(span, state.answer)
    return Choose(
        id=id,
        word="reply",
        label="of the model",
        span=span,
        pick=Computed(span, lambda frame: state.of(frame).verdict),
        labels=lambda verdict: (verdict,),
        cases={
            "tools": _tools(state, f"{id}.tools", span),
            "again": Compute(
                id=f"{id}.again", word="ask again", label="with the reason", span=span, value=again
            ),
            "answer": Compute(
                id=f"{id}.answer", word="answer", label="the final reply", span=span, value=answer
            ),
        },
        conditions={"tools": "calls tools", "again": "answer is not valid", "answer": "answers"},
        target=Stored(state.followed),
    )


def _tools(state: _State, id: str, span: Span) -> Step:
    """The step that calls the tools of a reply."""
    session = state.session
    call = Invoke(
        id=f"{id}.call",
        word="tool",
        label=_tools_label(session),
        span=span,
        kind="tool",
        name=Name("the model's choice", span),
        pick=Pick(
            Computed(span, lambda frame: frame[state.call]["tool"]),
            session.offered,
        ),
        lookup=Lookup(registered=_registered_names(session)),
        args=Computed(span, state.arguments, names=()),
        # A failed call is a result for the model, which may try something else.
        rescue=observation,
        permit=Permit(state.question, of=session.permit_of) if session.permits else None,
    )
    return Each(
        id=id,
        word="tools",
        label="each call of the reply",
        span=span,
        over=Computed(span, lambda frame: list(state.of(frame).calls)),
        element=Stored(lambda frame, call: {**frame, state.call: call}),
        body=call,
        gather=lambda ran: list(ran.values),
        limit=AT_ONCE,
        # The calls of one reply are not a fan-out of the author (decision A15).
        scope=False,
    )


def _tools_label(session: Session) -> str:
    """The names of the tools that the model may call."""
    if session.offered is None:
        return "any registered tool"
    return ", ".join(name.text for name in session.offered) or "none"


def _registered_names(session: Session) -> Mapping[str, str]:
    """The registered names of the offered tools, by the names that the model sees."""
    return {offer.name.text: offer.registered for offer in session.tools or () if offer.registered}


@dataclass(frozen=True, slots=True)
class _State:
    """The place of a session in a frame, under a name that no language can write, and its
    changes."""

    key: str
    session: Session

    @property
    def call(self) -> str:
        """The key of the current call in the frame."""
        return f"{self.key}.call"

    def of(self, frame: Frame) -> Conversation:
        """The conversation so far; a new one has the prompt."""
        conversation = frame.get(self.key)
        if isinstance(conversation, Conversation):
            return conversation
        system = self.session.system.evaluate(frame) if self.session.system is not None else None
        first = ({"role": "system", "text": system},) if system else ()
        files = self.session.files.evaluate(frame) if self.session.files is not None else None
        prompt = {
            "role": "user",
            "text": self.session.prompt.evaluate(frame),
            **({"files": files} if files else {}),
        }
        return Conversation((*first, prompt))

    def request(self, frame: Frame) -> Value:
        """The next request to the model."""
        return self.of(frame).request(self.session)

    def replied(self, frame: Frame, reply: Value) -> Frame:
        """The frame after a reply of the model."""
        return {**frame, self.key: self.of(frame).replied(self.session, reply)}

    def followed(self, frame: Frame, value: Value) -> Frame:
        """The frame after the step that followed a reply. ``value``: the results of the tools, if it
        called tools."""
        conversation = self.of(frame)
        if conversation.verdict == "answer":
            return frame
        uses_tools = conversation.verdict == "tools"
        return {
            **frame,
            self.key: conversation.observed(value) if uses_tools else conversation.rejected(),
        }

    def answer(self, frame: Frame) -> Value:
        """The value of the session. Raises StepError for an answer that is not valid."""
        conversation = self.of(frame)
        if conversation.fault is not None:
            diagnostic = conversation.fault.diagnostic
            if diagnostic.span is not None:
                raise conversation.fault
            raise StepError(replace(diagnostic, span=self.session.model.span))
        if self.session.with_calls:
            return {"answer": conversation.answer, "calls": conversation.used_tools}
        return conversation.answer

    def question(self, frame: Frame, arguments: Mapping[str, Value], shown: Value) -> str | None:
        """The question to a person before the current call; None: nobody is asked."""
        permit = self.session.permit_of(frame[self.call]["tool"])
        return permit.ask(frame, arguments, shown) if permit is not None else None

    def arguments(self, frame: Frame) -> Value:
        """The arguments of the current call. Raises StepError if they cannot be parsed."""
        call = frame[self.call]
        if "fault" in call:
            raise StepError(
                Diagnostic("model.arguments", f"the arguments for {call['tool']!r} {call['fault']}")
            )
        return call["arguments"]

    def closed(self, frame: Frame) -> Frame:
        """The frame without the session."""
        # Messages are large, and a frame lives as long as the run.
        return {name: value for name, value in frame.items() if name not in (self.key, self.call)}


@dataclass(frozen=True, slots=True)
class _Closed:
    """Stores the value of a session in the target of its language and removes the session."""

    state: _State
    target: Target | None

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        without_session = self.state.closed(frame)
        return (
            without_session if self.target is None else self.target.store(without_session, outcome)
        )

    def writes(self) -> tuple[Ref, ...]:
        return () if self.target is None else tuple(self.target.writes())
