"""What a sequence of writes comes to: each applied to what the ones before it left.

Values in a log are shared and never changed. What a replay changes it has copied first, once: from then on it is its
own, so that ten thousand pushes are ten thousand appends to one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...flow.values import Value, type_name
from .messages import METHODS, PATCH, SEEKING, Writing
from .reference import MISSING, Reference, is_index

GAP = 10_000
"""How many elements a write behind the end of a list may leave empty."""


class Conflict(Exception):
    """A write cannot be applied to what it finds."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def replay(writings: Iterable[Writing]) -> Value:
    """The value of the whole kind after ``writings``, or MISSING. Raises Conflict."""
    tree, apply = MISSING, _Replay()
    for writing in writings:
        tree = apply.write(tree, writing, 0)
    return tree


def walk(value: Value, path: tuple[str, ...]) -> Value:
    """What stands at ``path`` of ``value``, or MISSING."""
    for segment in path:
        if type(value) is dict and segment in value:
            value = value[segment]
        elif type(value) is list and is_index(segment) and int(segment) < len(value):
            value = value[int(segment)]
        else:
            return MISSING
    return value


class _Replay:
    def __init__(self) -> None:
        self.own: dict[int, Any] = {}
        """The containers made here, by identity; kept, so that no other gets the identity of one."""

    def write(self, value: Value, writing: Writing, depth: int) -> Value:
        """``value``, which stands ``depth`` segments down the path, after the write."""
        if depth == len(writing.path):
            return self.effect(value, writing)
        segment = writing.path[depth]
        if type(value) is list and is_index(segment) and writing.method != PATCH:
            return self.element(value, int(segment), writing, depth)
        fields = self.fields(value) if type(value) is dict else self.kept({})
        fields[segment] = self.write(fields.get(segment, MISSING), writing, depth + 1)
        return fields

    def element(self, value: list[Value], index: int, writing: Writing, depth: int) -> Value:
        if index - len(value) > GAP:
            raise Conflict("plan.type-conflict", f"element {index} of a list of {len(value)} leaves too many empty")
        items: list[Value] = self.items(value)
        items.extend([None] * (index - len(items)))
        before = items[index] if index < len(items) else MISSING
        items[index : index + 1] = [self.write(before, writing, depth + 1)]
        return items

    def effect(self, value: Value, writing: Writing) -> Value:
        method, given = writing.method, writing.value
        if method in EFFECTS:
            return EFFECTS[method](self, value, given, writing.path)
        known = ", ".join(METHODS)
        raise Conflict("plan.unknown-method", f"a message has the method {method!r}; there are {known}")

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
            return self.kept([given])
        if type(value) is not list:
            raise _conflict("pushed onto", value, path)
        items = self.items(value)
        items.append(given)
        return items

    def concat(self, value: Value, given: Value, path: tuple[str, ...]) -> Value:
        if value is MISSING or value is None:
            return given if type(given) in (list, str) else self.kept([given])
        if type(value) is str and type(given) is str:
            return value + given
        if type(value) is not list:
            raise _conflict("concatenated to", value, path)
        items = self.items(value)
        items.extend(given if type(given) is list else [given])
        return items

    def seek(self, value: Value, given: Value, path: tuple[str, ...], method: str) -> Value:
        """A push or concat without a path: down the payload to the first list."""
        if type(value) is list or type(given) is not dict:
            return EFFECTS[method](self, value, given, path)
        fields = self.fields(value) if type(value) is dict else self.kept({})
        for key, inner in given.items():
            fields[key] = self.seek(fields.get(key, MISSING), inner, (*path, key), method)
        return fields

    def fields(self, value: dict[str, Value]) -> dict[str, Value]:
        return value if id(value) in self.own else self.kept(dict(value))

    def items(self, value: list[Value]) -> list[Value]:
        return value if id(value) in self.own else self.kept(list(value))

    def kept(self, made: Any) -> Any:
        self.own[id(made)] = made
        return made


def _conflict(done: str, value: Value, path: tuple[str, ...]) -> Conflict:
    where = str(Reference("", path))[1:].lstrip(".") or "it"
    return Conflict("plan.type-conflict", f"something is {done} {where}, which is {type_name(value)}")


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
"""What each method does to what stands at its path."""
