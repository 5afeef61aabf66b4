"""R1, the expressions of a pipeline: small, total, without side effects.

`parse` gives an `R1`, which is an Expr of the flow layer. What R1 means is `walk`; what is run is `compile`: the same
as closures, which may raise anything where something is unusual, and then the walk finds the value or the precise
error. That is sound because evaluating changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ....flow.frame import Frame, Ref
from ....flow.values import Value
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Span, Text
from . import nodes
from .compile import compile_nodes
from .nodes import NO_NAMES, Names, Node, show
from .parse import parse as parse_nodes
from .walk import Wrong, walk

__all__ = ["R1", "Names", "parse", "show"]

_NAME = re.compile("[A-Za-z0-9_]+")


class R1:
    """A parsed expression. ``evaluate`` raises a StepError at the very token, and nothing else.

    It is compiled when it is first evaluated: most of what is loaded is only checked and drawn, and loading is a fifth
    faster for it.
    """

    __slots__ = ("_names", "_reads", "_text", "evaluate", "node", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, text: Text, node: Node, names: Names) -> None:
        self._text = text
        self._names = names
        self._reads: tuple[Ref, ...] | None = None
        self.node = node
        self.span: Span = text.locate(0, len(text.text))
        self.evaluate = self._first

    def _first(self, frame: Frame) -> Value:
        self.evaluate = compile_nodes(self.node, self._names.stores, self.walk)
        return self.evaluate(frame)

    @property
    def text(self) -> str:
        return self._text.text

    def walk(self, frame: Frame, known: Wrong | None = None) -> Value:
        """The value by the exact walk; ``known``: what is wrong, where that is known already."""
        try:
            if known is not None:
                raise known
            return walk(self.node, frame)
        except Wrong as wrong:
            error = StepError(Diagnostic(wrong.code, wrong.message, self._locate(wrong), wrong.hint))
        except RecursionError:
            error = StepError(
                Diagnostic("r1.too-deep", "there is no room left on the stack to evaluate this", self.span)
            )
        raise error

    def reads(self) -> tuple[Ref, ...]:
        """What it reads from its frame, in the order of the text, by the resolved path."""
        if self._reads is None:
            locate = self._text.locate
            self._reads = tuple(
                Ref(read.path, locate(read.at, read.end), read.certain) for read in nodes.reads(self.node)
            )
        return self._reads

    def __repr__(self) -> str:
        return f"R1({self.text!r})"

    def _locate(self, wrong: Wrong) -> Span:
        start, width = wrong.at, wrong.width
        if wrong.part >= 0:
            name = list(_NAME.finditer(self.text, start, start + width))[wrong.part]
            start, width = name.start(), len(name[0])
        return self._text.locate(start, start + width)


def parse(text: Text, names: Names | None = None) -> R1:
    """The expression that ``text`` is, its names read as ``names`` says (None: from the frame itself).

    A DefinitionError with one Diagnostic, at the very token, if it is none.

    >>> from agf_magics.text.source import Source
    >>> parse(Source("example", "ctx.n + 1").span()).evaluate({"ctx": {"n": 41}})
    42
    """
    names = NO_NAMES if names is None else names
    return R1(text, parse_nodes(text, names), names)
