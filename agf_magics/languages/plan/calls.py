"""The data of a plan's call: its tool, its templates with their references, its output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

from ...flow.expressions import Constant
from ...flow.protocols import Name
from ...text.source import Span
from ...values.value import Value
from .log.destinations import Alternatives, Destination
from .log.reference import Both, Either, Expression, Literal, Reference, references

Template = Any
"""A JSON value that may contain expressions."""


class Argument(NamedTuple):
    """An argument of a call."""

    name: str
    span: Span
    """The place of the name."""
    value: Template
    place: Span
    """The place of the value."""


class Output(NamedTuple):
    """The destinations of a call's result."""

    alternatives: Alternatives = ()
    """The alternatives; empty: the call runs in the background."""
    method: str | None = None
    """One of `METHODS`; None: the call names none."""
    span: Span | None = None
    """The place of the path in the text."""

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """The destinations of all alternatives."""
        return tuple(dict.fromkeys(chain.from_iterable(self.alternatives)))


class CallContext(NamedTuple):
    """What a tool may ask for besides its arguments."""

    schema: Mapping[str, Value] = {}
    """The document's schema of the tool."""
    scopes: tuple[str, ...] = ()
    """The kinds of the messages that the tool gets."""


NO_CONTEXT: Final = CallContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a plan."""

    index: int
    """The position of the call in the list."""
    id: str
    tool: Name
    authored: Mapping[str, Value]
    """The call as its messages contain it, with unresolved references."""
    arguments: tuple[Argument, ...]
    output: Output
    instance: str | None = None
    shared: bool = False
    """Whether the call is made once for all instances (``_instance: null``)."""
    latent: Constant | None = None
    """The answer of a latent call, which is never made."""
    delegate: bool = False
    """Whether the call runs a flow (``_delegate``) and no tool."""
    context: CallContext = NO_CONTEXT
    expressions: tuple[Expression, ...] = field(init=False)
    """The expressions in its arguments, in the order of the text."""

    def __post_init__(self) -> None:
        templates = [argument.value for argument in self.arguments]
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
