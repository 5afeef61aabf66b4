"""Infers the shape of an R1 expression's value before a run, and finds operands that can never fit.

Such errors are `+` of a bool, a field that a schema does not have, a comparison that is never true.
An unknown shape is None, and causes no problem. The rules are the same as in the module closures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ....schemas import shapes
from ....schemas.shape_paths import FindShape, PathFault, descend
from ....schemas.shapes import BOOL, NUMBER, TEXT, Shape, either, list_of, narrow
from ....text.diagnostics import Diagnostic
from ....text.source import Span
from ....text.suggestions import suggest
from ....values.value import equal
from .nodes import (
    Arithmetic,
    Call,
    Compare,
    Each,
    Fields,
    Get,
    Items,
    Lit,
    Logic,
    Minus,
    Node,
    Not,
    Operation,
    Path,
)

KINDS = {"+": ("number", "text", "list"), "-": ("number",), "*": ("number",), "/": ("number",)}
"""The kinds that each arithmetic operator takes; both operands must be of one of them."""
ORDERED = ("number", "text")
"""The kinds that have an order."""
NEEDS = {"+": "two numbers, two texts or two lists", "<": "two numbers or two texts"}
"""The operands of an operator in messages; ``<`` stands for all orders, any other operator needs
two numbers."""


class Split(NamedTuple):
    """The shapes of a value that is true and of one that is false: `and` and `or` select one.

    An empty side: the value is never true, or never false.
    """

    yes: tuple[Shape | None, ...]
    no: tuple[Shape | None, ...]


DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
YEAR = 4
"""Characters of a year."""
DAY_AFTER_MONTH = 3
"""Characters from one ``-`` of a date to the next one."""


class Inference:
    """The inference of one expression. ``repeated``: whether it is evaluated for each item of a
    list, so that even the part after ``and`` counts as evaluated."""

    def __init__(
        self,
        locate: Callable[[int, int], Span],
        look: FindShape,
        problems: list[Diagnostic],
        repeated: bool,
    ) -> None:
        self.locate = locate
        self.look = look
        self.problems = problems
        self.repeated = repeated
        self.params: list[Shape | None] = []
        """The shape of the parameter of each lambda around."""

    def shape(self, node: Node, certain: bool) -> Shape | None:
        """The shape of the value of ``node``; None: unknown. ``certain``: whether ``node`` is
        evaluated whenever the expression is."""
        return SHAPES[type(node)](self, node, certain or self.repeated)

    def error(
        self, message: str, offset: int, width: int, certain: bool, hint: str | None = None
    ) -> None:
        place = self.locate(offset, offset + width)
        self.problems.append(
            Diagnostic("r1.type", message, place, hint, "error" if certain else "warning")
        )

    def need(
        self, kind: str, shape: Shape | None, needs: str, offset: int, width: int, certain: bool
    ) -> None:
        """Report a value that is certainly not of ``kind``. ``needs``: the begin of the message."""
        if kind not in kinds_of(shape):
            self.error(f"{needs}, not {shape}", offset, width, certain)

    def fault(self, fault: PathFault | None, offset: int, end: int, certain: bool) -> None:
        if fault is not None:
            self.problems.append(fault.diagnostic(self.locate(offset, end), certain))

    def literal(self, node: Lit, certain: bool) -> Shape | None:
        return shapes.literal(node.value)

    def path(self, node: Path, certain: bool) -> Shape | None:
        first, *_ = node.read
        if isinstance(first, int):
            shape, fault = descend(self.params[first], node.parts[1:])
        else:
            shape, fault = self.look(node.read)  # type: ignore[arg-type]  # without a parameter it is all names
        self.fault(fault, node.offset, node.end, certain)
        return shape

    def items(self, node: Items, certain: bool) -> Shape | None:
        return list_of(either([self.shape(item, certain) for item in node.items]))

    def fields(self, node: Fields, certain: bool) -> Shape | None:
        fields = {key: self.shape(value, certain) for key, value in node.fields}
        return Shape(frozenset({"object"}), fields=fields, closed=True)

    def inverted(self, node: Not, certain: bool) -> Shape | None:
        self.shape(node.operand, certain)
        return BOOL

    def minus(self, node: Minus, certain: bool) -> Shape | None:
        shape = self.shape(node.operand, certain)
        self.need("number", shape, "'-' needs a number", node.offset, 1, certain)
        return NUMBER

    def choice(self, node: Logic, certain: bool) -> Shape | None:
        split = self.split(node, certain)
        return either((*split.yes, *split.no))

    def split(self, node: Node, certain: bool) -> Split:
        """The shapes of the value if it is true, and if it is false: ``ctx.n and 'many'`` with a
        number ``n`` is ``'many'``, or a number (0); so ``ctx.n and 'many' or 'none'`` is one of two
        texts."""
        if isinstance(node, Logic):
            first, *others = node.parts
            whole = self.split(first, certain)
            for part in others:
                other = self.split(part, certain=False)
                if node.op == "and" and whole.yes:
                    whole = Split(other.yes, (*whole.no, *other.no))
                elif node.op == "or" and whole.no:
                    whole = Split((*whole.yes, *other.yes), other.no)
            return whole
        shape = self.shape(node, certain)
        if shape is None:
            return Split((None,), (None,))
        yes = narrow(shape, True)
        no = narrow(shape, False)
        return Split((yes,) if yes else (), (no,) if no else ())

    def compare(self, node: Compare, certain: bool) -> Shape | None:
        left = self.shape(node.left, certain)
        right = self.shape(node.right, certain)
        if left is None or right is None:
            return BOOL
        if node.op not in ("==", "!="):
            if (left.kinds & right.kinds).isdisjoint(ORDERED):
                message = f"{node.op!r} needs {NEEDS['<']}, not {left} and {right}"
                self.error(message, node.offset, len(node.op), certain)
        elif not _can_equal(left, right):
            message = f"{_shape_words(left)} never equals {_shape_words(right)}"
            place = self.locate(node.offset, node.offset + 2)
            self.problems.append(
                Diagnostic("r1.never-equal", message, place, _similar(left, right), "warning")
            )
        return BOOL

    def arithmetic(self, node: Arithmetic, certain: bool) -> Shape | None:
        self.date(node)
        result = self.shape(node.first, certain)
        for operation in node.rest:
            operand = self.shape(operation.operand, certain)
            result = self.operation(operation, result, operand, certain)
        return result

    def date(self, node: Arithmetic) -> None:
        """Report ``2026-01-02``, which is 2023 here: there are no dates."""
        signs = [operation.offset for operation in node.rest[:2] if operation.op == "-"]
        is_year = isinstance(node.first, Lit) and node.first.value in range(10**YEAR)
        if len(signs) < 2 or not is_year or signs[0] < YEAR:
            return
        place = self.locate(signs[0] - YEAR, signs[1] + DAY_AFTER_MONTH)
        if DATE.fullmatch(place.text):
            message = f"{place.text} is a subtraction: there are no dates here"
            hint = f"write: '{place.text}'"
            self.problems.append(Diagnostic("r1.date", message, place, hint, "warning"))

    def operation(
        self, node: Operation, left: Shape | None, right: Shape | None, certain: bool
    ) -> Shape | None:
        common = [kind for kind in KINDS[node.op] if kind in kinds_of(left) & kinds_of(right)]
        if not common:
            operands = f"{left or 'something'} and {right or 'something'}"
            needs = NEEDS.get(node.op, "two numbers")
            self.error(f"{node.op!r} needs {needs}, not {operands}", node.offset, 1, certain)
        if len(common) != 1:
            return None
        if common == ["list"]:
            return list_of(either([left.of if left else None, right.of if right else None]))
        return NUMBER if common == ["number"] else TEXT

    def argument(
        self, node: Each | Call | Get, index: int, argument: Node, certain: bool
    ) -> Shape | None:
        """The shape of an argument of a function, which must be of the kind that its row says."""
        shape = self.shape(argument, certain)
        wanted = node.function.arguments[index]
        if wanted.kind in KINDS["+"]:
            needs = node.function.needs(index)
            self.need(wanted.kind, shape, needs, node.offset, len(node.name), certain)
        element = shape and shape.of
        if wanted.of and wanted.of not in kinds_of(element):
            # An empty list is fine, so this is never certain.
            message = f"{node.name} needs a list of {wanted.of}s, not of {element}"
            self.error(message, node.offset, len(node.name), False)
        return shape

    def each(self, node: Each, certain: bool) -> Shape | None:
        items = self.argument(node, 0, node.base, certain)
        self.params.append(items and items.of)
        body = self.shape(node.body, certain=False)
        self.params.pop()
        return node.function.returns(items, body)

    def call(self, node: Call, certain: bool) -> Shape | None:
        arguments = enumerate(node.args)
        return node.function.returns(
            *(self.argument(node, index, argument, certain) for index, argument in arguments)
        )

    def get(self, node: Get, certain: bool) -> Shape | None:
        default = shapes.literal(None)
        if node.default is not None:
            default = self.shape(node.default, certain)
        keys = tuple(node.key.split("."))
        if isinstance(node.base, Path) and not isinstance(node.base.read[0], int):
            shape, fault = self.look((*map(str, node.base.read), *keys))
        else:
            shape, fault = descend(self.shape(node.base, certain), keys)
        # `get` is for a field that may be absent.
        if fault is not None and fault.name not in fault.within.optional:
            self.fault(fault, *node.key_at, False)
        return node.function.returns(None, shape, default)


def kinds_of(shape: Shape | None) -> frozenset[str]:
    """The kinds of a value of ``shape``; of an unknown one all that an operator may take."""
    return frozenset(KINDS["+"]) if shape is None else shape.kinds


def _can_equal(left: Shape, right: Shape) -> bool:
    if left.values is not None and right.values is not None:
        return any(equal(a, b) for a in left.values for b in right.values)
    return not _comparable(left).isdisjoint(_comparable(right))


def _similar(left: Shape, right: Shape) -> str | None:
    """The hint for a text that is compared with others and may be misspelt."""
    values = (value for shape in (left, right) for value in shape.values or ())
    words = [value for value in values if isinstance(value, str)]
    if not words:
        return None
    first, *others = words
    *before, last = words
    return suggest(last, before) or suggest(first, others)


def _comparable(shape: Shape) -> frozenset[str]:
    """The kinds of values that may equal a value of this shape: true equals 1 (decision P17)."""
    return shape.kinds | {"number"} if "bool" in shape.kinds else shape.kinds


def _shape_words(shape: Shape) -> str:
    if shape.values is None or len(shape.values) > 5 or shape == BOOL:
        return str(shape)
    return " or ".join(
        repr(value) if isinstance(value, str) else json.dumps(value) for value in shape.values
    )


SHAPES: Mapping[type, Callable[[Inference, Any, bool], Shape | None]] = {
    Lit: Inference.literal,
    Path: Inference.path,
    Items: Inference.items,
    Fields: Inference.fields,
    Not: Inference.inverted,
    Minus: Inference.minus,
    Logic: Inference.choice,
    Compare: Inference.compare,
    Arithmetic: Inference.arithmetic,
    Each: Inference.each,
    Call: Inference.call,
    Get: Inference.get,
}
