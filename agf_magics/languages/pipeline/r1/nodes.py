"""The nodes of a parsed R1 expression, and what they tell before a run: the meaning of its names, what
it reads, and the shape of its value.

A node has the offset of the token that an error points at: an operator, the name of a function, a
path. The parser decides once whether ``review`` is a parameter of a lambda, a root or a store, so a
bare store name costs nothing in an evaluation. Operators that bind equally tightly form one node: a
long chain is not a deep tree.

The shape of a value finds errors before a run: `+` of a bool, a field that a schema does not have,
a comparison that is never equal. An unknown shape is None, and gives no finding. The rules are those
of closures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import Any, NamedTuple

from ....flow import shapes
from ....flow.shapes import (
    BOOL,
    NUMBER,
    TEXT,
    Look,
    PathFault,
    Shape,
    descend,
    either,
    list_of,
    part_that_is,
)
from ....flow.values import Value, equal
from ....text.diagnostics import Diagnostic, Span, suggest

STORES = ("ctx",)
"""The path of the named stores in a frame."""


@dataclass(frozen=True, slots=True)
class Names:
    """The meaning of the first name of a path at the place of an expression (decision P1).

    A parameter of a lambda comes first, then ``roots`` (each name with the path in the frame that
    it reads). Any other name is a store and reads ``(*stores, name)``, or the frame itself if
    ``stores`` is empty.
    """

    roots: Mapping[str, tuple[str, ...]]
    stores: tuple[str, ...] = STORES
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Names that are not visible here (``item`` in a nested ``do``, decision P19), each with the
    hint that says how to pass it.
    """

    def read(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        root = self.roots.get(parts[0])
        return (*self.stores, *parts) if root is None else root + parts[1:]


NO_NAMES = Names({}, ())


class Lit(NamedTuple):
    at: int
    value: Value


class Path(NamedTuple):
    at: int
    end: int
    parts: tuple[str, ...]
    """As written, for messages."""
    read: tuple[str | int, ...]
    """The path in the frame. The parameter of a lambda is the number of lambdas around its own: no
    name of a frame is equal to it.
    """
    hidden: str | None = None
    """For a name that is not visible here: how to pass it."""


class Items(NamedTuple):
    at: int
    items: tuple[Node, ...]


class Fields(NamedTuple):
    at: int
    fields: tuple[tuple[str, Node], ...]


class Not(NamedTuple):
    at: int
    operand: Node


class Minus(NamedTuple):
    at: int
    operand: Node


class Logic(NamedTuple):
    """``a and b and c``, or the same with ``or``."""

    at: int
    op: str
    parts: tuple[Node, ...]


class Compare(NamedTuple):
    at: int
    op: str
    left: Node
    right: Node


class Operation(NamedTuple):
    """An operator and its right operand."""

    at: int
    op: str
    operand: Node


class Arithmetic(NamedTuple):
    """``a + b - c`` or ``a * b / c``, from the left."""

    at: int
    first: Node
    rest: tuple[Operation, ...]


class Each(NamedTuple):
    """``map``, ``filter``, ``all``, ``any`` or ``find``: the body is evaluated for every
    element."""

    at: int
    name: str
    base: Node
    param: str
    body: Node
    level: int
    """The number of lambdas around this one: the name of its parameter in `Path.read`."""
    weight: int
    """The cost of one evaluation of the body: its number of tokens."""


class Call(NamedTuple):
    """``count``, ``sum``, ``join``, ``parse_json`` or ``text``."""

    at: int
    name: str
    args: tuple[Node, ...]


class Get(NamedTuple):
    at: int
    base: Node
    key: str
    key_at: tuple[int, int]
    default: Node | None


Node = Lit | Path | Items | Fields | Not | Minus | Logic | Compare | Arithmetic | Each | Call | Get

EACH = ("map", "filter", "all", "any", "find")
FORMS = {
    **{name: f"{name}(list, x -> expression)" for name in EACH},
    "count": "count(list)",
    "sum": "sum(list)",
    "join": "join(list, separator)",
    "parse_json": "parse_json(text)",
    "text": "text(value)",
    "get": "get(base, 'a.b', default)",
}
"""How each combinator is written. A new one of expressions alone needs a row here, its meaning in
`closures.CALLS` and its shape in `RETURNS`."""
COMBINATORS = tuple(FORMS)
KEYWORDS = {"true", "false", "null", "and", "or", "not"}

POWER = {
    "or": 1,
    "and": 2,
    "==": 4,
    "!=": 4,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
}
"""How tightly an infix operator binds; ``not`` binds between ``and`` and the comparisons, a sign
most tightly."""
NOT, COMPARING, SIGN = 3, 4, 7


_CHILDREN: Mapping[type, Callable[[Any], tuple[Node, ...]]] = {
    Lit: lambda node: (),
    Path: lambda node: (),
    Items: attrgetter("items"),
    Call: attrgetter("args"),
    Logic: attrgetter("parts"),
    Fields: lambda node: tuple(value for _, value in node.fields),
    Not: lambda node: (node.operand,),
    Minus: lambda node: (node.operand,),
    Compare: attrgetter("left", "right"),
    Arithmetic: lambda node: (node.first, *(operation.operand for operation in node.rest)),
    Each: attrgetter("base", "body"),
    Get: lambda node: (node.base, *filter(None, (node.default,))),
}


def children(node: Node) -> tuple[Node, ...]:
    """In the order of the text."""
    return _CHILDREN[type(node)](node)


def nested(node: Node) -> Iterator[Node]:
    """``node`` and all below it, in the order of the text."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


class Read(NamedTuple):
    """A path that an expression reads from its frame, its place, and whether every evaluation reads
    it."""

    path: tuple[str, ...]
    at: int
    end: int
    certain: bool
    optional: bool = False
    """Whether `get` has a default for it."""


def reads(node: Node, certain: bool = True) -> Iterator[Read]:
    """In the order of the text, without the parameters of lambdas."""
    match node:
        case Path():
            if (path := _in_frame(node)) is not None:
                yield Read(path, node.at, node.end, certain)
        case Get():
            base = _in_frame(node.base) if isinstance(node.base, Path) else None
            if base is None or len(base) > 1:  # get(ctx, 'a') reads ctx.a, not every store
                yield from reads(node.base, certain)
            if base is not None:
                yield Read((*base, *node.key.split(".")), *node.key_at, False, True)
            if node.default is not None:
                yield from reads(node.default, certain)
        case _:
            # What `and`, `or` and a lambda evaluate besides depends on values.
            besides = certain and not isinstance(node, (Logic, Each))
            for index, child in enumerate(children(node)):
                yield from reads(child, besides if index else certain)


def _in_frame(path: Path) -> tuple[str, ...] | None:
    # Only its first name can be the parameter of a lambda.
    return None if isinstance(path.read[0], int) else path.read  # type: ignore[return-value]


def literal(value: Value) -> str:
    """A text, a number, a bool or null as R1 writes it."""
    if isinstance(value, str):
        escaped = (
            value.replace("\\", "\\\\")
            .replace("'", "\\'")
            .replace("\n", "\\n")
            .replace("\t", "\\t")
        )
        return f"'{escaped}'"
    if isinstance(value, float):
        whole = format(Decimal(repr(value)), "f")  # R1 has no exponents
        return whole if "." in whole else whole + ".0"
    return "null" if value is None else str(value).lower()


_LITERALS = {
    **{name: name for name in ("true", "false", "null")},
    **dict.fromkeys(("none", "nil", "undefined"), "null"),
}


def spelling(name: str) -> str | None:
    """The hint for a literal of another language or in the wrong case."""
    literal = _LITERALS.get(name.lower())
    return literal and f"write: {literal}"


_HOLE = re.compile(r"\{\{?([^{}]*)\}\}?")


def concatenation(text: str) -> str:
    """An expression for a text with holes.

    >>> concatenation("Hello {ctx.name}!")
    "'Hello ' + ctx.name + '!'"
    """
    parts = _HOLE.split(text)
    return " + ".join(
        part.strip() if index % 2 else literal(part) for index, part in enumerate(parts) if part
    )


KINDS = {"+": ("number", "text", "list"), "-": ("number",), "*": ("number",), "/": ("number",)}
RETURNS = {"count": (NUMBER, ""), "sum": (NUMBER, "number"), "join": (TEXT, "text")}
"""The shape of the value of a function, and of the elements of its list."""
ORDERED = ("number", "text")
NEEDS = {"+": "two numbers, two texts or two lists", "<": "two numbers or two texts"}


class Split(NamedTuple):
    """The shapes of a value that is true and of one that is false: `and` and `or` select one."""

    yes: tuple[Shape | None, ...]
    no: tuple[Shape | None, ...]


class Inference:
    """One expression."""

    def __init__(
        self,
        locate: Callable[[int, int], Span],
        look: Look,
        found: list[Diagnostic],
        repeated: bool,
    ) -> None:
        self.locate, self.look, self.found, self.repeated = locate, look, found, repeated
        self.params: list[Shape | None] = []
        """The shape of the parameter of each lambda around."""

    def shape(self, node: Node, certain: bool) -> Shape | None:
        """``certain``: whether ``node`` is evaluated whenever the expression is."""
        return SHAPES[type(node)](self, node, certain or self.repeated)

    def error(
        self, message: str, at: int, width: int, certain: bool, hint: str | None = None
    ) -> None:
        place = self.locate(at, at + width)
        self.found.append(
            Diagnostic("r1.type", message, place, hint, "error" if certain else "warning")
        )

    def need(
        self, kind: str, shape: Shape | None, what: str, at: int, width: int, certain: bool
    ) -> None:
        """Report a value that is certainly not of the kind that ``what`` says is needed."""
        if kind not in kinds_of(shape):
            self.error(f"{what}, not {shape}", at, width, certain)

    def fault(self, fault: PathFault | None, at: int, end: int, certain: bool) -> None:
        if fault is not None:
            self.found.append(fault.told(self.locate(at, end), certain))

    def literal(self, node: Lit, certain: bool) -> Shape | None:
        return shapes.literal(node.value)

    def path(self, node: Path, certain: bool) -> Shape | None:
        first = node.read[0]
        if isinstance(first, int):
            shape, fault = descend(self.params[first], node.parts[1:])
        else:
            shape, fault = self.look(node.read)  # type: ignore[arg-type]  # without a parameter it is all names
        self.fault(fault, node.at, node.end, certain)
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
        self.need("number", shape, "'-' needs a number", node.at, 1, certain)
        return NUMBER

    def choice(self, node: Logic, certain: bool) -> Shape | None:
        split = self.split(node, certain)
        return either((*split.yes, *split.no))

    def split(self, node: Node, certain: bool) -> Split:
        if isinstance(node, Logic):
            left = self.split(node.parts[0], certain)
            for part in node.parts[1:]:
                right = self.split(part, False)
                if node.op == "and" and left.yes:
                    left = Split(right.yes, (*left.no, *right.no))
                elif node.op == "or" and left.no:
                    left = Split((*left.yes, *right.yes), right.no)
            return left
        shape = self.shape(node, certain)
        if shape is None:
            return Split((None,), (None,))
        yes, no = part_that_is(True, shape), part_that_is(False, shape)
        return Split((yes,) if yes else (), (no,) if no else ())

    def compare(self, node: Compare, certain: bool) -> Shape | None:
        left, right = self.shape(node.left, certain), self.shape(node.right, certain)
        if left is None or right is None:
            return BOOL
        if node.op not in ("==", "!="):
            if (left.kinds & right.kinds).isdisjoint(ORDERED):
                message = f"{node.op!r} needs {NEEDS['<']}, not {left} and {right}"
                self.error(message, node.at, len(node.op), certain)
        elif not _can_equal(left, right):
            words = [
                value
                for shape in (left, right)
                for value in shape.values or ()
                if isinstance(value, str)
            ]
            hint = suggest(words[-1], words[:-1]) or suggest(words[0], words[1:]) if words else None
            message = f"{_shown(left)} never equals {_shown(right)}"
            place = self.locate(node.at, node.at + 2)
            self.found.append(Diagnostic("r1.never-equal", message, place, hint, "warning"))
        return BOOL

    def arithmetic(self, node: Arithmetic, certain: bool) -> Shape | None:
        left = self.shape(node.first, certain)
        for operation in node.rest:
            left = self.operation(operation, left, self.shape(operation.operand, certain), certain)
        return left

    def operation(
        self, node: Operation, left: Shape | None, right: Shape | None, certain: bool
    ) -> Shape | None:
        works = [kind for kind in KINDS[node.op] if kind in kinds_of(left) & kinds_of(right)]
        if not works:
            given = f"{left or 'something'} and {right or 'something'}"
            needs = NEEDS.get(node.op, "two numbers")
            self.error(f"{node.op!r} needs {needs}, not {given}", node.at, 1, certain)
        if len(works) != 1:
            return None
        if works == ["list"]:
            return list_of(either([left.of if left else None, right.of if right else None]))
        return NUMBER if works == ["number"] else TEXT

    def elements(self, shape: Shape | None, node: Each | Call, certain: bool) -> Shape | None:
        """The shape of the elements of a combinator's list."""
        self.need("list", shape, f"{node.name} needs a list", node.at, len(node.name), certain)
        return shape and shape.of

    def each(self, node: Each, certain: bool) -> Shape | None:
        base = self.shape(node.base, certain)
        element = self.elements(base, node, certain)
        self.params.append(element)
        body = self.shape(node.body, False)
        self.params.pop()
        if node.name == "map":
            return list_of(body)
        if node.name == "find":
            return either([element, shapes.literal(None)])
        return list_of(element) if node.name == "filter" else BOOL

    def call(self, node: Call, certain: bool) -> Shape | None:
        if node.name == "text":
            self.shape(node.args[0], certain)
            return TEXT
        if node.name == "parse_json":
            text = self.shape(node.args[0], certain)
            self.need("text", text, "parse_json needs a text", node.at, len(node.name), certain)
            return None
        element = self.elements(self.shape(node.args[0], certain), node, certain)
        result, wanted = RETURNS[node.name]
        if wanted and wanted not in kinds_of(element):
            # An empty list is fine, so this is never certain.
            message = f"{node.name} needs a list of {wanted}s, not of {element}"
            self.error(message, node.at, len(node.name), False)
        for arg in node.args[1:]:
            separator = self.shape(arg, certain)
            self.need("text", separator, "the separator of join is a text", node.at, 4, certain)
        return result

    def get(self, node: Get, certain: bool) -> Shape | None:
        default = (
            shapes.literal(None) if node.default is None else self.shape(node.default, certain)
        )
        keys = tuple(node.key.split("."))
        if isinstance(node.base, Path) and not isinstance(node.base.read[0], int):
            shape, fault = self.look((*map(str, node.base.read), *keys))
        else:
            shape, fault = descend(self.shape(node.base, certain), keys)
        if fault is not None and fault.name not in fault.within.optional:
            # get is for a field that may be absent
            self.fault(fault, *node.key_at, False)
        return either([shape, default])


def kinds_of(shape: Shape | None) -> frozenset[str]:
    """The kinds of a value that an operator may take."""
    return frozenset(KINDS["+"]) if shape is None else shape.kinds


def _can_equal(left: Shape, right: Shape) -> bool:
    if left.values is not None and right.values is not None:
        return any(equal(a, b) for a in left.values for b in right.values)
    return not _comparable(left).isdisjoint(_comparable(right))


def _comparable(shape: Shape) -> frozenset[str]:
    """true equals 1 (decision P17)."""
    return shape.kinds | {"number"} if "bool" in shape.kinds else shape.kinds


def _shown(shape: Shape) -> str:
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
