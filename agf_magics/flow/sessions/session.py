"""The messages and the state of a session with a model, from the prompt to the answer.

Messages and replies are JSON, so that they can be journaled and shown. A message is one of
``{"role": "user", "text"}``, with ``"files"`` for images and documents, which are described by
name, type, size and digest; the same with the role ``"system"``, ``{"role": "model", "text",
"calls", "kept"}`` and ``{"role": "tool", "id", "tool", "text", "failed"}``. A reply is ``{"text",
"calls", "usage"}``, with ``"answer"`` for a structured answer, ``"cut"`` for a reply that reached
the limit of tokens, ``"empty"`` for a reply without content, and ``"kept"`` for parts that the
provider must get back. A call is ``{"id", "tool", "arguments"}``, with ``"fault"`` if its arguments
cannot be parsed; the call of a tool without a name is the structured answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from ...text.diagnostics import Diagnostic, StepError
from ...text.raised import RAISED, kind_of
from ...text.shorten import shorten
from ...values.extent import CONTAINERS, TooDeep
from ...values.json_text import TooLong, write_json
from ...values.once_each import DoubleKey, read_once_each
from ...values.tables.all_rows import Elements, elements_of
from ...values.times import iso_text
from ...values.unread import read_all
from ...values.value import Value, is_json, isolate, type_name
from ..null_warnings import warn_of_null
from ..protocols import Expr, Name
from ..step_options import EVERY_TOOL, Permit

STEPS = 10
"""The default of the largest number of requests of a session."""

ASKED_AGAIN = 2
"""The number of times that a model is asked again after an answer that is not valid (decision
P10)."""

LONGEST = 100_000
"""The largest number of characters of a tool's result that a model gets."""

LONGEST_WRITTEN = 10_000_000
"""The largest number of characters of a result that are written at all."""

_FENCE = re.compile(r"```[^\n`]*\n")
"""The first line of a code block."""

ANSWER_NOW = "Answer now, with what you know: no tool can be used any more."
"""The message before the last request, unless it is also the first one."""

_SILENT_HINT = (
    "ask for something else, or use another model; a model that reasons needs a larger "
    "max_output_tokens"
)

Verdict = Literal["tools", "again", "answer"]
"""What follows a reply: its tool calls, another request, or the end of the session. At the end the
answer may still be one that is not valid: then the session fails with its ``fault``."""


def strip_fence(text: str) -> str:
    """``text`` without the code fence around it, if it has one.

    >>> strip_fence("```json\\n[1]\\n```"), strip_fence("[1]")
    ('[1]', '[1]')
    """
    whole = text.strip()
    opening = _FENCE.match(whole)
    if opening is None or not whole.endswith("```") or len(whole) < opening.end() + 3:
        return text
    return whole[opening.end() : -3].rstrip(" \t").removesuffix("\n")


def read_json(text: str, *, once_each: bool = False) -> tuple[Value, str]:
    """The JSON that ``text`` is, and the reason why it cannot be used; empty: it can be used.
    ``once_each``: whether an object may have each key only once; default False: the last one counts.

    >>> read_json("[1]"), read_json("[1e999]")
    (([1], ''), ([inf], 'a number in it is not finite'))
    >>> read_json('{"a": 1, "a": 2}', once_each=True)
    (None, "an object in it has 'a' twice")
    """
    try:
        read = isolate(read_once_each(text) if once_each else json.loads(text))
    except json.JSONDecodeError as error:
        message = f"{error.msg[:1].lower()}{error.msg[1:]}"
        return None, f"{message} at line {error.lineno}, column {error.colno}"
    except DoubleKey as error:
        return None, f"an object in it has {shorten(error.args[0])!r} twice"
    except (TooDeep, RecursionError):
        return None, "it is nested too deep"
    except ValueError:
        return None, "a number in it is too long"
    return read, "" if is_json(read) else "a number in it is not finite"


class Offer(NamedTuple):
    """A tool that a model may call."""

    name: Name
    """The name that the model sees."""
    registered: str = ""
    """The name of the registered tool, if nothing is registered as ``name`` (decision B5)."""
    description: str = ""
    """The description for the model; empty: the tool's own."""


class RequestOptions(NamedTuple):
    """The parts of each request of a session besides its messages and tools."""

    instructions: str = ""
    """The system prompt, unchanged."""
    tool_choice: Literal["auto", "required", "none"] = "auto"
    settings: Mapping[str, Value] = {}
    """The settings that are set, of ``temperature``, ``top_p``, ``top_k``, ``max_output_tokens``
    and ``stop_sequences``."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the answer; None: the answer is text."""
    model_object: Value = None
    """A model object, which takes precedence over the configured model; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The configuration of a session."""

    model: Name
    """``provider:model``; empty text: the configured model."""
    options: RequestOptions = field(default_factory=RequestOptions)
    prompt: Expr
    """The first message, a text."""
    files: Expr | None = None
    """The descriptions of the images and documents of the prompt."""
    system: Expr | None = None
    """A system message before the prompt, in addition to the instructions; its value may be
    None."""
    tools: tuple[Offer, ...] | None = ()
    """The tools that the model is offered, if the invoker may use them; None: all tools that the
    invoker may use."""
    read_answer: Callable[[Value], Value] = lambda answer: answer
    """Converts the text or the JSON of the answer to the session's value. Raises StepError if the
    answer is not valid."""
    steps: int = STEPS
    """The maximum number of requests; in the last one the model must answer, without tools."""
    too_many_steps: Callable[[int], Diagnostic]
    """Returns the error, given `steps`, if the last reply still calls tools; it names the
    setting."""
    with_calls: bool = False
    """Whether the session's value is ``{"answer", "calls"}``, the answer with the tool calls before
    it."""
    permits: Mapping[str, Permit] = field(default_factory=dict)
    """The questions to a person before a call, by the name of the tool."""

    @property
    def offered(self) -> tuple[Name, ...] | None:
        """The names of the offered tools; None: all tools that the invoker may use."""
        return None if self.tools is None else tuple(offer.name for offer in self.tools)

    def permit_of(self, tool: str) -> Permit | None:
        """The question before a call of ``tool``: its own, or that of its server."""
        every = f"{tool.partition('__')[0]}__{EVERY_TOOL}"
        return self.permits.get(tool) or self.permits.get(every)


class FailedCall(str):
    """The result of a failed tool call, as the model gets it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """The state of a session between two steps."""

    messages: tuple[Value, ...]
    steps: int = 0
    """The number of replies so far."""
    repeats: int = 0
    """The number of times that the model was asked again. A request after a reply without content
    does not count."""
    calls: Sequence[Value] = ()
    """The tool calls of the last reply."""
    verdict: Verdict | None = None
    """The next step after the last reply; None: there is no reply yet."""
    answer: Value = None
    """The answer, if the verdict is ``answer``."""
    fault: StepError | None = None
    """The reason why the answer is not valid; None: it is valid."""
    is_silent: bool = False
    """Whether the last reply had no content."""

    def request(self, session: Session) -> Value:
        """The next request."""
        is_last = self.steps + 1 >= session.steps
        answer_now = ({"role": "user", "text": ANSWER_NOW},) if is_last and self.steps else ()
        return {"messages": [*self.messages, *answer_now], "last": is_last}

    def replied(self, session: Session, reply: Value) -> Conversation:
        """The conversation with the model's reply and its verdict."""
        message = {
            "role": "model",
            **{name: reply[name] for name in ("text", "calls", "kept") if name in reply},
        }
        last = self.steps + 1 >= session.steps
        if reason_of_silence := reply.get("empty"):
            return self._silent(reason_of_silence, last)
        messages, calls = (*self.messages, message), reply["calls"]
        conversation = replace(
            self,
            messages=messages,
            steps=self.steps + 1,
            calls=calls,
            verdict="answer",
            fault=None,
            is_silent=False,
        )
        answer_call = next((call for call in calls if call["tool"] == ""), None)
        if calls and answer_call is None:
            if not last:
                return replace(conversation, verdict="tools")
            # The last request allows no tool, so a reply that still calls one has no answer.
            return replace(conversation, fault=StepError(session.too_many_steps(session.steps)))
        try:
            if answer_call is not None and "fault" in answer_call:
                problem = f"the arguments of the answer {answer_call['fault']}"
                raise StepError(Diagnostic("model.arguments", problem))
            written = reply["text"] if answer_call is None else reply["answer"]
            return replace(conversation, answer=session.read_answer(written))
        except StepError as error:
            # Without a limit a small model and a strict schema would ask each other until the money
            # is gone.
            again = not last and self.repeats < ASKED_AGAIN
            return replace(conversation, verdict="again" if again else "answer", fault=error)

    def _silent(self, silence: str, last: bool) -> Conversation:
        """The conversation after a reply without content: the model is asked once more (decision
        D130). The next request leaves the reply out, because no provider accepts it as a
        message."""
        again = ", also when it was asked again" if self.is_silent else ""
        message = f"the model replied with {silence}{again}"
        empty = Diagnostic("model.empty", message, hint=_SILENT_HINT)
        return replace(
            self,
            steps=self.steps + 1,
            calls=(),
            verdict="answer" if last or self.is_silent else "again",
            fault=StepError(empty),
            is_silent=True,
        )

    def observed(self, values: Sequence[Value]) -> Conversation:
        """The conversation with the results of the tools."""
        both = zip(self.calls, values, strict=True)
        results = [
            _result(call, format_for_model(value, _of(call)), isinstance(value, FailedCall))
            for call, value in both
        ]
        return replace(self, messages=(*self.messages, *results))

    def rejected(self) -> Conversation:
        """The conversation with the reason why the answer is not valid."""
        # Providers require a result for every call, even for the call that is the answer.
        text = self.objection
        results = [_result(call, text, True) for call in self.calls] or [
            {"role": "user", "text": text}
        ]
        repeats = self.repeats if self.is_silent else self.repeats + 1
        return replace(self, messages=(*self.messages, *results), repeats=repeats)

    @property
    def used_tools(self) -> list[Value]:
        """The tool calls so far, each with its result: ``{"tool", "args", "output",
        "success"}``."""
        calls = [call for message in self.messages for call in message.get("calls", ())]
        arguments = {call["id"]: call["arguments"] for call in calls}
        return [
            {
                "tool": message["tool"],
                "args": arguments.get(message["id"]),
                "output": message["text"],
                "success": not message["failed"],
            }
            for message in self.messages
            if message.get("tool")
        ]

    @property
    def objection(self) -> str:
        """The message to the model about an answer that is not valid."""
        assert self.fault is not None, "an answer is rejected for a reason"
        if self.is_silent:
            return "Your reply has no text. Answer now."
        return f"Your answer cannot be used: {reason(self.fault)}. Answer again."


def format_for_model(value: Value, name: str = "the value") -> str:
    """A tool's result for a model: a text unchanged, a date in ISO 8601, other values as JSON, at
    most LONGEST characters. A frame is all of its rows, an array all of its elements; any other
    part that is not JSON is its ``str``. ``name``: the word for the value in a warning."""
    value = read_all(value)
    if isinstance(value, str):
        return _cut(str(value))
    if (text := iso_text(value)) is not None:
        return text
    elements = elements_of(value, LONGEST)
    try:
        if elements is not None:
            return _format_elements(elements, name)
        # An object that is the whole result is its text, without the quotes of JSON.
        is_container = type(value) in CONTAINERS
        written = write_json(value, LONGEST_WRITTEN, _part if is_container else None)
    except TooLong:
        return f"({type_name(value)}, which cannot be shown: it has too many parts)"
    except (TypeError, ValueError, RecursionError):
        return _cut(_text_of(value))
    if written.has_nulls:
        warn_of_null(name, value)
    return _cut(written.text)


def _format_elements(elements: Elements, name: str) -> str:
    """The elements of a frame or an array as a JSON list, cut behind the last one that has room."""
    texts = list[str]()
    room = LONGEST
    has_nulls = False
    for element in elements.first:
        text, is_null = write_json(element, LONGEST_WRITTEN, _part)
        has_nulls = has_nulls or is_null
        room -= len(text) + 1
        if room < 0 and texts:
            break
        texts.append(text)
    if has_nulls:  # of an array; a cell of a frame that is missing is null already
        warn_of_null(name, list(elements.first))
    written = f"[{','.join(texts)}]"
    if len(texts) == elements.total:
        return _cut(written)
    cut = f"(cut: the first {len(texts):,} of {elements.total:,} {elements.noun})"
    return f"{_cut(written)} … {cut}"


def _part(part: Value) -> Value:
    """A part of a result that is not JSON, in its place."""
    elements = elements_of(part, LONGEST)
    if elements is None:
        return _text_of(part)
    left = elements.total - len(elements.first)
    return [*elements.first, *([f"(cut: {left:,} more {elements.noun})"] if left else [])]


def _text_of(value: Value) -> str:
    """The ``str`` of a value."""
    try:
        return str(value)
    except RAISED as error:  # raised by a foreign class, or by a number with too many digits
        return f"({type_name(value)}, which cannot be shown: {kind_of(error)})"


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… (cut: it has {len(text):,} characters)"


def format_prompt(input: Value) -> str:
    """``input`` as a prompt: its only field if that is a text, otherwise as `format_for_model`.

    >>> format_prompt({"question": "why?"}), format_prompt({"a": 1})
    ('why?', '{"a":1}')
    """
    fields = list(input.values()) if type(input) is dict else []
    is_text = len(fields) == 1 and isinstance(fields[0], str)
    return format_for_model(fields[0] if is_text else input)


def observation(error: StepError) -> FailedCall:
    """The result of a failed call, as the model gets it. The session continues."""
    return FailedCall(f"Error: {reason(error)}")


def reason(error: StepError) -> str:
    """The messages of an error with their hints, for the model."""
    return "; ".join(
        f"{diagnostic.message} ({diagnostic.hint})" if diagnostic.hint else diagnostic.message
        for diagnostic in error.diagnostics
    )


def _of(call: Value) -> str:
    return f"the result of {call['tool']!r}"


def _result(call: Value, text: str, failed: bool) -> Value:
    return {"role": "tool", "id": call["id"], "tool": call["tool"], "text": text, "failed": failed}
