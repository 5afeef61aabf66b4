"""What a definition says of a run beside its steps: what it may use at most, and what it reads of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..text.source import Span


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
