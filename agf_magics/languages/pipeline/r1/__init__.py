"""R1, the expressions of a pipeline: small, total, without side effects.

`parse` gives an `R1`, which is an Expr of the flow layer. `closures` has its meaning.
"""

from __future__ import annotations

import re

from ....flow.step import Frame, Ref
from ....flow.values import Value
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Span, Text
from . import nodes
from .closures import Run, closure
from .hints import Failure
from .nodes import NO_NAMES, Names, Node
from .parse import parse_nodes

__all__ = ["R1", "Names", "parse"]

_NAME = re.compile("[A-Za-z0-9_]+")


class R1:
    """A parsed expression."""

    __slots__ = ("_reads", "_run", "_text", "node", "span")

    def __init__(self, text: Text, node: Node) -> None:
        self._text = text
        self._reads: tuple[Ref, ...] | None = None
        self._run: Run | None = None  # made by the first evaluation: many are only checked
        self.node = node
        self.span: Span = text.locate(0, len(text.text))

    def evaluate(self, frame: Frame) -> Value:
        """The value. Raises a StepError at the very token, and nothing else."""
        try:
            run = self._run
            if run is None:
                self._run = run = closure(self.node)
            return run(frame if type(frame) is dict else {})  # only an object has names
        except (Failure, RecursionError) as error:
            failure = self._failure(error)
        raise failure

    @property
    def text(self) -> str:
        return self._text.text

    def _failure(self, error: Failure | RecursionError) -> StepError:
        if isinstance(error, Failure):
            place = self._locate(error)
            failure = StepError(Diagnostic(error.code, error.message, place, error.hint))
            failure.is_unknown_name = error.is_unknown_name
            return failure
        message = "the stack is too full to evaluate this"
        return StepError(Diagnostic("r1.too-deep", message, self.span))

    def reads(self) -> tuple[Ref, ...]:
        """The resolved paths that it reads from its frame, in the order of the text."""
        if self._reads is None:
            self._reads = tuple(
                Ref(read.path, self.locate(read.at, read.end), read.certain, optional=read.optional)
                for read in nodes.reads(self.node)
            )
        return self._reads

    def locate(self, start: int, end: int) -> Span:
        """The place of the characters from ``start`` to ``end``."""
        return self._text.locate(start, end)

    def __repr__(self) -> str:
        return f"R1({self.text!r})"

    def _locate(self, failure: Failure) -> Span:
        start, width = failure.at, failure.width
        if failure.part >= 0:
            name = list(_NAME.finditer(self.text, start, start + width))[failure.part]
            start, width = name.start(), len(name[0])
        return self.locate(start, start + width)


def parse(text: Text, names: Names | None = None) -> R1:
    """The expression in ``text``, with the meaning of its names (None: they are those of the frame
    itself).

    Raises a DefinitionError with one Diagnostic, at its token, if it is malformed.

    >>> from agf_magics.text.source import Source
    >>> parse(Source("example", "ctx.n + 1").span()).evaluate({"ctx": {"n": 41}})
    42
    """
    return R1(text, parse_nodes(text, NO_NAMES if names is None else names))
