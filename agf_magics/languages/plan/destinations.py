"""Where a result goes: an output path, read as the alternatives of which one is chosen.

The notation is that of references. ``&&`` sends a result to all of them, ``||`` leaves the choice to what the call
gives: a value goes to the first alternative, a failure to the last.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from ...text.source import Span, Text
from .reference import DAGGER, KIND, Both, Either, Expression, Literal, Reference, parse, refuse

MOST_DESTINATIONS: Final = 64
"""Of one output path, all its alternatives together."""


class Destination(NamedTuple):
    """Where a result goes."""

    kind: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return str(Reference(self.kind, self.path))


Alternatives = tuple[tuple[Destination, ...], ...]
"""Of which one is chosen; a result goes to all destinations of the one chosen."""


def parse_output(text: Text, sigils: Collection[str] = ()) -> Alternatives:
    """The alternatives that an ``_outputPath`` declares. Raises DefinitionError: ``plan.bad-output-path``,
    ``plan.overlapping-destinations`` and `parse`'s own."""
    start = text.text.lstrip().lstrip("(").lstrip()
    if not start.startswith((DAGGER, *(f"${kind}" for kind in sigils))):
        path = text.text.strip()
        hint = f"write {DAGGER}{path}" if KIND.match(path) else f"a path begins with {DAGGER}: †state.result"
        refuse("plan.bad-output-path", f"an output path begins with {DAGGER}", text.locate(0, len(text.text)), hint)
    expression = parse(text, sigils)
    whole = text.locate(0, len(text.text))
    _only_references(expression, whole)
    alternatives = _distributed(expression, whole)
    for destinations in alternatives:
        for i, one in enumerate(destinations):
            for other in destinations[:i]:
                if one.kind == other.kind and overlap(one.path, other.path):
                    hint = "a result cannot stand at a place and inside of it"
                    message = f"{other} and {one} overlap"
                    refuse("plan.overlapping-destinations", message, whole, hint)
    return alternatives


def overlap(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether one path is, or is above, the other."""
    least = min(len(a), len(b))
    return a[:least] == b[:least]


def _only_references(expression: Expression, whole: Span) -> None:
    if isinstance(expression, Literal):
        refuse("plan.bad-output-path", f"a result cannot be written to {expression}", expression.span or whole)
    if isinstance(expression, Reference) and expression.instance is not None:
        hint = "a call writes to its own instance: _instance says which"
        message = "an output path names no instance"
        refuse("plan.bad-output-path", message, expression.span or whole, hint)
    if isinstance(expression, Either | Both):
        for operand in expression.operands:
            _only_references(operand, whole)


def _distributed(expression: Expression, whole: Span) -> Alternatives:
    """``(a || b) && c`` as ``a && c || b && c``."""
    if isinstance(expression, Either):
        found = tuple(one for operand in expression.operands for one in _distributed(operand, whole))
    elif isinstance(expression, Both):
        found = ((),)
        for operand in expression.operands:
            more = _distributed(operand, whole)
            _bounded(len(found) * len(more), whole)
            found = tuple((*left, *right) for left in found for right in more)
    else:
        assert isinstance(expression, Reference)
        return ((Destination(expression.kind, expression.path),),)
    _bounded(sum(map(len, found)), whole)
    return found


def _bounded(count: int, whole: Span) -> None:
    if count > MOST_DESTINATIONS:
        message = f"an output path may have {MOST_DESTINATIONS} destinations with all its alternatives"
        refuse("plan.bad-output-path", message, whole)
