"""The function that `codegen` writes: its statements, its variables, and the known kinds of their values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

from ....flow.values import ATOMS, Value
from . import python_ast as py
from .walk import LONGEST, MOST_WORK, NUMBERS, SHORT, same


class Kind(Enum):
    """A kind of value, with the name of its type; a number is an int or a float."""

    NUMBER = "number"
    TEXT = "str"
    BOOL = "bool"
    NULL = "null"
    LIST = "list"
    OBJECT = "dict"


class Unusual(Exception):
    """Only the walk handles this: an error, or a rare case."""


def equal(left: Value, right: Value) -> bool:
    """``==`` of two values of which one may be a list, an object or opaque."""
    known = same(left, right, SHORT)
    if known is None:
        raise Unusual
    return known


HELPERS: dict[str, Any] = {
    "Exception": Exception, "Unusual": Unusual,
    "ATOMS": ATOMS, "JSON": ATOMS | {list, dict}, "NUMBERS": NUMBERS, "TEXTS": frozenset({str}), "MISSING": object(),
    "appender": lambda found: found.append, "equal": equal, "join": str.join,
    "dict": dict, "float": float, "int": int, "len": len, "list": list, "map": map, "str": str, "sum": sum,
    "type": type,
}  # fmt: skip
"""All that the function can name, besides its variables ``v1``, ``v2``, … and the names below."""
RUN, FRAME, WALK, LEFT = "run", "frame", "walk", "left"
"""The function, its parameter, the walk over the same expression, and the rest of the outermost loop's account."""


class Operand(NamedTuple):
    """Code for a value, and the kind of the value if it is known. Methods that begin with has or is give a test."""

    code: ast.expr
    kind: Kind | None = None

    @property
    def literal(self) -> bool:
        return isinstance(self.code, ast.Constant)

    def type(self) -> ast.expr:
        return py.call("type", self.code)

    def length(self) -> ast.expr:
        if isinstance(self.code, ast.Constant) and isinstance(self.code.value, str):
            return py.constant(len(self.code.value))
        return py.call("len", self.code)

    def has_type(self, name: str) -> ast.expr:
        return py.compare(self.type(), "is", py.name(name))

    def is_a(self, kind: Kind) -> ast.expr:
        if kind is Kind.NUMBER:
            return py.any_of(self.has_type("int"), self.has_type("float"))
        return self.has_type(kind.value)

    def is_atom(self) -> ast.expr:
        return py.compare(self.type(), "in", py.name("ATOMS"))


def are(kind: Kind, left: Operand, right: Operand) -> ast.expr:
    """A test of two operands."""
    return py.all_of(left.is_a(kind), right.is_a(kind))


class Emitter:
    """Writes statements, in order, into the innermost `block`."""

    def __init__(self) -> None:
        self.body: list[ast.stmt] = []
        self.lambdas = 0
        """The number of lambdas around."""
        self.read: dict[tuple[str | int, ...], str] = {(): FRAME}
        """The variables that have the values of paths."""
        self.kinds: dict[str, Kind | None] = {}
        """The known kinds of variables."""
        self._variables = 0

    def emit(self, statement: ast.stmt) -> None:
        self.body.append(statement)

    def variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"

    def assign(self, value: ast.expr, kind: Kind | None = None) -> str:
        """A new variable with this value."""
        variable = self.variable()
        self.emit(py.assign(variable, value))
        self.kinds[variable] = kind
        return variable

    def refuse(self, test: ast.expr) -> None:
        """Leave it to the walk if ``test`` is true."""
        self.emit(py.when(test, [ast.Raise(py.name("Unusual"), **py.PLACE)]))

    @contextmanager
    def block(self) -> Iterator[list[ast.stmt]]:
        """Statements that may not run: values that they read, and kinds that they check, are unknown after them."""
        outer = self.body, self.read, self.kinds
        self.body, self.read, self.kinds = [], self.read.copy(), self.kinds.copy()
        yield self.body
        self.body, self.read, self.kinds = outer

    def named(self, operand: Operand) -> Operand:
        """The operand as code that may be used twice."""
        if isinstance(operand.code, ast.Constant | ast.Name):
            return operand
        return Operand(py.name(self.assign(*operand)), operand.kind)

    def kind(self, operand: Operand) -> Kind | None:
        """Its kind, if it is known by now."""
        return operand.kind or (self.kinds.get(operand.code.id) if isinstance(operand.code, ast.Name) else None)

    def require(self, kind: Kind, *operands: Operand) -> None:
        """Check the kind of operands that are `named`, unless it is known."""
        for operand in operands:
            if self.kind(operand) is not kind:
                self.refuse(py.negated(operand.is_a(kind)))
                if isinstance(operand.code, ast.Name):
                    self.kinds[operand.code.id] = kind

    def charge(self, size: ast.expr, times: int = 1) -> None:
        """Bound the size of a result as the walk does; ``times``: how often it may be charged there."""
        if not self.lambdas:
            return self.refuse(py.compare(size, ">", py.constant(LONGEST)))
        charged = py.name(self.assign(size))
        with self.block() as body:
            self.spend(py.binary(charged, "*", py.constant(times)))
        self.emit(py.when(py.compare(charged, ">", py.constant(SHORT)), body))

    def spend(self, work: ast.expr) -> None:
        """Charge work to the account of the outermost loop; the first charge opens it."""
        before = py.name(LEFT) if self.lambdas else py.constant(MOST_WORK)
        self.emit(py.assign(LEFT, py.binary(before, "-", work)))
        self.refuse(py.compare(py.name(LEFT), "<", py.constant(0)))
