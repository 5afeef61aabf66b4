"""What a definition says of a run beside its steps: what it may use at most, and what it reads of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..text.source import Span
from .frame import Expr, Frame
from .values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What a definition itself allows one run of it to use, with all that it calls; it only ever narrows. None: as much
    as the run around it."""

    tool_calls: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    depth: int | None = None
    """How many flows and agents may be open inside each other below it."""
    seconds: float | None = None
    span: Span | None = None


class Uses(NamedTuple):
    """A tool that a definition allows itself and all that it calls (a local tool of an action space)."""

    alias: str
    registered: str = ""
    """What it is registered as, where nothing is registered under its alias."""


class DerivedTool(NamedTuple):
    """A tool that a definition makes from a registered tool."""

    name: str
    base: str
    """The name of the registered tool. Who may not use that one may not use this one."""
    description: str
    parameters: tuple[str, ...]
    """All are required; any JSON value is accepted."""
    arguments: Callable[[Mapping[str, Value]], Mapping[str, Value]]
    """The arguments for the registered tool."""
    result: Callable[[Value], Value]
    """The result, given that of the registered tool."""


class Taken(NamedTuple):
    """What a text reads of a call's result: what the schema of that result is held against, once it is known."""

    step: str
    """The id of the `Invoke`."""
    whose: str
    """What the result is called: ``writer.output``."""
    fields: tuple[tuple[str, Span], ...]
    """One inside the other, each with its place; ``[]`` stands for every element of a list."""
    into: tuple[str, str] | None = None
    """The id of the call that is given it and the field it goes to."""


class Instead(NamedTuple):
    """How a language takes what a person puts in the place of a call: other arguments, or its result."""

    result: str
    """The key under which a result is given; all others are arguments."""
    take: Callable[[Frame, Mapping[str, Value]], None]
    """Told of it, without secrets, before it counts; may refuse it (StepError)."""


START, END = "START", "END"
"""Where a walk begins and ends: names that no node has."""


class Edge(NamedTuple):
    """A way from one node of a `Walk` to another."""

    source: str
    target: str
    when: Expr | None = None
    """None: it is always taken."""
    otherwise: bool = False
    """Taken when none of the source's conditions is true."""
    span: Span | None = None
    label: str = ""
    """The condition, as it is written."""
