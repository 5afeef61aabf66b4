"""Compiles R1: each node of the checked tree becomes a closure that computes its value.

A closure raises a Failure at its token. It changes nothing that others see: parameters of lambdas
and the account are in a copy of the frame. No evaluation can hang or exhaust the memory: the size
of results is bounded, and the work in lambdas is charged to one account per outermost combinator.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from itertools import compress
from typing import Any

from ....flow.comparison_warnings import OF_JSON, is_opaque, never_equal, warn_of_comparison
from ....flow.protocols import Frame
from ....text.diagnostics import Diagnostic, StepError
from ....text.length import ATOMS
from ....text.source import Text
from ....values.extent import REMEMBERED, extents
from ....values.value import Value, equal_within, is_true, type_name
from .account import SHORT, charge, spend, with_account
from .failures import Failure, element_needed, list_needed, no_float, not_a_number
from .nodes import (
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
)
from .operands import two_needed, unreadable
from .row import Closure, Env

LARGEST = 10**1_000
"""The maximum product of two numbers; all else makes a number only a little longer."""
SMALL = 10**15
"""A product below it is not checked."""
BinaryOperation = Callable[[Value, Value, Env], Value]
"""Computes an operator at its place in the text: the value of two operands in a frame."""

NOTHING: dict[Any, Value] = {}
"""The names of a value that is not an object."""
NUMBERS = frozenset({int, float})
"""The classes of numbers; bool is a class of its own and no number."""


_NAME = re.compile("[A-Za-z0-9_]+")
"""A name in the text of a path; `Failure.part` counts them."""


def evaluator(node: Node, text: Text) -> Callable[[Frame], Value]:
    """The closure for the whole expression ``text``. It raises only StepError, at the exact
    token."""
    run = closure(node)

    def evaluate(frame: Frame) -> Value:
        try:
            return run(frame if type(frame) is dict else {})  # only an object has names
        except (Failure, RecursionError) as error:
            failure = _at_its_token(error, text)
        raise failure

    return evaluate


def _at_its_token(error: Failure | RecursionError, text: Text) -> StepError:
    """The error of a step for a failure, with the place of its token in ``text``."""
    if isinstance(error, Failure):
        start = error.offset
        end = error.offset + error.width
        if error.part >= 0:
            name = list(_NAME.finditer(text.text, start, end))[error.part]
            start, end = name.span()
        place = text.locate(start, end)
        failure = StepError(Diagnostic(error.code, error.message, place, error.hint))
        failure.is_unknown_name = error.is_unknown_name
        return failure
    message = "the stack is too full to evaluate this"
    return StepError(Diagnostic("r1.too-deep", message, text.locate(0, len(text.text))))


def closure(node: Node) -> Closure:
    """The closure for ``node``, which computes its value over a frame, or raises Failure."""
    return _CLOSURES[type(node)](node)


def _literal(node: Lit) -> Closure:
    value = node.value
    return lambda env: value


def _path(node: Path) -> Closure:
    read = node.read

    def path(env: Env) -> Value:
        value: Value = env
        try:
            for name in read:
                value = (value if type(value) is dict else NOTHING)[name]
        except KeyError:
            raise unreadable(node, env) from None
        return value

    if len(read) != 2:
        return path
    first, second = read

    def field(env: Env) -> Value:  # most paths: a field of an element, a name in a store
        try:
            parent = env[first]
            if type(parent) is dict:
                return parent[second]
        except KeyError:
            pass
        return path(env)

    return field


def _truth(node: Node, run: Closure) -> Closure:
    """Whether the value of ``node`` is true. ``run``: its closure."""
    # A comparison and `not` give nothing but true and false.
    return run if type(node) in (Compare, Not) else lambda env: is_true(run(env))


def _items(node: Items) -> Closure:
    items = tuple(map(closure, node.items))
    return lambda env: [item(env) for item in items]


def _fields(node: Fields) -> Closure:
    fields = tuple((key, closure(value)) for key, value in node.fields)
    return lambda env: {key: value(env) for key, value in fields}


def _not(node: Not) -> Closure:
    test = _truth(node.operand, closure(node.operand))
    return lambda env: not test(env)


def _minus(node: Minus) -> Closure:
    operand = closure(node.operand)
    offset = node.offset
    operand_name = _operand_words(node.operand)

    def minus(env: Env) -> Value:
        value = operand(env)
        if type(value) not in NUMBERS:
            raise Failure("r1.type", f"'-' needs a number, not {type_name(value)}", offset, 1)
        if value != value:
            raise not_a_number("-", (operand_name,), offset)
        return -value

    return minus


def _logic(node: Logic) -> Closure:
    *before, last = map(closure, node.parts)
    both = node.op == "and"
    decides = not both

    def logic(env: Env) -> Value:
        for part in before:  # a loop: a long chain must not become a deep stack
            value = part(env)
            # Nearly all are true or false, and the call of `is_true` costs as much as the part.
            if value is not both and is_true(value) is decides:
                return value
        return last(env)

    return logic


# ---- operators ---------------------------------------------------------------------------------


def _arithmetic(node: Arithmetic) -> Closure:
    first = node.first
    second, *rest = node.rest
    run = _operation(second.op, second.offset, first, second.operand)
    steps = [
        (_step(op, offset, "", _operand_words(operand)), closure(operand))
        for offset, op, operand in rest
    ]

    def chain(env: Env) -> Value:
        value = run(env)
        for step, operand in steps:  # a loop: a long chain must not become a deep stack
            value = step(value, operand(env), env)
        return value

    return chain if steps else run


def _operation(op: str, offset: int, first: Node, second: Node) -> Closure:
    """The closure of one operator with its operands. It computes two numbers itself, because a call
    of `step` for each takes half as long again. `step` computes everything else, and reports
    errors, also for NaN: it has no order, and every result with it is NaN."""
    step = _step(op, offset, _operand_words(first), _operand_words(second))
    compute = _COMPUTE[op]
    left = closure(first)
    bounded = op == "*"
    small = SMALL
    if isinstance(second, Lit):
        literal = second.value
        is_number = type(literal) in NUMBERS

        def operation_with_literal(env: Env) -> Value:
            value_of_first = left(env)
            if is_number and ((kind := type(value_of_first)) is int or kind is float):
                try:
                    value = compute(value_of_first, literal)
                    # NaN differs from itself, and all its orders are false.
                    is_nan = value != value or (value is False and value_of_first != value_of_first)
                    if not is_nan and (not bounded or -small < value < small):
                        return value
                except ArithmeticError:
                    pass
            return step(value_of_first, literal, env)

        return operation_with_literal
    right = closure(second)

    def operation(env: Env) -> Value:
        value_of_first = left(env)
        other = right(env)
        kind = type(value_of_first)
        kind_of_other = type(other)
        if (kind is int or kind is float) and (kind_of_other is int or kind_of_other is float):
            try:
                value = compute(value_of_first, other)
                is_nan = value != value or (
                    value is False and (value_of_first != value_of_first or other != other)
                )
                if not is_nan and (not bounded or -small < value < small):
                    return value
            except ArithmeticError:
                pass
        return step(value_of_first, other, env)

    return operation


def _quotient(left: Any, right: Any) -> Value:
    if type(left) is type(right) is int and left % right == 0:
        return left // right  # 6 / 3 is the whole number 2; large ones are exact
    return left / right


_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_NEEDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "+": ("two numbers, two texts or two lists", (str, list)),
    **dict.fromkeys("-*/", ("two numbers", ())),
    **dict.fromkeys(("<", ">", "<=", ">="), ("two numbers or two texts", (str,))),
}
"""The operands that an operator accepts, in words, and their types besides numbers."""


def _operand_words(node: Node) -> str:
    """An operand in a message: its path, if it is one."""
    return repr(".".join(node.parts)) if type(node) is Path else ""


def _step(op: str, offset: int, *names: str) -> BinaryOperation:
    """The closure of an arithmetic or ordering operator. ``names``: the names of its operands."""
    compute = _COMPUTE[op]
    needs, types = _NEEDS[op]
    largest = LARGEST
    numbers = NUMBERS
    grows = op == "*"

    def step(left: Any, right: Any, env: Env) -> Value:
        kind = type(left)
        if kind in numbers and type(right) in numbers:
            try:
                value = compute(left, right)
            except ZeroDivisionError:
                hint = "check it first: n != 0 and x / n or 0"
                raise Failure("r1.division-by-zero", "division by zero", offset, 1, hint) from None
            except OverflowError:
                raise no_float(offset, 1) from None
            if left != left or right != right:
                nans = (left != left, right != right)
                raise not_a_number(op, list(compress(names, nans)), offset)
            if grows and type(value) is int and not -largest < value < largest:
                raise Failure("r1.too-large", "the result has more than 1,000 digits", offset, 1)
            return value
        if kind is not type(right) or kind not in types:
            raise two_needed(op, needs, left, right, offset)
        if op == "+":
            charge(len(left) + len(right), offset, 1, env)
        value = compute(left, right)  # never in place: a list may belong to the frame
        # The run's counts of parts: that of the whole follows from those of the two sides.
        if kind is list and len(value) > REMEMBERED and (counts := extents.get()) is not None:
            counts.joined(value, left, right)
        return value

    return step


def _compare(node: Compare) -> Closure:
    left = closure(node.left)
    right = closure(node.right)
    offset = node.offset
    op = node.op
    if op in _COMPUTE:
        return _operation(op, offset, node.left, node.right)
    equal = op == "=="

    def equality(env: Env) -> Value:
        first = left(env)
        second = right(env)
        room = SHORT
        if type(first) in ATOMS and type(second) in ATOMS:  # nearly always
            return (first is second or first == second) is equal  # NaN equals itself
        while (same := equal_within(first, second, room)) is None:
            room *= 2
            charge(room, offset, 2, env)
        if not same and never_equal(first, second):
            warn_of_comparison(_unequal(node, first, second), OF_JSON)
        return same is equal

    return equality


def _unequal(node: Compare, first: Value, second: Value) -> str:
    """The message for two values that are never equal, because one is an object."""
    operand, opaque = (node.left, first) if is_opaque(first) else (node.right, second)
    outcome = "false" if node.op == "==" else "true"
    name = _operand_words(operand) or "a value"
    return f"{node.op!r} is {outcome}: {name} is {type_name(opaque)}, equal to itself alone"


# ---- functions ---------------------------------------------------------------------------------

_TYPES: dict[str, frozenset[type]] = {
    "list": frozenset({list}),
    "number": frozenset({int, float}),
    "text": frozenset({str}),
}
"""The types of values, by the kind of an argument or of its elements."""


def _argument(node: Each | Call | Get, index: int, argument: Node) -> Closure:
    """The closure of a function's argument, which refuses a value of another kind than the row
    allows."""
    run = closure(argument)
    wanted = node.function.arguments[index]
    if wanted.kind not in _TYPES:
        return run
    offset = node.offset
    name = node.name
    (kind,) = _TYPES[wanted.kind]  # one class: an argument is never a number (`row.Kind`)

    def checked(env: Env) -> Value:
        value = run(env)
        if type(value) is not kind:
            if kind is list:
                raise list_needed(name, value, offset)
            message = f"{node.function.needs(index)}, not {type_name(value)}"
            raise Failure("r1.type", message, offset, len(name))
        return value

    if not wanted.of:
        return checked
    types = _TYPES[wanted.of]
    needs = f"{wanted.of}s"

    def elements_checked(env: Env) -> Value:
        items = checked(env)
        if not types.issuperset(map(type, items)):
            raise element_needed(name, needs, items, types, offset)
        return items

    return elements_checked


def _each(node: Each) -> Closure:
    offset = node.offset
    width = len(node.name)
    weight = node.weight
    base = _argument(node, 0, node.base)
    body = closure(node.body)
    loop = node.function.meaning(node.level, body, _truth(node.body, body))

    def each(env: Env) -> Value:
        items = base(env)
        env = with_account(env)
        spend(len(items) * weight, offset, width, env)
        return loop(env, items)

    return each


def _call(node: Call) -> Closure:
    arguments = [_argument(node, index, argument) for index, argument in enumerate(node.args)]
    return node.function.meaning(node, *arguments)


def _get(node: Get) -> Closure:
    default = node.default or Lit(node.offset, None)
    return node.function.meaning(node, _argument(node, 0, node.base), _argument(node, 2, default))


_CLOSURES: dict[type, Callable[[Any], Closure]] = {
    Lit: _literal,
    Path: _path,
    Items: _items,
    Fields: _fields,
    Not: _not,
    Minus: _minus,
    Logic: _logic,
    Compare: _compare,
    Arithmetic: _arithmetic,
    Each: _each,
    Call: _call,
    Get: _get,
}
