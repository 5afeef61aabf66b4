"""Computes the value of a path after a sequence of writes, from a tree of paths with their writes.

Values in a log are shared and never changed. A replay copies each container once before it changes
it, so ten thousand pushes are ten thousand appends to one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....values.value import Value, type_name
from ...descend import MISSING, descend, key_of
from .messages import METHODS, PATCH, SEEKING, Writing
from .reference import Reference, is_index

GAP = 10_000
"""The most elements that a write after the end of a list may leave empty."""


class Conflict(Exception):
    """A write cannot be applied to the value at its place."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def replay(writings: Iterable[Writing]) -> Value:
    """The value of the whole kind after ``writings``, or MISSING. Raises Conflict."""
    tree = MISSING
    apply = _Replay()
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
    """The writes of one replay, which copies each container once."""

    def __init__(self) -> None:
        self.own_containers: dict[int, Any] = {}
        """The containers made here, by identity. Holding them keeps their identities unique."""

    def write(self, value: Value, writing: Writing, depth: int) -> Value:
        """``value``, which is ``depth`` segments down the path, after the write."""
        if depth == len(writing.path):
            return self.effect(value, writing)
        segment = writing.path[depth]
        if type(value) is list and is_index(segment) and writing.method != PATCH:
            return self.element(value, int(segment), writing, depth)
        fields: dict[str, Value] = self.own_copy(value) if type(value) is dict else self.owned({})
        segment = key_of(fields, segment)
        fields[segment] = self.write(fields.get(segment, MISSING), writing, depth + 1)
        return fields

    def element(self, value: list[Value], index: int, writing: Writing, depth: int) -> Value:
        """The list after a write at, or below, its element ``index``."""
        if index - len(value) > GAP:
            raise Conflict(
                "plan.type-conflict",
                f"writing element {index} of a list of {len(value)} elements leaves too many empty",
            )
        items: list[Value] = self.own_copy(value)
        items.extend([None] * (index - len(items)))
        before = items[index] if index < len(items) else MISSING
        items[index : index + 1] = [self.write(before, writing, depth + 1)]
        return items

    def effect(self, value: Value, writing: Writing) -> Value:
        """The value at the path of ``writing`` after it. Raises Conflict for an unknown method."""
        method = writing.method
        payload = writing.value
        if method in EFFECTS:
            return EFFECTS[method](self, value, payload, writing.path)
        raise Conflict(
            "plan.unknown-method",
            f"unknown method {method!r} in a message; use {', '.join(METHODS)}",
        )

    def merge(self, value: Value, payload: Value, path: tuple[str, ...]) -> Value:
        if type(value) is not dict or type(payload) is not dict:
            return payload
        fields = self.own_copy(value)
        for key, inner in payload.items():
            fields[key] = self.merge(fields[key], inner, path) if key in fields else inner
        return fields

    def assign(self, value: Value, payload: Value, path: tuple[str, ...]) -> Value:
        if type(value) is not dict or type(payload) is not dict:
            return payload
        fields = self.own_copy(value)
        fields.update(payload)
        return fields

    def concat(
        self, value: Value, payload: Value, path: tuple[str, ...], action: str = "concatenate to"
    ) -> Value:
        """The list with the elements of ``payload``, or the text with its text. Raises Conflict;
        ``action``: the words for it in the message."""
        if value is MISSING or value is None:
            return payload if type(payload) in (list, str) else self.owned([payload])
        if type(value) is str and type(payload) is str:
            return value + payload
        if type(value) is not list:
            where = str(Reference("", path))[1:].lstrip(".") or "it"
            message = f"cannot {action} {where}: it is {type_name(value)}, not a list"
            raise Conflict("plan.type-conflict", message)
        items: list[Value] = self.own_copy(value)
        items.extend(payload if type(payload) is list else [payload])
        return items

    def seek(self, value: Value, payload: Value, path: tuple[str, ...], method: str) -> Value:
        """A push or concat without a path: follow the payload to the first list."""
        if type(value) is list or type(payload) is not dict:
            return EFFECTS[method](self, value, payload, path)
        fields: dict[str, Value] = self.own_copy(value) if type(value) is dict else self.owned({})
        for key, inner in payload.items():
            fields[key] = self.seek(fields.get(key, MISSING), inner, (*path, key), method)
        return fields

    def own_copy(self, value: Any) -> Any:
        """A container that may be changed: ``value`` if it was made here, else a copy."""
        return value if id(value) in self.own_containers else self.owned(value.copy())

    def owned(self, container: Any) -> Any:
        self.own_containers[id(container)] = container
        return container


Effect = Callable[[_Replay, Value, Value, tuple[str, ...]], Value]
"""Computes the new value from the old one (or MISSING), the payload and the path of a write."""

EFFECTS: dict[str, Effect] = {
    "set": lambda replay, value, payload, path: payload,
    PATCH: lambda replay, value, payload, path: payload,
    "merge": _Replay.merge,
    "assign": _Replay.assign,
    "push": lambda replay, value, payload, path: replay.concat(value, [payload], path, "push to"),
    "concat": _Replay.concat,
    SEEKING["push"]: lambda replay, value, payload, path: replay.seek(value, payload, path, "push"),
    SEEKING["concat"]: lambda replay, value, payload, path: replay.seek(
        value, payload, path, "concat"
    ),
}
"""The effect of each method on the value at its path."""
