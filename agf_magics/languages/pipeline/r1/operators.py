"""Operators as closures.

Each ends in ``otherwise``, which is the walk for the outermost closure of an expression and a raise for those inside: so
the outermost needs no other closure around it that catches, which would cost half of a short expression. Where ``pair``
is in a name, the operand is ``ctx.n`` and read in place: calling a closure for it costs as much as the operation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from ....flow.values import ATOMS, Value, is_true
from .walk import LARGEST, ORDER, SHORT, same

Fast = Callable[[Any], Value]
"""Takes the frame, or the element of a lambda that reads nothing else. May raise anything: then the walk decides."""


class Unusual(Exception):
    """What no closure handles: an error, or something rare."""


UNUSUAL = Unusual()


def unusual(e: Any) -> NoReturn:
    raise UNUSUAL


def guarded(f: Fast, otherwise: Fast) -> Fast:
    def run(e: Any) -> Value:
        try:
            return f(e)
        except Exception:
            pass
        return otherwise(e)

    return run


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


def number_literal(op: str, f: Fast, number: int | float, otherwise: Fast) -> Fast:
    """An operator of numbers with a literal on its right."""
    apply = LITERAL[op]

    def run(e: Any) -> Value:
        try:
            a = f(e)
            kind = type(a)
            if kind is int or kind is float:
                return apply(a, number)
        except Exception:
            pass
        return otherwise(e)

    return run


def pair_literal(op: str, first: str, second: str, number: int | float, otherwise: Fast) -> Fast:
    apply = LITERAL[op]

    def run(e: Any) -> Value:
        try:
            a = e[first][second]
            kind = type(a)
            if kind is int or kind is float:
                return apply(a, number)
        except Exception:
            pass
        return otherwise(e)

    return run


def literal_number(op: str, number: int | float, f: Fast, otherwise: Fast) -> Fast:
    """An operator of numbers with a literal on its left."""
    apply = LITERAL[op]

    def run(e: Any) -> Value:
        try:
            b = f(e)
            kind = type(b)
            if kind is int or kind is float:
                return apply(number, b)
        except Exception:
            pass
        return otherwise(e)

    return run


def binary(op: str, f: Fast, g: Fast, room: int, otherwise: Fast) -> Fast:
    """An operator both of whose operands are known only when it is evaluated."""
    if op in ("==", "!="):
        return _equality(f, g, op == "==", otherwise)
    apply = NUMERIC[op]
    texts = frozenset({str}) if op in ORDER else frozenset({str, list}) if op == "+" else frozenset()
    if op in ORDER:
        room *= 2**60  # a comparison builds nothing

    def run(e: Any) -> Value:
        try:
            a, b = f(e), g(e)
            kind, other = type(a), type(b)
            if (kind is int or kind is float) and (other is int or other is float):
                return apply(a, b)
            if kind is other and kind in texts and len(a) + len(b) <= room:
                return apply(a, b)
        except Exception:
            pass
        return otherwise(e)

    return run


def equal_literal(f: Fast, literal: Value, wanted: bool, otherwise: Fast) -> Fast:
    """``==`` (or ``!=``) with a literal: only what has its kind can be equal to it."""
    kinds = frozenset({int, float, bool}) if type(literal) in (int, float, bool) else frozenset({type(literal)})

    def run(e: Any) -> Value:
        try:
            a = f(e)
            return (type(a) in kinds and a == literal) is wanted
        except Exception:
            pass
        return otherwise(e)

    return run


def _equality(f: Fast, g: Fast, wanted: bool, otherwise: Fast) -> Fast:
    def run(e: Any) -> Value:
        try:
            a, b = f(e), g(e)
            if type(a) in ATOMS and type(b) in ATOMS:
                return (a is b or a == b) is wanted
            known = same(a, b, SHORT)
            if known is not None:
                return known is wanted
        except Exception:
            pass
        return otherwise(e)

    return run


def sentence(first: str, holes: tuple[tuple[Fast, str], ...], room: int, otherwise: Fast) -> Fast:
    """``'Hello, ' + name + '!'``: texts between literals, in one go."""

    def run(e: Any) -> Value:
        try:
            text = first
            for f, after in holes:
                a = f(e)
                if type(a) is not str:
                    break
                text += a + after
            else:
                if len(text) <= room:
                    return text
        except Exception:
            pass
        return otherwise(e)

    return run


def pair_sentence(before: str, first: str, second: str, after: str, otherwise: Fast) -> Fast:
    def run(e: Any) -> Value:
        try:
            a = e[first][second]
            if type(a) is str:
                return before + a + after
        except Exception:
            pass
        return otherwise(e)

    return run


def negative(f: Fast, otherwise: Fast) -> Fast:
    def run(e: Any) -> Value:
        try:
            a = f(e)
            kind = type(a)
            if kind is int or kind is float:
                return -a
        except Exception:
            pass
        return otherwise(e)

    return run


def negation(f: Fast, otherwise: Fast) -> Fast:
    def run(e: Any) -> Value:
        try:
            a = f(e)
            return a is False or (a is not True and not is_true(a))
        except Exception:
            pass
        return otherwise(e)

    return run


def both(f: Fast, g: Fast, otherwise: Fast) -> Fast:
    def run(e: Any) -> Value:
        try:
            a = f(e)
            return g(e) if a is True or (a is not False and is_true(a)) else a
        except Exception:
            pass
        return otherwise(e)

    return run


def either(f: Fast, g: Fast, otherwise: Fast) -> Fast:
    def run(e: Any) -> Value:
        try:
            a = f(e)
            return a if a is True or (a is not False and is_true(a)) else g(e)
        except Exception:
            pass
        return otherwise(e)

    return run


def choice(condition: Fast, yes: Value, other: Fast, otherwise: Fast) -> Fast:
    """``condition and 'yes' or other``, where ``yes`` is a literal that is true."""

    def run(e: Any) -> Value:
        try:
            a = condition(e)
            return yes if a is True or (a is not False and is_true(a)) else other(e)
        except Exception:
            pass
        return otherwise(e)

    return run
