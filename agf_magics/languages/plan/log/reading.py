"""Reads messages by a reference, outside of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from ....flow.frame import Frame, Ref
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Source, Text
from ....text.suggestions import suggest
from ....values.extent import TooDeep
from ....values.value import Value, isolate, type_name
from ...scan import MISSING
from .log import Log
from .reference import Expression, Reference, as_written, parse, references


def resolve(
    messages: Sequence[Mapping[str, Value]] | Log, reference: str, instance: str | None = None
) -> Value:
    """The value of ``reference`` (an expression) in ``messages``, oldest first, for a reader of
    ``instance``.

    The value is a copy. Raises DefinitionError if the expression is invalid, StepError
    ``plan.not-found`` if it has no value.

    >>> resolve([{"type": "data", "data": {"user": "Alex"}}], "†data.user")
    'Alex'
    """
    expression = parse(Source("<reference>", reference).span())
    try:
        return isolate(found(expression, as_log(messages), instance))
    except TooDeep as error:
        message = f"cannot return {as_written(expression)}: {error}"
    raise StepError(Diagnostic("step.too-deep", message))


def found(expression: Expression, log: Log, instance: str | None) -> Value:
    """The value of ``expression``. Raises StepError if it has none."""
    value = expression.evaluate(log.read, instance)
    if value is MISSING:
        raise StepError(not_found(expression, log, instance))
    return value


def not_found(expression: Expression, log: Log, instance: str | None = None) -> Diagnostic:
    """The finding that an expression has no value."""
    first = next(references(expression))
    hint = (
        suggest(first.kind, log.kinds, "kinds in this context")
        if first.kind not in log.kinds
        else None
    )
    if not len(log):
        hint = "the context has no messages"
    elif hint is None:
        hint = suggest_field(first, log, instance)
    who = f" for instance {instance}" if instance is not None else ""
    return Diagnostic(
        "plan.not-found", f"nothing found for {as_written(expression)}{who}", first.span, hint
    )


def suggest_field(reference: Reference, log: Log, instance: str | None = None) -> str | None:
    """A hint with the fields of the innermost mapping that ``reference`` reads."""
    with suppress(StepError):
        value, place = log.read(Reference(reference.kind), instance), reference.kind
        for name in reference.path:
            if value is MISSING or name.isdigit():
                break
            if type(value) is not dict:
                read = f"{reference.sign}{place}"
                what = f"{read} is {type_name(value)}, which has no {name!r}"
                return f"{what}; let a tool compute it, with {read} as an argument"
            if name not in value:
                return suggest(name, value, f"the fields of {reference.sign}{place}")
            value, place = value[name], f"{place}.{name}"
    return None


def as_log(messages: Any) -> Log:
    """Messages as a log. Raises StepError if they are not messages."""
    if isinstance(messages, Log):
        return messages
    if not isinstance(messages, list | tuple):
        raise StepError(
            Diagnostic(
                "plan.messages", f"a context must be a list of messages, not {type_name(messages)}"
            )
        )
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
            text = f"message {at} must be a mapping of names to values, not {type_name(message)}"
            raise StepError(
                Diagnostic(
                    "plan.messages", text, hint='for example {"type": "data", "data": {...}}'
                )
            )
    return Log(messages)


class Stores(Mapping[str, Value]):
    """The values of all kinds by name, read on first access: after most runs nothing reads them."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @cached_property
    def _all(self) -> dict[str, Value]:
        values = {}
        for kind in self._log.kinds:
            # One that cannot be read as a whole is left out; a part of it may be readable.
            with suppress(StepError, TooDeep):
                values[kind] = isolate(self._log.read(Reference(kind)))
        return values

    def __getitem__(self, kind: str) -> Value:
        return self._all[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return repr(self._all)


class Reading:
    """A standalone expression of references. Its context is a list of messages, or a mapping of
    ``messages`` and ``instance``."""

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
            raise StepError(
                Diagnostic(
                    "plan.messages", f"an instance must be a text, not {type_name(instance)}"
                )
            )
        return found(self.expression, as_log(given.get("messages")), instance)

    def reads(self) -> tuple[Ref, ...]:
        return tuple(
            Ref((one.kind, *one.path), one.span, False) for one in references(self.expression)
        )
