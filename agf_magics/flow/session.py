"""What is said between a model and whoever asks it: from the prompt to the answer.

What passes is JSON, so that it can be kept and shown. A message is one of ``{"role": "user", "text"}``, ``{"role":
"model", "text", "calls", "kept"}`` and ``{"role": "tool", "id", "tool", "text", "failed"}``. A reply is ``{"text",
"calls", "usage"}``, with ``"answer"`` where the model gave its structured answer, ``"cut"`` where it reached the most
tokens it may give, and ``"kept"`` for what its provider wants to see again; a call is ``{"id", "tool", "arguments"}``,
with ``"fault"`` where its arguments cannot be read; one without a tool's name is the structured answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from ..text.diagnostics import Diagnostic, StepError
from .frame import Expr
from .steps import Name
from .values import Value, is_json, type_name

STEPS = 10
"""Requests of a session when nobody says how many."""

ASKED_AGAIN = 2
"""Times that a model whose answer does not do is asked again (decision P10)."""

LONGEST = 100_000
"""Characters of a tool's result that a model is shown."""

_FENCE = re.compile(r"```[^\n`]*\n")

ANSWER_NOW = "Answer now, with what you know: no tool can be used any more."

Verdict = Literal["tools", "again", "answer"]


def unfenced(text: str) -> str:
    """A reply without the code fence around all of it; the reply itself where there is none.

    >>> unfenced("```json\\n[1]\\n```"), unfenced("[1]")
    ('[1]', '[1]')
    """
    whole = text.strip()
    opening = _FENCE.match(whole)
    if opening is None or not whole.endswith("```") or len(whole) < opening.end() + 3:
        return text
    return whole[opening.end() : -3].rstrip(" \t").removesuffix("\n")


class Offer(NamedTuple):
    """A tool as a model is offered it."""

    name: Name
    """What the model calls it."""
    registered: str = ""
    """What it is registered as, where nothing is registered under its name (decision B5)."""
    description: str = ""
    """Empty: its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What there is to know of a session before it begins."""

    model: Name
    """``provider:model``; empty text: the one that is configured."""
    made: Value = None
    """The very model, where a name is not how it was found; it is then not exchanged for the configured one."""
    prompt: Expr
    """Gives the first message, a text."""
    instructions: str = ""
    """Verbatim what the model is told before everything else."""
    tools: tuple[Offer, ...] | None = ()
    """What is offered, as far as whoever runs it may use it; None: all that it may use."""
    tool_choice: Literal["auto", "required", "none"] = "auto"
    settings: Mapping[str, Value] | None = None
    """``temperature``, ``top_p``, ``top_k``, ``max_output_tokens``, ``stop_sequences``: those that are set."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer that the model is asked for; None: text."""
    read: Callable[[Value], Value] = lambda answer: answer
    """The session's value, from the answer's text or its JSON; a StepError says why the answer does not do."""
    steps: int = STEPS
    """How many requests it may take; with the last one the model must answer, without tools."""
    over: Callable[[int], Diagnostic]
    """What to say, given `steps`, when it asks for tools in the last one; names what sets them."""
    permit: Callable[[str, Mapping[str, Value], Mapping[str, Value]], str | None] | None = None
    """Given a tool's name and its arguments: what a person must approve before it is called; None: nothing."""


class Failed(str):
    """What a model is told of a tool call that failed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session between two of its steps."""

    messages: tuple[Value, ...]
    steps: int = 0
    """Replies so far."""
    asked: int = 0
    """Times it was asked again."""
    calls: Sequence[Value] = ()
    """What the last reply asks for."""
    verdict: Verdict | None = None
    """What the last reply comes to."""
    answer: Value = None
    fault: StepError | None = None
    """Why the answer does not do."""

    def request(self, session: Session) -> Value:
        """What the model is given."""
        last = self.steps + 1 >= session.steps
        now = ({"role": "user", "text": ANSWER_NOW},) if last and self.steps else ()
        return {"messages": [*self.messages, *now], "last": last}

    def replied(self, session: Session, reply: Value) -> Conversation:
        """With the model's reply, and what it comes to."""
        said = {"role": "model", **{name: reply[name] for name in ("text", "calls", "kept") if name in reply}}
        last, messages, calls = self.steps + 1 >= session.steps, (*self.messages, said), reply["calls"]
        talk = replace(self, messages=messages, steps=self.steps + 1, calls=calls, verdict="answer", fault=None)
        given = next((call for call in calls if call["tool"] == ""), None)
        if calls and given is None and last:
            return replace(talk, fault=StepError(session.over(session.steps)))
        if calls and given is None:
            return replace(talk, verdict="tools")
        try:
            if given is not None and "fault" in given:
                raise StepError(Diagnostic("model.arguments", f"the arguments of the answer {given['fault']}"))
            return replace(talk, answer=session.read(reply["text"] if given is None else reply["answer"]))
        except StepError as error:
            again = not last and self.asked < ASKED_AGAIN
            return replace(talk, verdict="again" if again else "answer", fault=error)

    def observed(self, values: Sequence[Value]) -> Conversation:
        """With what the tools gave."""
        both = zip(self.calls, values, strict=True)
        results = [_result(call, shown(value), isinstance(value, Failed)) for call, value in both]
        return replace(self, messages=(*self.messages, *results))

    def doubted(self) -> Conversation:
        """With why the answer does not do."""
        # A provider wants to hear of every call its model made, the one that was the answer too.
        told = [_result(call, self.doubt, True) for call in self.calls] or [{"role": "user", "text": self.doubt}]
        return replace(self, messages=(*self.messages, *told), asked=self.asked + 1)

    @property
    def doubt(self) -> str:
        assert self.fault is not None, "it is asked again for a reason"
        return f"Your answer cannot be used: {reason(self.fault)}. Answer again."


def shown(value: Value) -> str:
    """A tool's result as a model is shown it: text as it is, everything else as JSON, LONGEST characters at most."""
    if isinstance(value, str):
        text = str(value)
    elif is_json(value):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    else:
        try:
            text = str(value)
        except Exception as error:  # somebody's class
            text = f"({type_name(value)}, which cannot be shown: {type(error).__name__})"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… (cut: it has {len(text):,} characters)"


def asked(given: Value) -> str:
    """An input as a text to ask with: the text that it is, or that its one field is, else as `shown`.

    >>> asked({"question": "why?"}), asked({"a": 1})
    ('why?', '{"a":1}')
    """
    return shown(next(iter(given.values())) if _is_text(given) else given)


def _is_text(given: Value) -> bool:
    return type(given) is dict and len(given) == 1 and isinstance(next(iter(given.values())), str)


def observation(error: StepError) -> Failed:
    """What a model is told of a call that failed: an observation, not the end of the session."""
    return Failed(f"Error: {reason(error)}")


def reason(error: StepError) -> str:
    found = error.diagnostic
    return f"{found.message} ({found.hint})" if found.hint else found.message


def _result(call: Value, text: str, failed: bool) -> Value:
    return {"role": "tool", "id": call["id"], "tool": call["tool"], "text": text, "failed": failed}
