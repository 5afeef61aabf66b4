"""Reads the content of a message: its kind, its instance and its writes.

Messages are plain JSON objects. Only messages with data count in reading. A message that no call
wrote patches its kind leaf by leaf. A message that a call wrote has an output path, which tells
what it sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ....text.diagnostics import DefinitionError
from ....text.length import DEEPEST
from ....text.source import Source
from ....values.value import Value
from ...descend import MISSING, descend, key_of
from .destinations import Alternatives, parse_output
from .returned import Message

METHODS: Final = ("set", "merge", "assign", "push", "concat")
METHOD_SLIPS: Final[Mapping[str, str]] = {
    "append": "push",
    "extend": "concat",
    "replace": "set",
    "update": "assign",
}
"""Words of Python for the methods."""
PATCH: Final = "patch"
"""The method of a leaf of a plain message: like ``set``, but it also replaces a list on its way."""
COVERING: Final = frozenset({"set", PATCH})
"""The methods that replace everything older at the path and below."""
SEEKING: Final = {"push": "seek push", "concat": "seek concat"}
"""The methods of a message without a path: its place is decided when it is read."""
SOUGHT: Final = frozenset(SEEKING.values())

HIDDEN: Final = ("_call", "_date", "_outputMethod")
"""The fields of a message that a model does not see."""

_INLINE: Final = ("state", "input")
"""The types of messages whose data may be directly in the message, beside its other fields."""
_TYPES: Final = (*_INLINE, "output", "error")
"""The types of messages that are a kind themselves; the type ``data`` has its kind in ``kind``."""
_NOT_DATA: Final = frozenset({"type", "kind", "role", "schema", "description"})
"""Fields of a message that are no data, besides those that begin with ``_``."""


class Writing(NamedTuple):
    """One write of a message, within its kind and instance."""

    path: tuple[str, ...]
    method: str
    value: Value


class Content(NamedTuple):
    """The kind, the instance and the writes of a message with data."""

    kind: str
    instance: str | None
    writings: tuple[Writing, ...]


def read_content(message: Mapping[str, Any]) -> Content | None:
    """The content of a message; None: the message has no data."""
    content = message.get("content")
    inner = content if isinstance(content, dict) and "type" in content else message
    payload_by_kind = _payload(inner)
    if payload_by_kind is None:
        return None
    kind, payload = payload_by_kind
    instance = inner.get("_instance", message.get("_instance"))
    if not isinstance(instance, str) or not instance:
        instance = None
    method = inner.get("_outputMethod", message.get("_outputMethod")) or "set"
    call = inner.get("_call", message.get("_call"))
    path = call.get("_outputPath") if isinstance(call, dict) else None
    written = _destinations_in(kind, payload, path) if isinstance(path, str) else []
    if written:
        addressed = [Writing(where, str(method), value) for where, value in written]
        # What the path does not name becomes a patch, which comes before what it names.
        rest = payload
        for where, _ in written:
            rest = _without(rest, where)
        writings = [*(_plain(kind, rest, "set") if rest is not MISSING else ()), *addressed]
    else:
        writings = list(_plain(kind, payload, str(method)))
    return Content(kind, instance, tuple(writings))


def plain_message(kind: str, data: Value, instance: str | None = None) -> dict[str, Value]:
    """A message that no call wrote."""
    kinds = {"kind": kind} if kind != "data" else {}
    instances = {"_instance": instance} if instance is not None else {}
    return {"type": "data", **kinds, **instances, "data": data}


def as_message(returned: Value, alternatives: Alternatives) -> dict[str, Value] | None:
    """The message that a tool returned; None: the tool returned a value.

    A plain object is a message only if it says where it belongs: it names a kind, or has the path
    of one of several alternatives. ``{"type": "data", "data": …}`` is also what many services
    answer.
    """
    if isinstance(returned, Message):
        return returned.content
    if type(returned) is not dict or returned.get("type") != "data" or "data" not in returned:
        return None
    kind = returned.get("kind")
    data = returned["data"]
    places = [place for destinations in alternatives for place in destinations]
    if not isinstance(kind, str):
        places = places if len(alternatives) > 1 else []
    else:
        places = [place for place in places if place.kind == kind]
    return returned if any(_has(data, place.path) for place in places) else None


def _has(data: Value, path: tuple[str, ...]) -> bool:
    """Whether ``data`` has a value at ``path``; the empty path, a whole kind, tells nothing."""
    return bool(path) and descend(data, path) is not MISSING


def render(message: Mapping[str, Value], hidden: tuple[str, ...] = HIDDEN) -> dict[str, Value]:
    """A message as a model sees it."""
    return {key: value for key, value in message.items() if key not in hidden}


def kind_of(message: Mapping[str, Any]) -> str | None:
    """The kind of a message; None: the message has no data."""
    content = read_content(message)
    return content.kind if content else None


def inline(message: Mapping[str, Any]) -> dict[str, Value]:
    """The data of a message that has its fields directly in it."""
    return {
        key: value
        for key, value in message.items()
        if key not in _NOT_DATA and not key.startswith("_")
    }


def nest(path: tuple[str, ...], value: Value) -> Value:
    """``value`` under ``path``: ``{"p1": {"p2": value}}``."""
    for segment in reversed(path):
        value = {segment: value}
    return value


@lru_cache(maxsize=4096)
def _alternatives(path: str) -> Alternatives:
    """The alternatives of the output path in a message's call; none if it is invalid."""
    try:
        return parse_output(Source("<path>", path).span())
    except DefinitionError:
        return ()


def _payload(message: Mapping[str, Any]) -> tuple[str, Value] | None:
    """The kind and the data of a message; None: the message has none."""
    kind = message.get("type")
    if kind == "data":
        named = message.get("kind", "data")
        if "data" not in message or not isinstance(named, str) or not named:
            return None
        return named, message["data"]
    if kind not in _TYPES:
        return None
    if kind in message:
        return kind, message[kind]
    if kind not in _INLINE:
        return None
    inner = inline(message)
    return (kind, inner) if inner else None


def _destinations_in(kind: str, payload: Value, path: str) -> list[tuple[tuple[str, ...], Value]]:
    """The destinations that the payload contains, of the first alternative of which it contains
    any."""
    for destinations in _alternatives(path):
        written = [
            (destination.path, value)
            for destination in destinations
            if destination.kind == kind
            and (value := descend(payload, destination.path)) is not MISSING
        ]
        if written:
            return written
    return []


def _without(payload: Value, path: tuple[str, ...]) -> Value:
    """``payload`` without the value at ``path``; MISSING: nothing is left."""
    if payload is MISSING or not path:
        return MISSING
    rest = dict(payload)
    key = key_of(rest, path[0])
    inner = _without(rest.pop(key), path[1:])
    if inner is not MISSING:
        rest[key] = inner
    return rest or MISSING


def _plain(kind: str, payload: Value, method: str) -> Iterator[Writing]:
    """The writes of a message without a path."""
    if kind == "error":  # errors are not merged with each other
        yield Writing((), "set", payload)
    elif method in ("set", "merge"):
        yield from _leaves((), payload)
    else:
        yield Writing((), SEEKING.get(method, method), payload)


def _leaves(path: tuple[str, ...], payload: Value) -> Iterator[Writing]:
    """A deep patch as its leaves, each of which replaces the earlier value. An empty object creates
    the object if there is none yet."""
    if type(payload) is not dict or len(path) >= DEEPEST:
        yield Writing(path, PATCH, payload)
    elif not payload:
        yield Writing(path, "merge", payload)
    else:
        for key, value in payload.items():
            yield from _leaves((*path, key), value)
