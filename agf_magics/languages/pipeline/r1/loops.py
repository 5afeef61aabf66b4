"""Combinators as closures.

A lambda that reads only its own element is compiled to a closure over that element. Any other reads from a copy of the
frame in which the element is set in place: one copy for all loops of an expression, not one per element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....flow.values import Value, is_true
from .nodes import Each
from .operators import UNUSUAL, Fast
from .walk import ACCOUNT, MOST_WORK, Env

Rows = Callable[[list[Any]], Value]
ENDS: dict[str, tuple[bool, bool, bool | None]] = {
    "all": (False, False, True),
    "any": (True, True, False),
    "find": (True, True, None),
}
"""Which truth ends a search, what it gives then (``find`` the element instead), and what it gives otherwise."""


def elements(name: str, body: Fast) -> Rows:
    """The loop ``name`` where the body takes the element."""
    if name == "map":
        return lambda items: [body(x) for x in items]
    if name == "filter":
        return lambda items: [x for x in items if (a := body(x)) is True or (a is not False and is_true(a))]
    if name == "find":

        def find(items: list[Any]) -> Value:
            for x in items:
                a = body(x)
                if a is True or (a is not False and is_true(a)):
                    return x
            return None

        return find
    end, then, otherwise = ENDS[name]

    def search(items: list[Any]) -> Value:
        for x in items:
            a = body(x)
            if (a is True or (a is not False and is_true(a))) is end:
                return then
        return otherwise

    return search


def fields(name: str, key: str) -> Rows | None:
    """The loop ``name`` where the body is ``x.key``."""
    if name == "map":

        def column(items: list[Any]) -> Value:
            if [*map(type, items)].count(dict) != len(items):
                raise UNUSUAL
            return [x[key] for x in items]

        return column
    if name not in ("all", "any"):
        return None
    end, then, otherwise = ENDS[name]

    def search(items: list[Any]) -> Value:
        for x in items:
            if type(x) is not dict:
                raise UNUSUAL
            a = x[key]
            if (a is True or (a is not False and is_true(a))) is end:
                return then
        return otherwise

    return search


def frames(name: str, body: Fast, level: int) -> Callable[[Env, list[Any]], Value]:
    """The loop ``name`` where the body takes a frame: ``for frame[level] in items`` sets the element in place."""
    if name == "map":
        return lambda frame, items: [body(frame) for frame[level] in items]
    if name == "filter":
        return lambda frame, items: [frame[level] for frame[level] in items if is_true(body(frame))]
    end, then, otherwise = ENDS[name]

    def search(frame: Env, items: list[Any]) -> Value:
        for frame[level] in items:
            if is_true(body(frame)) is end:
                return frame[level] if name == "find" else then
        return otherwise

    return search


def alone(node: Each, base: Fast, rows: Rows) -> Fast:
    """A loop in no lambda, whose body takes the element."""
    most = MOST_WORK // node.weight

    def run(frame: Any) -> Value:
        items = base(frame)
        if type(items) is list and len(items) <= most:
            return rows(items)
        raise UNUSUAL

    return run


def outermost(node: Each, base: Fast, loop: Callable[[Env, list[Any]], Value]) -> Fast:
    """A loop in no lambda, whose body takes a frame."""

    def run(frame: Any) -> Value:
        items = base(frame)
        if type(items) is not list:
            raise UNUSUAL
        frame = {**frame, ACCOUNT: MOST_WORK}
        _charge(frame, len(items), node)
        return loop(frame, items)

    return run


def nested(node: Each, base: Fast, loop: Callable[[Env, list[Any]], Value]) -> Fast:
    """A loop in a lambda, whose body takes the frame of that."""

    def run(frame: Any) -> Value:
        items = base(frame)
        if type(items) is not list:
            raise UNUSUAL
        _charge(frame, len(items), node)
        return loop(frame, items)

    return run


def _charge(frame: Env, count: int, node: Each) -> None:
    left = frame[ACCOUNT] - count * node.weight
    if left < 0:
        raise UNUSUAL
    frame[ACCOUNT] = left
