"""The expressions, arguments and targets that languages share.

They add the places and references of the text to the functions that compute or store a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..text.source import Span
from ..values.value import Value
from .protocols import Expr, Frame, Name, Outcome, Ref


class Computed:
    """An Expr, and the Args of a call, that a function computes from the frame.

    - ``refs``: the paths that the function reads.
    - ``text``: the text in pictures; default: the text of the source.
    - ``names``: the names of the arguments, as in `Args.names`; default None: the text has none.
    """

    __slots__ = ("evaluate", "names", "refs", "span", "text")

    evaluate: Callable[[Frame], Value]
    names: tuple[tuple[str, Span | None], ...] | None

    def __init__(
        self,
        span: Span,
        evaluate: Callable[[Frame], Value],
        refs: tuple[Ref, ...] = (),
        text: str = "",
        names: tuple[tuple[str, Span | None], ...] | None = None,
    ) -> None:
        self.span = span
        self.evaluate = evaluate
        self.refs = refs
        self.text = text
        self.names = names

    def build(self, frame: Frame, wanted: object = None) -> Value:
        return self.evaluate(frame)

    def reads(self) -> tuple[Ref, ...]:
        return self.refs


@dataclass(slots=True, eq=False)
class Constant:
    """A value that stands in the text. The engine copies it at the boundary to user code."""

    span: Span
    value: Value

    def evaluate(self, frame: Frame) -> Value:
        return self.value

    def reads(self) -> tuple[Ref, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class NamedArguments:
    """The arguments of a call by name, each an expression of the text."""

    values: tuple[tuple[Name, Expr], ...]

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return tuple((name.text, name.span) for name, _ in self.values)

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        built: dict[str, Value] = {}
        for name, expr in self.values:  # faster than a comprehension, which takes twice the time
            built[name.text] = expr.evaluate(frame)
        return built

    def reads(self) -> tuple[Ref, ...]:
        return tuple(ref for _, expr in self.values for ref in expr.reads())

    def of(self, name: str, wanted: Mapping[str, Any] | None = None) -> tuple[Ref, ...]:
        """The references of the argument ``name``, which `lifecycle.definitions.influence`
        follows."""
        return NamedArguments(tuple(pair for pair in self.values if pair[0].text == name)).reads()

    def literals(self) -> Iterator[tuple[str, Span, Value]]:
        """The arguments whose value stands in the text, each with its place."""
        for name, expr in self.values:
            if isinstance(expr, Constant):
                yield name.text, expr.span, expr.value

    def literal_hint(self, value: Value) -> str | None:
        """The hint of the language for a literal that does not fit."""
        return None

    def written_out(self, name: str) -> bool:
        """Whether the argument ``name`` reads nothing and is not empty."""
        literals = {literal: value for literal, _, value in self.literals()}
        texts = (
            literals.get(name, getattr(expr, "value", getattr(expr, "text", name)))
            for argument, expr in self.values
            if argument.text == name
        )
        return not self.of(name) and any(text not in (None, "") for text in texts)


class Stored(NamedTuple):
    """A Target and Binding that puts the value into the frame with the function ``write``."""

    write: Callable[[Frame, Value], Frame]
    places: tuple[Ref, ...] = ()
    """The paths that ``write`` writes, for the checks and pictures."""

    def bind(self, frame: Frame, value: Value) -> Frame:
        return self.write(frame, value)

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return self.write(frame, outcome.value)

    def writes(self) -> tuple[Ref, ...]:
        return self.places
