"""What R1 means, exactly: a walk over the nodes that finds the value or says what is wrong at which token.

`codegen` is the same, faster; it comes here when anything is unusual. No evaluation can hang or blow up: a result
has a bound, and what is done inside lambdas is charged to one account per outermost combinator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ....flow.values import ATOMS, Value, is_true, type_name
from ....text.diagnostics import hints, suggest
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
    constant,
)

LONGEST = 10_000_000
"""Characters of a text, elements of a list that ``+`` or ``join`` makes, parts that ``==`` compares."""
LARGEST = 10**1_000
"""No product of two computed numbers goes beyond this; whatever else is done to a number makes it little longer."""
MOST_WORK = 10_000_000
"""What one outermost combinator may cost: tokens evaluated, and parts of long results inside lambdas."""
SHORT = 256
"""Inside lambdas a text, a list or a comparison up to this size costs nothing extra."""

Env = dict[Any, Value]
"""A frame; inside lambdas also parameters, by level, and the account, by ACCOUNT."""
ACCOUNT = -1
ALLOWANCE = -2
"""Where a frame may hold an account for all outermost combinators together, which is less than MOST_WORK."""

NUMBERS = frozenset({int, float})
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
ORDER: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip


class Wrong(Exception):
    """Why there is no value: a finding whose place is still an offset and a width in the expression.

    ``part``: of the path that stands there, which name; only the text knows where it is.
    """

    def __init__(self, code: str, message: str, at: int, width: int, hint: str | None = None, part: int = -1) -> None:
        self.code, self.message, self.at, self.width, self.hint, self.part = code, message, at, width, hint, part


def walk(node: Node, env: Env) -> Value:
    """The value of ``node``; raises Wrong."""
    return _WALK[type(node)](node, env)


def _lit(node: Lit, env: Env) -> Value:
    return node.value


def _path(node: Path, env: Env) -> Value:
    value: Value = env
    for name in node.read:
        if type(value) is not dict or name not in value:
            _unreadable(node, env)
        value = value[name]
    return value


def _items(node: Items, env: Env) -> Value:
    return [walk(item, env) for item in node.items]


def _fields(node: Fields, env: Env) -> Value:
    return {key: walk(value, env) for key, value in node.fields}


def _not(node: Not, env: Env) -> Value:
    return not is_true(walk(node.operand, env))


def _minus(node: Minus, env: Env) -> Value:
    value = walk(node.operand, env)
    if type(value) not in NUMBERS:
        raise Wrong("r1.type", f"'-' needs a number, not {type_name(value)}", node.at, 1)
    return -value


def _and(node: And, env: Env) -> Value:
    left = walk(node.left, env)
    return walk(node.right, env) if is_true(left) else left


def _or(node: Or, env: Env) -> Value:
    left = walk(node.left, env)
    return left if is_true(left) else walk(node.right, env)


def _compare(node: Compare, env: Env) -> Value:
    left, right, op = walk(node.left, env), walk(node.right, env), node.op
    if op == "==" or op == "!=":
        return _same(left, right, node, env) is (op == "==")
    if not ((type(left) in NUMBERS and type(right) in NUMBERS) or type(left) is type(right) is str):
        raise Wrong("r1.type", f"{op!r} needs two numbers or two texts, not {_both(left, right)}", node.at, len(op),
                    _about(left, right))  # fmt: skip
    return ORDER[op](left, right)


def _arithmetic(node: Arithmetic, env: Env) -> Value:
    _, op, first, second = node
    left, right = _WALK[type(first)](first, env), _WALK[type(second)](second, env)
    if type(left) in NUMBERS and type(right) in NUMBERS:
        return _number(node, op, left, right)
    if op == "+" and type(left) is type(right) and type(left) in (str, list):
        if ACCOUNT in env or not _linear(node):
            _charge(len(left) + len(right), node.at, 1, env)
        return left + right
    needs = "two numbers, two texts or two lists" if op == "+" else "two numbers"
    raise Wrong("r1.type", f"{op!r} needs {needs}, not {_both(left, right)}", node.at, 1, _about(left, right))


def _number(node: Arithmetic, op: str, left: Any, right: Any) -> Value:
    if op == "/":
        if right == 0:
            raise Wrong("r1.division-by-zero", "division by zero", node.at, 1, "check it first: n != 0 and x / n or 0")
        if type(left) is type(right) is int and left % right == 0:  # 6 / 3 is the whole number 2; large ones are exact
            return left // right
    try:
        value = ARITHMETIC[op](left, right)
    except OverflowError:
        raise Wrong("r1.too-large", "the numbers are larger than a float can be", node.at, 1) from None
    if op == "*" and type(value) is int and not -LARGEST < value < LARGEST and not _linear(node):
        raise Wrong("r1.too-large", "the result has more than 1,000 digits", node.at, 1)
    return value


def _linear(node: Arithmetic) -> bool:
    """Whether one side is a literal, so that what comes out is not much larger than what goes in."""
    return constant(node.left) is not NOT_CONSTANT or constant(node.right) is not NOT_CONSTANT


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
            raise Wrong("r1.type", f"sum needs a list of numbers; element {index} is {type_name(value)}", node.at, 3)
    try:
        return sum(base)
    except OverflowError:
        raise Wrong("r1.too-large", "the numbers are larger than a float can be", node.at, 3) from None


def _join(node: Call, base: list[Value], separator: Value, env: Env) -> Value:
    if type(separator) is not str:
        raise Wrong("r1.type", f"the separator of join is a text, not {type_name(separator)}", node.at, 4)
    for index, value in enumerate(base):
        if type(value) is not str:
            raise Wrong("r1.type", f"join needs a list of texts; element {index} is {type_name(value)}", node.at, 4)
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
    Lit: _lit, Path: _path, Items: _items, Fields: _fields, Not: _not, Minus: _minus, And: _and, Or: _or,
    Compare: _compare, Arithmetic: _arithmetic, Each: _each, Call: _call, Get: _get,
}  # fmt: skip


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
    """Refuse a result that is too large; inside lambdas charge what is long."""
    if size > LONGEST:
        raise Wrong("r1.too-large", f"the result would have {size:,} parts; {LONGEST:,} are allowed", at, width)
    if size > SHORT and ACCOUNT in env:
        _spend(size, at, width, env)


def _spend(work: int, at: int, width: int, env: Env) -> None:
    account = env[ACCOUNT]
    account[0] -= work
    if account[0] < 0:
        raise too_much(at, width)


def too_much(at: int, width: int) -> Wrong:
    """What is said when the account is empty."""
    message = f"more work than one expression may do: {MOST_WORK:,} evaluations"
    return Wrong("r1.too-large", message, at, width, "filter the lists first, or compute it in a tool")


def _list(value: Value, node: Each | Call) -> list[Value]:
    if type(value) is not list:
        raise Wrong("r1.type", f"{node.name} needs a list, not {type_name(value)}", node.at, len(node.name))
    return value


def _both(left: Value, right: Value) -> str:
    return f"{type_name(left)} and {type_name(right)}"


def _about(left: Value, right: Value) -> str | None:
    kinds = {type(left), type(right)}
    if kinds == {str, int} or kinds == {str, float}:
        return "numbers and texts are not turned into each other; a prompt template does: '{ctx.n}'"
    if type(None) in kinds:
        return "get(base, 'a.b', default) reads what may be missing; x or default replaces null"
    if bool in kinds:
        return "true and false are no numbers; write: condition and 1 or 0"
    return None


def _segment(node: Path, index: int) -> int:
    """Which part of the path as written stands for ``node.read[index]``."""
    return max(0, index - (len(node.read) - len(node.parts)))


def _unreadable(node: Path, env: Env) -> NoReturn:
    value, index = env, 0
    while type(value) is dict and node.read[index] in value:
        value, index = value[node.read[index]], index + 1
    if type(value) is dict:
        _missing(node, index, value, env)
    _not_an_object(node, index, value)


def _missing(node: Path, index: int, value: dict[Any, Value], env: Env) -> NoReturn:
    part = _segment(node, index)
    name, keys = node.parts[part], [key for key in value if isinstance(key, str) and key]
    if part == 0:
        keys = list(dict.fromkeys([*keys, *(key for key in env if isinstance(key, str))]))
        message, hint = f"there is no {name!r} here", node.hidden or _spelling(name) or suggest(name, keys, "names")
    else:
        base, rest = ".".join(node.parts[:part]), ".".join(node.parts[part:])
        near = suggest(name, keys, "its fields")
        message = f"{base!r} has no {name!r}"
        hint = hints(near, f"get({base}, {rest!r}, default) reads what may be missing")
    raise Wrong("r1.missing-path", message, node.at, node.end - node.at, hint, part)


def _spelling(name: str) -> str | None:
    plain = {"true": "true", "false": "false", "null": "null", "none": "null", "nil": "null", "undefined": "null"}
    return f"write: {plain[name.lower()]}" if name.lower() in plain else None


def _not_an_object(node: Path, index: int, value: Value) -> NoReturn:
    part = _segment(node, index)
    base, kind = ".".join(node.parts[:part]) or node.parts[0], type_name(value)
    if type(value) is list:
        hint = f"a list has no fields; map({base}, x -> x.{node.parts[part]}) reads it of every element"
    elif type(value) in ATOMS:
        hint = f"get({base}, {'.'.join(node.parts[part:])!r}, default) reads what may be missing"
    else:
        hint = "expressions hand an opaque value on but do not look inside; a tool can"
    message = f"{base!r} is {kind}, not an object: it has no {node.parts[part]!r}"
    raise Wrong("r1.not-an-object", message, node.at, node.end - node.at, hint, part)
