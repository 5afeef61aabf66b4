"""The nodes of a parsed R1 expression, with the paths that they read.

A node has the offset of the token at which an error points: an operator, the name of a function, a
path. The parser decides once whether ``review`` is a parameter of a lambda, a root or a store, so a
bare store name costs nothing in an evaluation. Operators of the same precedence form one node, so
that a long chain is not a deep tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from ....values.value import Value
from .row import Function

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
        """The path in the frame of the dotted path ``parts``."""
        root = self.roots.get(parts[0])
        return (*self.stores, *parts) if root is None else root + parts[1:]


NO_NAMES = Names({}, ())
"""The names of an expression alone: every name is one of the frame."""


class Lit(NamedTuple):
    offset: int
    value: Value


class Path(NamedTuple):
    offset: int
    end: int
    parts: tuple[str, ...]
    """The text of the path, for messages."""
    read: tuple[str | int, ...]
    """The path in the frame. The parameter of a lambda is written as a number, the number of
    lambdas around that lambda, because no name in a frame is equal to a number.
    """
    hidden_hint: str | None = None
    """The hint how to pass a name that is not visible here."""


class Items(NamedTuple):
    offset: int
    items: tuple[Node, ...]


class Fields(NamedTuple):
    offset: int
    fields: tuple[tuple[str, Node], ...]


class Not(NamedTuple):
    offset: int
    operand: Node


class Minus(NamedTuple):
    offset: int
    operand: Node


class Logic(NamedTuple):
    """``a and b and c``, or the same with ``or``."""

    offset: int
    op: str
    parts: tuple[Node, ...]


class Compare(NamedTuple):
    offset: int
    op: str
    left: Node
    right: Node


class Operation(NamedTuple):
    """An operator and its right operand."""

    offset: int
    op: str
    operand: Node


class Arithmetic(NamedTuple):
    """``a + b - c`` or ``a * b / c``, from the left."""

    offset: int
    first: Node
    rest: tuple[Operation, ...]


class Each(NamedTuple):
    """A function with a lambda: the body is evaluated for every element."""

    offset: int
    function: Function
    base: Node
    param: str
    body: Node
    level: int
    """The number of lambdas around this one: the name of its parameter in `Path.read`."""
    weight: int
    """The cost of one evaluation of the body: its number of tokens."""

    @property
    def name(self) -> str:
        return self.function.name


class Call(NamedTuple):
    """A function of values."""

    offset: int
    function: Function
    args: tuple[Node, ...]

    @property
    def name(self) -> str:
        return self.function.name


class Get(NamedTuple):
    """A function that reads a field by its path: ``get``."""

    offset: int
    function: Function
    base: Node
    key: str
    """The dotted path."""
    key_at: tuple[int, int]
    """The begin and the end of the text literal with the path."""
    default: Node | None
    """None: the default is null."""

    @property
    def name(self) -> str:
        return self.function.name


Node = Lit | Path | Items | Fields | Not | Minus | Logic | Compare | Arithmetic | Each | Call | Get

KEYWORDS = {"true", "false", "null", "and", "or", "not"}
"""Words that are no names."""


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
    """The nodes directly inside ``node``, in the order of the text."""
    return _CHILDREN[type(node)](node)


def nodes_in(node: Node) -> Iterator[Node]:
    """``node`` and all nodes inside it, in the order of the text."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


class Read(NamedTuple):
    """A path that an expression reads from its frame, its place, and whether every evaluation reads
    it."""

    path: tuple[str, ...]
    offset: int
    end: int
    certain: bool
    optional: bool = False
    """Whether `get` has a default for it."""


def reads(node: Node, certain: bool = True) -> Iterator[Read]:
    """The paths that ``node`` reads from the frame, in the order of the text. ``certain``: whether
    every evaluation of the expression evaluates ``node``."""
    match node:
        case Path():
            if (path := _in_frame(node)) is not None:
                yield Read(path, node.offset, node.end, certain)
        case Get():
            base = _in_frame(node.base) if isinstance(node.base, Path) else None
            if base is None or len(base) > 1:  # get(ctx, 'a') reads ctx.a, not every store
                yield from reads(node.base, certain)
            if base is not None:
                yield Read((*base, *node.key.split(".")), *node.key_at, False, True)
            if node.default is not None:
                yield from reads(node.default, certain)
        case _:
            # Whether `and`, `or` and a lambda evaluate their other parts depends on values.
            besides = certain and not isinstance(node, (Logic, Each))
            for index, child in enumerate(children(node)):
                yield from reads(child, besides if index else certain)


def _in_frame(path: Path) -> tuple[str, ...] | None:
    """The path in the frame; None for a path from the parameter of a lambda."""
    # Only the first name of a path can be the parameter of a lambda, which is a number.
    return None if isinstance(path.read[0], int) else path.read  # type: ignore[return-value]
