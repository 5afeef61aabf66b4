"""The semantics of R1: a walk over the nodes that finds the value, or the error and its token.

`codegen` is the same, faster; it leaves everything unusual to the walk. No evaluation can hang or exhaust the memory: a
result has a bound, and the work inside lambdas is charged to one account per outermost combinator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ....flow.values import ATOMS, Value, is_true, type_name
from ....text.diagnostics import join_hints, suggest
from . import nodes
from .hints import method_hint
from .nodes import Arithmetic, Call, Compare, Each, Fields, Get, Items, Lit, Logic, Minus, Node, Not, Path

LONGEST = 10_000_000
"""The maximum length of a text or a list that ``+`` or ``join`` makes, and of parts that ``==`` compares."""
LARGEST = 10**1_000
"""The maximum product of two computed numbers; every other operation makes a number only a little longer."""
MOST_WORK = 10_000_000
"""The maximum cost of one outermost combinator: evaluated tokens, and parts of long results inside lambdas."""
SHORT = 256
"""Inside lambdas a text, a list or a comparison up to this size costs nothing extra."""

Env = dict[Any, Value]
"""A frame; inside lambdas also the parameters, by level, and the account, by ACCOUNT."""
ACCOUNT = -1
ALLOWANCE = -2
"""The key of a smaller account for all outermost combinators together, if the frame has one."""

NUMBERS = frozenset({int, float})
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
ORDER: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip


class Failure(Exception):
    """Why there is no value. The place is an offset and a width in the expression.

    ``part``: which name of the path at this place; only the text knows where it is.
    """

    def __init__(self, code: str, message: str, at: int, width: int, hint: str | None = None, part: int = -1) -> None:
        self.code, self.message, self.at, self.width, self.hint, self.part = code, message, at, width, hint, part


def walk(node: Node, env: Env) -> Value:
    """The value of ``node``; raises Failure."""
    return _WALK[type(node)](node, env)


def _path(node: Path, env: Env) -> Value:
    value: Value = env
    for name in node.read:
        if type(value) is not dict or name not in value:
            _unreadable(node, env)
        value = value[name]
    return value


def _minus(node: Minus, env: Env) -> Value:
    value = walk(node.operand, env)
    if type(value) not in NUMBERS:
        raise Failure("r1.type", f"'-' needs a number, not {type_name(value)}", node.at, 1)
    return -value


def _logic(node: Logic, env: Env) -> Value:
    value: Value = None
    for part in node.parts:
        value = walk(part, env)
        if is_true(value) is (node.op == "or"):
            break
    return value


def _compare(node: Compare, env: Env) -> Value:
    left, right, op = walk(node.left, env), walk(node.right, env), node.op
    if op == "==" or op == "!=":
        return _same(left, right, node, env) is (op == "==")
    if not ((type(left) in NUMBERS and type(right) in NUMBERS) or type(left) is type(right) is str):
        raise Failure("r1.type", f"{op!r} needs two numbers or two texts, not {_both(left, right)}", node.at, len(op),
                    _about(left, right))  # fmt: skip
    return ORDER[op](left, right)


def _arithmetic(node: Arithmetic, env: Env) -> Value:
    before: Node | None = node.first
    left = _WALK[type(before)](before, env)
    for at, op, operand in node.rest:
        right = _WALK[type(operand)](operand, env)
        if type(left) in NUMBERS and type(right) in NUMBERS:
            left = _number(at, op, left, right)
            if op == "*" and type(left) is int and not (-LARGEST < left < LARGEST or _has_literal(before, operand)):
                raise Failure("r1.too-large", "the result has more than 1,000 digits", at, 1)
        elif op == "+" and type(left) is type(right) and type(left) in (str, list):
            if ACCOUNT in env or not _has_literal(before, operand):
                _charge(len(left) + len(right), at, 1, env)
            left = left + right  # never in place: a list may belong to the frame
        else:
            needs = "two numbers, two texts or two lists" if op == "+" else "two numbers"
            raise Failure("r1.type", f"{op!r} needs {needs}, not {_both(left, right)}", at, 1, _about(left, right))
        before = None
    return left


def _has_literal(left: Node | None, right: Node) -> bool:
    """Whether one side is a literal: then the result is not much larger than the other side."""
    constants = (nodes.NOT_CONSTANT if left is None else nodes.constant_value(left), nodes.constant_value(right))
    return constants[0] is not nodes.NOT_CONSTANT or constants[1] is not nodes.NOT_CONSTANT


def _number(at: int, op: str, left: Any, right: Any) -> Value:
    if op == "/":
        if right == 0:
            raise Failure("r1.division-by-zero", "division by zero", at, 1, "check it first: n != 0 and x / n or 0")
        if type(left) is type(right) is int and left % right == 0:  # 6 / 3 is the whole number 2; large ones are exact
            return left // right
    try:
        return ARITHMETIC[op](left, right)
    except OverflowError:
        raise Failure("r1.too-large", "the numbers are larger than a float can be", at, 1) from None


def _each(node: Each, env: Env) -> Value:
    base = _list(walk(node.base, env), node)
    inner = {**env, node.level: None}
    if ACCOUNT not in env:
        inner[ACCOUNT] = env.get(ALLOWANCE) or [MOST_WORK]
    _spend(len(base) * node.weight, node.at, len(node.name), inner)
    level, body, step, name = node.level, node.body, _WALK[type(node.body)], node.name
    out: list[Value] = []
    for element in base:
        inner[level] = element
        value = step(body, inner)
        if name == "map":
            out.append(value)
        elif is_true(value):
            if name == "filter":
                out.append(element)
            elif name != "all":
                return element if name == "find" else True
        elif name == "all":
            return False
    return out if name in ("map", "filter") else {"all": True, "any": False, "find": None}[name]


def _call(node: Call, env: Env) -> Value:
    base = _list(walk(node.args[0], env), node)
    if node.name == "join":
        return _join(node, base, walk(node.args[1], env), env)
    if node.name == "count":
        return len(base)
    return _sum(node, base, env)


def _sum(node: Call, base: list[Value], env: Env) -> Value:
    _charge(len(base), node.at, 3, env)
    for index, value in enumerate(base):
        if type(value) not in NUMBERS:
            raise Failure("r1.type", f"sum needs a list of numbers; element {index} is {type_name(value)}", node.at, 3)
    try:
        return sum(base)
    except OverflowError:
        raise Failure("r1.too-large", "the numbers are larger than a float can be", node.at, 3) from None


def _join(node: Call, base: list[Value], separator: Value, env: Env) -> Value:
    if type(separator) is not str:
        raise Failure("r1.type", f"the separator of join is a text, not {type_name(separator)}", node.at, 4)
    for index, value in enumerate(base):
        if type(value) is not str:
            raise Failure("r1.type", f"join needs a list of texts; element {index} is {type_name(value)}", node.at, 4)
    _charge(sum(map(len, base)) + len(separator) * len(base), node.at, 4, env)
    return separator.join(base)


def _get(node: Get, env: Env) -> Value:
    value = walk(node.base, env)
    default = None if node.default is None else walk(node.default, env)  # evaluated even when it is not needed
    for key in node.key.split("."):
        if type(value) is not dict or key not in value:
            return default
        value = value[key]
    return value


_WALK: dict[type, Callable[[Any, Env], Value]] = {
    Lit: lambda node, env: node.value,
    Path: _path,
    Items: lambda node, env: [walk(item, env) for item in node.items],
    Fields: lambda node, env: {key: walk(value, env) for key, value in node.fields},
    Not: lambda node, env: not is_true(walk(node.operand, env)),
    Minus: _minus,
    Logic: _logic,
    Compare: _compare,
    Arithmetic: _arithmetic,
    Each: _each,
    Call: _call,
    Get: _get,
}


def same(a: Value, b: Value, room: int) -> bool | None:
    """`flow.values.equal`, but None when more than ``room`` parts would have to be looked at.

    Parts can be shared, so two small values may be equal only after 2 ** 100 comparisons.
    """
    left, right = [a], [b]
    while left:
        one, other = left.pop(), right.pop()
        if one is other:
            continue
        kind = type(one)
        if kind in ATOMS and type(other) in ATOMS:
            if one != other:
                return False
        elif kind is not type(other) or kind not in (list, dict) or len(one) != len(other):
            return False
        elif kind is list:
            left += one
            right += other
            room -= len(one)
        elif one.keys() != other.keys():
            return False
        else:
            left += one.values()
            right += map(other.__getitem__, one)
            room -= len(one)
        if room < 0:
            return None
    return True


def _same(left: Value, right: Value, node: Compare, env: Env) -> bool:
    known = same(left, right, SHORT)
    if known is None:
        known = same(left, right, LONGEST)
        _charge(LONGEST + 1 if known is None else SHORT, node.at, 2, env)
    return known is True


def _charge(size: int, at: int, width: int, env: Env) -> None:
    """Refuse a result that is too large; inside lambdas charge a long one."""
    if size > LONGEST:
        raise Failure("r1.too-large", f"the result would have {size:,} parts; {LONGEST:,} are allowed", at, width)
    if size > SHORT and ACCOUNT in env:
        _spend(size, at, width, env)


def _spend(work: int, at: int, width: int, env: Env) -> None:
    account = env[ACCOUNT]
    account[0] -= work
    if account[0] < 0:
        raise too_much(at, width)


def too_much(at: int, width: int) -> Failure:
    """The error for an empty account."""
    message = f"an expression may do {MOST_WORK:,} evaluations, and this one needs more"
    return Failure("r1.too-large", message, at, width, "filter the lists first, or compute it in a tool")


def _list(value: Value, node: Each | Call) -> list[Value]:
    if type(value) is not list:
        message = f"{node.name} needs a list, not {type_name(value)}"
        hint = None if type(value) in ATOMS or type(value) is dict else "let the tool return a list: return list(…)"
        raise Failure("r1.type", message, node.at, len(node.name), hint)
    return value


def _both(left: Value, right: Value) -> str:
    return f"{type_name(left)} and {type_name(right)}"


def _about(left: Value, right: Value) -> str | None:
    kinds = {type(left), type(right)}
    if kinds == {str, int} or kinds == {str, float}:
        return "an expression does not turn a number into text: a tool can, and {ctx.n} in an agent's prompt"
    if type(None) in kinds:
        return "get(base, 'a.b', default) gives a default for a missing field; x or default replaces null"
    if bool in kinds:
        return "true and false are not numbers; write: condition and 1 or 0"
    return None


def _unreadable(node: Path, env: Env) -> NoReturn:
    value, index = env, 0
    while type(value) is dict and node.read[index] in value:
        value, index = value[node.read[index]], index + 1
    part = max(0, index - (len(node.read) - len(node.parts)))  # of the path as written
    code, message, hint = (_missing if type(value) is dict else _not_an_object)(node.parts, part, value, env)
    raise Failure(code, message, node.at, node.end - node.at, node.hidden if part == 0 and node.hidden else hint, part)


def _missing(parts: tuple[str, ...], part: int, value: Any, env: Env) -> tuple[str, str, str | None]:
    name, keys = parts[part], [key for key in value if isinstance(key, str) and key]
    if part == 0:
        keys = list(dict.fromkeys([*keys, *(key for key in env if isinstance(key, str))]))
        return "r1.missing-path", f"there is no {name!r} here", spelling(name) or suggest(name, keys, "names")
    base, rest = ".".join(parts[:part]), ".".join(parts[part:])
    near = suggest(name, keys, "its fields")
    default = f"get({base}, {rest!r}, default) gives a default for a missing field"
    return "r1.missing-path", f"{base!r} has no {name!r}", join_hints(near, default)


def spelling(name: str) -> str | None:
    """The hint for a literal of another language or in the wrong case."""
    plain = {"true": "true", "false": "false", "null": "null", "none": "null", "nil": "null", "undefined": "null"}
    return f"write: {plain[name.lower()]}" if name.lower() in plain else None


def _not_an_object(parts: tuple[str, ...], part: int, value: Any, env: Env) -> tuple[str, str, str | None]:
    base, rest, name = ".".join(parts[:part]) or parts[0], ".".join(parts[part:]), parts[part]
    if type(value) is list:
        each = f"a list has no fields; map({base}, x -> x.{name}) reads it of every element"
        hint = method_hint(base, name) or each
    elif type(value) in ATOMS:
        hint = f"get({base}, {rest!r}, default) gives a default for a missing field"
    else:
        hint = "expressions pass an opaque value on but do not look inside; a tool can"
    return "r1.not-an-object", f"{base!r} is {type_name(value)}, not an object: it has no {name!r}", hint
