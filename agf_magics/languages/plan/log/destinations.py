"""Parses the output path of a call into alternative destinations.

The notation is the same as for references. ``&&`` writes a result to all destinations. ``||``
separates alternatives: a value is written to the first alternative, a failure to the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations, islice, product
from typing import Final, NamedTuple, NoReturn

from ....text.diagnostics import DefinitionError, Diagnostic
from ....text.source import Span, Text
from .reference import KIND, SIGNS, Both, Expression, Literal, Reference, as_written, parse, sign_of

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

    def written(self, sign: str) -> str:
        """The text of the place with the sign that its author uses."""
        return as_written(Reference(self.kind, self.path, sign=sign))


Alternatives = tuple[tuple[Destination, ...], ...]
"""The alternatives of an output path. One alternative is selected, and the result is written to all
its destinations."""


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
    alternatives = _distribute(expression, whole)
    for destinations in alternatives:
        for first, second in combinations(destinations, 2):
            if first.kind == second.kind and overlap(first.path, second.path):
                message = f"the output path writes to {first} and to {second}, which overlap"
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
    for operand in expression.operands:
        _check_operands(operand, whole)


def _distribute(expression: Expression, whole: Span) -> Alternatives:
    """``(a || b) && c`` as ``a && c || b && c``."""
    if isinstance(expression, Reference):
        return ((Destination(expression.kind, expression.path),),)
    inner = [_distribute(operand, whole) for operand in expression.operands]
    ways: Iterable[tuple[Destination, ...]] = chain(*inner)
    if isinstance(expression, Both):
        ways = map(tuple, map(chain.from_iterable, product(*inner)))
    # The product of short lists may be very long, so it is computed only until it is too long.
    alternatives = tuple(islice(ways, MOST_DESTINATIONS + 1))
    if sum(map(len, alternatives)) > MOST_DESTINATIONS:
        _refuse(f"an output path may have at most {MOST_DESTINATIONS} destinations", whole)
    return alternatives
