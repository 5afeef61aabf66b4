"""What must not stay in a named context when a run is over: the secrets that it was given.

They are left out, not masked: a later run that reads one must be given it again, and is not to go on with a mask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...flow.values import Value
from .log import Log
from .messages import kind_of


def without(log: Any, paths: Collection[tuple[str, ...]]) -> Log:
    """The log with nothing at ``paths`` (a kind, or a kind and a name in it); itself where nothing stands there."""
    found = [_left(message, paths) for message in log]
    if all(one is message for one, message in zip(found, log, strict=True)):
        return log if isinstance(log, Log) else Log(log)
    return Log(found)


def _left(message: Mapping[str, Value], paths: Collection[tuple[str, ...]]) -> Mapping[str, Value]:
    data, kind = message.get("data"), kind_of(message)
    names = {path[1] for path in paths if len(path) > 1 and path[0] == kind}
    if (kind,) in paths and "data" in message:
        return {**message, "data": {}}
    if type(data) is not dict or names.isdisjoint(data):
        return message
    return {**message, "data": {name: value for name, value in data.items() if name not in names}}
