"""R1, the expressions of a pipeline: small, total, without side effects.

`parse` gives an `R1`, which is an Expr of the flow layer. It has two tiers: `walk` defines the semantics; `codegen`
makes a Python function of an expression that is evaluated often (decision D6).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ....flow.frame import Frame, Ref
from ....flow.values import Value
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Span, Text
from . import nodes
from .codegen import compile_expression
from .nodes import NO_NAMES, Names, Node
from .parse import parse_nodes
from .walk import ALLOWANCE, Failure
from .walk import walk as walk_tree

__all__ = ["R1", "Names", "parse"]

_NAME = re.compile("[A-Za-z0-9_]+")

COMPILED_AFTER = 100
"""Evaluations by the walk before an expression is compiled: together they cost about as much as compiling."""
WORK = 1_000
"""The same bound in the cost of loops, as `walk` counts it: a long list compiles at the first evaluation."""
_EVALUATION = WORK // COMPILED_AFTER


class R1:
    """A parsed expression. ``evaluate`` raises a StepError at the very token, and nothing else."""

    __slots__ = ("_allowance", "_loops", "_names", "_reads", "_text", "evaluate", "node", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, text: Text, node: Node, names: Names) -> None:
        self._text = text
        self._names = names
        self._reads: tuple[Ref, ...] | None = None
        self._allowance = [WORK]
        self._loops = "->" in text.text  # without a lambda there is no loop
        self.node = node
        self.span: Span = text.locate(0, len(text.text))
        self.evaluate = self._walk_or_compile

    def _walk_or_compile(self, frame: Frame) -> Value:
        """The value by the walk until it has cost much, and from then on by the compiled function."""
        allowance = self._allowance
        allowance[0] -= _EVALUATION
        if allowance[0] >= 0:
            if type(frame) is not dict:
                return self.walk(frame)
            try:
                return walk_tree(self.node, {**frame, ALLOWANCE: allowance} if self._loops else frame)
            except (Failure, RecursionError) as error:
                failure = self._failure(error)
            if allowance[0] >= 0:
                raise failure
        self.evaluate = compile_expression(self.node, self._names.stores, self.walk)
        return self.evaluate(frame)

    @property
    def text(self) -> str:
        return self._text.text

    def walk(self, frame: Frame) -> Value:
        """The value by the walk."""
        try:
            return walk_tree(self.node, frame if type(frame) is dict else {})  # only an object has names
        except (Failure, RecursionError) as error:
            failure = self._failure(error)
        raise failure

    def _failure(self, error: Failure | RecursionError) -> StepError:
        if isinstance(error, Failure):
            return StepError(Diagnostic(error.code, error.message, self._locate(error), error.hint))
        return StepError(Diagnostic("r1.too-deep", "the stack is too full to evaluate this", self.span))

    def reads(self) -> tuple[Ref, ...]:
        """The resolved paths that it reads from its frame, in the order of the text."""
        if self._reads is None:
            found = nodes.reads(self.node)
            self._reads = tuple(Ref(path, self.locate(at, end), certain) for path, at, end, certain in found)
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
    """The expression in ``text``, with the meaning of its names (None: they are those of the frame itself).

    Raises a DefinitionError with one Diagnostic, at its token, if it is malformed.

    >>> from agf_magics.text.source import Source
    >>> parse(Source("example", "ctx.n + 1").span()).evaluate({"ctx": {"n": 41}})
    42
    """
    names = NO_NAMES if names is None else names
    return R1(text, parse_nodes(text, names), names)
