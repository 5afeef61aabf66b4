"""Nodes -> closures that mean what `walk` means, near the speed of Python.

A closure handles what is usual and raises for everything else; the caller then walks. What is special-cased here pays
for itself in the benchmark (`tests/bench/expressions.py`); what did not pay is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ....flow.values import Value
from . import loops, operators
from .nodes import (
    NOT_CONSTANT,
    And,
    Arithmetic,
    Call,
    Compare,
    Each,
    Fields,
    Get,
    Items,
    Lit,
    Minus,
    Node,
    Not,
    Or,
    Path,
    children,
    constant,
)
from .operators import UNUSUAL, Fast
from .walk import LARGEST, LONGEST, NUMBERS, SHORT


def compile_nodes(node: Node, stores: tuple[str, ...] | None, walk: Fast) -> Fast:
    """The closure for a whole expression. ``stores``: where the frame has them, for certain, in a dict."""
    compiler = _Compiler(stores)
    if isinstance(node, (Lit, Items, Fields, Each, Call)):
        return operators.guarded(compiler.compile(node, None), walk)
    return compiler.compile(node, None, walk)


Item = int | None
"""Inside a closure that takes an element: which (its level); None: the closure takes a frame."""


class _Compiler:
    def __init__(self, stores: tuple[str, ...] | None) -> None:
        self.stores = stores or ()
        self.lambdas = 0

    def compile(self, node: Node, item: Item, otherwise: Fast = operators.unusual) -> Fast:
        return _COMPILE[type(node)](self, node, item, otherwise)

    @property
    def room(self) -> int:
        return SHORT if self.lambdas else LONGEST

    def lit(self, node: Lit, item: Item, otherwise: Fast) -> Fast:
        value = node.value
        return lambda e: value

    def path(self, node: Path, item: Item, otherwise: Fast) -> Fast:
        if item is not None:
            return _inside(node.read[1:])
        if not self.certain(node):
            f = itemgetter(node.read[0]) if len(node.read) == 1 else _inside(node.read)
            return f if otherwise is operators.unusual else operators.guarded(f, otherwise)
        return _stored(node.read, otherwise)

    def certain(self, node: Node) -> bool:
        """Whether the first two names of a path are looked up in dicts for certain: the frame and the stores."""
        return isinstance(node, Path) and len(self.stores) == 1 and node.read[:1] == self.stores and len(node.read) > 1

    def pair(self, node: Node, item: Item) -> tuple[str, str] | None:
        if isinstance(node, Path) and item is None and len(node.read) == 2 and self.certain(node):
            return str(node.read[0]), str(node.read[1])
        return None

    def items(self, node: Items, item: Item, otherwise: Fast) -> Fast:
        parts = [self.compile(part, item) for part in node.items]
        return lambda e: [part(e) for part in parts]

    def fields(self, node: Fields, item: Item, otherwise: Fast) -> Fast:
        parts = [(key, self.compile(part, item)) for key, part in node.fields]
        return lambda e: {key: part(e) for key, part in parts}

    def negation(self, node: Not, item: Item, otherwise: Fast) -> Fast:
        return operators.negation(self.compile(node.operand, item), otherwise)

    def minus(self, node: Minus, item: Item, otherwise: Fast) -> Fast:
        value = constant(node)
        if value is not NOT_CONSTANT:
            return lambda e: value
        return operators.negative(self.compile(node.operand, item), otherwise)

    def both(self, node: And, item: Item, otherwise: Fast) -> Fast:
        return operators.both(self.compile(node.left, item), self.compile(node.right, item), otherwise)

    def either(self, node: Or, item: Item, otherwise: Fast) -> Fast:
        other = self.compile(node.right, item)
        if isinstance(node.left, And) and isinstance(node.left.right, Lit) and node.left.right.value:
            return operators.choice(self.compile(node.left.left, item), node.left.right.value, other, otherwise)
        return operators.either(self.compile(node.left, item), other, otherwise)

    def compare(self, node: Compare, item: Item, otherwise: Fast) -> Fast:
        right = constant(node.right)
        if node.op in ("==", "!=") and right is not NOT_CONSTANT:
            return operators.equal_literal(self.compile(node.left, item), right, node.op == "==", otherwise)
        return self.binary(node, item, otherwise)

    def arithmetic(self, node: Arithmetic, item: Item, otherwise: Fast) -> Fast:
        return self.sentence(node, item, otherwise) or self.binary(node, item, otherwise)

    def binary(self, node: Arithmetic | Compare, item: Item, otherwise: Fast) -> Fast:
        left, right, op = constant(node.left), constant(node.right), node.op
        if type(right) in NUMBERS and op not in ("==", "!=") and not (op == "/" and right == 0):
            if pair := self.pair(node.left, item):
                return operators.pair_literal(op, *pair, right, otherwise)
            return operators.number_literal(op, self.compile(node.left, item), right, otherwise)
        if type(left) in NUMBERS and isinstance(node, Arithmetic):
            return operators.literal_number(op, left, self.compile(node.right, item), otherwise)
        return operators.binary(op, self.compile(node.left, item), self.compile(node.right, item), self.room, otherwise)

    def sentence(self, node: Arithmetic, item: Item, otherwise: Fast) -> Fast | None:
        """A chain of ``+`` that must be of texts, because a text literal is among its first two."""
        chain: list[Node] = [node]
        while isinstance(first := chain[0], Arithmetic) and first.op == "+":
            chain[:1] = [first.left, first.right]
        if len(chain) < 2 or not any(type(constant(part)) is str for part in chain[:2]):
            return None
        first_text, holes = "", list[tuple[Fast, str]]()
        for part in chain:
            text = constant(part)
            if type(text) is not str:
                holes.append((self.compile(part, item), ""))
            elif holes:
                holes[-1] = (holes[-1][0], holes[-1][1] + text)
            else:
                first_text += text
        if len(holes) == 1 and not self.lambdas and (pair := self.pair(chain[1 if first_text else 0], item)):
            return operators.pair_sentence(first_text, *pair, holes[0][1], otherwise)
        return operators.sentence(first_text, tuple(holes), self.room, otherwise)

    def each(self, node: Each, item: Item, otherwise: Fast) -> Fast:
        base = self.compile(node.base, item)
        self.lambdas += 1
        try:
            if not self.lambdas > 1 and _reads_only(node.body, node.level):
                rows = self.rows(node)
                return loops.alone(node, base, rows)
            if _reads_only(node.body, node.level):
                rows = self.rows(node)
                return loops.nested(node, base, lambda frame, items: rows(items))
            loop = loops.frames(node.name, self.compile(node.body, None), node.level)
            return (loops.nested if self.lambdas > 1 else loops.outermost)(node, base, loop)
        finally:
            self.lambdas -= 1

    def rows(self, node: Each) -> loops.Rows:
        if isinstance(node.body, Path) and len(node.body.read) == 2:
            special = loops.fields(node.name, str(node.body.read[1]))
            if special:
                return special
        return loops.elements(node.name, self.compile(node.body, node.level))

    def call(self, node: Call, item: Item, otherwise: Fast) -> Fast:
        base = self.compile(node.args[0], item)
        if node.name == "count":

            def count(e: Any) -> Value:
                a = base(e)
                if type(a) is list:
                    return len(a)
                raise UNUSUAL

            return count
        room = self.room
        if node.name == "sum":
            return _sum(base, room)
        return _join(base, self.compile(node.args[1], item), room)

    def get(self, node: Get, item: Item, otherwise: Fast) -> Fast:
        base, keys = self.compile(node.base, item), node.key.split(".")
        literal = None if node.default is None else constant(node.default)
        default = None if literal is not NOT_CONSTANT or node.default is None else self.compile(node.default, item)

        def run(e: Any) -> Value:
            try:
                value = base(e)
                missing = literal if default is None else default(e)
                for key in keys:
                    if type(value) is not dict or key not in value:
                        return missing
                    value = value[key]
                return value
            except Exception:
                pass
            return otherwise(e)

        return run


def _stored(names: tuple[str | int, ...], otherwise: Fast) -> Fast:
    """A path whose first two names are in dicts."""
    a, b, *rest = names

    def two(e: Any) -> Value:
        try:
            return e[a][b]
        except Exception:
            pass
        return otherwise(e)

    def more(e: Any) -> Value:
        try:
            value = e[a][b]
            for name in rest:
                if type(value) is not dict:
                    break
                value = value[name]
            else:
                return value
        except Exception:
            pass
        return otherwise(e)

    return more if rest else two


def _inside(names: tuple[str | int, ...]) -> Fast:
    """A path from what the closure is given, which may be anything."""
    if not names:
        return lambda e: e
    if len(names) == 1:
        (name,) = names

        def one(e: Any) -> Value:
            if type(e) is dict:
                return e[name]
            raise UNUSUAL

        return one

    def run(e: Any) -> Value:
        for name in names:
            if type(e) is not dict:
                raise UNUSUAL
            e = e[name]
        return e

    return run


def _sum(base: Fast, room: int) -> Fast:
    def run(e: Any) -> Value:
        a = base(e)
        if type(a) is list and len(a) <= room and {*map(type, a)} <= NUMBERS:
            total = sum(a)
            if -LARGEST < total < LARGEST:
                return total
        raise UNUSUAL

    return run


def _join(base: Fast, separator: Fast, room: int) -> Fast:
    def run(e: Any) -> Value:
        a, between = base(e), separator(e)
        if type(a) is list and type(between) is str and sum(map(len, a)) + len(between) * len(a) <= room:
            return between.join(a)
        raise UNUSUAL

    return run


def _reads_only(body: Node, level: int) -> bool:
    """Whether ``body`` reads nothing but the element of its lambda, and has no loop (which would need the account)."""
    if isinstance(body, Path):
        return body.read[0] == level
    return not isinstance(body, Each) and all(_reads_only(child, level) for child in children(body))


_COMPILE: dict[type, Callable[[_Compiler, Any, Item, Fast], Fast]] = {
    Lit: _Compiler.lit,
    Path: _Compiler.path,
    Items: _Compiler.items,
    Fields: _Compiler.fields,
    Not: _Compiler.negation,
    Minus: _Compiler.minus,
    And: _Compiler.both,
    Or: _Compiler.either,
    Compare: _Compiler.compare,
    Arithmetic: _Compiler.arithmetic,
    Each: _Compiler.each,
    Call: _Compiler.call,
    Get: _Compiler.get,
}
