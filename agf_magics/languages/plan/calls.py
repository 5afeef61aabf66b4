"""A call as it was written, and what it is given: its arguments with the references in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...flow.frame import Frame, Ref
from ...flow.steps import Name
from ...flow.values import ATOMS, Value
from ...text.source import Span
from .destinations import Alternatives, Destination
from .log import Log
from .messages import rendered, said
from .reading import found
from .reference import Both, Either, Expression, Literal, Reference, references

Template = Any
"""A JSON value in which expressions may stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a plan."""

    index: int
    """Where it stands in the list."""
    id: str
    tool: Name
    authored: Mapping[str, Value]
    """As it is kept in the messages that it writes: references unresolved."""
    given: tuple[tuple[str, Span | None, Template], ...]
    """Its arguments, each with the place of its name."""
    alternatives: Alternatives = ()
    """Where its result goes; nowhere: it is fired, and nobody waits for it."""
    method: str | None = None
    instance: str | None = None
    shared: bool = False
    """Whether it says itself that it is made once, for everybody (``_instance: null``)."""
    scopes: tuple[str, ...] = ()
    latent: bool = False
    answer: Value = None
    """Of a latent call."""
    delegate: bool = False
    schema: Mapping[str, Value] | None = None
    """What the document says of its tool."""
    span: Span | None = None
    path_span: Span | None = None

    expressions: tuple[Expression, ...] = field(init=False)
    destinations: tuple[Destination, ...] = field(init=False)
    """All of them, of all alternatives."""

    def __post_init__(self) -> None:
        given = (one for _, _, template in self.given for one in expressions(template))
        object.__setattr__(self, "expressions", tuple(given))
        everywhere = dict.fromkeys(one for each in self.alternatives for one in each)
        object.__setattr__(self, "destinations", tuple(everywhere))

    def filled(self, log: Log, instance: str | None) -> dict[str, Value]:
        """Its arguments by what ``log`` says; raises StepError where nothing is found."""
        return {name: fill(template, log, instance) for name, _, template in self.given}

    def kept(self, instance: str | None) -> dict[str, Value]:
        """It as the messages of a run have it."""
        return {**self.authored, "_instance": instance} if instance is not None else dict(self.authored)


def expressions(template: Template) -> Iterator[Expression]:
    """Every expression in it, in the order of the text."""
    if isinstance(template, Reference | Literal | Either | Both):
        yield template
    elif isinstance(template, dict):
        for inner in template.values():
            yield from expressions(inner)
    elif isinstance(template, list):
        for inner in template:
            yield from expressions(inner)


def fill(template: Template, log: Log, instance: str | None) -> Value:
    """The value with each expression replaced by what it is in ``log``; raises StepError where nothing is found."""
    kind = type(template)
    if kind in ATOMS:
        return template
    if kind is dict:
        return {key: fill(inner, log, instance) for key, inner in template.items()}
    if kind is list:
        return [fill(inner, log, instance) for inner in template]
    return found(template, log, instance)


ASKED = ("_call", "_tool", "_context")
"""What a tool is given beside its arguments when it has a parameter of that name."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a call gives its tool."""

    call: Call

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return tuple((name, span) for name, span, _ in self.call.given)

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        log, instance = frame["log"], frame["instance"]
        known = frame["given"]
        given = self.call.filled(log, instance) if known is None else dict(known)
        takes = wanted.get("properties", ()) if wanted else ()
        for name in ASKED:
            if name in takes and name not in given:
                given[name] = self._asked(name, log, instance)
        return given

    def reads(self) -> tuple[Ref, ...]:
        refs = ((ref, name) for name, _, template in self.call.given for one in expressions(template)
                for ref in references(one))  # fmt: skip
        return tuple(Ref((ref.kind, *ref.path), ref.span, False, name) for ref, name in refs)

    def of(self, name: str) -> tuple[Ref, ...]:
        """What the argument of that name is read from."""
        return tuple(ref for ref in self.reads() if ref.into == name)

    def written_out(self, name: str) -> bool:
        """Whether the argument of that name is read from nowhere, and is something."""
        own = (template for given, _, template in self.call.given if given == name)
        return not self.of(name) and any(value not in (None, "") for value in own)

    def _asked(self, name: str, log: Log, instance: str | None) -> Value:
        if name == "_call":
            return self.call.kept(instance)
        if name == "_tool":
            return {self.call.tool.text: dict(self.call.schema or {})}
        return context_of(log, self.call.scopes, instance)


def context_of(messages: Sequence[Mapping[str, Value]], kinds: Sequence[str], instance: str | None) -> list[Value]:
    """The messages of ``kinds`` that everybody, or ``instance``, is told; nobody's name on them."""
    told = []
    for message in messages if kinds else ():
        one = said(message)
        if one is not None and one.kind in kinds and one.instance in (None, instance):
            told.append(rendered(message, ("_instance",)))
    return told


class Answer:
    """The answer of a latent call, as its text has it."""

    __slots__ = ("evaluate", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, value: Value) -> None:
        self.span = span
        self.evaluate = lambda frame: value

    def reads(self) -> tuple[Ref, ...]:
        return ()
