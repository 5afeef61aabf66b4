"""Reading messages by a reference: what everybody outside of a run calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...flow.frame import Frame, Ref
from ...flow.values import TooDeep, Value, isolate, type_name
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Source, Text
from .log import Log
from .reference import MISSING, Expression, Reference, evaluate, parse, references


def resolve(messages: Sequence[Mapping[str, Value]] | Log, reference: str, instance: str | None = None) -> Value:
    """What ``reference`` (an expression of references) is by ``messages``, oldest first, for a reader of ``instance``.

    The value is a copy. Raises DefinitionError for what is no expression, StepError ``plan.not-found`` where nothing is
    found.

    >>> resolve([{"type": "data", "data": {"user": "Alex"}}], "†data.user")
    'Alex'
    """
    expression = parse(Source("<reference>", reference).span())
    try:
        return isolate(found(expression, as_log(messages), instance))
    except TooDeep as error:
        code, told = "step.too-deep", f"{expression} cannot be handed out: {error}"
    raise StepError(Diagnostic(code, told))


def found(expression: Expression, log: Log, instance: str | None) -> Value:
    """The value of ``expression``; raises StepError where there is none."""
    read = log.read if instance is None else lambda reference: log.read(reference, instance)
    value = evaluate(expression, read)
    if value is MISSING:
        raise StepError(not_found(expression, log, instance))
    return value


def not_found(expression: Expression, log: Log, instance: str | None = None) -> Diagnostic:
    """What to say of an expression that nothing is found for."""
    first = next(references(expression))
    kinds = ", ".join(f"†{kind}" for kind in log.kinds)
    hint = f"the messages speak of {kinds}" if kinds else "no message speaks to everybody"
    who = f" for instance {instance}" if instance is not None else ""
    return Diagnostic("plan.not-found", f"nothing is found for {expression}{who}", first.span, hint)


def as_log(messages: Any) -> Log:
    """Messages as a log; raises StepError for what is none."""
    if isinstance(messages, Log):
        return messages
    if not isinstance(messages, list | tuple):
        raise StepError(Diagnostic("plan.messages", f"a context is a list of messages, not {type_name(messages)}"))
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
            told = f"message {at} is {type_name(message)}, not a mapping of names to values"
            raise StepError(Diagnostic("plan.messages", told, hint='one is {"type": "data", "data": {...}}'))
    return Log(messages)


class Stores(Mapping[str, Value]):
    """What everybody reads by the kinds' names, put together when somebody looks: many runs may end in one large
    context, and nobody look."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._made: dict[str, Value] | None = None

    def _all(self) -> dict[str, Value]:
        if self._made is None:
            made = {}
            for kind in self._log.kinds:
                try:
                    made[kind] = isolate(self._log.read(Reference(kind)))
                except (StepError, TooDeep):
                    continue  # it cannot be read as a whole; a part of it may be
            self._made = made
        return self._made

    def __getitem__(self, kind: str) -> Value:
        return self._all()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


class Reading:
    """A reference as an expression that stands alone: its context is a list of messages, or a mapping of ``messages``
    and ``instance``."""

    __slots__ = ("evaluate", "expression", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, text: Text) -> None:
        self.expression = parse(text)
        self.span = text.locate(0, len(text.text))
        self.evaluate = self._read

    def _read(self, frame: Any) -> Value:
        given = frame if type(frame) is dict else {"messages": frame}
        instance = given.get("instance")
        if instance is not None and not isinstance(instance, str):
            raise StepError(Diagnostic("plan.messages", f"an instance is a text, not {type_name(instance)}"))
        return found(self.expression, as_log(given.get("messages")), instance)

    def reads(self) -> tuple[Ref, ...]:
        return tuple(Ref((one.kind, *one.path), one.span, False) for one in references(self.expression))
