"""``map`` and ``filter`` column by column: a body of paths and operators is computed for all elements at once.

One pass over a list for each path, check and operator costs half of calling closures for each element. Elements before
and after one that is wrong are computed too; that changes nothing, because then the walk decides.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any, NamedTuple

from ....flow.values import is_true
from .nodes import NOT_CONSTANT, And, Arithmetic, Compare, Each, Items, Node, Path, children, constant
from .operators import LITERAL, UNUSUAL, Fast
from .walk import LARGEST, NUMBERS, ORDER, SHORT

Of = Callable[[Any, list[Any]], list[Any]]
"""The column of a list of elements; also given what the loop is given, for what does not depend on the element."""

WITH: dict[str, Callable[[list[Any], Any], list[Any]]] = {
    "+": lambda column, c: [x + c for x in column],
    "-": lambda column, c: [x - c for x in column],
    "*": lambda column, c: [x * c for x in column],
    "<": lambda column, c: [x < c for x in column],
    ">": lambda column, c: [x > c for x in column],
    "<=": lambda column, c: [x <= c for x in column],
    ">=": lambda column, c: [x >= c for x in column],
}
"""An operator whose right side is the same for all; written out, because this is where the time goes."""


class Column(NamedTuple):
    of: Of
    kind: str | None = None
    """``number`` or ``bool`` where all its values are known to be."""
    field: str | int | None = None
    """It is this field of the elements."""


def loop(node: Each, invariant: Callable[[Node], Fast]) -> Of | None:
    """The whole loop, if it is one of columns; ``invariant`` compiles what does not read the element."""
    columns = _Columns(node.level, invariant)
    if node.name == "map":
        return _map(columns, node.body)
    return _filter(columns, node.body) if node.name == "filter" else None


def _map(columns: _Columns, body: Node) -> Of | None:
    column = columns.column(body)
    if column is None:
        return None
    of, dicts = column.of, columns.dicts

    def run(e: Any, items: list[Any]) -> list[Any]:
        if dicts and [*map(type, items)].count(dict) != len(items):
            raise UNUSUAL
        return of(e, items)

    return run


def _filter(columns: _Columns, body: Node) -> Of | None:
    conditions = []
    for part in _conditions(body):
        if (column := columns.column(part)) is None:
            return None
        conditions.append((column.of, column.kind == "bool"))
    dicts = columns.dicts

    def run(e: Any, items: list[Any]) -> list[Any]:
        if dicts and [*map(type, items)].count(dict) != len(items):
            raise UNUSUAL
        for of, truths in conditions:  # each is asked only about what those before let through
            out = of(e, items)
            if not truths:
                out = [a is True or (a is not False and is_true(a)) for a in out]
            items = [*compress(items, out)]
        return items

    return run


def _conditions(node: Node) -> list[Node]:
    return [*_conditions(node.left), *_conditions(node.right)] if isinstance(node, And) else [node]


class _Columns:
    def __init__(self, level: int, invariant: Callable[[Node], Fast]) -> None:
        self.level = level
        self.invariant = invariant
        self.dicts = False
        """Whether the elements must be objects."""

    def column(self, node: Node) -> Column | None:
        """None: the body is not of columns."""
        match node:
            case Path() if node.read[0] == self.level:
                return self.path(node.read[1:])
            case Compare(op="==" | "!=") if (literal := constant(node.right)) is not NOT_CONSTANT:
                left = self.column(node.left)
                return left and _equal(left.of, literal, node.op == "==")
            case Arithmetic(right=Items()):
                return None  # lists are joined one by one
            case Arithmetic(op="+" | "-" | "*") | Compare(op="<" | ">" | "<=" | ">="):
                left = self.column(node.left)
                if left is None:
                    return None
                if not _reads(node.right, self.level):
                    return _with(node.op, left, self.invariant(node.right), constant(node.right))
                right = self.column(node.right)
                return right and _columns(node.op, left, right)
        return None

    def path(self, names: tuple[str | int, ...]) -> Column:
        if not names:
            return Column(lambda e, items: items)
        name, *rest = names
        self.dicts = True
        if not rest:
            return Column(lambda e, items: [x[name] for x in items], None, name)

        def of(e: Any, items: list[Any]) -> list[Any]:
            items = [x[name] for x in items]
            for further in rest:
                if [*map(type, items)].count(dict) != len(items):
                    raise UNUSUAL
                items = [x[further] for x in items]
            return items

        return Column(of)


def _reads(node: Node, level: int) -> bool:
    if isinstance(node, Path):
        return node.read[0] == level
    return any(_reads(child, level) for child in children(node))


def _equal(left: Of, literal: Any, wanted: bool) -> Column:
    kinds = {int, float, bool} if type(literal) in (int, float, bool) else {type(literal)}
    return Column(lambda e, items: [(type(a) in kinds and a == literal) is wanted for a in left(e, items)], "bool")


def _with(op: str, left: Column, right: Fast, literal: Any) -> Column:
    """An operator whose right side does not read the element."""
    apply, of, known, field = WITH[op], left.of, left.kind == "number", left.field
    number, texts, bounded = type(literal) in NUMBERS, op == "+" or op in ORDER, op == "*" and literal is NOT_CONSTANT

    def run(e: Any, items: list[Any]) -> list[Any]:
        column = of(e, items) if field is None else [x[field] for x in items]
        c = literal if number else right(e)
        if number or type(c) in NUMBERS:
            if known or _numbers(column):
                out = apply(column, c)
                return _bounded(out) if bounded else out
        elif type(c) is str and texts and _texts(column) and (op != "+" or max(map(len, column)) + len(c) <= SHORT):
            return apply(column, c)
        raise UNUSUAL

    return Column(run, _kind(op, known or number))


def _columns(op: str, left: Column, right: Column) -> Column:
    """An operator both of whose sides read the element."""
    apply, first, second = LITERAL[op], left.of, right.of
    known, other_known, texts = left.kind == "number", right.kind == "number", op == "+" or op in ORDER

    def run(e: Any, items: list[Any]) -> list[Any]:
        a, b = first(e, items), second(e, items)
        if (known or _numbers(a)) and (other_known or _numbers(b)):
            out = [*map(apply, a, b)]
            return _bounded(out) if op == "*" else out
        if texts and _texts(a) and _texts(b) and (op != "+" or max(map(len, a)) + max(map(len, b)) <= SHORT):
            return [*map(apply, a, b)]
        raise UNUSUAL

    return Column(run, _kind(op, known or other_known))


def _kind(op: str, number: bool) -> str | None:
    return "bool" if op in ORDER else "number" if number or op != "+" else None


def _bounded(column: list[Any]) -> list[Any]:
    if column and not (max(column) < LARGEST and min(column) > -LARGEST):
        raise UNUSUAL
    return column


def _numbers(column: list[Any]) -> bool:
    kinds = [*map(type, column)]  # mostly all are of one kind, and counting it is the fastest way to know
    return not kinds or (kinds.count(kinds[0]) == len(kinds) and kinds[0] in NUMBERS) or NUMBERS.issuperset(kinds)


def _texts(column: list[Any]) -> bool:
    return [*map(type, column)].count(str) == len(column)
