"""Nodes -> closures that mean what `walk` means, near the speed of Python.

A closure handles what is usual and raises for everything else; the outermost catches that and walks. What is special
here pays for itself in the benchmark (`tests/bench/expressions.py`); what did not pay is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from ....flow.values import Value
from . import columns, loops, operators, short
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
from .walk import LONGEST, NUMBERS, SHORT, Wrong


class Scope(NamedTuple):
    """What a closure is given: the value at ``base``, so that no path has to read those names.

    ``()`` is the frame. ``("ctx",)`` is the stores, when an expression reads nothing else. ``(0,)`` is the element of a
    lambda that reads nothing else.
    """

    base: tuple[str | int, ...] = ()
    certain: bool = True
    """Whether that is an object for certain."""
    lambdas: int = 0
    """How many are around."""

    @property
    def room(self) -> int:
        """How long a result may be; in lambdas what is longer is charged, and the walk does that."""
        return SHORT if self.lambdas else LONGEST


Exact = Callable[[Any, Wrong | None], Value]
"""Walks over the frame, unless it is known what is wrong."""


def compile_nodes(node: Node, stores: tuple[str, ...] | None, walk: Exact) -> Fast:
    """The closure for a whole expression. ``stores``: where the frame has them, for certain, in a dict."""
    compiler = _Compiler(stores[0] if stores and len(stores) == 1 else None)
    store = compiler.store
    if store is None or not all(path.read[0] == store for path in _outer_paths(node)):
        return _guarded(compiler.compile(node, Scope()), walk)
    whole = short.compile_short(node, lambda frame: walk(frame, None))
    return whole or _over_stores(compiler.compile(node, Scope((store,))), store, walk)


class _Compiler:
    def __init__(self, store: str | None) -> None:
        self.store = store

    def compile(self, node: Node, scope: Scope) -> Fast:
        return _COMPILE[type(node)](self, node, scope)

    def condition(self, node: Node, scope: Scope) -> Fast:
        """The closure for a node that is asked for its truth alone: it gives True or False."""
        match node:
            case And():
                return operators.both_true(self.condition(node.left, scope), self.condition(node.right, scope))
            case Or():
                return operators.either_true(self.condition(node.left, scope), self.condition(node.right, scope))
            case Compare() | Not():
                return self.compile(node, scope)
        return operators.truth(self.compile(node, scope))

    def lit(self, node: Lit, scope: Scope) -> Fast:
        value = node.value
        return lambda e: value

    def path(self, node: Path, scope: Scope) -> Fast:
        names = node.read[len(scope.base) :]
        if not names:
            return lambda e: e
        if not scope.certain:
            return _field(names[0]) if len(names) == 1 else _fields(names)
        if len(names) == 1:
            return itemgetter(names[0])
        if len(names) > 2:
            return _fields(names)
        first, second = names
        if first == self.store and not scope.base:
            return lambda e: e[first][second]

        def run(e: Any) -> Value:
            a = e[first]
            if type(a) is dict:
                return a[second]
            raise UNUSUAL

        return run

    def items(self, node: Items, scope: Scope) -> Fast:
        parts = [self.compile(part, scope) for part in node.items]
        return lambda e: [part(e) for part in parts]

    def fields(self, node: Fields, scope: Scope) -> Fast:
        parts = [(key, self.compile(part, scope)) for key, part in node.fields]
        return lambda e: {key: part(e) for key, part in parts}

    def negation(self, node: Not, scope: Scope) -> Fast:
        return operators.negation(self.compile(node.operand, scope))

    def minus(self, node: Minus, scope: Scope) -> Fast:
        value = constant(node)
        return operators.negative(self.compile(node.operand, scope)) if value is NOT_CONSTANT else lambda e: value

    def both(self, node: And, scope: Scope) -> Fast:
        return operators.both(self.compile(node.left, scope), self.compile(node.right, scope))

    def either(self, node: Or, scope: Scope) -> Fast:
        other = self.compile(node.right, scope)
        match node.left:
            case And(left=condition, right=Lit(value=yes)) if yes:
                return operators.choice(self.compile(condition, scope), yes, other)
        return operators.either(self.compile(node.left, scope), other)

    def compare(self, node: Compare, scope: Scope) -> Fast:
        literal = constant(node.right)
        if node.op in ("==", "!=") and literal is not NOT_CONSTANT:
            return operators.equal_literal(self.compile(node.left, scope), literal, node.op == "==")
        return self.binary(node, scope)

    def arithmetic(self, node: Arithmetic, scope: Scope) -> Fast:
        return self.sentence(node, scope) or self.binary(node, scope)

    def binary(self, node: Arithmetic | Compare, scope: Scope) -> Fast:
        left, right, op = constant(node.left), constant(node.right), node.op
        if type(right) in NUMBERS and op in operators.LITERAL:
            return operators.number_literal(op, self.compile(node.left, scope), right)
        if type(left) in NUMBERS and op in operators.LITERAL:
            return operators.literal_number(op, left, self.compile(node.right, scope))
        return operators.binary(op, self.compile(node.left, scope), self.compile(node.right, scope), scope.room)

    def sentence(self, node: Arithmetic, scope: Scope) -> Fast | None:
        """A chain of ``+`` that must be of texts, because a text literal is among its first two."""
        chain: list[Node] = [node]
        while isinstance(first := chain[0], Arithmetic) and first.op == "+":
            chain[:1] = [first.left, first.right]
        if not any(type(constant(part)) is str for part in chain[:2]):
            return None
        before, holes = "", list[tuple[Fast, str]]()
        for part in chain:
            text = constant(part)
            if type(text) is not str:
                holes.append((self.compile(part, scope), ""))
            elif holes:
                holes[-1] = (holes[-1][0], holes[-1][1] + text)
            else:
                before += text
        return operators.sentence(before, tuple(holes), scope.room)

    def each(self, node: Each, scope: Scope) -> Fast:
        base = self.compile(node.base, scope)
        loop = None if _has_loop(node.body) else self.columns(node, scope) or self.rows(node, scope)
        if scope.lambdas:
            return loops.nested(node, base, loop or self.frames(node, scope))
        if loop is not None:
            return loops.alone(node, base, loop)
        return loops.outermost(node, base, self.frames(node, scope), self.store if scope.base else None)

    def columns(self, node: Each, scope: Scope) -> loops.Loop | None:
        inner = scope._replace(lambdas=scope.lambdas + 1)
        return columns.loop(node, lambda fixed: self.compile(fixed, inner))

    def rows(self, node: Each, scope: Scope) -> loops.Loop | None:
        """The loop, if its body reads only the element."""
        reads = list(_outer_paths(node.body))
        if any(path.read[0] != node.level for path in reads):
            return None
        if isinstance(node.body, Path) and len(node.body.read) == 2 and node.name in ("all", "any"):
            return loops.fields(node.name, str(node.body.read[1]))
        # All elements are looked at first where all are needed: then their fields can be read without looking.
        certain = node.name in ("map", "filter") and any(len(path.read) > 1 for path in reads)
        body = self.body(node, Scope((node.level,), certain, scope.lambdas + 1))
        return loops.elements(node.name, body, certain)

    def frames(self, node: Each, scope: Scope) -> loops.Loop:
        """The loop over a frame in which the element is set."""
        return loops.frames(node.name, self.body(node, Scope(lambdas=scope.lambdas + 1)), node.level)

    def body(self, node: Each, scope: Scope) -> Fast:
        return self.compile(node.body, scope) if node.name == "map" else self.condition(node.body, scope)

    def call(self, node: Call, scope: Scope) -> Fast:
        base = self.compile(node.args[0], scope)
        if node.name == "count":
            return operators.count(base)
        if node.name == "sum":
            return operators.total(base, scope.room)
        return operators.joined(base, self.compile(node.args[1], scope), scope.room)

    def get(self, node: Get, scope: Scope) -> Fast:
        base, keys = self.compile(node.base, scope), node.key.split(".")
        default = self.compile(node.default or Lit(0, None), scope)

        def run(e: Any) -> Value:
            value, otherwise = base(e), default(e)
            for key in keys:
                if type(value) is not dict or key not in value:
                    return otherwise
                value = value[key]
            return value

        return run


def _guarded(f: Fast, walk: Exact) -> Fast:
    def run(frame: Any) -> Value:
        known = None
        try:
            return f(frame)
        except Wrong as wrong:
            known = wrong
        except Exception:
            pass
        return walk(frame, known)

    return run


def _over_stores(f: Fast, store: str, walk: Exact) -> Fast:
    def run(frame: Any) -> Value:
        known = None
        try:
            return f(frame[store])
        except Wrong as wrong:
            known = wrong
        except Exception:
            pass
        return walk(frame, known)

    return run


def _field(name: str | int) -> Fast:
    def run(e: Any) -> Value:
        if type(e) is dict:
            return e[name]
        raise UNUSUAL

    return run


def _fields(names: tuple[str | int, ...]) -> Fast:
    def run(e: Any) -> Value:
        for name in names:
            if type(e) is not dict:
                raise UNUSUAL
            e = e[name]
        return e

    return run


def _outer_paths(node: Node, level: int | None = None) -> Iterator[Path]:
    """The paths in ``node`` but those that begin with the element of a lambda within."""
    if isinstance(node, Path):
        if level is None or not isinstance(node.read[0], int) or node.read[0] < level:
            yield node
        return
    if isinstance(node, Each):
        level = node.level if level is None else level
    for child in children(node):
        yield from _outer_paths(child, level)


def _has_loop(body: Node) -> bool:
    return isinstance(body, Each) or any(map(_has_loop, children(body)))


_COMPILE: dict[type, Callable[[_Compiler, Any, Scope], Fast]] = {
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
