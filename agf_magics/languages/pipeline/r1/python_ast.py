"""Short constructors of Python's `ast` nodes: all of Python that `codegen` can write.

There is no constructor for an attribute, an import or a definition, and names are names that `codegen` made up.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

PLACE: Mapping[str, Any] = {"lineno": 1, "col_offset": 0}
"""A node needs a place to be compiled. Errors and their places come from the walk."""

_LOAD, _STORE = ast.Load(), ast.Store()
_BINARY = {"+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod()}
_COMPARE: dict[str, ast.cmpop] = {
    "==": ast.Eq(), "!=": ast.NotEq(), "<": ast.Lt(), ">": ast.Gt(), "<=": ast.LtE(), ">=": ast.GtE(),
    "is": ast.Is(), "is not": ast.IsNot(), "in": ast.In(), "not in": ast.NotIn(),
}  # fmt: skip

Scalar = str | int | float | bool | None


def name(text: str) -> ast.Name:
    return ast.Name(text, _LOAD, **PLACE)


def constant(value: Scalar) -> ast.Constant:
    return ast.Constant(value, **PLACE)


def call(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(name(function), list(args), [], **PLACE)


def subscript(of: ast.expr, key: str) -> ast.Subscript:
    return ast.Subscript(of, constant(key), _LOAD, **PLACE)


def list_of(parts: list[ast.expr]) -> ast.List:
    return ast.List(parts, _LOAD, **PLACE)


def set_of(items: ast.expr) -> ast.Set:
    return ast.Set([ast.Starred(items, _LOAD, **PLACE)], **PLACE)


def dict_of(keys: list[str], values: list[ast.expr]) -> ast.Dict:
    return ast.Dict([constant(key) for key in keys], values, **PLACE)


def binary(left: ast.expr, operator: str, right: ast.expr) -> ast.BinOp:
    return ast.BinOp(left, _BINARY[operator], right, **PLACE)


def compare(left: ast.expr, operator: str, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [_COMPARE[operator]], [right], **PLACE)


def negated(test: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), test, **PLACE)


def all_of(*tests: ast.expr) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests), **PLACE)


def any_of(*tests: ast.expr) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), list(tests), **PLACE)


def either(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.IfExp:
    return ast.IfExp(test, yes, no, **PLACE)


def assign(target: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(target, _STORE, **PLACE)], value, **PLACE)


def when(test: ast.expr, body: list[ast.stmt], otherwise: list[ast.stmt] | None = None) -> ast.If:
    return ast.If(test, body, otherwise or [], **PLACE)


def for_each(target: str, items: ast.expr, body: list[ast.stmt]) -> ast.For:
    return ast.For(ast.Name(target, _STORE, **PLACE), items, body, [], **PLACE)


def module(function: str, parameter: str, body: list[ast.stmt], ignored: str, last: list[ast.stmt]) -> ast.Module:
    """One function of one parameter: ``body``, and ``last`` where that raised what ``ignored`` names."""
    handler = ast.ExceptHandler(name(ignored), None, [ast.Pass(**PLACE)], **PLACE)
    guarded = ast.Try(body, [handler], [], [], **PLACE)
    args = ast.arguments([], [ast.arg(parameter, **PLACE)], None, [], [], None, [])
    # A newer Python knows more fields of a definition than there are here; they have defaults.
    fields: dict[str, Any] = {"name": function, "args": args, "body": [guarded, *last], "decorator_list": [], **PLACE}
    if "type_params" in ast.FunctionDef._fields:
        fields["type_params"] = []
    return ast.Module([ast.FunctionDef(**fields)], [])
