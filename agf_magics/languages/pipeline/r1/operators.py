"""Operators as closures, each given those of its operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ....flow.values import ATOMS, Value, is_true
from .walk import LARGEST, NUMBERS, ORDER, SHORT, same

Fast = Callable[[Any], Value]
"""Given the frame, its stores or an element (`compile.Scope`). May raise anything: then the walk decides."""


FEW = 100
"""Texts that are joined first and measured then."""


class Unusual(Exception):
    """What no closure handles: an error, or something rare."""


UNUSUAL = Unusual()


def times(a: Any, b: Any) -> Any:
    c = a * b
    if type(c) is int and not -LARGEST < c < LARGEST:
        raise UNUSUAL
    return c


def divide(a: Any, b: Any) -> Any:
    if b == 0:
        raise UNUSUAL
    return a // b if type(a) is int and type(b) is int and a % b == 0 else a / b


NUMERIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": times, "/": divide, **ORDER,
}  # fmt: skip
LITERAL = {**NUMERIC, "*": operator.mul}
"""The same where one is a literal."""


def number_literal(op: str, f: Fast, number: int | float) -> Fast:
    """An operator of numbers with a literal on its right."""
    apply = LITERAL[op]

    def run(e: Any) -> Value:
        a = f(e)
        kind = type(a)
        if kind is int or kind is float:
            return apply(a, number)
        raise UNUSUAL

    return run


def literal_number(op: str, number: int | float, f: Fast) -> Fast:
    """An operator of numbers with a literal on its left."""
    apply = LITERAL[op]

    def run(e: Any) -> Value:
        b = f(e)
        kind = type(b)
        if kind is int or kind is float:
            return apply(number, b)
        raise UNUSUAL

    return run


def binary(op: str, f: Fast, g: Fast, room: int) -> Fast:
    """An operator both of whose operands are known only when it is evaluated."""
    if op in ("==", "!="):
        return _equality(f, g, op == "==")
    if op == "/":
        return _quotient(f, g)
    apply = NUMERIC[op]
    texts = frozenset({str}) if op in ORDER else frozenset({str, list}) if op == "+" else frozenset()
    if op in ORDER:
        room *= 2**60  # a comparison builds nothing

    def run(e: Any) -> Value:
        a, b = f(e), g(e)
        kind, other = type(a), type(b)
        if (kind is int or kind is float) and (other is int or other is float):
            return apply(a, b)
        if kind is other and kind in texts and len(a) + len(b) <= room:
            return apply(a, b)
        raise UNUSUAL

    return run


def _quotient(f: Fast, g: Fast) -> Fast:
    def run(e: Any) -> Value:
        a, b = f(e), g(e)
        kind, other = type(a), type(b)
        if kind is float or other is float:
            if (kind is float or kind is int) and (other is float or other is int):
                return a / b
        elif kind is int and other is int:
            return a // b if a % b == 0 else a / b
        raise UNUSUAL

    return run


def equal_literal(f: Fast, literal: Value, wanted: bool) -> Fast:
    """``==`` (or ``!=``) with a literal: only what has its kind can be equal to it."""
    kinds = frozenset({int, float, bool}) if type(literal) in (int, float, bool) else frozenset({type(literal)})

    def run(e: Any) -> Value:
        a = f(e)
        return (type(a) in kinds and a == literal) is wanted

    return run


def _equality(f: Fast, g: Fast, wanted: bool) -> Fast:
    def run(e: Any) -> Value:
        a, b = f(e), g(e)
        if type(a) in ATOMS and type(b) in ATOMS:
            return (a is b or a == b) is wanted
        known = same(a, b, SHORT)
        if known is not None:
            return known is wanted
        raise UNUSUAL

    return run


def sentence(first: str, holes: tuple[tuple[Fast, str], ...], room: int) -> Fast:
    """``'Hello, ' + name + '!'``: texts between literals, in one go."""

    def run(e: Any) -> Value:
        text = first
        for f, after in holes:
            a = f(e)
            if type(a) is not str:
                raise UNUSUAL
            text += a + after
        if len(text) <= room:
            return text
        raise UNUSUAL

    return run


def negative(f: Fast) -> Fast:
    def run(e: Any) -> Value:
        a = f(e)
        kind = type(a)
        if kind is int or kind is float:
            return -a
        raise UNUSUAL

    return run


def negation(f: Fast) -> Fast:
    def run(e: Any) -> Value:
        a = f(e)
        return a is False or (a is not True and not is_true(a))

    return run


def both(f: Fast, g: Fast) -> Fast:
    def run(e: Any) -> Value:
        a = f(e)
        return g(e) if a is True or (a is not False and is_true(a)) else a

    return run


def either(f: Fast, g: Fast) -> Fast:
    def run(e: Any) -> Value:
        a = f(e)
        return a if a is True or (a is not False and is_true(a)) else g(e)

    return run


def both_true(f: Fast, g: Fast) -> Fast:
    return lambda e: f(e) and g(e)


def either_true(f: Fast, g: Fast) -> Fast:
    return lambda e: f(e) or g(e)


def truth(f: Fast) -> Fast:
    def run(e: Any) -> Value:
        a = f(e)
        return a is True or (a is not False and is_true(a))

    return run


def choice(condition: Fast, yes: Value, other: Fast) -> Fast:
    """``condition and 'yes' or other``, where ``yes`` is a literal that is true."""

    def run(e: Any) -> Value:
        a = condition(e)
        return yes if a is True or (a is not False and is_true(a)) else other(e)

    return run


def count(base: Fast) -> Fast:
    def run(e: Any) -> Value:
        a = base(e)
        if type(a) is list:
            return len(a)
        raise UNUSUAL

    return run


def total(base: Fast, room: int) -> Fast:
    def run(e: Any) -> Value:
        a = base(e)
        if type(a) is list and len(a) <= room and {*map(type, a)} <= NUMBERS:
            return sum(a)
        raise UNUSUAL

    return run


def joined(base: Fast, separator: Fast, room: int) -> Fast:
    def run(e: Any) -> Value:
        a, between = base(e), separator(e)
        if type(a) is not list or type(between) is not str:
            raise UNUSUAL
        if len(a) > FEW and sum(map(len, a)) + len(between) * len(a) > room:
            raise UNUSUAL
        text = between.join(a)
        if len(text) <= room:
            return text
        raise UNUSUAL

    return run
