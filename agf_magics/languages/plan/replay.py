"""A tree of paths, each with the numbers of the writes at it, in increasing order.

The value after a sequence of writes.

Values in a log are shared and never changed. A replay copies each container once before it changes
it, so ten thousand pushes are ten thousand appends to one list.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...flow.values import Value, type_name
from ..documents import MISSING, descend
from .messages import METHODS, PATCH, SEEKING, Writing
from .reference import Reference, is_index


class Paths:
    """One place and everything below it. Numbers only increase."""

    __slots__ = ("below", "covering", "first", "last", "numbers")

    def __init__(self, first: int) -> None:
        self.below: dict[str, Paths] = {}
        self.numbers: list[int] = []
        self.covering: list[int] = []
        """Those of them that replace everything older."""
        self.first = self.last = first
        """The lowest and the highest number at this place and below."""

    def add(self, path: tuple[str, ...], number: int, covers: bool = False) -> None:
        place = self
        place.last = number
        for segment in path:
            inner = place.below.get(segment)
            if inner is None:
                inner = place.below[segment] = Paths(number)
            place = inner
            place.last = number
        place.numbers.append(number)
        if covers:
            place.covering.append(number)

    def newest(self, path: tuple[str, ...], limit: int, below: bool) -> tuple[list[int], bool]:
        """The numbers under ``limit`` that affect ``path``, from the last that covers it, and
        whether one covers it.

        ``below``: whether to include those below it.
        """
        place, holding = self, [self] if self.numbers else []
        for segment in path:
            inner = place.below.get(segment)
            if inner is None:
                below = False
                break
            place = inner
            if place.numbers:
                holding.append(place)
        stop = -1
        for each in holding:
            covering = each.covering
            if covering and covering[-1] < limit:  # the usual case: the last one
                stop = max(stop, covering[-1])
            elif at := bisect_left(covering, limit):
                stop = max(stop, covering[at - 1])
        below = below and bool(place.below)
        if len(holding) == 1 and holding[0].numbers[-1] == stop and not below:  # the usual case
            return [stop], True
        found = [
            number
            for each in holding
            if each.numbers[-1] >= stop
            for number in each.between(stop, limit)
        ]
        if below:
            for each in place.inside(stop):
                found += each.between(stop, limit)
        if len(found) > 1:
            found.sort()
        return found, stop >= 0

    def overlapping(self, path: tuple[str, ...]) -> list[int]:
        """Every number at ``path``, above and below it."""
        place: Paths | None = self
        found = set(self.numbers)
        for segment in path:
            place = place.below.get(segment) if place is not None else None
            found.update(place.numbers if place is not None else ())
        if place is not None:
            found.update(number for inner in place.inside(-1) for number in inner.numbers)
        return sorted(found)

    def meets(self, path: tuple[str, ...]) -> bool:
        """Whether there is a number at ``path``, above or below it."""
        place = self
        for segment in path:
            if place.numbers:
                return True
            if segment not in place.below:
                return False
            place = place.below[segment]
        return True

    def between(self, first: int, limit: int) -> list[int]:
        """Its own numbers from ``first`` to ``limit``, exclusive."""
        numbers = self.numbers
        return numbers[bisect_left(numbers, first) : bisect_left(numbers, limit)]

    def inside(self, after: int) -> Iterator[Paths]:
        """Each place below with a number above ``after`` at it or below it."""
        waiting = [self] if self.below else []
        while waiting:
            for place in waiting.pop().below.values():
                if place.last > after:
                    yield place
                    waiting.append(place)


GAP = 10_000
"""The most elements that a write after the end of a list may leave empty."""


class Conflict(Exception):
    """A write cannot be applied to the value at its place."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def replay(writings: Iterable[Writing]) -> Value:
    """The value of the whole kind after ``writings``, or MISSING. Raises Conflict."""
    tree, apply = MISSING, _Replay()
    for writing in writings:
        tree = apply.write(tree, writing, 0)
    return tree


def find(value: Value, path: tuple[str, ...]) -> Value:
    """The value at ``path`` of ``value``, or MISSING. A part of the path may be the index of a
    list."""
    return descend(value, path, _element)


def _element(value: Value, segment: str) -> Value:
    if type(value) is list and is_index(segment) and int(segment) < len(value):
        return value[int(segment)]
    return MISSING


class _Replay:
    def __init__(self) -> None:
        self.own: dict[int, Any] = {}
        """The containers made here, by identity. Holding them keeps their identities unique."""

    def write(self, value: Value, writing: Writing, depth: int) -> Value:
        """``value``, which is ``depth`` segments down the path, after the write."""
        if depth == len(writing.path):
            return self.effect(value, writing)
        segment = writing.path[depth]
        if type(value) is list and is_index(segment) and writing.method != PATCH:
            return self.element(value, int(segment), writing, depth)
        fields = self.fields(value) if type(value) is dict else self.owned({})
        fields[segment] = self.write(fields.get(segment, MISSING), writing, depth + 1)
        return fields

    def element(self, value: list[Value], index: int, writing: Writing, depth: int) -> Value:
        if index - len(value) > GAP:
            raise Conflict(
                "plan.type-conflict",
                f"writing element {index} of a list of {len(value)} elements leaves too many empty",
            )
        items: list[Value] = self.items(value)
        items.extend([None] * (index - len(items)))
        before = items[index] if index < len(items) else MISSING
        items[index : index + 1] = [self.write(before, writing, depth + 1)]
        return items

    def effect(self, value: Value, writing: Writing) -> Value:
        method, given = writing.method, writing.value
        if method in EFFECTS:
            return EFFECTS[method](self, value, given, writing.path)
        raise Conflict(
            "plan.unknown-method",
            f"unknown method {method!r} in a message; use {', '.join(METHODS)}",
        )

    def merge(self, value: Value, given: Value, path: tuple[str, ...]) -> Value:
        if type(value) is not dict or type(given) is not dict:
            return given
        fields = self.fields(value)
        for key, inner in given.items():
            fields[key] = self.merge(fields[key], inner, path) if key in fields else inner
        return fields

    def assign(self, value: Value, given: Value, path: tuple[str, ...]) -> Value:
        if type(value) is not dict or type(given) is not dict:
            return given
        fields = self.fields(value)
        fields.update(given)
        return fields

    def push(self, value: Value, given: Value, path: tuple[str, ...]) -> Value:
        if value is MISSING or value is None:
            return self.owned([given])
        if type(value) is not list:
            raise _conflict("push to", value, path)
        items = self.items(value)
        items.append(given)
        return items

    def concat(self, value: Value, given: Value, path: tuple[str, ...]) -> Value:
        if value is MISSING or value is None:
            return given if type(given) in (list, str) else self.owned([given])
        if type(value) is str and type(given) is str:
            return value + given
        if type(value) is not list:
            raise _conflict("concatenate to", value, path)
        items = self.items(value)
        items.extend(given if type(given) is list else [given])
        return items

    def seek(self, value: Value, given: Value, path: tuple[str, ...], method: str) -> Value:
        """A push or concat without a path: follow the payload to the first list."""
        if type(value) is list or type(given) is not dict:
            return EFFECTS[method](self, value, given, path)
        fields = self.fields(value) if type(value) is dict else self.owned({})
        for key, inner in given.items():
            fields[key] = self.seek(fields.get(key, MISSING), inner, (*path, key), method)
        return fields

    def fields(self, value: dict[str, Value]) -> dict[str, Value]:
        return value if id(value) in self.own else self.owned(dict(value))

    def items(self, value: list[Value]) -> list[Value]:
        return value if id(value) in self.own else self.owned(list(value))

    def owned(self, made: Any) -> Any:
        self.own[id(made)] = made
        return made


def _conflict(action: str, value: Value, path: tuple[str, ...]) -> Conflict:
    where = str(Reference("", path))[1:].lstrip(".") or "it"
    return Conflict(
        "plan.type-conflict", f"cannot {action} {where}: it is {type_name(value)}, not a list"
    )


Effect = Callable[[_Replay, Value, Value, tuple[str, ...]], Value]

EFFECTS: dict[str, Effect] = {
    "set": lambda replay, value, given, path: given,
    PATCH: lambda replay, value, given, path: given,
    "merge": _Replay.merge,
    "assign": _Replay.assign,
    "push": _Replay.push,
    "concat": _Replay.concat,
    SEEKING["push"]: lambda replay, value, given, path: replay.seek(value, given, path, "push"),
    SEEKING["concat"]: lambda replay, value, given, path: replay.seek(value, given, path, "concat"),
}
"""The effect of each method on the value at its path."""
