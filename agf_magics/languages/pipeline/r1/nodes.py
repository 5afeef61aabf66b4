"""What an R1 expression is once parsed, what its names mean, and how it is written again.

A node knows the offset of the token an error would point at: an operator, a function's name, a path. A path keeps its
words as written (`parts`, for messages) and where it reads (`read`): whether ``review`` is a lambda's parameter, a root
or a store is decided once, when it is parsed, so that a bare store name costs nothing when it is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ....flow.values import Value


@dataclass(frozen=True, slots=True)
class Names:
    """What the first name of a path means where an expression stands (decision P1).

    A lambda's parameter comes first, then ``roots`` (a name and the path in the frame it reads); any other name is a
    store and reads ``(*stores, name)``, or the frame itself where ``stores`` is None.
    """

    roots: Mapping[str, tuple[str, ...]]
    stores: tuple[str, ...] | None = ("ctx",)
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Names that are not visible here (``item`` in a nested ``do``, decision P19), each with how to hand it on."""

    def read(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        root = self.roots.get(parts[0])
        return (*(self.stores or ()), *parts) if root is None else root + parts[1:]


NO_NAMES = Names({}, None)


class Lit(NamedTuple):
    at: int
    value: Value


class Path(NamedTuple):
    at: int
    end: int
    parts: tuple[str, ...]
    read: tuple[str | int, ...]
    """A lambda's parameter is the number of lambdas around its own, so that no name of a frame can collide with it."""
    hidden: str | None = None
    """How to hand on what is not visible here."""


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


class And(NamedTuple):
    at: int
    left: Node
    right: Node


class Or(NamedTuple):
    at: int
    left: Node
    right: Node


class Compare(NamedTuple):
    at: int
    op: str
    left: Node
    right: Node


class Arithmetic(NamedTuple):
    at: int
    op: str
    left: Node
    right: Node


class Each(NamedTuple):
    """``map``, ``filter``, ``all``, ``any`` or ``find``: a body evaluated for every element."""

    at: int
    name: str
    base: Node
    param: str
    body: Node
    level: int
    """How many lambdas are around this one: what its parameter is called in `Path.read`."""
    weight: int
    """What one evaluation of the body costs: its tokens."""


class Call(NamedTuple):
    """``count``, ``sum`` or ``join``."""

    at: int
    name: str
    args: tuple[Node, ...]


class Get(NamedTuple):
    at: int
    base: Node
    key: str
    key_at: tuple[int, int]
    default: Node | None


Node = Lit | Path | Items | Fields | Not | Minus | And | Or | Compare | Arithmetic | Each | Call | Get

EACH = ("map", "filter", "all", "any", "find")
COMBINATORS = (*EACH, "count", "sum", "join", "get")
KEYWORDS = {"true", "false", "null", "and", "or", "not"}

POWER = {"or": 1, "and": 2, "==": 4, "!=": 4, "<": 4, ">": 4, "<=": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6}
"""How tightly an infix operator binds; ``not`` stands between ``and`` and the comparisons, a sign above all."""
NOT, COMPARING, SIGN = 3, 4, 7


class _NotConstant:
    """No value of any literal."""


NOT_CONSTANT = _NotConstant()


def constant(node: Node) -> Value:
    """The value of a literal, or of a number with a sign; else NOT_CONSTANT."""
    if isinstance(node, Lit):
        return node.value
    if isinstance(node, Minus) and type(value := constant(node.operand)) in (int, float):
        return -value
    return NOT_CONSTANT


def children(node: Node) -> tuple[Node, ...]:
    """In the order of the text."""
    match node:
        case Lit() | Path():
            return ()
        case Items(items=parts) | Call(args=parts):
            return parts
        case Fields(fields=fields):
            return tuple(value for _, value in fields)
        case Not(operand=operand) | Minus(operand=operand):
            return (operand,)
        case And() | Or() | Compare() | Arithmetic():
            return (node.left, node.right)
        case Each():
            return (node.base, node.body)
        case Get():
            return (node.base,) if node.default is None else (node.base, node.default)


def addends(node: Node) -> list[Node]:
    """The operands of a chain of ``+``."""
    return [*addends(node.left), node.right] if isinstance(node, Arithmetic) and node.op == "+" else [node]


def conjuncts(node: Node) -> list[Node]:
    """The operands of a chain of ``and``."""
    return [*conjuncts(node.left), *conjuncts(node.right)] if isinstance(node, And) else [node]


def always_true(node: Node) -> bool:
    """Whether its value is true in every evaluation."""
    value = constant(node)
    return bool(value) if value is not NOT_CONSTANT else isinstance(node, Items | Fields) and bool(node[1])


def always_read(node: Node) -> Iterator[Path]:
    """The paths that every evaluation reads; of loops inside, only what they read once."""
    match node:
        case Path():
            yield node
        case And() | Or():
            yield from always_read(node.left)
        case Each():
            yield from always_read(node.base)
        case _:
            for child in children(node):
                yield from always_read(child)


class Read(NamedTuple):
    """A path an expression reads from its frame, where it is written, and whether it is read in every evaluation."""

    path: tuple[str, ...]
    at: int
    end: int
    certain: bool


def reads(node: Node) -> list[Read]:
    """In the order of the text. What begins with a lambda's parameter is no read."""
    found: list[Read] = []
    _reads(node, True, found)
    return found


def _reads(node: Node, certain: bool, found: list[Read]) -> None:
    match node:
        case Path():
            if (path := _in_frame(node)) is not None:
                found.append(Read(path, node.at, node.end, certain))
        case Lit():
            pass
        case And() | Or():
            _reads(node.left, certain, found)
            _reads(node.right, False, found)
        case Each():
            _reads(node.base, certain, found)
            _reads(node.body, False, found)
        case Get():
            base = _in_frame(node.base) if isinstance(node.base, Path) else None
            if base is None or len(base) > 1:  # get(ctx, 'a') reads ctx.a, not every store there is
                _reads(node.base, certain, found)
            if base is not None:
                found.append(Read((*base, *node.key.split(".")), *node.key_at, False))
            if node.default is not None:
                _reads(node.default, certain, found)
        case _:
            for child in children(node):
                _reads(child, certain, found)


def _in_frame(path: Path) -> tuple[str, ...] | None:
    # Only its first name can be a lambda's parameter.
    return None if isinstance(path.read[0], int) else path.read  # type: ignore[return-value]


def show(node: Node, power: int = 0) -> str:
    """The expression written again, with no more parentheses than it needs.

    A literal is what R1 can write: a negative number is a `Minus`.
    """
    match node:
        case Lit(value=value):
            return _literal(value)
        case Path(parts=parts):
            return ".".join(parts)
        case Items(items=items):
            return f"[{', '.join(map(show, items))}]"
        case Fields(fields=fields):
            return "{" + ", ".join(f"{_key(key)}: {show(value)}" for key, value in fields) + "}"
        case Not(operand=operand):
            return _closed(f"not {show(operand, NOT)}", power > NOT)
        case Minus(operand=operand):
            return f"-{show(operand, SIGN)}"
        case And() | Or() | Compare() | Arithmetic():
            op = "and" if isinstance(node, And) else "or" if isinstance(node, Or) else node.op
            binds = POWER[op]  # to the left as tightly as it binds, to the right more; comparisons do not chain at all
            left = show(node.left, binds + (binds == COMPARING))
            return _closed(f"{left} {op} {show(node.right, binds + 1)}", power > binds)
        case Each():
            return f"{node.name}({show(node.base)}, {node.param} -> {show(node.body)})"
        case Call(name=name, args=args):
            return f"{name}({', '.join(map(show, args))})"
        case Get():
            default = "" if node.default is None else f", {show(node.default)}"
            return f"get({show(node.base)}, {_literal(node.key)}{default})"


def _closed(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _literal(value: Value) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
        return f"'{escaped}'"
    if isinstance(value, float):
        whole = format(value, "f") if float(format(value, "f")) == value else format(value, ".1074f")
        return whole if "." in whole else whole + ".0"
    return "null" if value is None else str(value).lower()


def _key(key: str) -> str:
    return key if key.isascii() and key.isidentifier() else _literal(key)
