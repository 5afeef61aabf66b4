"""The output path of a call, parsed to alternatives of which one is selected.

The notation is that of references. ``&&`` writes a result to all destinations; ``||`` separates
alternatives: a value is written to the first one, a failure to the last one.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.source import Span, Text
from .reference import (
    KIND,
    SIGNS,
    Both,
    Either,
    Expression,
    Literal,
    Reference,
    as_written,
    parse,
    sign_of,
)

MOST_DESTINATIONS: Final = 64
"""The most destinations of one output path, all alternatives together."""


def _refuse(message: str, span: Span, hint: str | None = None) -> NoReturn:
    raise DefinitionError(Diagnostic("plan.bad-output-path", message, span, hint))


class Destination(NamedTuple):
    """A place that a result is written to."""

    kind: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return str(Reference(self.kind, self.path))


Alternatives = tuple[tuple[Destination, ...], ...]
"""One is selected; the result is written to all its destinations."""


def parse_output(text: Text, sign: str = SIGNS[0]) -> Alternatives:
    """Parse an ``_outputPath``. ``sign``: the sign of hints where the text itself has none.

    Raises DefinitionError: ``plan.bad-output-path`` and those of `parse`.
    """
    whole = text.locate(0, len(text.text))
    if not text.text.lstrip().lstrip("(").lstrip().startswith(SIGNS):
        path = text.text.strip()
        hint = f"write {sign}{path}" if KIND.match(path) else f"for example {sign}state.result"
        _refuse("an output path must begin with † or $", whole, hint)
    expression = parse(text)
    _check_operands(expression, whole)
    alternatives = _distributed(expression, whole)
    for destinations in alternatives:
        for i, one in enumerate(destinations):
            for other in destinations[:i]:
                if one.kind == other.kind and overlap(one.path, other.path):
                    message = f"the output path writes to {other} and to {one}, which overlap"
                    hint = "keep one of them, or join alternatives with ||"
                    _refuse(message.replace("†", sign_of(text.text)), whole, hint)
    return alternatives


def overlap(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether one path equals or contains the other."""
    least = min(len(a), len(b))
    return a[:least] == b[:least]


def _check_operands(expression: Expression, whole: Span) -> None:
    if isinstance(expression, Literal):
        message = f"an output path is made of references: cannot write to {expression}"
        _refuse(message, expression.span or whole)
    if isinstance(expression, Reference) and expression.instance is not None:
        message = f"an output path cannot select an instance: {as_written(expression)}"
        hint = "a call writes to its own instance; _instance: NAME sets it"
        _refuse(message, expression.span or whole, hint)
    if isinstance(expression, Either | Both):
        for operand in expression.operands:
            _check_operands(operand, whole)


def _distributed(expression: Expression, whole: Span) -> Alternatives:
    """``(a || b) && c`` as ``a && c || b && c``."""
    if isinstance(expression, Either):
        found = tuple(
            one for operand in expression.operands for one in _distributed(operand, whole)
        )
    elif isinstance(expression, Both):
        found = ((),)
        for operand in expression.operands:
            more = _distributed(operand, whole)
            _check_count(len(found) * len(more), whole)
            found = tuple((*left, *right) for left in found for right in more)
    else:
        assert isinstance(expression, Reference)
        return ((Destination(expression.kind, expression.path),),)
    _check_count(sum(map(len, found)), whole)
    return found


def _check_count(count: int, whole: Span) -> None:
    if count > MOST_DESTINATIONS:
        _refuse(f"an output path may have at most {MOST_DESTINATIONS} destinations", whole)
