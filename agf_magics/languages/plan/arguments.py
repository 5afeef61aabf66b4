"""Builds the arguments of a plan's call from the values in the log.

A tool with parameters of these names also gets the call itself, its schema, or messages of the log
(`ASKED`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...flow.expressions import NamedArguments
from ...flow.protocols import Frame, Name, Ref
from ...text.diagnostics import StepError
from ...text.length import ATOMS
from ...text.names import same_name
from ...text.source import Span
from ...values.value import Value
from ..foreign_keys import advice_on
from .calls import Argument, Call, Template, expressions, reads
from .log.log import Log
from .log.lookup import look_up
from .log.messages import read_content, render
from .log.reference import DAGGER, KINDS, Reference
from .reader import Reader
from .words import CALL


def fill(template: Template, log: Log, instance: str | None) -> Value:
    """The value of ``template``, with each expression replaced by its value in ``log``.

    Raises StepError for a value that does not exist.
    """
    kind = type(template)
    if kind in ATOMS:
        return template
    if kind is dict:
        return {key: fill(inner, log, instance) for key, inner in template.items()}
    if kind is list:
        return [fill(inner, log, instance) for inner in template]
    return look_up(template, log, instance)


_NAMES = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
"""A text that may be meant as the path of a value."""
ASKED = ("_call", "_tool", "_context")
"""Parameters that a tool receives in addition to its arguments if it has them."""


@dataclass(slots=True, eq=False)
class Filled:
    """The value of an argument, from a template."""

    span: Span
    argument: Argument

    def evaluate(self, frame: Frame) -> Value:
        return fill(self.argument.value, frame["log"], frame["instance"])

    def reads(self) -> tuple[Ref, ...]:
        return tuple(
            Ref((ref.kind, *ref.path), ref.span, certain=False, into=self.argument.name)
            for ref in reads(self.argument.value)
        )


class Arguments(NamedArguments):
    """Builds the arguments that a call gives its tool."""

    __slots__ = ("call",)

    call: Call

    def __init__(self, call: Call) -> None:
        super().__init__(
            tuple(
                (Name(same_name(argument.name), argument.span), Filled(argument.span, argument))
                for argument in call.arguments
            )
        )
        object.__setattr__(self, "call", call)  # the class of the value is frozen

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        log = frame["log"]
        instance = frame["instance"]
        arguments = super().build(frame)
        takes = wanted.get("properties", ()) if wanted else ()
        for name in ASKED:
            if name in takes and name not in arguments:
                arguments[name] = self._context_value(name, log, instance)
        return arguments

    def literals(self) -> Iterator[tuple[str, Span, Value]]:
        """The arguments that contain no reference, each with its place."""
        for argument in self.call.arguments:
            if not any(expressions(argument.value)):
                yield same_name(argument.name), argument.place, argument.value

    def literal_hint(self, value: Value) -> str | None:
        """The reference that a text which does not fit was probably meant as, as far as the text of
        the plan says."""
        if not isinstance(value, str) or not _NAMES.fullmatch(value):
            return None
        begins_with_kind = value.partition(".")[0] in KINDS
        return f"write ${'' if begins_with_kind else 'input.'}{value}: this is the text {value!r}"

    def hint_for(self, name: str, frame: Frame) -> str | None:
        """The reference that a text which does not fit was probably meant as."""
        text = next(
            (argument.value for argument in self.call.arguments if argument.name == name), None
        )
        if str(text).partition(".")[0] in KINDS:
            return self.literal_hint(text)
        for kind in frame["log"].kinds if isinstance(text, str) else ():
            with suppress(StepError):
                value = frame["log"].read(Reference(kind), frame["instance"])
                if type(value) is dict and text in value:
                    return f"write ${kind}.{text}: this is the text {text!r}"
        return None

    def unknown_hint(self, name: str) -> str:
        """The advice for an unknown argument that is a key of calls in another language."""
        if name == "output":
            text = str(self.call.authored.get(name))
            path = f"$state.{text}" if text.isidentifier() else text.replace(DAGGER, "$")
            return f"write _outputPath: {path}" if path.startswith("$") else ""
        core = name.replace("_", "").lower()
        if key := next((key for key in CALL.keys if key[1:].lower() == core), ""):
            return f"write {key}:"
        return advice_on(Reader.advice, name).replace(DAGGER, "$")

    def _context_value(self, name: str, log: Log, instance: str | None) -> Value:
        if name == "_call":
            return self.call.authored_for(instance)
        if name == "_tool":
            return {self.call.tool.text: dict(self.call.context.schema)}
        return context_of(log, self.call.context.scopes, instance)


def context_of(
    messages: Sequence[Mapping[str, Value]], kinds: Sequence[str], instance: str | None
) -> list[Value]:
    """The messages of ``kinds`` that are visible to ``instance``, without names of instances."""
    visible = []
    for message in messages if kinds else ():
        content = read_content(message)
        if content is not None and content.kind in kinds and content.instance in (None, instance):
            visible.append(render(message, ("_instance",)))
    return visible
