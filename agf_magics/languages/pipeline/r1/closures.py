"""The meaning of R1: each node of the checked tree becomes a closure that finds its value.

A closure raises a Failure at its own token. It changes nothing that others see: parameters of
lambdas and the account live in a copy of the frame. No evaluation can hang or exhaust the memory: a
result has a bound, and the work in lambdas is charged to one account per outermost combinator.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any, NoReturn

from ....flow.session import find_json
from ....flow.values import ATOMS, Value, equal_within, is_true, type_name
from ....text.nodes import shorten
from ...documents import MISSING, descend
from .hints import Failure, element_needed, list_needed, no_float, two_needed, unreadable
from .nodes import (
    NOT_CONSTANT,
    Arithmetic,
    Call,
    Compare,
    Each,
    Fields,
    Get,
    Items,
    Lit,
    Logic,
    Minus,
    Node,
    Not,
    Path,
    constant_value,
)

LONGEST = 10_000_000
"""The maximum length of a text or a list that ``+`` or ``join`` makes, and of parts that ``==``
compares."""
LARGEST = 10**1_000
"""The maximum product of two computed numbers; all else makes a number only a little longer."""
MOST_WORK = 10_000_000
"""The maximum cost of one outermost combinator: evaluated tokens, and parts of long results inside
lambdas."""
SMALL = 10**15
"""A product below it needs no check."""
LONGEST_WRITTEN = 1_000_000
"""The most characters of a value as text, in a prompt and by ``text``."""
SHORT = 256
"""Inside lambdas a text, a list or a comparison up to this size costs nothing extra."""

Env = dict[Any, Value]
"""A frame; inside lambdas a copy that also has the parameters, by level, and the account."""
Run = Callable[[Env], Value]
"""A node's closure."""
Step = Callable[[Value, Value, Env], Value]
"""An operator with its place: the value for two operands."""
Compute = Callable[[Any, Any], Any]
"""The same for two numbers only; it may raise an ArithmeticError."""

ACCOUNT = object()
NUMBERS = frozenset({int, float})
TEXTS = frozenset({str})


def closure(node: Node) -> Run:
    """What finds the value of ``node`` over a frame, or raises Failure."""
    value = constant_value(node)
    return _CLOSURES[type(node)](node) if value is NOT_CONSTANT else lambda env: value


def _path(node: Path) -> Run:
    read = node.read
    if len(read) == 2:  # most paths: a field of an element, a name in a store
        first, second = read

        def field(env: Env) -> Value:
            try:
                parent = env[first]
                if type(parent) is dict:
                    return parent[second]
            except KeyError:
                pass
            raise unreadable(node, env)

        return field
    if len(read) == 1 and isinstance(read[0], int):
        return operator.itemgetter(read[0])  # the parameter of a lambda is always there

    def path(env: Env) -> Value:
        value: Value = env
        for name in read:
            if type(value) is not dict or name not in value:
                raise unreadable(node, env)
            value = value[name]
        return value

    return path


def _items(node: Items) -> Run:
    items = tuple(map(closure, node.items))
    return lambda env: [item(env) for item in items]


def _fields(node: Fields) -> Run:
    fields = tuple((key, closure(value)) for key, value in node.fields)
    return lambda env: {key: value(env) for key, value in fields}


def _not(node: Not) -> Run:
    operand = closure(node.operand)

    def inverted(env: Env) -> Value:
        value = operand(env)
        return not is_true(value)

    return inverted


def _minus(node: Minus) -> Run:
    operand, at = closure(node.operand), node.at

    def minus(env: Env) -> Value:
        value = operand(env)
        if type(value) not in NUMBERS:
            raise Failure("r1.type", f"'-' needs a number, not {type_name(value)}", at, 1)
        return -value

    return minus


def _logic(node: Logic) -> Run:
    *before, last = map(closure, node.parts)
    both = node.op == "and"

    def logic(env: Env) -> Value:
        for part in before:  # a loop: a long chain must not become a deep stack
            value = part(env)
            if is_true(value) is not both:
                return value
        return last(env)

    return logic


# ---- operators ---------------------------------------------------------------------------------


def _arithmetic(node: Arithmetic) -> Run:
    (at, op, second), *rest = node.rest
    step = _step(op, at, _is_literal(node.first) or _is_literal(second))
    run = _operation(closure(node.first), second, _COMPUTE[op], step, op == "*")
    if not rest:
        return run
    steps = [(_step(op, at, _is_literal(each)), closure(each)) for at, op, each in rest]

    def chain(env: Env) -> Value:
        value = run(env)
        for step, operand in steps:
            value = step(value, operand(env), env)
        return value

    return chain


def _is_literal(node: Node) -> bool:
    """Whether it is a literal: what it is added to, or multiplied by, becomes not much larger."""
    return constant_value(node) is not NOT_CONSTANT


def _operation(left: Run, operand: Node, compute: Compute, step: Step, bounded: bool) -> Run:
    """Two numbers at once; everything else, and if ``bounded`` a large result, by ``step``."""
    literal = constant_value(operand)
    if literal is not NOT_CONSTANT:
        numeric = type(literal) in NUMBERS

        def operation_with_literal(env: Env) -> Value:
            one = left(env)
            if numeric and ((kind := type(one)) is int or kind is float):
                try:
                    return compute(one, literal)
                except ArithmeticError:
                    pass
            return step(one, literal, env)

        return operation_with_literal
    right, least, most = closure(operand), -SMALL, SMALL

    def operation(env: Env) -> Value:
        one, other = left(env), right(env)
        kind, its = type(one), type(other)
        if (kind is int or kind is float) and (its is int or its is float):
            try:
                value = compute(one, other)
                if not bounded or least < value < most:
                    return value
            except ArithmeticError:
                pass
        return step(one, other, env)

    return operation


def _quotient(left: Any, right: Any) -> Value:
    if type(left) is type(right) is int and left % right == 0:
        return left // right  # 6 / 3 is the whole number 2; large ones are exact
    return left / right


_COMPUTE: dict[str, Compute] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def _step(op: str, at: int, literal: bool) -> Step:
    """An operator of arithmetic; ``literal``: whether one operand is a literal."""
    compute, most, least = _COMPUTE[op], LARGEST, -LARGEST

    def step(left: Any, right: Any, env: Env) -> Value:
        kind = type(left)
        if kind is type(right) and (kind is str or kind is list) and op == "+":
            size = len(left) + len(right)
            if size > SHORT and (not literal or ACCOUNT in env):
                _charge(size, at, 1, env)
            return left + right  # never in place: a list may belong to the frame
        if kind not in NUMBERS or type(right) not in NUMBERS:
            needs = "two numbers, two texts or two lists" if op == "+" else "two numbers"
            raise two_needed(op, needs, left, right, at)
        if op == "/" and right == 0:
            hint = "check it first: n != 0 and x / n or 0"
            raise Failure("r1.division-by-zero", "division by zero", at, 1, hint)
        try:
            value = compute(left, right)
        except OverflowError:
            raise no_float(at, 1) from None
        if op == "*" and not literal and type(value) is int and not least < value < most:
            raise Failure("r1.too-large", "the result has more than 1,000 digits", at, 1)
        return value

    return step


def _compare(node: Compare) -> Run:
    left, op, at, compute = closure(node.left), node.op, node.at, _COMPUTE.get(node.op)
    if compute is None:
        return _equality(left, node.right, op == "==", at)

    def ordered(left: Value, right: Value, env: Env) -> Value:
        if type(left) is type(right) is str:
            return compute(left, right)
        raise two_needed(op, "two numbers or two texts", left, right, at)

    return _operation(left, node.right, compute, ordered, False)


def _equality(left: Run, operand: Node, equal: bool, at: int) -> Run:
    right = closure(operand)

    def equality(env: Env) -> Value:
        first, second = left(env), right(env)
        if type(first) in ATOMS and type(second) in ATOMS:
            return (first is second or first == second) is equal  # NaN equals itself
        same = equal_within(first, second, SHORT)
        if same is None:
            same = equal_within(first, second, LONGEST)
            _charge(LONGEST + 1 if same is None else SHORT, at, 2, env)
        return (same is True) is equal

    return equality


# ---- functions ---------------------------------------------------------------------------------


def _list(node: Node, name: str, at: int) -> Callable[[Env], list[Value]]:
    run = closure(node)

    def listed(env: Env) -> list[Value]:
        value = run(env)
        if type(value) is not list:
            raise list_needed(name, value, at)
        return value

    return listed


def _each(node: Each) -> Run:
    name, level, at, width, weight = node.name, node.level, node.at, len(node.name), node.weight
    base, body = _list(node.base, name, at), closure(node.body)

    def mapped(env: Env, items: list[Value]) -> Value:
        return [body(env) for env[level] in items]  # each element becomes the parameter

    def filtered(env: Env, items: list[Value]) -> Value:
        found = []
        for env[level] in items:
            if is_true(body(env)):
                found.append(env[level])
        return found

    wanted = name != "all"

    def searched(env: Env, items: list[Value]) -> Value:
        for env[level] in items:
            value = body(env)
            if is_true(value) is wanted:
                return env[level] if name == "find" else wanted
        return None if name == "find" else not wanted

    loop = {"map": mapped, "filter": filtered}.get(name, searched)

    def each(env: Env) -> Value:
        items = base(env)
        if ACCOUNT not in env:  # the outermost loop
            env = {**env, ACCOUNT: [MOST_WORK]}
        _spend(len(items) * weight, at, width, env)
        return loop(env, items)

    return each


def _count(node: Call) -> Run:
    base = _list(node.args[0], node.name, node.at)
    return lambda env: len(base(env))


def _sum(node: Call) -> Run:
    base, at = _list(node.args[0], node.name, node.at), node.at

    def total(env: Env) -> Value:
        items = base(env)
        _charge(len(items), at, 3, env)
        if not NUMBERS.issuperset(map(type, items)):
            raise element_needed("sum", "numbers", items, NUMBERS, at)
        try:
            return sum(items)
        except OverflowError:
            raise no_float(at, 3) from None

    return total


def _join(node: Call) -> Run:
    base, at = _list(node.args[0], node.name, node.at), node.at
    between = closure(node.args[1])

    def joined(env: Env) -> Value:
        items, separator = base(env), between(env)
        if type(separator) is not str:
            message = f"the separator of join is a text, not {type_name(separator)}"
            raise Failure("r1.type", message, at, 4)
        if not TEXTS.issuperset(map(type, items)):
            raise element_needed("join", "texts", items, TEXTS, at)
        _charge(sum(map(len, items)) + len(separator) * len(items), at, 4, env)
        return separator.join(items)

    return joined


def _parse_json(node: Call) -> Run:
    written, at, width = closure(node.args[0]), node.at, len(node.name)

    def parsed(env: Env) -> Value:
        text = written(env)
        if type(text) is not str:
            message = f"parse_json needs a text, not {type_name(text)}"
            raise Failure("r1.type", message, at, width)
        _charge(len(text), at, width, env)
        found = find_json(text)
        if found is None:
            message = f"there is no JSON in the text {shorten(text)!r}"
            hint = "ask the agent for JSON in its prompt, or give its step a schema"
            raise Failure("r1.no-json", message, at, width, hint)
        return found[0]

    return parsed


def _text(node: Call) -> Run:
    written, at = closure(node.args[0]), node.at

    def text(env: Env) -> str:
        value = written(env)
        try:
            found = value if type(value) is str else text_form(value)
        except ValueError as problem:
            message, hint = f"the value {problem}", "turn it into text in a tool first"
            raise Failure("r1.type", message, at, 4, hint) from None
        _charge(len(found), at, 4, env)
        return found

    return text


def text_form(value: Value) -> str:
    """What a value other than a text is in a text: compact JSON. Raises ValueError."""
    pieces, room = list[str](), LONGEST_WRITTEN
    try:
        # Piece by piece: a small value with shared parts can have a large JSON.
        for piece in _JSON.iterencode(value):
            pieces.append(piece)
            room -= len(piece)
            if room < 0:
                break
        else:
            return "".join(pieces)
    except TypeError as error:
        raise ValueError(f"has {error} in it, which has no text form") from None
    except (ValueError, RecursionError):  # a number too long to write, or nested too deep
        raise ValueError("is too large to be written as text") from None
    raise ValueError(f"has more than {LONGEST_WRITTEN:,} characters")


def _opaque(value: Value) -> NoReturn:
    raise TypeError(type_name(value))


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_opaque)


def _get(node: Get) -> Run:
    base, keys = closure(node.base), node.key.split(".")
    default = closure(node.default or Lit(node.at, None))

    def get(env: Env) -> Value:
        value, otherwise = base(env), default(env)  # it may fail even when it is not needed
        value = descend(value, keys)
        return otherwise if value is MISSING else value

    return get


def _charge(size: int, at: int, width: int, env: Env) -> None:
    """Refuse a result that is too large; inside lambdas charge a long one."""
    if size > LONGEST:
        message = f"the result would have {size:,} parts; {LONGEST:,} are allowed"
        raise Failure("r1.too-large", message, at, width)
    if size > SHORT and ACCOUNT in env:
        _spend(size, at, width, env)


def _spend(work: int, at: int, width: int, env: Env) -> None:
    account = env[ACCOUNT]
    account[0] -= work
    if account[0] < 0:
        message = f"an expression may do {MOST_WORK:,} evaluations, and this one needs more"
        hint = "filter the lists first, or compute it in a tool"
        raise Failure("r1.too-large", message, at, width, hint)


CALLS: dict[str, Callable[[Call], Run]] = {
    "count": _count,
    "sum": _sum,
    "join": _join,
    "parse_json": _parse_json,
    "text": _text,
}

_CLOSURES: dict[type, Callable[[Any], Run]] = {
    Path: _path,
    Items: _items,
    Fields: _fields,
    Not: _not,
    Minus: _minus,
    Logic: _logic,
    Compare: _compare,
    Arithmetic: _arithmetic,
    Each: _each,
    Call: lambda node: CALLS[node.name](node),
    Get: _get,
}
