"""Reads messages by a reference outside of a run, and the stores of a log for views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from ....flow.protocols import Frame, Ref
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Source, Text
from ....values.extent import TooDeep
from ....values.unread import read_all
from ....values.value import Value, isolate, isolate_unread, type_name
from .log import Log
from .lookup import look_up
from .reference import Reference, as_written, parse, references


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
        return isolate(look_up(expression, as_log(messages), instance))
    except TooDeep as error:
        message = f"cannot return {as_written(expression)}: {error}"
    raise StepError(Diagnostic("step.too-deep", message))


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
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
            text = f"message {index} must be a mapping of names to values, not {type_name(message)}"
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
            # A kind that cannot be read as a whole is left out, although parts of it may be
            # readable.
            with suppress(StepError, TooDeep):
                values[kind] = isolate_unread(self._log.read(Reference(kind)))
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
        fields = frame if type(frame) is dict else {"messages": frame}
        instance = fields.get("instance")
        if instance is not None and not isinstance(instance, str):
            raise StepError(
                Diagnostic(
                    "plan.messages", f"an instance must be a text, not {type_name(instance)}"
                )
            )
        return read_all(look_up(self.expression, as_log(fields.get("messages")), instance))

    def reads(self) -> tuple[Ref, ...]:
        return tuple(
            Ref((reference.kind, *reference.path), reference.span, certain=False)
            for reference in references(self.expression)
        )
