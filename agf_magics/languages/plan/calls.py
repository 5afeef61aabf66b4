"""Reads messages by a reference, outside of a run.

A call as it was written, and its arguments with their references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple, cast

from ...flow.step import Frame, Name, Ref
from ...flow.steps import Constant, NamedArguments
from ...flow.values import ATOMS, TooDeep, Value, isolate, type_name
from ...text.diagnostics import Diagnostic, Source, Span, StepError, Text, suggest
from ..documents import MISSING, advised
from .log import Log
from .messages import Alternatives, Destination, read_content, rendered
from .reference import (
    DAGGER,
    Both,
    Either,
    Expression,
    Literal,
    Reference,
    as_written,
    parse,
    references,
)
from .takes import KINDS, Reader


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


Template = Any
"""A JSON value that may contain expressions."""


class Output(NamedTuple):
    """Where the result of a call is written, and how."""

    alternatives: Alternatives = ()
    """Without any the call is fire-and-forget: the run does not wait for it."""
    method: str | None = None
    span: Span | None = None
    """The place of its path."""

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """Those of all alternatives."""
        return tuple(dict.fromkeys(chain.from_iterable(self.alternatives)))


class Background(NamedTuple):
    """What a tool may ask for besides its arguments."""

    schema: Mapping[str, Value] = {}
    """The document's schema of it."""
    scopes: tuple[str, ...] = ()
    """The kinds of the messages that it gets."""


NO_BACKGROUND: Final = Background()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a plan."""

    index: int
    """Its position in the list."""
    id: str
    tool: Name
    authored: Mapping[str, Value]
    """As the messages that it writes contain it: references unresolved."""
    given: tuple[tuple[str, Span | None, Template], ...]
    """Its arguments, each with the span of its name."""
    output: Output
    instance: str | None = None
    shared: bool = False
    """Whether it is made once for all instances (``_instance: null``)."""
    latent: Constant | None = None
    """The answer of a latent call, which is never made."""
    delegate: bool = False
    background: Background = NO_BACKGROUND
    expressions: tuple[Expression, ...] = field(init=False)

    def __post_init__(self) -> None:
        templates = [template for _, _, template in self.given]
        object.__setattr__(self, "expressions", tuple(expressions(templates)))

    def authored_for(self, instance: str | None) -> dict[str, Value]:
        """The call as the messages of a run contain it."""
        return (
            {**self.authored, "_instance": instance}
            if instance is not None
            else dict(self.authored)
        )


def expressions(template: Template) -> Iterator[Expression]:
    """All expressions in a template, in the order of the text."""
    if isinstance(template, Reference | Literal | Either | Both):
        yield template
    elif isinstance(template, dict):
        for inner in template.values():
            yield from expressions(inner)
    elif isinstance(template, list):
        for inner in template:
            yield from expressions(inner)


def reads(template: Template) -> Iterator[Reference]:
    """All references in a template, in the order of the text."""
    return chain.from_iterable(map(references, expressions(template)))


def fill(template: Template, log: Log, instance: str | None) -> Value:
    """Replace each expression by its value in ``log``. Raises StepError for one that does not
    exist."""
    kind = type(template)
    if kind in ATOMS:
        return template
    if kind is dict:
        return {key: fill(inner, log, instance) for key, inner in template.items()}
    if kind is list:
        return [fill(inner, log, instance) for inner in template]
    return found(template, log, instance)


ASKED = ("_call", "_tool", "_context")
"""Parameters that a tool receives in addition to its arguments if it has them."""


@dataclass(slots=True, eq=False)
class Filled:
    """The value of an argument, from a template."""

    name: str
    span: Span
    value: Template

    def evaluate(self, frame: Frame) -> Value:
        return fill(self.value, frame["log"], frame["instance"])

    def reads(self) -> tuple[Ref, ...]:
        return tuple(
            Ref((ref.kind, *ref.path), ref.span, False, self.name) for ref in reads(self.value)
        )


class Arguments(NamedArguments):
    """Builds the arguments that a call gives its tool."""

    __slots__ = ("call",)

    call: Call

    def __init__(self, call: Call) -> None:
        super().__init__(
            tuple(
                (Name(name, span), Filled(name, cast("Span", span), template))
                for name, span, template in call.given
            )
        )
        object.__setattr__(self, "call", call)  # its class is frozen

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        log, instance, given = frame["log"], frame["instance"], super().build(frame)
        takes = wanted.get("properties", ()) if wanted else ()
        for name in ASKED:
            if name in takes and name not in given:
                given[name] = self._asked(name, log, instance)
        return given

    def hint_for(self, name: str, frame: Frame) -> str | None:
        """The reference that a text which does not fit was probably meant as."""
        text = next((template for given, _, template in self.call.given if given == name), None)
        if str(text).partition(".")[0] in KINDS:
            return f"write ${text}: this is the text {text!r}"
        for kind in frame["log"].kinds if isinstance(text, str) else ():
            with suppress(StepError):
                if text in frame["log"].read(Reference(kind), frame["instance"]):
                    return f"write ${kind}.{text}: this is the text {text!r}"
        return None

    def unknown_hint(self, name: str) -> str:
        """What to write for an argument that the tool does not take and that is a key of calls in
        another language."""
        return advised(Reader.advice, name).replace(DAGGER, "$")

    def _asked(self, name: str, log: Log, instance: str | None) -> Value:
        if name == "_call":
            return self.call.authored_for(instance)
        if name == "_tool":
            return {self.call.tool.text: dict(self.call.background.schema)}
        return context_of(log, self.call.background.scopes, instance)


def context_of(
    messages: Sequence[Mapping[str, Value]], kinds: Sequence[str], instance: str | None
) -> list[Value]:
    """The messages of ``kinds`` that are visible to ``instance``, without names of instances."""
    visible = []
    for message in messages if kinds else ():
        content = read_content(message)
        if content is not None and content.kind in kinds and content.instance in (None, instance):
            visible.append(rendered(message, ("_instance",)))
    return visible
