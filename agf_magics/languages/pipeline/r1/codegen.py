"""Nodes to one Python function with the semantics of `walk`, at the speed of Python.

The function is made of `ast` nodes, never of text. The author's own text gets into it as constants only: literals, and
keys of objects (decision D6).

It handles the usual case: it checks the type of an operand before it uses it, and bounds the sizes that the walk
bounds. For anything else it raises, and the walk evaluates the expression again from its start, for the value or the
error. That is sound because an evaluation changes nothing. So the function may raise too often, but it must never give
a value that the walk would not give. For the same reason operands may be evaluated in any order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from itertools import groupby
from typing import Any

from ....flow.values import Value
from . import nodes
from . import python_ast as py
from .emitter import FRAME, HELPERS, RUN, WALK, Emitter, Kind, Operand, are
from .nodes import Arithmetic, Call, Compare, Each, Fields, Get, Items, Logic, Minus, Node, Not, Operation, Path
from .walk import LARGEST

Evaluate = Callable[[Any], Value]

_KINDS = {str: Kind.TEXT, int: Kind.NUMBER, float: Kind.NUMBER, bool: Kind.BOOL, type(None): Kind.NULL}
_ATOMS = frozenset(_KINDS.values())
_FLAT = 20
"""The longest chain of ``+`` that becomes nested operations; Python's compiler refuses what nests too deep."""


def compile_expression(node: Node, stores: tuple[str, ...] | None, walk: Evaluate) -> Evaluate:
    """The function that evaluates ``node`` over a frame.

    ``stores``: the path of an object that each frame has. ``walk``: evaluates the same expression; returned if Python
    refuses the function, for example with twenty loops inside each other.
    """
    names = {"__builtins__": {}, **HELPERS, WALK: walk}
    try:
        exec(compile(generate(node, stores), "<R1>", "exec"), names)
    except (SyntaxError, RecursionError, MemoryError):
        return walk
    run: Evaluate = names[RUN]
    return run


def generate(node: Node, stores: tuple[str, ...] | None) -> ast.Module:
    """The tree that `compile_expression` compiles."""
    generator = _Generator(stores)
    value = generator.value(node).code
    body = [*generator.body, ast.Return(value, **py.PLACE)]
    return py.module(RUN, FRAME, body, "Exception", [ast.Return(py.call(WALK, py.name(FRAME)), **py.PLACE)])


class _Generator(Emitter):
    def __init__(self, stores: tuple[str, ...] | None) -> None:
        super().__init__()
        self.stores = stores
        self.kinds[FRAME] = Kind.OBJECT if stores else None

    def value(self, node: Node) -> Operand:
        value = nodes.constant_value(node)
        if value is not nodes.NOT_CONSTANT:
            return Operand(py.constant(value), _KINDS[type(value)])
        return _GENERATE[type(node)](self, node)

    def operand(self, node: Node) -> Operand:
        return self.named(self.value(node))

    def path(self, node: Path) -> Operand:
        known = len(node.read)
        while node.read[:known] not in self.read:
            known -= 1
        at = self.read[node.read[:known]]
        for end in range(known + 1, len(node.read) + 1):
            self.require(Kind.OBJECT, Operand(py.name(at)))
            path, key = node.read[:end], str(node.read[end - 1])  # a lambda's parameter is known
            at = self.assign(py.subscript(py.name(at), key), Kind.OBJECT if path == self.stores else None)
            self.read[path] = at
        return Operand(py.name(at))

    def items(self, node: Items) -> Operand:
        return Operand(py.list_of([self.value(item).code for item in node.items]), Kind.LIST)

    def fields(self, node: Fields) -> Operand:
        values = [self.value(value).code for _, value in node.fields]
        return Operand(py.dict_of([key for key, _ in node.fields], values), Kind.OBJECT)

    def truth(self, operand: Operand) -> ast.expr:
        """A test of `flow.values.is_true`: Python's own where the value is JSON."""
        if self.kind(operand) is not None:
            return operand.code
        code = self.named(operand).code
        other = py.any_of(py.compare(py.call("type", code), "not in", py.name("JSON")), code)
        maybe = py.all_of(py.compare(code, "is not", py.constant(False)), other)
        return py.any_of(py.compare(code, "is", py.constant(True)), maybe)

    def condition(self, node: Node) -> ast.expr:
        """A test of the truth of a node's value."""
        if not isinstance(node, Logic):
            return self.truth(self.value(node))
        join = py.all_of if node.op == "and" else py.any_of
        tests = [self.condition(node.parts[0])]
        for part in node.parts[1:]:
            with self.block() as body:
                test = self.condition(part)
            if not body:
                tests.append(test)
                continue
            result = self.assign(join(*tests))
            body.append(py.assign(result, test))
            self.emit(py.when(_further(node, py.name(result)), body))
            tests = [py.name(result)]
        return join(*tests)

    def negation(self, node: Not) -> Operand:
        return Operand(py.negated(self.condition(node.operand)), Kind.BOOL)

    def logic(self, node: Logic) -> Operand:
        first, *rest = node.parts
        if node.op == "or" and isinstance(first, Logic) and nodes.always_true(first.parts[-1]):
            condition = first._replace(parts=first.parts[:-1])
            return self.choice(condition, first.parts[-1], node._replace(parts=node.parts[1:]))
        left = self.operand(first)
        result, kind = self.assign(left.code), self.kind(left)
        for part in rest:
            test = self.truth(left)
            with self.block() as body:
                right = self.value(part)
                self.emit(py.assign(result, right.code))
            self.emit(py.when(_further(node, test), body))
            kind = kind if kind == right.kind else None
            left = Operand(py.name(result), kind)
        return Operand(py.name(result), kind)

    def choice(self, condition: Logic, yes: Node, no: Logic) -> Operand:
        """``condition and 'yes' or 'no'``."""
        test, result = self.condition(condition), self.variable()
        with self.block() as body:
            first = self.value(yes)
            self.emit(py.assign(result, first.code))
        with self.block() as otherwise:
            second = self.value(no.parts[0]) if len(no.parts) == 1 else self.logic(no)
            self.emit(py.assign(result, second.code))
        self.emit(py.when(test, body, otherwise))
        return Operand(py.name(result), first.kind if first.kind == second.kind else None)

    def compare(self, node: Compare) -> Operand:
        left, right = self.operand(node.left), self.operand(node.right)
        if node.op in ("==", "!="):
            test = self.equality(left, right)
            return Operand(test if node.op == "==" else py.negated(test), Kind.BOOL)
        kinds = self.kind(left), self.kind(right)
        if Kind.NUMBER in kinds or Kind.TEXT in kinds:
            self.require(Kind.NUMBER if Kind.NUMBER in kinds else Kind.TEXT, left, right)
        else:
            texts = are(Kind.TEXT, left, right)
            self.refuse(py.negated(py.any_of(are(Kind.NUMBER, left, right), texts)))
        return Operand(py.compare(left.code, node.op, right.code), Kind.BOOL)

    def equality(self, left: Operand, right: Operand) -> ast.expr:
        if Kind.NULL in (self.kind(left), self.kind(right)) and not (left.literal and right.literal):
            return py.compare(left.code, "is", right.code)
        atoms = [each.is_atom() for each in (left, right) if self.kind(each) not in _ATOMS]
        equal: ast.expr = py.compare(left.code, "==", right.code)
        if left.literal or right.literal:
            return py.all_of(*atoms, equal) if atoms else equal
        equal = py.any_of(py.compare(left.code, "is", right.code), equal)  # NaN equals itself
        return py.either(py.all_of(*atoms), equal, py.call("equal", left.code, right.code)) if atoms else equal

    def minus(self, node: Minus) -> Operand:
        operand = self.operand(node.operand)
        self.require(Kind.NUMBER, operand)
        return Operand(ast.UnaryOp(ast.USub(), operand.code, **py.PLACE), Kind.NUMBER)

    def arithmetic(self, node: Arithmetic) -> Operand:
        total = self.operand(node.first)
        for is_sum, group in groupby(node.rest, lambda operation: operation.op == "+"):
            if is_sum:
                total = self.sum_of([total, *(self.operand(one.operand) for one in group)])
                continue
            for one in group:
                total = self.operation(one, self.named(total), self.operand(one.operand))
        return total

    def operation(self, node: Operation, left: Operand, right: Operand) -> Operand:
        self.require(Kind.NUMBER, left, right)
        result = py.binary(left.code, node.op, right.code)
        if node.op == "/":
            return Operand(self.quotient(left, right, result), Kind.NUMBER)
        if node.op == "-" or left.literal or right.literal:
            return Operand(result, Kind.NUMBER)
        product = self.named(Operand(result, Kind.NUMBER))
        outside = (py.compare(product.code, sign, py.constant(at)) for sign, at in ((">=", LARGEST), ("<=", -LARGEST)))
        self.refuse(py.all_of(product.has_type("int"), py.any_of(*outside)))
        return product

    def quotient(self, left: Operand, right: Operand, result: ast.expr) -> ast.expr:
        """6 / 3 is the whole number 2. Python raises for a zero."""
        exact = py.compare(py.binary(left.code, "%", right.code), "==", py.constant(0))
        whole = py.either(exact, py.binary(left.code, "//", right.code), result)
        return py.either(py.any_of(left.has_type("float"), right.has_type("float")), result, whole)

    def sum_of(self, parts: list[Operand]) -> Operand:
        """A chain of ``+``."""
        total, *rest = parts
        for index, part in enumerate(rest):
            total = self.named(total)
            if Kind.TEXT in (self.kind(total), self.kind(part)):
                return self.sentence([total, *rest[index:]])
            total = self.sum_of_two(total, part)
        return total

    def sum_of_two(self, left: Operand, right: Operand) -> Operand:
        """Of numbers, lists or, where neither is known to be one, texts."""
        kinds = self.kind(left), self.kind(right)
        size = py.binary(left.length(), "+", right.length())
        result = py.binary(left.code, "+", right.code)
        if Kind.NUMBER in kinds:
            self.require(Kind.NUMBER, left, right)
            return Operand(result, Kind.NUMBER)
        if Kind.LIST in kinds:
            self.require(Kind.LIST, left, right)
            self.charge(size)
            return Operand(result, Kind.LIST)
        with self.block() as body:
            self.refuse(py.compare(left.type(), "is not", right.type()))
            self.refuse(py.negated(py.any_of(left.is_a(Kind.TEXT), left.is_a(Kind.LIST))))
            self.charge(size)
        self.emit(py.when(py.negated(are(Kind.NUMBER, left, right)), body))
        return Operand(result)

    def sentence(self, parts: list[Operand]) -> Operand:
        """Texts joined by ``+``. Outside of lambdas the walk does not bound a text with literals added to it."""
        self.require(Kind.TEXT, *parts)
        first, second, *rest = parts
        if self.lambdas or not ((first.literal or second.literal) and all(part.literal for part in rest)):
            lengths = [part.length() for part in parts]
            self.charge(_added(lengths, "sum", py.list_of(lengths)), len(parts) - 1)
        codes = [part.code for part in parts]
        return Operand(_added(codes, "join", py.constant(""), py.list_of(codes)), Kind.TEXT)

    def call(self, node: Call) -> Operand:
        if node.name == "count":
            counted = self.operand(node.args[0])
            self.require(Kind.LIST, counted)
            return Operand(counted.length(), Kind.NUMBER)
        if node.name == "sum":
            base = self.elements(node.args[0], Kind.NUMBER, "NUMBERS")
            self.charge(base.length())
            return Operand(py.call("sum", base.code), Kind.NUMBER)
        base, separator = self.elements(node.args[0], Kind.TEXT, "TEXTS"), self.operand(node.args[1])
        self.require(Kind.TEXT, separator)
        between = py.binary(base.length(), "*", separator.length())
        self.charge(py.binary(py.call("sum", py.call("map", py.name("len"), base.code)), "+", between))
        return Operand(py.call("join", separator.code, base.code), Kind.TEXT)

    def elements(self, node: Node, kind: Kind, types: str) -> Operand:
        """A list whose elements are all of a kind; where the expression makes the list, they are checked as it does."""
        if isinstance(node, Each) and node.name == "map":
            return self.each(node, kind)
        items = self.operand(node)
        self.require(Kind.LIST, items)
        found = py.set_of(py.call("map", py.name("type"), items.code))
        self.refuse(py.negated(py.compare(found, "<=", py.name(types))))
        return items

    def get(self, node: Get) -> Operand:
        base = self.operand(node.base)
        default = Operand(py.constant(None)) if node.default is None else self.operand(node.default)
        found = py.name(self.assign(base.code))
        *before, last = node.key.split(".")
        for key, otherwise in (*((key, py.name("MISSING")) for key in before), (last, default.code)):
            there = py.all_of(Operand(found).is_a(Kind.OBJECT), py.compare(py.constant(key), "in", found))
            self.emit(py.assign(found.id, py.either(there, py.subscript(found, key), otherwise)))
        return Operand(found)

    def each(self, node: Each, made: Kind | None = None) -> Operand:
        """``made``: what the elements that ``map`` makes must be."""
        items = self.operand(node.base)
        self.require(Kind.LIST, items)
        self.spend(py.binary(items.length(), "*", py.constant(node.weight)))
        self.hoist(node)
        first, kind = _RESULTS[node.name]
        result, element = self.assign(py.list_of([]) if kind is Kind.LIST else py.constant(first)), self.variable()
        add = self.assign(py.call("appender", py.name(result))) if kind is Kind.LIST else ""
        self.lambdas += 1
        with self.block() as body:
            self.read[(node.level,)] = element
            if node.name == "map":
                value = self.value(node.body)
                if made is not None:
                    value = self.named(value)
                    self.require(made, value)
                self.emit(ast.Expr(py.call(add, value.code), **py.PLACE))
            else:
                self.search(node, element, result, add)
        self.lambdas -= 1
        self.emit(py.for_each(element, items.code, body))
        return Operand(py.name(result), kind)

    def hoist(self, node: Each) -> None:
        """Read before a loop what each element needs of the frame. If it is missing, the walk decides: no error if the
        list is empty."""
        for path in nodes.always_read(node.body):
            if isinstance(path.read[0], str) or path.read[0] < node.level:
                self.path(path)

    def search(self, node: Each, element: str, result: str, add: str) -> None:
        """The body of a loop whose lambda is a condition."""
        every, end = node.name == "all", ast.Break(**py.PLACE)
        found = py.name(element) if node.name == "find" else py.constant(not every)
        failed: list[ast.stmt] = [ast.Continue(**py.PLACE)]
        failed = [py.assign(result, py.constant(False)), end] if every else failed
        conditions = node.body.parts if isinstance(node.body, Logic) and node.body.op == "and" else (node.body,)
        for condition in conditions:
            self.emit(py.when(py.negated(self.condition(condition)), failed))
        if node.name == "filter":
            self.emit(ast.Expr(py.call(add, py.name(element)), **py.PLACE))
        elif not every:
            self.body += [py.assign(result, found), end]


_RESULTS: dict[str, tuple[py.Scalar, Kind | None]] = {
    "map": (None, Kind.LIST), "filter": (None, Kind.LIST), "all": (True, Kind.BOOL), "any": (False, Kind.BOOL),
    "find": (None, None),
}  # fmt: skip
"""The value of a loop that no element ends, and its kind if it is known."""


def _added(parts: list[ast.expr], function: str, *args: ast.expr) -> ast.expr:
    """The parts with ``+`` between them; the call of ``function`` does the same for many parts."""
    if len(parts) > _FLAT:
        return py.call(function, *args)
    return reduce(lambda left, right: py.binary(left, "+", right), parts)


def _further(node: Logic, test: ast.expr) -> ast.expr:
    """A test of whether the next part of ``node`` is evaluated; ``test`` is the truth of the value so far."""
    return test if node.op == "and" else py.negated(test)


_GENERATE: dict[type, Callable[[_Generator, Any], Operand]] = {
    Path: _Generator.path, Items: _Generator.items, Fields: _Generator.fields, Not: _Generator.negation,
    Minus: _Generator.minus, Logic: _Generator.logic, Compare: _Generator.compare,
    Arithmetic: _Generator.arithmetic, Each: _Generator.each, Call: _Generator.call, Get: _Generator.get,
}  # fmt: skip
