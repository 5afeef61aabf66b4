"""Short constructors of Python's `ast` nodes: all of Python that `codegen` can write.

There is no constructor for an attribute, an import or a definition, and names are names that `codegen` made up.
"""

from __future__ import annotations

import ast
from typing import Any, TypedDict


class _Place(TypedDict):
    lineno: int
    col_offset: int


_HERE: _Place = {"lineno": 1, "col_offset": 0}
"""A node needs a place to be compiled. These have none of interest: errors and their places come from the walk."""

_LOAD, _STORE = ast.Load(), ast.Store()
_NOT, _MINUS, _AND, _OR = ast.Not(), ast.USub(), ast.And(), ast.Or()
_BINARY = {"+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod()}
_COMPARE: dict[str, ast.cmpop] = {
    "==": ast.Eq(), "!=": ast.NotEq(), "<": ast.Lt(), ">": ast.Gt(), "<=": ast.LtE(), ">=": ast.GtE(),
    "is": ast.Is(), "is not": ast.IsNot(), "in": ast.In(), "not in": ast.NotIn(),
}  # fmt: skip

Scalar = str | int | float | bool | None


def name(text: str) -> ast.Name:
    return ast.Name(text, _LOAD, **_HERE)


def constant(value: Scalar) -> ast.Constant:
    return ast.Constant(value, **_HERE)


def call(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(name(function), list(args), [], **_HERE)


def subscript(of: ast.expr, key: str) -> ast.Subscript:
    return ast.Subscript(of, constant(key), _LOAD, **_HERE)


def list_of(parts: list[ast.expr]) -> ast.List:
    return ast.List(parts, _LOAD, **_HERE)


def set_of(items: ast.expr) -> ast.Set:
    return ast.Set([ast.Starred(items, _LOAD, **_HERE)], **_HERE)


def dict_of(keys: list[str], values: list[ast.expr]) -> ast.Dict:
    return ast.Dict([constant(key) for key in keys], values, **_HERE)


def binary(left: ast.expr, operator: str, right: ast.expr) -> ast.BinOp:
    return ast.BinOp(left, _BINARY[operator], right, **_HERE)


def compare(left: ast.expr, operator: str, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [_COMPARE[operator]], [right], **_HERE)


def minus(operand: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(_MINUS, operand, **_HERE)


def negated(test: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(_NOT, test, **_HERE)


def all_of(*tests: ast.expr) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(_AND, list(tests), **_HERE)


def any_of(*tests: ast.expr) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(_OR, list(tests), **_HERE)


def either(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.IfExp:
    return ast.IfExp(test, yes, no, **_HERE)


def assign(target: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(target, _STORE, **_HERE)], value, **_HERE)


def when(test: ast.expr, body: list[ast.stmt], otherwise: list[ast.stmt] | None = None) -> ast.If:
    return ast.If(test, body, otherwise or [], **_HERE)


def for_each(target: str, items: ast.expr, body: list[ast.stmt]) -> ast.For:
    return ast.For(ast.Name(target, _STORE, **_HERE), items, body, [], **_HERE)


def stop() -> ast.Break:
    return ast.Break(**_HERE)


def skip() -> ast.Continue:
    return ast.Continue(**_HERE)


def throw(exception: str) -> ast.Raise:
    return ast.Raise(name(exception), **_HERE)


def do(expression: ast.expr) -> ast.Expr:
    return ast.Expr(expression, **_HERE)


def give(value: ast.expr) -> ast.Return:
    return ast.Return(value, **_HERE)


def module(function: str, parameter: str, body: list[ast.stmt], ignored: str, last: list[ast.stmt]) -> ast.Module:
    """One function of one parameter: ``body``, and ``last`` where that raised what ``ignored`` names."""
    handler = ast.ExceptHandler(name(ignored), None, [ast.Pass(**_HERE)], **_HERE)
    guarded = ast.Try(body, [handler], [], [], **_HERE)
    args = ast.arguments([], [ast.arg(parameter, **_HERE)], None, [], [], None, [])
    # A newer Python knows more fields of a definition than there are here; they have defaults.
    fields: dict[str, Any] = {"name": function, "args": args, "body": [guarded, *last], "decorator_list": [], **_HERE}
    if "type_params" in ast.FunctionDef._fields:
        fields["type_params"] = []
    return ast.Module([ast.FunctionDef(**fields)], [])
