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
from .walk import ACCOUNT, MOST_WORK, Env, too_much

Loop = Callable[[Any, list[Any]], Value]
"""Given what the combinator is given, and the list."""
ENDS: dict[str, tuple[bool, bool | None, bool | None]] = {
    "all": (False, False, True),
    "any": (True, True, False),
    "find": (True, None, None),
}
"""Which truth ends a search, what it gives then (None: the element), and what it gives otherwise."""


def elements(name: str, body: Fast, certain: bool) -> Loop:
    """The loop ``name`` where the body takes the element; ``certain``: and relies on its being an object.

    But for ``map`` the body is a condition (`_Compiler.condition`), here and in `frames`.
    """
    if name == "map":

        def mapped(e: Any, items: list[Any]) -> Value:
            if certain and [*map(type, items)].count(dict) != len(items):
                raise UNUSUAL
            return [body(x) for x in items]

        return mapped
    if name == "filter":

        def kept(e: Any, items: list[Any]) -> Value:
            if certain and [*map(type, items)].count(dict) != len(items):
                raise UNUSUAL
            return [x for x in items if body(x)]

        return kept
    end, then, otherwise = ENDS[name]

    def search(e: Any, items: list[Any]) -> Value:
        for x in items:
            if body(x) is end:
                return x if then is None else then
        return otherwise

    return search


def fields(name: str, key: str) -> Loop:
    """The loop ``name`` (``all`` or ``any``) where the body is ``x.key``."""
    end, then, otherwise = ENDS[name]

    def search(e: Any, items: list[Any]) -> Value:
        for x in items:
            if type(x) is not dict:
                raise UNUSUAL
            a = x[key]
            if (a is True or (a is not False and is_true(a))) is end:
                return then
        return otherwise

    return search


def frames(name: str, body: Fast, level: int) -> Loop:
    """The loop ``name`` where the body takes a frame: ``for frame[level] in items`` sets the element in place."""
    if name == "map":
        return lambda frame, items: [body(frame) for frame[level] in items]
    if name == "filter":
        return lambda frame, items: [frame[level] for frame[level] in items if body(frame)]
    end, then, otherwise = ENDS[name]

    def search(frame: Env, items: list[Any]) -> Value:
        for frame[level] in items:
            if body(frame) is end:
                return frame[level] if then is None else then
        return otherwise

    return search


def alone(node: Each, base: Fast, loop: Loop) -> Fast:
    """A loop in no lambda that needs no frame of its own."""
    most = MOST_WORK // node.weight

    def run(frame: Any) -> Value:
        items = base(frame)
        if type(items) is list and len(items) <= most:
            return loop(frame, items)
        raise UNUSUAL

    return run


def outermost(node: Each, base: Fast, loop: Loop, store: str | None) -> Fast:
    """A loop in no lambda that sets its element in a frame; ``store``: it is given the stores only, of that name."""
    weight = node.weight

    def run(e: Any) -> Value:
        items = base(e)
        if type(items) is not list:
            raise UNUSUAL
        left = MOST_WORK - len(items) * weight
        if left < 0:
            raise too_much(node.at, len(node.name))
        return loop({**e, ACCOUNT: left} if store is None else {store: e, ACCOUNT: left}, items)

    return run


def nested(node: Each, base: Fast, loop: Loop) -> Fast:
    """A loop in a lambda; the frame is that of the outermost."""
    weight = node.weight

    def run(frame: Any) -> Value:
        items = base(frame)
        if type(items) is not list:
            raise UNUSUAL
        left = frame[ACCOUNT] = frame[ACCOUNT] - len(items) * weight
        if left < 0:
            raise too_much(node.at, len(node.name))
        return loop(frame, items)

    return run
