"""Short constructors of Python's `ast` nodes: all of Python that `codegen` can write.

There is no constructor for an attribute, an import or a definition, and names are names that `codegen` made up. A node
needs no place of its own: errors and their places come from the walk.
"""

from __future__ import annotations

import ast
from typing import Any

_LOAD, _STORE = ast.Load(), ast.Store()
_BINARY = {"+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod()}
_COMPARE: dict[str, ast.cmpop] = {
    "==": ast.Eq(), "!=": ast.NotEq(), "<": ast.Lt(), ">": ast.Gt(), "<=": ast.LtE(), ">=": ast.GtE(),
    "is": ast.Is(), "is not": ast.IsNot(), "in": ast.In(), "not in": ast.NotIn(),
}  # fmt: skip

Scalar = str | int | float | bool | None


def name(text: str) -> ast.Name:
    return ast.Name(text, _LOAD)


def constant(value: Scalar) -> ast.Constant:
    return ast.Constant(value)


def call(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(name(function), list(args), [])


def subscript(of: ast.expr, key: str) -> ast.Subscript:
    return ast.Subscript(of, constant(key), _LOAD)


def list_of(parts: list[ast.expr]) -> ast.List:
    return ast.List(parts, _LOAD)


def set_of(items: ast.expr) -> ast.Set:
    return ast.Set([ast.Starred(items, _LOAD)])


def dict_of(keys: list[str], values: list[ast.expr]) -> ast.Dict:
    return ast.Dict([constant(key) for key in keys], values)


def binary(left: ast.expr, operator: str, right: ast.expr) -> ast.BinOp:
    return ast.BinOp(left, _BINARY[operator], right)


def compare(left: ast.expr, operator: str, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [_COMPARE[operator]], [right])


def negated(test: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), test)


def all_of(*tests: ast.expr) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests))


def any_of(*tests: ast.expr) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), list(tests))


def either(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.IfExp:
    return ast.IfExp(test, yes, no)


def assign(target: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(target, _STORE)], value)


def when(test: ast.expr, body: list[ast.stmt], otherwise: list[ast.stmt] | None = None) -> ast.If:
    return ast.If(test, body, otherwise or [])


def for_each(target: str, items: ast.expr, body: list[ast.stmt]) -> ast.For:
    return ast.For(ast.Name(target, _STORE), items, body, [])


def module(function: str, parameter: str, body: list[ast.stmt], ignored: str, last: list[ast.stmt]) -> ast.Module:
    """One function of one parameter: ``body``, and ``last`` where that raised what ``ignored`` names."""
    handler = ast.ExceptHandler(name(ignored), None, [ast.Pass()])
    guarded = ast.Try(body, [handler], [], [])
    args = ast.arguments([], [ast.arg(parameter)], None, [], [], None, [])
    # A newer Python knows more fields of a definition than there are here; they have defaults.
    fields: dict[str, Any] = {"name": function, "args": args, "body": [guarded, *last], "decorator_list": []}
    if "type_params" in ast.FunctionDef._fields:
        fields["type_params"] = []
    return ast.fix_missing_locations(ast.Module([ast.FunctionDef(**fields)], []))
