"""Removes the secrets of a finished run from a named context.

They are removed, not masked: a later run that reads one must receive it again instead of a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...flow.values import Value
from .log import Log
from .messages import inline, kind_of


def remove_secrets(log: Any, paths: Collection[tuple[str, ...]], holds: Callable[[Value], bool]) -> Log:
    """The log without the values at ``paths`` (a kind, or a kind and a name in it) and without messages that hold a
    secret; the same log if there are none."""
    remaining = [left for message in log if not holds(left := _without(message, paths))]
    if len(remaining) == len(log) and all(one is message for one, message in zip(remaining, log, strict=True)):
        return log if isinstance(log, Log) else Log(log)
    return Log(remaining)


def _without(message: Mapping[str, Value], paths: Collection[tuple[str, ...]]) -> Mapping[str, Value]:
    inner = message.get("content")
    if type(inner) is dict and "type" in inner:
        left = _without(inner, paths)
        return message if left is inner else {**message, "content": left}
    kind = kind_of(message)
    whole, names = (kind,) in paths, {path[1] for path in paths if len(path) > 1 and path[0] == kind}
    if kind is None or not (whole or names):
        return message
    key = "data" if message["type"] == "data" else kind
    if key not in message:
        gone = {name for name in inline(message) if whole or name in names}
        return {name: value for name, value in message.items() if name not in gone} if gone else message
    data = message[key]
    if whole:
        return {**message, key: {}}
    if type(data) is not dict or names.isdisjoint(data):
        return message
    return {**message, key: {name: value for name, value in data.items() if name not in names}}
